"""Latency test (PTS 2.0.1 section 9): 3 R/W mixes x 3 block sizes at T1Q1, to steady state, then a long histogram.

The histogram's 20 minutes of RND 4 KiB writes follow the last round. With more than five nines asked for, they are
made as long as 9.2 step 3.3.3 wants: the measured rate gives the time in which enough I/Os happen.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import SteadyStateParameters, block, parameter
from flashgauge.spec.rounds import Settled, Tracked, answered, not_steady, until_steady, wipc_step
from flashgauge.steps import KIB, Disclose, Label, Measure, Purge, SetWriteCache, Step, Stimulus, Stop

# (read percent, block bytes) of the tracking variable and of the histogram, 9.2 steps 3.1.1.1.3 and 3.3.
TRACKED = (0, 4 * KIB)
TRACKING = "ART of RND 4 KiB RW0"
FIVE_NINES = 5


@dataclass(frozen=True)
class LatParameters(SteadyStateParameters):
    CLIENT: ClassVar[dict[str, Any]] = {"write_cache_enabled": True, "active_range_percent": 75.0}

    write_cache_enabled: bool = parameter(False, "9.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(100.0, "9.2", "share of the LBAs accessed", least=0.1, most=100)
    max_rounds: int = parameter(
        25, "9.2 3", "rounds before giving up on steady state", free_upwards=True, least=2, most=10_000
    )
    thread_count: int = parameter(1, "9.2 2.1.3", "thread count", least=1, most=1024)
    queue_depth: int = parameter(1, "9.2 2.1.2", "OIO per thread", least=1, most=8192)
    wipc_block_kib: float = block(128.0, "9.2 2.2", "block size of the independent pre-conditioning")
    wipc_capacities: float = parameter(
        2.0, "9.2 2.2", "user capacities written before the loop", least=0.001, most=1000
    )
    read_percents: tuple[int, ...] = parameter((100, 65, 0), "9.2 3.1", "R/W mixes, in order", most=100)
    block_sizes_kib: tuple[float, ...] = parameter(
        (8.0, 4.0, 0.5), "9.2 3.1.1", "block sizes, in order", least=0.5, most=65536
    )
    point_s: float = parameter(60.0, "9.2 3.1.1.1.1", "seconds per test point", least=0.01, most=1e6)
    histogram_s: float = parameter(
        1200.0, "9.2 3.3.1", "seconds of the histogram", free_upwards=True, least=0.01, most=1e7
    )
    nines: int = parameter(FIVE_NINES, "9.2 3.3.3", "nines the histogram is to resolve", free=True, least=1, most=9)
    nines_factor: float = parameter(
        1.5, "9.2 3.3.3", "I/Os in the histogram, times the least for the nines", free_upwards=True, least=1, most=100
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if TRACKED not in self.points:
            raise ValueError("the loop leaves out the tracking variable of 9.2: R/W 0/100 of 4 KiB")
        if len(set(self.points)) < len(self.points):
            raise ValueError("a R/W mix or block size is listed twice")

    @property
    def points(self) -> list[tuple[int, int]]:
        """(read percent, block bytes) of one round, in order."""
        return [(read, int(kib * KIB)) for read in self.read_percents for kib in self.block_sizes_kib]


@dataclass(frozen=True)
class LatOutcome:
    """`histogram_s`: how long the histogram took. `resolved`: it has the I/Os that its nines need."""

    rounds: Settled
    histogram_s: float
    resolved: bool

    @property
    def steady(self) -> bool:
        return self.rounds.steady


def histogram_seconds(least_s: float, nines: int, factor: float, iops: float) -> float:
    """9.2 step 3.3.3 and 10.2 step 2.4.3: for more than five nines, as long as `factor` x 10^nines I/Os take."""
    if nines <= FIVE_NINES or iops <= 0:
        return least_s
    return max(least_s, factor * 10.0**nines / iops)


def unresolved(clause: str, nines: int, factor: float, ios: int) -> Disclosure:
    """The histogram is too short for its nines: their value is one of the few slowest I/Os."""
    return Disclosure(
        Kind.FEW_IOS,
        clause,
        f"the histogram holds {ios:,} I/Os; {nines} nines need {10**nines:,}, and {factor:g} times as many are "
        "recommended",
        "a longer histogram: --set histogram_s=...",
    )


def point_step(parameters: LatParameters, point: tuple[int, int], stop: Stop, label: Label) -> Measure:
    """9.2 steps 3.1.1.1.1 and 3.3.1: random I/O at T1Q1."""
    read_percent, block_bytes = point
    stimulus = Stimulus(
        access="random",
        block_sizes=((block_bytes, 1),),
        read_percent=read_percent,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
        active_range_percent=(0.0, parameters.active_range_percent),
        entropy_percent=parameters.entropy_percent,
    )
    return Measure(stimulus, stop, label)


def lat(parameters: LatParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, LatOutcome]:
    """The latency test as steps; `capacity_bytes` is the user capacity."""
    rates: list[float] = []

    def one_round(number: int) -> Generator[Step, Measurement | None, Tracked]:
        tracked = {}
        for point in parameters.points:
            label = Label("round", number, *point)
            measurement = yield from answered(point_step(parameters, point, Stop(seconds=parameters.point_s), label))
            if point == TRACKED:
                tracked[TRACKING] = (measurement.art_ns or 0.0) / 1e6
                rates.append(measurement.iops)
        return tracked

    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    yield wipc_step(
        parameters,
        capacity_bytes,
        block_kib=parameters.wipc_block_kib,
        capacities=parameters.wipc_capacities,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
    )
    settled = yield from until_steady(parameters, one_round, max_rounds=parameters.max_rounds, unit="ms")
    if not settled.steady:
        yield Disclose(not_steady("9.3", settled))
    window = rates[-parameters.window_rounds :]
    seconds = histogram_seconds(
        parameters.histogram_s, parameters.nines, parameters.nines_factor, sum(window) / len(window)
    )
    label = Label("histogram", None, *TRACKED)
    measurement = yield from answered(point_step(parameters, TRACKED, Stop(seconds=seconds), label))
    resolved = measurement.ios >= 10**parameters.nines
    if not resolved:
        yield Disclose(unresolved("9.2 3.3.3", parameters.nines, parameters.nines_factor, measurement.ios))
    return LatOutcome(settled, seconds, resolved)
