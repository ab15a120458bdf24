"""The numbers of an XSR report: the three access groups, and how long the bandwidth takes to recover.

12.1 words the recovery time "from the end of the second segment to the BW peak in the third segment". On a drive whose
bandwidth is level, the peak is chance: any minute may be the highest by a hair. So a second time is given beside it:
until the bandwidth is back at 95 % of what group 1 had settled to. Pure functions but for `arrange`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from flashgauge.report.metrics import host_mean, mean
from flashgauge.report.replay import Replay
from flashgauge.report.series import (
    AnyPoint,
    Point,
    Second,
    largest_mrt_ms,
    of_purpose,
    points,
    pooled_art_ms,
    pooled_mb_per_s,
    seconds,
)
from flashgauge.spec.xsr import XsrParameters, group_purpose

RECOVERED_SHARE = 0.95


@dataclass(frozen=True)
class Group:
    """One access group. `expected`: minutes the test asks for. Averages are over the minutes that are there; a peak
    is that of the one minute which has the highest value. None when there is none."""

    number: int
    name: str
    minutes: tuple[Point, ...]
    expected: int

    @property
    def average_mb_per_s(self) -> float | None:
        return pooled_mb_per_s(self.minutes)

    @property
    def average_art_ms(self) -> float | None:
        return pooled_art_ms(self.minutes)

    @property
    def mrt_ms(self) -> float | None:
        """The largest: there is no average of maxima."""
        return largest_mrt_ms(self.minutes)

    @property
    def peak(self) -> Point | None:
        """The minute of the highest bandwidth; the first of equals."""
        return max(self.minutes, key=lambda point: point.mb_per_s, default=None)

    @property
    def peak_art_ms(self) -> float | None:
        return max((value for point in self.minutes if (value := point.art_ms) is not None), default=None)

    @property
    def is_whole(self) -> bool:
        return len(self.minutes) == self.expected

    def host(self, metric: str) -> float | None:
        if not self.minutes:
            return None
        found = [point.measurement for point in self.minutes]
        return host_mean(found, lambda m: getattr(m.host, metric))


@dataclass(frozen=True)
class CrossStimulus:
    """`groups`: always three; those not reached have no minutes."""

    parameters: XsrParameters
    groups: tuple[Group, Group, Group]

    @property
    def minutes(self) -> tuple[Point, ...]:
        return tuple(point for group in self.groups for point in group.minutes)

    @property
    def second_ended_s(self) -> float | None:
        """End of group 2: of its last minute. None while it is not whole."""
        second = self.groups[1]
        return second.minutes[-1].end_s if second.is_whole else None


@dataclass(frozen=True)
class Recovery:
    """`after_s`: from the end of group 2 to the end of the point that counts; None when it never came.
    `at`: that point. `level_mb_per_s`: what it had to reach, or its own bandwidth where it is the peak."""

    after_s: float | None
    at: AnyPoint | None
    level_mb_per_s: float


def arrange(replay: Replay) -> CrossStimulus:
    """The journal as three groups."""
    parameters: XsrParameters = replay.parameters
    every = points(replay.entries)

    def group(number: int) -> Group:
        access, minutes = parameters.groups[number - 1]
        kib = parameters.sequential_block_kib if access == "sequential" else parameters.random_block_kib
        name = f"{'SEQ' if access == 'sequential' else 'RND'} {kib:g} KiB W"
        return Group(number, name, of_purpose(every, group_purpose(number)), minutes)

    return CrossStimulus(parameters, (group(1), group(2), group(3)))


def settled_minutes(minutes: Sequence[Point]) -> tuple[Point, ...]:
    """The last quarter of a group, at least one minute: what it has settled to."""
    return tuple(minutes[-max(1, len(minutes) // 4) :])


def settled_mb_per_s(group: Group) -> float | None:
    """What the group has settled to, the average of its last quarter; None without minutes."""
    return mean([point.mb_per_s for point in settled_minutes(group.minutes)]) if group.minutes else None


def recovery_to_peak(data: CrossStimulus) -> Recovery | None:
    """12.1, table: from the end of group 2 to the minute of the highest bandwidth in group 3, the first of equals.

    None until all of group 3 is there: before that, the peak is not known.
    """
    ended_s, third = data.second_ended_s, data.groups[2]
    if ended_s is None or not third.is_whole or third.peak is None:
        return None
    return Recovery(third.peak.end_s - ended_s, third.peak, third.peak.mb_per_s)


def recovery_level(data: CrossStimulus) -> float | None:
    """95 % of the settled average of group 1, in MB/s; None while group 1 is not whole."""
    settled = settled_mb_per_s(data.groups[0]) if data.groups[0].is_whole else None
    return None if settled is None else RECOVERED_SHARE * settled


def recovery_to_level(data: CrossStimulus) -> Recovery | None:
    """From the end of group 2 to the end of the first minute of group 3 that is at the level; None until that is
    known: with group 3 cut short below the level, it may still have come."""
    return _first_at_level(data, data.groups[2].minutes)


def recovery_to_level_by_second(data: CrossStimulus) -> Recovery | None:
    """The same to the first second at the level."""
    return _first_at_level(data, seconds(data.groups[2].minutes))


def _first_at_level(data: CrossStimulus, found: Sequence[Point] | Sequence[Second]) -> Recovery | None:
    ended_s, level = data.second_ended_s, recovery_level(data)
    if ended_s is None or level is None or not found:
        return None
    for point in found:
        if point.mb_per_s >= level:
            return Recovery(point.end_s - ended_s, point, level)
    return Recovery(None, None, level) if data.groups[2].is_whole else None
