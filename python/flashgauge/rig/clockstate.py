"""How the kernel corrects the clock, by adjtimex(2), and whether it was set. Nothing is set here."""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass

from flashgauge.disclosure import Disclosure, Kind

# A crystal is off by less than 100 parts per million, and NTP corrects at most 500 in the long run; more is a clock
# that is being moved.
MOST_PPM = 500.0
# The clocks move against each other only when the date is set or the machine sleeps; a leap second is less.
SET_S = 2.0
_NOT_SYNCHRONIZED = 0x40  # STA_UNSYNC, linux/timex.h


@dataclass(frozen=True)
class ClockState:
    """`ppm`: correction of the clock's speed, parts per million; the monotonic clock has it too."""

    synchronized: bool
    ppm: float


class _Timex(ctypes.Structure):
    """struct timex of adjtimex(2), to its last field of use; the kernel writes the rest into `rest`."""

    _fields_ = [
        ("modes", ctypes.c_uint),
        ("offset", ctypes.c_long),
        ("freq", ctypes.c_long),
        ("maxerror", ctypes.c_long),
        ("esterror", ctypes.c_long),
        ("status", ctypes.c_int),
        ("constant", ctypes.c_long),
        ("precision", ctypes.c_long),
        ("tolerance", ctypes.c_long),
        ("time", ctypes.c_long * 2),
        ("tick", ctypes.c_long),
        ("rest", ctypes.c_byte * 256),
    ]


def read() -> ClockState | None:
    """None when the kernel does not let us ask."""
    timex = _Timex()
    if ctypes.CDLL(None, use_errno=True).adjtimex(ctypes.byref(timex)) < 0:
        return None
    return state(timex.status, timex.freq, timex.tick, os.sysconf("SC_CLK_TCK"))


def state(status: int, freq: int, tick: int, ticks_per_s: int) -> ClockState:
    """`freq`: in 2^-16 parts per million. `tick`: microseconds that a tick is made to last, 10^6 / ticks per second of
    a clock that is left alone."""
    return ClockState(
        synchronized=not status & _NOT_SYNCHRONIZED,
        ppm=freq / 65536 + (tick * ticks_per_s - 1_000_000),
    )


@dataclass(frozen=True)
class Clocks:
    """How three clocks differ, in seconds: the date ahead of the time since the machine was started (CLOCK_BOOTTIME),
    and that ahead of CLOCK_MONOTONIC, which stands still while the machine sleeps."""

    date_s: float
    slept_s: float


def clocks() -> Clocks:
    date, boot, monotonic = (
        time.clock_gettime(clock) for clock in (time.CLOCK_REALTIME, time.CLOCK_BOOTTIME, time.CLOCK_MONOTONIC)
    )
    return Clocks(date - boot, boot - monotonic)


def moved(before: Clocks, after: Clocks) -> list[Disclosure]:
    """What to say when the date was set, or the machine slept, from the one to the other."""
    found = []
    if abs(set_s := after.date_s - before.date_s) > SET_S:
        found.append(
            Disclosure(
                Kind.HOST_CONDITIONS,
                "5.1",
                f"the host's date was set by {set_s:+,.1f} s during the run: the dates in the report are of before and "
                "after it; durations and latencies are of another clock, which is never set",
                "timedatectl set-ntp true, and wait until it is synchronized, before a run",
            )
        )
    if (slept_s := after.slept_s - before.slept_s) > SET_S:
        found.append(
            Disclosure(
                Kind.HOST_CONDITIONS,
                "4",
                f"the host slept for {slept_s:,.1f} s during the run, and the drive with it or without a load; no "
                "duration in the report counts that time",
                "systemd-inhibit flashgauge run ..., or switch the host's sleep off",
                invalidates=True,
            )
        )
    return found
