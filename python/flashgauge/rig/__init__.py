"""The device under test: simulated, block device or file."""
