"""Tests in an emulated machine: real kernel drivers, real tools, and drives that may be pulled out and made to fail.

`qemu` starts the machine, `initramfs` makes what it boots from, `guest` runs inside it and does what `channel` asks.
"""
