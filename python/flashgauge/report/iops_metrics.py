"""The numbers of an IOPS report: measurements by round and test point, and figures over the measurement window.

A test point is (read percent, block bytes). Percentiles come from merged histograms, response time averages
from summed latencies and counts; only IOPS are averaged, because 7.3.6.1 says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashgauge._core import Histogram
from flashgauge.measurement import Measurement
from flashgauge.report.replay import Replay
from flashgauge.spec.iops import IopsParameters
from flashgauge.steadystate import WINDOW_ROUNDS, Verdict, judge

Point = tuple[int, int]
FIVE_NINES = 0.99999
# Below this many I/Os the 99.999 % point is the slowest I/O itself.
FIVE_NINES_IOS = round(1 / (1 - FIVE_NINES))


@dataclass(frozen=True)
class Rounds:
    """Complete rounds only. `reads`, `blocks`: ascending. `window`: the rounds reported on, at most five."""

    reads: tuple[int, ...]
    blocks: tuple[int, ...]
    by_round: dict[int, dict[Point, Measurement]]
    window: tuple[int, ...]
    partial_points: int

    def iops(self, point: Point) -> tuple[float, ...]:
        """IOPS of one point in rounds 1..x."""
        return tuple(points[point].iops for _, points in sorted(self.by_round.items()))

    def in_window(self, point: Point) -> list[Measurement]:
        return [self.by_round[number][point] for number in self.window]


def arrange(replay: Replay) -> Rounds:
    """The journal's rounds as a table; the measurement window is the outcome's, or the last complete rounds."""
    parameters: IopsParameters = replay.parameters
    by_round: dict[int, dict[Point, Measurement]] = {}
    partial = 0
    for entry in replay.entries:
        label = entry.label
        if label.round is None or label.read_percent is None or label.block_bytes is None:
            continue
        if label.round > replay.complete_rounds:
            partial += 1
        else:
            by_round.setdefault(label.round, {})[label.read_percent, label.block_bytes] = entry.measurement
    last = replay.outcome.last_round if replay.outcome else replay.complete_rounds
    return Rounds(
        reads=tuple(sorted({read for read, _ in parameters.points})),
        blocks=tuple(sorted({block for _, block in parameters.points})),
        by_round=by_round,
        window=tuple(range(max(1, last - WINDOW_ROUNDS + 1), last + 1)),
        partial_points=partial,
    )


def window_verdict(rounds: Rounds, point: Point) -> Verdict | None:
    """Steady state figures of one point over the window; None with fewer than two rounds."""
    values = [measurement.iops for measurement in rounds.in_window(point)]
    return judge(values, rounds.window[0]) if len(values) > 1 else None


@dataclass(frozen=True)
class PointMetrics:
    """One test point over the window. `ios`: I/Os behind the latencies. None: not measured in every round."""

    iops: float
    mb_per_s: float
    ios: int
    art_ms: float | None
    p99999_ms: float | None
    mrt_ms: float | None
    power_mw: float | None
    iops_per_w: float | None
    cpu_system_percent: float | None
    cpu_iowait_percent: float | None


def point_metrics(measurements: Sequence[Measurement]) -> PointMetrics:
    """7.3.6.1 and 7.3.6.4 for one test point. At least one measurement."""
    ios = sum(m.ios for m in measurements)
    latency_sum_ns = sum(m.read.latency_sum_ns + m.write.latency_sum_ns for m in measurements)
    merged = Histogram()
    for measurement in measurements:
        merged.add(measurement.histogram)
    mrt_ns = max((m.mrt_ns for m in measurements if m.mrt_ns is not None), default=None)
    iops = _mean([m.iops for m in measurements])
    power_w = _host_mean(measurements, lambda m: m.host.power_w)
    return PointMetrics(
        iops=iops,
        mb_per_s=_mean([m.mb_per_s for m in measurements]),
        ios=ios,
        art_ms=latency_sum_ns / ios / 1e6 if ios else None,
        # A histogram knows three digits: its value may lie a little above the slowest I/O.
        p99999_ms=None if mrt_ns is None else min(merged.quantile_ns(FIVE_NINES), mrt_ns) / 1e6,
        mrt_ms=None if mrt_ns is None else mrt_ns / 1e6,
        power_mw=None if power_w is None else power_w * 1e3,
        iops_per_w=iops / power_w if power_w else None,
        cpu_system_percent=_host_mean(measurements, lambda m: m.host.cpu_system_percent),
        cpu_iowait_percent=_host_mean(measurements, lambda m: m.host.cpu_iowait_percent),
    )


def window_metrics(rounds: Rounds) -> dict[Point, PointMetrics]:
    """Every test point over the window; empty when no round is complete."""
    if not rounds.window:
        return {}
    return {(r, b): point_metrics(rounds.in_window((r, b))) for r in rounds.reads for b in rounds.blocks}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _host_mean(measurements: Sequence[Measurement], get: Callable[[Measurement], float | None]) -> float | None:
    """Average over the rounds (equally long); None unless every round has a value."""
    values = [value for m in measurements if (value := get(m)) is not None]
    return _mean(values) if len(values) == len(measurements) else None
