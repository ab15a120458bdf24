"""IOPS test (PTS 2.0.1 section 7): 7 R/W mixes x 8 block sizes, one minute each, to steady state.

Yields steps, receives measurements, returns how the rounds ended (`Settled`). The loops nest as 7.2 prescribes: R/W
mix outside, block size inside, large blocks first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import SteadyStateParameters, block, parameter
from flashgauge.spec.rounds import Settled, Tracked, answered, not_steady, until_steady, wipc_step
from flashgauge.steps import KIB, Disclose, Label, Measure, Purge, SetWriteCache, Step, Stimulus, Stop

# (read percent, block bytes) of the tracking variables, 7.2 step 3.2.1.2.2.
TRACKING: dict[str, tuple[int, int]] = {
    "RND 4 KiB RW0": (0, 4 * KIB),
    "RND 64 KiB RW65": (65, 64 * KIB),
    "RND 1024 KiB RW100": (100, 1024 * KIB),
}


@dataclass(frozen=True)
class IopsParameters(SteadyStateParameters):
    CLIENT: ClassVar[dict[str, Any]] = {
        "thread_count": 2,
        "queue_depth": 16,
        "write_cache_enabled": True,
        "active_range_percent": 75.0,
    }

    write_cache_enabled: bool = parameter(False, "7.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(
        100.0, "7.2", "share of the LBAs the test loop may access", least=0.1, most=100
    )
    max_rounds: int = parameter(
        25, "7.2 3.2", "rounds before giving up on steady state", free_upwards=True, least=2, most=10_000
    )
    thread_count: int = parameter(4, "7.2 2.1.3", "thread count", free=True, least=1, most=1024)
    queue_depth: int = parameter(32, "7.2 2.1.2", "OIO per thread", free=True, least=1, most=8192)
    wipc_block_kib: float = block(128.0, "7.2 2.2", "block size of the independent pre-conditioning")
    wipc_capacities: float = parameter(
        2.0, "7.2 2.2", "user capacities written before the loop", least=0.001, most=1000
    )
    read_percents: tuple[int, ...] = parameter(
        (100, 95, 65, 50, 35, 5, 0), "7.2 3.2.1", "R/W mixes, in order", most=100
    )
    block_sizes_kib: tuple[float, ...] = parameter(
        (1024.0, 128.0, 64.0, 32.0, 16.0, 8.0, 4.0, 0.5), "7.2 3.2.1.1", "block sizes, in order", least=0.5, most=65536
    )
    point_s: float = parameter(60.0, "7.2 3.2.1.2", "seconds per test point", least=0.01, most=1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        points = {(r, int(b * KIB)) for r in self.read_percents for b in self.block_sizes_kib}
        missing = [name for name, point in TRACKING.items() if point not in points]
        if missing:
            raise ValueError(f"the loop leaves out tracking variables of 7.2: {', '.join(missing)}")
        if len(points) != len(self.read_percents) * len(self.block_sizes_kib):
            raise ValueError("a R/W mix or block size is listed twice")

    @property
    def points(self) -> list[tuple[int, int]]:
        """(read percent, block bytes) of one round, in order."""
        return [(read, int(kib * KIB)) for read in self.read_percents for kib in self.block_sizes_kib]


def point_step(parameters: IopsParameters, round_number: int, read_percent: int, block_bytes: int) -> Measure:
    """7.2 step 3.2.1.2: one test point of one round."""
    stimulus = Stimulus(
        access="random",
        block_sizes=((block_bytes, 1),),
        read_percent=read_percent,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
        active_range_percent=(0.0, parameters.active_range_percent),
        entropy_percent=parameters.entropy_percent,
    )
    return Measure(stimulus, Stop(seconds=parameters.point_s), Label("round", round_number, read_percent, block_bytes))


def iops(parameters: IopsParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, Settled]:
    """The IOPS test as steps; `capacity_bytes` is the user capacity."""
    names = {point: name for name, point in TRACKING.items()}

    def one_round(number: int) -> Generator[Step, Measurement | None, Tracked]:
        tracked = {}
        for point in parameters.points:
            measurement = yield from answered(point_step(parameters, number, *point))
            if name := names.get(point):
                tracked[name] = measurement.iops
        return {name: tracked[name] for name in TRACKING}

    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    yield wipc_step(
        parameters,
        capacity_bytes,
        block_kib=parameters.wipc_block_kib,
        capacities=parameters.wipc_capacities,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
        # 7.1 names a pre-conditioning range of 100 %, and 7.2 step 2.2 has no LBA restrictions.
        whole_device=True,
    )
    settled = yield from until_steady(parameters, one_round, max_rounds=parameters.max_rounds)
    if not settled.steady:
        yield Disclose(not_steady("7.3", settled))
    return settled
