"""The numbers of a WSAT report: minutes, tracking rounds, what ended them, and the shape of the saturation curve.

The standard asks the reader to look for the FOB plateau, the transition and the settled level (10.1) and defines none
of them in numbers. Those here are the program's own, and the report says how each is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.report.metrics import mean
from flashgauge.report.replay import Replay
from flashgauge.report.series import AnyPoint, Point, Second, of_purpose, points, seconds
from flashgauge.spec.wsat import StopReason, WsatParameters
from flashgauge.steadystate import Verdict, judge

# Below this many minutes, the curve is looked at second by second.
SHORT_RUN_MINUTES = 30
PLATEAU_SHARE = 0.9
# A second may be low by chance: so many in a row must be.
_HOLD_SECONDS = 5
MOST_SETTLED_MINUTES = 30
SETTLED_SHARE = 1.1


@dataclass(frozen=True)
class Plateau:
    """FOB plateau: from the purge on, until IOPS fall below 90 % of their average so far. `ended`: whether they did.
    `last`: its last minute or second. `by_second`: second by second, where five seconds in a row must be below."""

    average_iops: float
    last: AnyPoint
    ended: bool
    by_second: bool


@dataclass(frozen=True)
class Saturation:
    """`minutes`: all measured, in order. `histogram`: None when it is not there. `rounds`: the minutes that are
    tracking rounds. `window`: those of the measurement window, or the last complete ones. `stop`: what ended the
    minutes, None when they were cut short. `settled`: the last quarter of the minutes, at most 30."""

    parameters: WsatParameters
    capacity_bytes: int
    minutes: tuple[Point, ...]
    seconds: tuple[Second, ...]
    histogram: Measurement | None
    rounds: tuple[Point, ...]
    window: tuple[int, ...]
    stop: StopReason | None
    plateau: Plateau | None
    settled: tuple[Point, ...]

    @property
    def written_bytes(self) -> int:
        return self.minutes[-1].written_bytes if self.minutes else 0

    @property
    def fills(self) -> float:
        return self.written_bytes / self.capacity_bytes

    @property
    def writes(self) -> bool:
        """Whether anything was written at all: a workload may only read."""
        return self.written_bytes > 0

    @property
    def is_short(self) -> bool:
        return len(self.minutes) < SHORT_RUN_MINUTES

    @property
    def settled_iops(self) -> float:
        return mean([point.iops for point in self.settled])

    @property
    def has_settled(self) -> bool:
        """Whether the last quarter may be called settled: the plateau is over, and it is more than a minute."""
        return self.plateau is not None and self.plateau.ended and len(self.settled) > 1

    @property
    def reached(self) -> Point | None:
        """First minute after the plateau at or below 110 % of the settled level; None without a plateau's end."""
        if self.plateau is None or not self.has_settled:
            return None
        level, since = SETTLED_SHARE * self.settled_iops, self.plateau.last.end_s
        return next((point for point in self.minutes if point.end_s > since and point.iops <= level), None)

    @property
    def verdict(self) -> Verdict | None:
        """2.1.24 on the window's rounds; None with fewer than two."""
        values = [self.rounds[number - 1].iops for number in self.window]
        return judge(values, self.window[0], self.parameters.criteria) if len(values) > 1 else None


def arrange(replay: Replay, capacity_bytes: int) -> Saturation:
    """The journal as minutes and histogram."""
    parameters: WsatParameters = replay.parameters
    every = points(replay.entries)
    minutes = of_purpose(every, "minute")
    histogram = next((point.measurement for point in of_purpose(every, "histogram")), None)
    rounds = minutes[:: parameters.round_spacing_minutes][: len(replay.judged)]
    last = len(rounds)
    short = seconds(minutes) if len(minutes) < SHORT_RUN_MINUTES else ()
    return Saturation(
        parameters=parameters,
        capacity_bytes=capacity_bytes,
        minutes=minutes,
        seconds=short,
        histogram=histogram,
        rounds=rounds,
        window=tuple(range(max(1, last - parameters.window_rounds + 1), last + 1)),
        stop=_stop(replay, minutes, capacity_bytes),
        plateau=_plateau(minutes, short) if minutes else None,
        settled=settled_minutes(minutes),
    )


def _stop(replay: Replay, minutes: Sequence[Point], capacity_bytes: int) -> StopReason | None:
    """The outcome's; while the histogram is not there, found from the minutes in the same way (10.2 step 2.2)."""
    if replay.outcome is not None:
        found: StopReason = replay.outcome.stop
        return found
    parameters: WsatParameters = replay.parameters
    verdicts = replay.judged[-1].verdicts if replay.judged else {}
    if verdicts and all(verdict.steady for verdict in verdicts.values()):
        return "steady"
    if minutes and minutes[-1].written_bytes >= parameters.max_capacities * capacity_bytes:
        return "written"
    if len(minutes) >= parameters.max_minutes:
        return "time"
    return None


def settled_minutes(minutes: Sequence[Point]) -> tuple[Point, ...]:
    """The last quarter, at least one minute and at most 30."""
    count = min(max(1, len(minutes) // 4), MOST_SETTLED_MINUTES)
    return tuple(minutes[-count:])


def plateau_length(values: Sequence[float], hold: int) -> int:
    """How many of the first `values` are the plateau: until `hold` values in a row are below 90 % of the average of
    all before them. All of them, when that never happens. At least one value."""
    total = 0.0
    for i, value in enumerate(values):
        following = values[i : i + hold]
        if i and len(following) == hold and all(v < PLATEAU_SHARE * total / i for v in following):
            return i
        total += value
    return len(values)


def _plateau(minutes: Sequence[Point], short: Sequence[Second]) -> Plateau:
    by_second = len(short) > _HOLD_SECONDS
    found: Sequence[AnyPoint] = short if by_second else minutes
    values = [point.iops for point in found]
    count = plateau_length(values, _HOLD_SECONDS if by_second else 1)
    return Plateau(mean(values[:count]), found[count - 1], count < len(values), by_second)
