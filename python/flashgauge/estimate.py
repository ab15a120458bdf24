"""Time left of a run, least to most: most when steady state takes all rounds, least when the next judgement ends it.

Rates are those seen so far. For a simulated drive the host needs less (or more) than a second for a second of the
drive's time, so host time is what is measured and extrapolated.
"""

from __future__ import annotations

from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.spec.registry import Extent
from flashgauge.steps import IoStep, Precondition, RoundJudged


@dataclass(frozen=True)
class TimeLeft:
    least_s: float
    most_s: float


class Estimator:
    """Fed with what happens, on the host's clock (`now_s`, any monotonic time)."""

    def __init__(self, extent: Extent, virtual_time: bool) -> None:
        self.extent = extent
        self.virtual_time = virtual_time
        self._points = 0
        self._rounds = 0
        self._done = False
        self._started_s: float | None = None
        self._point_host_s: float | None = None if virtual_time else extent.point_s
        self._points_began_s: float | None = None
        self._precondition_left = 1.0

    def started(self, step: IoStep, now_s: float) -> None:
        if isinstance(step, Precondition):
            self._started_s = now_s
        elif self._points_began_s is None:
            self._points_began_s = now_s
            self._precondition_left = 0.0

    def precondition_progress(self, bytes_done: float) -> None:
        self._precondition_left = max(0.0, 1.0 - bytes_done / max(1, self.extent.precondition_bytes))

    def done(self, step: IoStep, _measurement: Measurement, now_s: float) -> None:
        if isinstance(step, Precondition) or self._points_began_s is None:
            return
        self._points += 1
        if self.virtual_time:
            self._point_host_s = (now_s - self._points_began_s) / self._points

    def judged(self, judged: RoundJudged) -> None:
        self._rounds = judged.round
        self._done = bool(judged.verdicts) and all(verdict.steady for verdict in judged.verdicts.values())

    def left(self, now_s: float) -> TimeLeft | None:
        """None while there is nothing to go by."""
        if self._done:
            return TimeLeft(0.0, 0.0)
        precondition_s = self._precondition_s(now_s)
        if self._point_host_s is None or precondition_s is None:
            return None
        per_round = self.extent.points_per_round
        in_round = self._points - self._rounds * per_round
        least_rounds = max(self.extent.least_rounds, self._rounds + 1)
        least = (least_rounds - self._rounds) * per_round - in_round
        most = (self.extent.most_rounds - self._rounds) * per_round - in_round
        return TimeLeft(precondition_s + least * self._point_host_s, precondition_s + most * self._point_host_s)

    def _precondition_s(self, now_s: float) -> float | None:
        if self._precondition_left == 0.0:
            return 0.0
        if self._started_s is None or self._precondition_left >= 0.999:
            return None
        share = 1.0 - self._precondition_left
        return (now_s - self._started_s) / share * self._precondition_left
