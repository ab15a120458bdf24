"""The pseudo code of PTS 2.0.1, sections 7.2 to 14.2, as plain loops: which step follows which, and no more.

A second, independent answer to `flashgauge.spec`: written from the standard's text alone and sharing no code with it,
not even the lists of numbers. A step is one line of text; `in_words` of test_golden_plans.py writes a generator's
steps in the same words. What the pseudo code leaves to the device (how many rounds until steady state, how much is
written in a minute, which points are MaxIOPS and MidIOPS) is told by a `Device`.

Where the text leaves room, the reading taken is said at the place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

KIB = 1024


@dataclass(frozen=True)
class Device:
    """What the loops' ends hang on. `steady_round`: the round in which steady state is found, None for never.

    `minute_bytes`: what a minute of the access pattern writes; only the ends by bytes need it.
    """

    client: bool
    capacity_bytes: int
    steady_round: int | None = 5
    minute_bytes: float = 0
    max_point: tuple[int, int] = (32, 32)
    mid_point: tuple[int, int] = (4, 4)

    @property
    def rounds(self) -> int:
        """4 3b: until steady state, at most 25."""
        return min(25, self.steady_round or 25)


@dataclass(frozen=True)
class Pattern:
    """Access, block sizes in KiB with their shares, reads in percent; `groups`: Table 13-2, and alignment."""

    access: str
    sizes: tuple[tuple[float, int], ...]
    reads: int
    groups: str = ""

    def writes(self) -> Pattern:
        return Pattern(self.access, self.sizes, 0, self.groups)


def one_size(access: str, kib: float, reads: int) -> Pattern:
    return Pattern(access, ((kib, 1),), reads)


def line(kind: str, pattern: Pattern, active_range: int, tc_qd: tuple[int, int], how_long: str) -> str:
    """One step with I/O: `kind` is "precondition" (2.1.18) or "measure"."""
    if len(pattern.sizes) == 1:
        sizes = f"{pattern.sizes[0][0]:g} KiB"
    else:
        sizes = " ".join(f"{kib:g}:{share}%" for kib, share in pattern.sizes) + " KiB"
    access = f"{pattern.access} {pattern.groups}".rstrip()
    mix = f"RW {pattern.reads}/{100 - pattern.reads}"
    return f"{kind:<12} {access} {sizes} {mix} AR 0:{active_range} T{tc_qd[0]}Q{tc_qd[1]} {how_long}"


def seconds(number: float) -> str:
    return f"{number:.6g} s"


MINUTE = seconds(60)


def purged(cache_on: bool) -> Iterator[str]:
    """Step 1 of each section, and the test condition "volatile write cache" of the steps after it."""
    yield "purge"
    yield f"write cache {'on' if cache_on else 'off'}"


def twice_the_capacity(device: Device, kib: float, active_range: int, tc_qd: tuple[int, int]) -> str:
    """Workload independent pre-conditioning; section 4: no delay between it and the test, so it is kept loaded."""
    how_long = f"{2 * device.capacity_bytes} bytes, kept loaded"
    return line("precondition", one_size("SEQ", kib, 0), active_range, tc_qd, how_long)


# 7.2 IOPS


def iops(device: Device) -> Iterator[str]:
    active_range = 75 if device.client else 100
    tc_qd = (2, 16) if device.client else (4, 32)  # 2.1.2, 2.1.3: the recommended ones; 3.1.2: the same in step 3
    yield from purged(cache_on=device.client)
    # 7.1: a pre-conditioning range of 100 % of the LBAs, in both classes.
    yield twice_the_capacity(device, 128, 100, tc_qd)
    for _ in range(device.rounds):
        for reads in (100, 95, 65, 50, 35, 5, 0):
            for kib in (1024, 128, 64, 32, 16, 8, 4, 0.5):
                yield line("measure", one_size("RND", kib, reads), active_range, tc_qd, MINUTE)


# 8.2 Throughput


def tp(device: Device) -> Iterator[str]:
    active_range = 75 if device.client else 100
    for kib in (128, 1024):
        yield from purged(cache_on=device.client)
        yield twice_the_capacity(device, kib, active_range, (1, 32))
        for _ in range(device.rounds):
            for reads in (100, 0):
                # 2.4.1.5: continuous between the test steps; a line that restarts the sequence would say so.
                yield line("measure", one_size("SEQ", kib, reads), active_range, (1, 32), MINUTE)


# 9.2 Latency


def lat(device: Device) -> Iterator[str]:
    active_range = 75 if device.client else 100
    yield from purged(cache_on=device.client)
    # 2.2: "128KiB or 1024KiB (depending on the test)"; 9.1 test flow 2: 128 KiB.
    yield twice_the_capacity(device, 128, active_range, (1, 1))
    for _ in range(device.rounds):
        for reads in (100, 65, 0):
            for kib in (8, 4, 0.5):
                yield line("measure", one_size("RND", kib, reads), active_range, (1, 1), MINUTE)
    # 3.3 stands after the rounds ("post SS Window histogram", 9.1), once.
    yield line("measure", one_size("RND", 4, 0), active_range, (1, 1), seconds(20 * 60))


# 10.2 Write saturation

WSAT_WORKLOADS = {
    "write-intensive": one_size("RND", 4, 0),
    "read-intensive": one_size("RND", 4, 100),
    "mixed": one_size("RND", 8, 65),
    "vod": one_size("SEQ", 128, 90),
    "meta-data": one_size("SEQ", 0.5, 50),
}


def wsat(device: Device, pattern: Pattern = WSAT_WORKLOADS["write-intensive"], apart: int = 30) -> Iterator[str]:
    """`apart`: minutes from one tracking round to the next. 10.3.2 separates the one-minute periods by 30 minutes of
    stimulus, which is 31 from one to the next when taken by the letter; 11.2 3.2, 13.2 3.2.2.2 and 14.2 2.2.2 have
    the results of the minutes 30 minutes apart. One procedure is meant (2.1.24 and the tutorial): 30 for all."""
    active_range = 75 if device.client else 100
    random_tc_qd = (2, 16) if device.client else (4, 32)
    # 2.1.2 and 2.1.3 recommend the same for all workloads; tutorial, part 1: SEQ T1Q32 in both classes.
    tc_qd = (1, 32) if pattern.access == "SEQ" else random_tc_qd
    yield from purged(cache_on=device.client)
    written, minute = 0.0, 0
    while written < 4 * device.capacity_bytes and minute < 6 * 60:
        minute, written = minute + 1, written + device.minute_bytes
        yield line("measure", pattern, active_range, tc_qd, MINUTE)
        if device.steady_round is not None and minute == 1 + (device.steady_round - 1) * apart:
            break
    yield line("measure", pattern, active_range, tc_qd, seconds(20 * 60))


# 11.2 Host idle recovery


def hir(device: Device) -> Iterator[str]:
    active_range = 75 if device.client else 100
    tc_qd = (2, 16) if device.client else (4, 32)
    writes = one_size("RND", 4, 0)
    yield from purged(cache_on=device.client)
    yield from tracking_minutes(device, writes, active_range, tc_qd)
    if device.steady_round is None or device.steady_round > 25:
        return  # 3.2: the test shall be stopped
    for wait_s in (5, 10, 15, 25, 50):
        for _ in range(360):
            yield line("measure", writes, active_range, tc_qd, f"{seconds(5)}, then idle")
            yield f"idle {seconds(wait_s)}"
        for _ in range(360):
            yield line("measure", writes, active_range, tc_qd, seconds(5))


def tracking_minutes(device: Device, writes: Pattern, active_range: int, tc_qd: tuple[int, int]) -> Iterator[str]:
    """Minutes 1, 31, 61 and so on are the rounds; the run ends with the minute of the last one."""
    for _ in range(1 + (device.rounds - 1) * 30):
        yield line("precondition", writes, active_range, tc_qd, MINUTE)


# 12.2 Cross stimulus recovery


def xsr(device: Device) -> Iterator[str]:
    active_range = 75 if device.client else 100
    # 3.1.1 and 4.1.1 have the cache disabled in groups 2 and 3 of both classes, against the head of 12.2 and 3.7,
    # which have one state per class. One state: switching it in between would be a pause and a change of device.
    yield from purged(cache_on=device.client)
    groups = ((8, one_size("SEQ", 1024, 0)), (6, one_size("RND", 8, 0)), (8, one_size("SEQ", 1024, 0)))
    for hours, pattern in groups:
        # Nothing is recommended for the random group (3.1.2, 3.1.3). Tutorial, part 1: SEQ T1Q32, RND by class; in its
        # table of access patterns T4Q32 without naming a class.
        tc_qd = (1, 32) if pattern.access == "SEQ" else (2, 16) if device.client else (4, 32)
        for _ in range(hours * 60):
            yield line("measure", pattern, active_range, tc_qd, MINUTE)


# 13.2 Composite block size workload, 14.2 Demand intensity / response time histogram

COMPOSITE_SIZES = (
    (0.5, 4),
    (1, 1),
    (1.5, 1),
    (2, 1),
    (2.5, 1),
    (3, 1),
    (3.5, 1),
    (4, 67),
    (8, 10),
    (16, 7),
    (32, 3),
    (64, 3),
)
# Table 13-2: the first 5 %, the next 15 %, the remaining 80 % of the active range. The text gives no alignment; the
# tables of example results have "Align=4K".
COMPOSITE = Pattern("RND", COMPOSITE_SIZES, 40, "(0:5=50% 5:20=30% 20:100=20%) aligned 4 KiB")
DEMANDS = (32, 16, 8, 6, 4, 2, 1)


def cbw(device: Device) -> Iterator[str]:
    return demand(device, COMPOSITE)


def dirth(device: Device, pattern: Pattern = WSAT_WORKLOADS["mixed"]) -> Iterator[str]:
    """14.3.2.1: the example is RND 8 KiB 65:35; the pattern is the operator's choice."""
    return demand(device, pattern)


def demand(device: Device, pattern: Pattern) -> Iterator[str]:
    yield from purged(cache_on=False)  # 13.2 3.1.1, 14.2 2.1.1: disabled, whatever the class
    # 13.1 and 14.1 test flow 2.1); not in the pseudo code. Tutorial, part 1: WIPC at T1Q32.
    yield twice_the_capacity(device, 128, 100, (1, 32))
    yield from tracking_minutes(device, pattern.writes(), 100, (32, 32))
    for _ in range(device.rounds):
        yield from between_rounds(device, pattern.writes())
        for total in range(32 * 32, 0, -1):
            for threads in DEMANDS:
                for depth in DEMANDS:
                    if threads * depth == total:
                        yield line("measure", pattern, 100, (threads, depth), MINUTE)
    for point in (device.max_point, (1, 1), device.mid_point):
        # 7.1 selects the point, 7.2.1 names no TC/QD of its own, so the point selected is the one in force.
        for _ in range(60):
            yield line("precondition", pattern.writes(), 100, point, MINUTE)
        yield line("measure", pattern, 100, point, seconds(10 * 60))


def between_rounds(device: Device, writes: Pattern) -> Iterator[str]:
    """At least 5 minutes; then until 10 % of the capacity or 30 minutes. The example header in 14.3.2.1 has this
    pre-write with R/W 0/100, for a pattern of 65:35."""
    tenth, written = device.capacity_bytes / 10, 0.0
    for minute in range(1, 31):
        share = 1.0
        if minute > 5:
            if written >= tenth:
                return
            share = min(1.0, (tenth - written) / device.minute_bytes)
        written += share * device.minute_bytes
        yield line("precondition", writes, 100, (32, 32), seconds(60 * share))
