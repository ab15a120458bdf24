"""IOPS test (PTS 2.0.1 section 7): 7 R/W mixes x 8 block sizes, one minute each, to steady state.

Yields steps, receives measurements, returns an `IopsOutcome`. The loops nest as 7.2 prescribes: R/W mix
outside, block size inside, large blocks first.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import DeviceClass, parameter
from flashgauge.steadystate import WINDOW_ROUNDS, Verdict, judge_last
from flashgauge.steps import (
    KIB,
    Disclose,
    IoStep,
    Label,
    Measure,
    Precondition,
    Purge,
    RoundJudged,
    SetWriteCache,
    Step,
    Stimulus,
    Stop,
)

# (read percent, block bytes) of the tracking variables, 7.2 step 3.2.1.2.2.
TRACKING: dict[str, tuple[int, int]] = {
    "RND 4 KiB RW0": (0, 4 * KIB),
    "RND 64 KiB RW65": (65, 64 * KIB),
    "RND 1024 KiB RW100": (100, 1024 * KIB),
}


@dataclass(frozen=True)
class IopsParameters:
    device_class: DeviceClass
    thread_count: int = parameter(4, "7.2 2.1.3", "thread count", free=True, least=1, most=1024)
    queue_depth: int = parameter(32, "7.2 2.1.2", "OIO per thread", free=True, least=1, most=8192)
    write_cache_enabled: bool = parameter(False, "7.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(
        100.0, "7.2", "share of the LBAs the test loop may access", least=0.1, most=100
    )
    entropy_percent: int = parameter(100, "3.5", "random share of the data pattern", most=100)
    wipc_block_kib: float = parameter(
        128.0, "7.2 2.2", "block size of the independent pre-conditioning", least=0.5, most=65536
    )
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
    max_rounds: int = parameter(
        25, "7.2 3.2", "rounds before giving up on steady state", free_upwards=True, least=WINDOW_ROUNDS
    )
    gap_limit_ms: float = parameter(1.0, "6 item 9", "device idle allowed between steps, ms", free=True, least=0)

    @classmethod
    def standard(cls, device_class: DeviceClass) -> IopsParameters:
        """The standard's values: PTS-E (T4Q32, WCD, AR 100 %) or PTS-C (T2Q16, WCE, AR 75 %)."""
        if device_class is DeviceClass.ENTERPRISE:
            return cls(device_class)
        return cls(device_class, thread_count=2, queue_depth=16, write_cache_enabled=True, active_range_percent=75.0)

    def __post_init__(self) -> None:
        points = {(r, int(b * KIB)) for r in self.read_percents for b in self.block_sizes_kib}
        missing = [name for name, point in TRACKING.items() if point not in points]
        if missing:
            raise ValueError(f"the loop leaves out tracking variables of 7.2: {', '.join(missing)}")
        if len(points) != len(self.read_percents) * len(self.block_sizes_kib):
            raise ValueError("a R/W mix or block size is listed twice")
        if any(b * KIB % 512 for b in (*self.block_sizes_kib, self.wipc_block_kib)):
            raise ValueError("block sizes are multiples of 0.5 KiB")

    @property
    def points(self) -> list[tuple[int, int]]:
        """(read percent, block bytes) of one round, in order."""
        return [(read, int(kib * KIB)) for read in self.read_percents for kib in self.block_sizes_kib]

    @property
    def max_block_bytes(self) -> int:
        return int(max(*self.block_sizes_kib, self.wipc_block_kib) * KIB)


@dataclass(frozen=True)
class IopsOutcome:
    """`first_round`..`last_round` is the measurement window; `steady` only if every variable is."""

    steady: bool
    first_round: int
    last_round: int
    verdicts: dict[str, Verdict]


def not_steady(rounds: int, verdicts: dict[str, Verdict]) -> Disclosure:
    """7.3: that steady state was not reached must be stated."""
    moving = ", ".join(name for name, verdict in verdicts.items() if not verdict.steady)
    return Disclosure(
        Kind.STEADY_STATE_NOT_REACHED,
        "7.3",
        f"steady state was not reached in {rounds} rounds (not steady: {moving}); the last five are reported",
        "allow more rounds: --set max_rounds=50",
    )


def wipc_step(parameters: IopsParameters, capacity_bytes: int) -> Precondition:
    """7.2 step 2.2: twice the user capacity, sequential, over the whole of the LBAs."""
    stimulus = Stimulus(
        access="sequential",
        block_sizes=((int(parameters.wipc_block_kib * KIB), 1),),
        read_percent=0,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
        entropy_percent=parameters.entropy_percent,
    )
    if parameters.wipc_capacities.is_integer():
        total = int(parameters.wipc_capacities) * capacity_bytes
    else:
        # Whole logical blocks, also where these are larger than 512 bytes.
        total = max(1, int(parameters.wipc_capacities * capacity_bytes) // (4 * KIB)) * 4 * KIB
    # Clause 4: no delay between pre-conditioning and test.
    return Precondition(stimulus, Stop(bytes=total, keep_loaded=True), Label("wipc"))


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


def samples(parameters: IopsParameters, capacity_bytes: int) -> list[IoStep]:
    """One step of each kind the test will ask for, to check them against the device beforehand."""
    points = [point_step(parameters, 1, read_percent, block_bytes) for read_percent, block_bytes in parameters.points]
    return [wipc_step(parameters, capacity_bytes), *points]


def iops(parameters: IopsParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, IopsOutcome]:
    """The IOPS test as steps; `capacity_bytes` is the user capacity."""
    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    yield wipc_step(parameters, capacity_bytes)
    tracked: dict[str, list[float]] = {name: [] for name in TRACKING}
    names = {point: name for name, point in TRACKING.items()}
    verdicts: dict[str, Verdict] = {}
    for round_number in range(1, parameters.max_rounds + 1):
        for read_percent, block_bytes in parameters.points:
            measurement = yield point_step(parameters, round_number, read_percent, block_bytes)
            assert measurement is not None, "a Measure step must be answered with its measurement"
            if name := names.get((read_percent, block_bytes)):
                tracked[name].append(measurement.iops)
        judged = {name: judge_last(values) for name, values in tracked.items()}
        verdicts = {name: verdict for name, verdict in judged.items() if verdict is not None}
        yield RoundJudged(round_number, {name: tuple(values) for name, values in tracked.items()}, verdicts)
        if verdicts and all(verdict.steady for verdict in verdicts.values()):
            return IopsOutcome(True, round_number - WINDOW_ROUNDS + 1, round_number, verdicts)
    yield Disclose(not_steady(parameters.max_rounds, verdicts))
    return IopsOutcome(False, parameters.max_rounds - WINDOW_ROUNDS + 1, parameters.max_rounds, verdicts)
