"""The numbers of a throughput report: the rounds of each block size, and figures over its measurement window.

A test point is (read percent, block bytes), as in an IOPS report.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.report import palette
from flashgauge.report.common import averaged
from flashgauge.report.iops_metrics import Point, Rounds, window_metrics
from flashgauge.report.metrics import PointMetrics
from flashgauge.report.replay import Replay
from flashgauge.spec.tp import TpParameters, phase_name
from flashgauge.steadystate import Verdict, judge
from flashgauge.steps import KIB


@dataclass(frozen=True)
class Size:
    """The test of one block size. `steady`: its rounds ended in steady state; `ended`: so, or with the most rounds
    allowed. `number`: place among the sizes, the largest first."""

    kib: float
    number: int
    rounds: Rounds
    steady: bool
    ended: bool
    metrics: dict[Point, PointMetrics]

    @property
    def name(self) -> str:
        return phase_name(self.kib)

    @property
    def block(self) -> int:
        return self.rounds.blocks[0]

    @property
    def color(self) -> str:
        return palette.block_color(self.block)

    @property
    def window_text(self) -> str:
        return f"{self.rounds.window[0]} - {self.rounds.window[-1]}"

    @property
    def notes(self) -> tuple[str, ...]:
        """Which rounds the figures are of."""
        if not self.rounds.window:
            return (f"No round of {self.name} is complete.",)
        return averaged(self.rounds.window, self.rounds.criteria.window_rounds)

    def mb_per_s(self, read: int) -> tuple[float, ...]:
        """MB/s of one R/W mix in rounds 1..x."""
        return tuple(points[read, self.block].mb_per_s for _, points in sorted(self.rounds.by_round.items()))

    def verdict(self, read: int) -> Verdict | None:
        """Steady state figures over the window; None with fewer than two rounds."""
        values = [measurement.mb_per_s for measurement in self.rounds.in_window((read, self.block))]
        return judge(values, self.rounds.window[0], self.rounds.criteria) if len(values) > 1 else None


def arrange(replay: Replay) -> tuple[Size, ...]:
    """The journal's rounds by block size, the largest first."""
    ordered = sorted(replay.parameters.block_sizes_kib, reverse=True)
    return tuple(_size(replay, kib, number) for number, kib in enumerate(ordered))


def _size(replay: Replay, kib: float, number: int) -> Size:
    parameters: TpParameters = replay.parameters
    block = int(kib * KIB)
    judged = [item for item in replay.judged if item.phase == phase_name(kib)]
    by_round: dict[int, dict[Point, Measurement]] = {}
    partial = 0
    for entry in replay.entries:
        label = entry.label
        if label.round is None or label.read_percent is None or label.block_bytes != block:
            continue
        if label.round > len(judged):
            partial += 1
        else:
            by_round.setdefault(label.round, {})[label.read_percent, block] = entry.measurement
    last = len(judged)
    rounds = Rounds(
        reads=tuple(sorted(parameters.read_percents)),
        blocks=(block,),
        by_round=by_round,
        window=tuple(range(max(1, last - parameters.window_rounds + 1), last + 1)),
        partial_points=partial,
        criteria=parameters.criteria,
    )
    verdicts = judged[-1].verdicts if judged else {}
    steady = bool(verdicts) and all(verdict.steady for verdict in verdicts.values())
    return Size(kib, number, rounds, steady, steady or last == parameters.max_rounds, window_metrics(rounds))
