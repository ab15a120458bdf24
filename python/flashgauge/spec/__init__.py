"""The tests of the standard, one file each. A test is a generator of steps: no I/O, no clock, no printing."""

from flashgauge.spec.registry import TESTS, Test

__all__ = ["TESTS", "Test"]
