"""The machinery of CBW (section 13) and DIRTH (section 14): one access pattern at 49 combinations of TC and QD.

Purge, independent pre-conditioning, then the pattern as writes at T32Q32 until steady state. Rounds of a pre-write and
one minute at each TC/QD, in decreasing total OIO, until T32Q32 is steady. Then, at the operating points of maximum,
minimum and middle IOPS, an hour of pre-writes and a histogram of ten minutes.

Two things the pseudo code leaves open. The independent pre-conditioning stands only in the test flows (13.1, 14.1):
it is done. What R/W mix the pre-writes between rounds have is said by the header of Plot 14-2 alone: 0/100.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from math import sqrt
from typing import ClassVar

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.operating_points import Chosen, PointLog, choose
from flashgauge.spec.parameters import SteadyStateParameters, block, parameter
from flashgauge.spec.rounds import Settled, Tracked, answered, minutes, not_steady, until_steady, wipc_step
from flashgauge.spec.workloads import AccessPattern
from flashgauge.steps import (
    Disclose,
    IoStep,
    Label,
    Measure,
    Precondition,
    Purge,
    SetWriteCache,
    Step,
    Stimulus,
    Stop,
)

TcQd = tuple[int, int]
SHARE_SIGMAS = 6.0
UNSETTLED = "the standard goes on after 25 rounds; see how the drive's IOPS move in the plot of all rounds"


@dataclass(frozen=True)
class DemandParameters(SteadyStateParameters):
    """Clauses are those of DIRTH; CBW has the same steps under other numbers (`clause`)."""

    SHARES_CLAUSE: ClassVar[str] = "14.2 3.3"

    # 13.2 and 14.2 name no other cache state or ActiveRange for PTS-C.
    write_cache_enabled: bool = parameter(False, "14.2 3.1.1", "volatile write cache")
    active_range_percent: float = parameter(100.0, "14.2", "share of the LBAs accessed", free=True, least=0.1, most=100)
    max_rounds: int = parameter(25, "14.2 3.3.3", "rounds before giving up on steady state", least=2, most=10_000)
    wipc_block_kib: float = block(128.0, "14.1", "block size of the independent pre-conditioning")
    wipc_capacities: float = parameter(
        2.0, "14.1", "user capacities written before the pattern", least=0.001, most=1000
    )
    wipc_thread_count: int = parameter(1, "14.1", "thread count of that", free=True, least=1, most=1024)
    wipc_queue_depth: int = parameter(32, "14.1", "OIO per thread of that", free=True, least=1, most=8192)
    heaviest_thread_count: int = parameter(
        32,
        "14.2 2.1.3",
        "thread count of the tracking variable, the pre-conditioning and the pre-writes between rounds",
        least=1,
        most=1024,
    )
    heaviest_queue_depth: int = parameter(32, "14.2 2.1.2", "OIO per thread of those", least=1, most=8192)
    minute_s: float = parameter(60.0, "14.2 2.2.1", "seconds of a minute", least=0.01, most=3600)
    round_spacing_minutes: int = parameter(
        30, "14.2 2.2.2", "minutes from the begin of a round of pre-conditioning to the next", least=1, most=1440
    )
    pc_max_rounds: int = parameter(25, "14.2 2.2.2", "rounds of pre-conditioning before going on", least=2, most=10_000)
    thread_counts: tuple[int, ...] = parameter(
        (32, 16, 8, 6, 4, 2, 1), "14.2 3.1.3", "thread counts", least=1, most=1024
    )
    queue_depths: tuple[int, ...] = parameter(
        (32, 16, 8, 6, 4, 2, 1), "14.2 3.1.4", "OIOs per thread", least=1, most=8192
    )
    prewrite_min_minutes: int = parameter(5, "14.2 3.2.1", "least minutes of a pre-write", least=1, most=1440)
    prewrite_max_minutes: int = parameter(30, "14.2 3.2.1", "most minutes of a pre-write", least=1, most=1440)
    prewrite_capacity_percent: float = parameter(
        10.0, "14.2 3.2.1", "share of the user capacity that ends a pre-write", least=0.001, most=1000
    )
    point_s: float = parameter(60.0, "14.2 3.3.1", "seconds per TC/QD combination", least=0.01, most=1e6)
    max_art_ms: float = parameter(5.0, "14.2 5.1.2", "ART below which MaxIOPS must stay, ms", least=0.0001, most=1e6)
    same_iops_percent: float = parameter(
        1.0,
        "14.2 6.1",
        "IOPS within so many percent of the highest count as highest; the lowest OIO wins",
        free_downwards=True,
        most=50,
    )
    mid_points: int = parameter(1, "14.2 5.3", "number of MidIOPS points", free_upwards=True, least=1, most=20)
    final_prewrite_minutes: int = parameter(
        60, "14.2 6.2.1", "minutes of pre-writes before a histogram", least=1, most=14_400
    )
    histogram_s: float = parameter(600.0, "14.2 6.3", "seconds of a histogram", least=0.01, most=1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("thread_counts", "queue_depths"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} lists one twice")
        if 1 not in self.thread_counts or 1 not in self.queue_depths:
            raise ValueError("thread_counts and queue_depths need 1: T1Q1 is the MinIOPS point")
        if self.heaviest not in self.points:
            raise ValueError("the tracking variable's T{}Q{} is not among the combinations".format(*self.heaviest))
        if self.prewrite_max_minutes < self.prewrite_min_minutes:
            raise ValueError("prewrite_max_minutes is less than prewrite_min_minutes")

    @property
    def pattern(self) -> AccessPattern:
        raise AssertionError("a test has a pattern")

    @property
    def heaviest(self) -> TcQd:
        return self.heaviest_thread_count, self.heaviest_queue_depth

    @property
    def points(self) -> list[TcQd]:
        """All (TC, QD), in decreasing total OIO, the higher TC first of equals (3.3.1)."""
        combinations = [(tc, qd) for tc in self.thread_counts for qd in self.queue_depths]
        return sorted(combinations, key=lambda point: (-point[0] * point[1], -point[0]))

    def stimulus(self, point: TcQd, read_percent: int | None = None) -> Stimulus:
        return self.pattern.stimulus(
            *point,
            active_range_percent=self.active_range_percent,
            entropy_percent=self.entropy_percent,
            read_percent=read_percent,
        )


@dataclass(frozen=True)
class DemandOutcome:
    """`preconditioning` and `rounds`: how each ended. `chosen`: the operating points of the histograms."""

    preconditioning: Settled
    rounds: Settled
    chosen: Chosen

    @property
    def steady(self) -> bool:
        return self.preconditioning.steady and self.rounds.steady


def tracking_name(parameters: DemandParameters) -> str:
    return "IOPS of T{}Q{}".format(*parameters.heaviest)


def demand(parameters: DemandParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, DemandOutcome]:
    """The test as steps; `capacity_bytes` is the user capacity."""
    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    yield wipc_step(
        parameters,
        capacity_bytes,
        block_kib=parameters.wipc_block_kib,
        capacities=parameters.wipc_capacities,
        thread_count=parameters.wipc_thread_count,
        queue_depth=parameters.wipc_queue_depth,
    )
    preconditioning = yield from until_steady(
        parameters,
        minutes(
            lambda minute: _write_minute(parameters, Label("pre-conditioning", number=minute), parameters.heaviest),
            "IOPS of pre-conditioning",
            parameters.round_spacing_minutes,
        ),
        max_rounds=parameters.pc_max_rounds,
        phase="pre-conditioning",
    )
    if not preconditioning.steady:
        yield Disclose(not_steady(parameters.clause("14.2 2.2.2"), preconditioning, "pre-conditioning", UNSETTLED))
    log = PointLog()
    settled = yield from until_steady(
        parameters,
        lambda number: _round(parameters, capacity_bytes, number, log),
        max_rounds=parameters.max_rounds,
        phase="demand variation",
    )
    if not settled.steady:
        yield Disclose(not_steady(parameters.clause("14.2 3.3.3"), settled, "demand variation", UNSETTLED))
    averages = log.averages(range(settled.first_round, settled.last_round + 1))
    chosen = choose(
        averages,
        max_art_ms=parameters.max_art_ms,
        same_iops_percent=parameters.same_iops_percent,
        mid_points=parameters.mid_points,
    )
    for problem in chosen.problems:
        advice = "a drive this slow has no such point; see the demand intensity plot"
        yield Disclose(Disclosure(Kind.NO_OPERATING_POINT, parameters.clause("14.2 5"), problem, advice))
    for name, point in chosen.named():
        yield from _histogram(parameters, name, point)
    return DemandOutcome(preconditioning, settled, chosen)


def _write_minute(parameters: DemandParameters, label: Label, point: TcQd, seconds: float | None = None) -> IoStep:
    """The pattern's blocks and LBAs, as writes only."""
    return Precondition(parameters.stimulus(point, 0), Stop(seconds=seconds or parameters.minute_s), label)


def _round(
    parameters: DemandParameters, capacity_bytes: int, number: int, log: PointLog
) -> Generator[Step, Measurement | None, Tracked]:
    yield from _prewrite(parameters, capacity_bytes, number)
    tracked = {}
    for point in parameters.points:
        label = Label("demand", number, parameters.pattern.read_percent, thread_count=point[0], queue_depth=point[1])
        step = Measure(parameters.stimulus(point), Stop(seconds=parameters.point_s), label)
        measurement = yield from answered(step)
        yield from _check_shares(parameters, step, measurement)
        log.add(number, point, measurement)
        if point == parameters.heaviest:
            tracked[tracking_name(parameters)] = measurement.iops
    return tracked


def _prewrite(
    parameters: DemandParameters, capacity_bytes: int, number: int
) -> Generator[Step, Measurement | None, None]:
    """3.2.1: at least 5 minutes; then 30 minutes or 10 % of the user capacity, whichever is first. The last minute is
    cut to what the rate of the one before leaves to write."""
    left = parameters.prewrite_capacity_percent / 100 * capacity_bytes
    seconds = parameters.minute_s
    for minute in range(1, parameters.prewrite_max_minutes + 1):
        label = Label("pre-write", number, number=minute)
        measurement = yield from answered(_write_minute(parameters, label, parameters.heaviest, seconds))
        left -= measurement.written_bytes
        if minute >= parameters.prewrite_min_minutes:
            if left <= 0:
                return
            rate = measurement.written_bytes / measurement.window_s if measurement.window_s else 0.0
            wanted_s = left / rate if rate else parameters.minute_s
            seconds = min(parameters.minute_s, max(parameters.minute_s / 60, wanted_s))


def _histogram(parameters: DemandParameters, name: str, point: TcQd) -> Generator[Step, Measurement | None, None]:
    """6 to 8: an hour of pre-writes at the operating point, then its histogram."""
    place = {"thread_count": point[0], "queue_depth": point[1]}
    for minute in range(1, parameters.final_prewrite_minutes + 1):
        yield from answered(_write_minute(parameters, Label(f"{name} pre-write", number=minute, **place), point))
    label = Label(f"{name} histogram", read_percent=parameters.pattern.read_percent, **place)
    step = Measure(parameters.stimulus(point), Stop(seconds=parameters.histogram_s), label)
    measurement = yield from answered(step)
    yield from _check_shares(parameters, step, measurement)


def _check_shares(
    parameters: DemandParameters, step: Measure, measurement: Measurement
) -> Generator[Step, Measurement | None, None]:
    """Tables 13-1 and 13-2 hold in each measurement period, but for what chance allows."""
    stimulus = step.stimulus
    weights = [weight for _, weight in stimulus.block_sizes]
    for what, counts, shares in (
        ("block sizes", measurement.size_ios, [weight / sum(weights) for weight in weights]),
        ("LBA groups", measurement.group_ios, [group.probability_percent / 100 for group in stimulus.groups]),
    ):
        if counts and not shares_hold(counts, shares):
            yield Disclose(
                Disclosure(
                    Kind.SHARES_OFF,
                    parameters.SHARES_CLAUSE,
                    f"{step.label}: the shares of the {what} are not those asked for: {', '.join(map(str, counts))}",
                    "report this: the engine draws them at random",
                    invalidates=True,
                )
            )


def shares_hold(counts: Sequence[int], shares: Sequence[float]) -> bool:
    """Whether each count is within six standard deviations of its share of the sum."""
    total = sum(counts)
    return all(
        abs(count - total * share) <= SHARE_SIGMAS * sqrt(total * share * (1 - share)) + 1
        for count, share in zip(counts, shares, strict=True)
    )
