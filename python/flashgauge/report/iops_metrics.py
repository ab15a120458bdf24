"""The numbers of an IOPS report: measurements by round and test point, and figures over the measurement window.

A test point is (read percent, block bytes).
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.report.metrics import PointMetrics, point_metrics
from flashgauge.report.replay import Replay
from flashgauge.spec.iops import IopsParameters
from flashgauge.steadystate import Criteria, Verdict, judge

Point = tuple[int, int]


@dataclass(frozen=True)
class Rounds:
    """Complete rounds only. `reads`, `blocks`: ascending. `window`: the rounds reported on, at most five."""

    reads: tuple[int, ...]
    blocks: tuple[int, ...]
    by_round: dict[int, dict[Point, Measurement]]
    window: tuple[int, ...]
    partial_points: int
    criteria: Criteria

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
        window=tuple(range(max(1, last - parameters.window_rounds + 1), last + 1)),
        partial_points=partial,
        criteria=parameters.criteria,
    )


def window_verdict(rounds: Rounds, point: Point) -> Verdict | None:
    """Steady state figures of one point over the window; None with fewer than two rounds."""
    values = [measurement.iops for measurement in rounds.in_window(point)]
    return judge(values, rounds.window[0], rounds.criteria) if len(values) > 1 else None


def window_metrics(rounds: Rounds) -> dict[Point, PointMetrics]:
    """Every test point over the window; empty when no round is complete."""
    if not rounds.window:
        return {}
    return {(r, b): point_metrics(rounds.in_window((r, b))) for r in rounds.reads for b in rounds.blocks}
