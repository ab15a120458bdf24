"""The numbers of a CBW or DIRTH report: the journal by phase, and each TC/QD combination over the measurement window.

Two phases are judged for steady state: the pre-conditioning, whose rounds are single minutes, and the demand variation,
whose rounds are passes through all combinations.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.report import palette
from flashgauge.report.metrics import PointMetrics, mean, point_metrics
from flashgauge.report.replay import Replay
from flashgauge.runfolder import Entry
from flashgauge.spec.demand import DemandParameters
from flashgauge.spec.operating_points import Chosen, PointLog, TcQd, choose
from flashgauge.steadystate import Criteria, Verdict, judge
from flashgauge.steps import KIB

PRECONDITIONING = "pre-conditioning"
DEMAND = "demand variation"
PREWRITE = "pre-write"
# The knee, a rule of our own: a doubling of the total OIO gives less than this share more IOPS.
KNEE_GROWTH = 0.05


@dataclass(frozen=True)
class Phase:
    """A series of rounds that goes on until steady state. `values`: the tracking variable in rounds 1..x. `window`: the
    rounds reported on. `ended`: steady, or all the rounds allowed are done."""

    name: str
    values: tuple[float, ...]
    window: tuple[int, ...]
    steady: bool
    ended: bool
    criteria: Criteria

    @property
    def verdict(self) -> Verdict | None:
        """Over the window; None with fewer than two rounds."""
        values = [self.values[number - 1] for number in self.window]
        return judge(values, self.window[0], self.criteria) if len(values) > 1 else None

    @property
    def window_text(self) -> str:
        return f"{self.window[0]} - {self.window[-1]}"

    @property
    def steady_rounds(self) -> str:
        """For the header."""
        return self.window_text if self.steady else "not reached"

    @property
    def state(self) -> str:
        """For the status."""
        count = len(self.values)
        if self.steady:
            return f"{self.name} steady in rounds {self.window_text}"
        if self.ended:
            return f"{self.name} NOT steady in {count} rounds, figures are of rounds {self.window_text}"
        if not count:
            return f"{self.name} without a complete round"
        return f"{self.name} not yet steady ({count} round{'' if count == 1 else 's'})"


@dataclass(frozen=True)
class Total:
    """All combinations of one total OIO: averages of their IOPS and MB/s, ART of all their I/Os."""

    oio: int
    points: tuple[TcQd, ...]
    iops: float
    mb_per_s: float
    art_ms: float | None
    best: TcQd


@dataclass(frozen=True)
class Demand:
    """Everything a report needs. `by_round`: complete rounds only; `metrics`: every combination over the window of the
    demand variation, empty while no round is complete. `chosen`: None until the demand variation has ended.
    `purposes`: the journal's entries by their label's purpose."""

    parameters: DemandParameters
    preconditioning: Phase
    variation: Phase
    purposes: dict[str, tuple[Entry, ...]]
    by_round: dict[int, dict[TcQd, Measurement]]
    partial_points: int
    metrics: dict[TcQd, PointMetrics]
    chosen: Chosen | None

    @property
    def names(self) -> dict[str, TcQd]:
        """The operating points by name, as plots 9 to 14 have them: maximum, middle ones, minimum."""
        if self.chosen is None:
            return {}
        found = dict(self.chosen.named())
        order = ["MaxIOPS", *(name for name in found if name.startswith("Mid")), "MinIOPS"]
        return {name: found[name] for name in order}

    def of(self, purpose: str) -> tuple[Entry, ...]:
        return self.purposes.get(purpose, ())

    def histogram(self, name: str) -> Measurement | None:
        """The histogram at an operating point, once it is captured."""
        entries = self.of(f"{name} histogram")
        return entries[0].measurement if entries else None

    def in_window(self, point: TcQd) -> list[Measurement]:
        return [self.by_round[number][point] for number in self.variation.window]

    @property
    def cpu_measured(self) -> bool:
        """Whether every combination has the host's CPU use in every round of the window."""
        return bool(self.metrics) and all(m.cpu_system_percent is not None for m in self.metrics.values())

    @property
    def totals(self) -> tuple[Total, ...]:
        """By total OIO, the lowest first."""
        points: dict[int, list[TcQd]] = defaultdict(list)
        for point in self.parameters.points:
            points[point[0] * point[1]].append(point)
        return tuple(self._total(oio, points[oio]) for oio in sorted(points)) if self.metrics else ()

    def _total(self, oio: int, points: list[TcQd]) -> Total:
        found = [self.metrics[point] for point in points]
        ios = sum(m.ios for m in found)
        return Total(
            oio,
            tuple(points),
            mean([m.iops for m in found]),
            mean([m.mb_per_s for m in found]),
            sum(m.art_ms * m.ios for m in found if m.art_ms is not None) / ios if ios else None,
            max(points, key=lambda point: self.metrics[point].iops),
        )


def arrange(replay: Replay) -> Demand:
    """The journal of a run in any state."""
    parameters: DemandParameters = replay.parameters
    purposes: dict[str, list[Entry]] = defaultdict(list)
    for entry in replay.entries:
        purposes[entry.label.purpose].append(entry)
    preconditioning = _phase(replay, PRECONDITIONING, parameters.pc_max_rounds)
    variation = _phase(replay, DEMAND, parameters.max_rounds)
    by_round: dict[int, dict[TcQd, Measurement]] = defaultdict(dict)
    partial = 0
    for entry in purposes["demand"]:
        number, point = entry.label.round, point_of(entry)
        assert number is not None, "a point of the demand variation belongs to a round"
        if number > len(variation.values):
            partial += 1
        else:
            by_round[number][point] = entry.measurement
    metrics = {
        point: point_metrics([by_round[number][point] for number in variation.window])
        for point in (parameters.points if variation.window else ())
    }
    found = {purpose: tuple(entries) for purpose, entries in purposes.items()}
    chosen = replay.outcome.chosen if replay.outcome else _choice(parameters, variation, by_round)
    return Demand(parameters, preconditioning, variation, found, dict(by_round), partial, metrics, chosen)


def _phase(replay: Replay, name: str, max_rounds: int) -> Phase:
    """The measurement window is the last rounds judged: the phase ends with the first steady window."""
    parameters: DemandParameters = replay.parameters
    judged = [item for item in replay.judged if item.phase == name]
    values = next(iter(judged[-1].values.values())) if judged else ()
    steady = bool(judged and judged[-1].verdicts) and all(v.steady for v in judged[-1].verdicts.values())
    window = tuple(range(max(1, len(judged) - parameters.window_rounds + 1), len(judged) + 1))
    return Phase(name, values, window, steady, steady or len(judged) == max_rounds, parameters.criteria)


def _choice(
    parameters: DemandParameters, variation: Phase, by_round: dict[int, dict[TcQd, Measurement]]
) -> Chosen | None:
    """What the test has chosen, in a run that did not come to its end; None before the choice."""
    if not variation.ended:
        return None
    log = PointLog()
    for number, points in by_round.items():
        for point, measurement in points.items():
            log.add(number, point, measurement)
    return choose(
        log.averages(variation.window),
        max_art_ms=parameters.max_art_ms,
        same_iops_percent=parameters.same_iops_percent,
        mid_points=parameters.mid_points,
    )


def knee(totals: tuple[Total, ...]) -> Total | None:
    """The lowest total OIO from which on every doubling gives less than 5 % more IOPS, and a longer ART. None when the
    IOPS grow to the end. From the highest down, so that one noisy point below does not make a knee."""
    by_oio = {total.oio: total for total in totals}
    found: Total | None = None
    for total in reversed(totals):
        double = by_oio.get(2 * total.oio)
        if double is None:
            continue
        longer = total.art_ms is not None and double.art_ms is not None and double.art_ms > total.art_ms
        if not longer or double.iops >= total.iops * (1 + KNEE_GROWTH):
            break
        found = total
    return found


def point_of(entry: Entry) -> TcQd:
    """The combination that a label names."""
    label = entry.label
    assert label.thread_count is not None and label.queue_depth is not None, "the label names its TC and QD"
    return label.thread_count, label.queue_depth


def short(point: TcQd) -> str:
    return f"T{point[0]}Q{point[1]}"


# The ramp that block sizes have: thread counts and queue depths, too, are ordered by eye from dark to light.
_RAMP = (2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 10.0)


def rank_color(rank: int, count: int) -> str:
    """Of the thread count or queue depth that is number `rank` of `count`."""
    place = rank / max(1, count - 1) * (len(_RAMP) - 1)
    low = min(int(place), len(_RAMP) - 2)
    return palette.block_color(round(KIB * 2 ** (_RAMP[low] + (place - low) * (_RAMP[low + 1] - _RAMP[low]))))
