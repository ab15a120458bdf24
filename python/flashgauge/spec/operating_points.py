"""MaxIOPS, MinIOPS and MidIOPS: which of the measured (TC, QD) combinations get a histogram (13.2 6, 14.2 5)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from flashgauge.measurement import Measurement

TcQd = tuple[int, int]
MIN_POINT: TcQd = (1, 1)


@dataclass(frozen=True)
class Average:
    """A combination over the rounds of the measurement window: mean IOPS, and the ART of all its I/Os."""

    iops: float
    art_ms: float


@dataclass
class PointLog:
    """What the choice needs of each round's points."""

    _rows: list[tuple[int, TcQd, float, int, int]] = field(default_factory=list)

    def add(self, round_number: int, point: TcQd, measurement: Measurement) -> None:
        latency_sum_ns = measurement.read.latency_sum_ns + measurement.write.latency_sum_ns
        self._rows.append((round_number, point, measurement.iops, measurement.ios, latency_sum_ns))

    def averages(self, rounds: Iterable[int]) -> dict[TcQd, Average]:
        wanted = set(rounds)
        found: dict[TcQd, list[tuple[float, int, int]]] = {}
        for number, point, iops, ios, latency_sum_ns in self._rows:
            if number in wanted:
                found.setdefault(point, []).append((iops, ios, latency_sum_ns))
        return {
            point: Average(
                sum(iops for iops, _, _ in rows) / len(rows),
                sum(latency for _, _, latency in rows) / max(1, sum(ios for _, ios, _ in rows)) / 1e6,
            )
            for point, rows in found.items()
        }


@dataclass(frozen=True)
class Chosen:
    """`problems`: what the standard wants of the points and the drive does not give, in sentences."""

    maximum: TcQd
    minimum: TcQd
    middle: tuple[TcQd, ...]
    problems: tuple[str, ...] = ()

    def named(self) -> Iterator[tuple[str, TcQd]]:
        """Names and points in the order of the histograms: maximum, minimum, middle ones from the lowest IOPS up."""
        yield "MaxIOPS", self.maximum
        yield "MinIOPS", self.minimum
        for number, point in enumerate(self.middle, 1):
            yield ("MidIOPS" if len(self.middle) == 1 else f"MidIOPS {number}"), point


def choose(averages: dict[TcQd, Average], *, max_art_ms: float, same_iops_percent: float, mid_points: int) -> Chosen:
    """MaxIOPS: the highest IOPS with an ART below the limit; those within `same_iops_percent` of it count as equal,
    and the lowest total OIO wins (then more IOPS, then the higher TC). MinIOPS: T1Q1. MidIOPS: nearest to the values
    that divide the range from MinIOPS to MaxIOPS equally (then the lowest total OIO, then the higher TC)."""
    problems = []
    allowed = {point: average for point, average in averages.items() if average.art_ms < max_art_ms}
    if not allowed:
        problems.append(
            f"no combination has an ART below {max_art_ms:g} ms: MaxIOPS is the one with the highest IOPS of all"
        )
        allowed = averages
    highest = max(average.iops for average in allowed.values())
    level = [point for point, average in allowed.items() if average.iops >= highest * (1 - same_iops_percent / 100)]
    maximum = min(level, key=lambda point: (point[0] * point[1], -averages[point].iops, -point[0]))
    low, high = averages[MIN_POINT].iops, averages[maximum].iops
    middle: list[TcQd] = []
    for number in range(1, mid_points + 1):
        target = low + (high - low) * number / (mid_points + 1)
        between = [point for point, average in averages.items() if low < average.iops < high and point not in middle]
        if not between:
            problems.append(f"no combination is left with IOPS between MinIOPS and MaxIOPS for MidIOPS {number}")
            break
        middle.append(
            min(between, key=lambda point: (abs(averages[point].iops - target), point[0] * point[1], -point[0]))
        )
    middle.sort(key=lambda point: averages[point].iops)
    return Chosen(maximum, MIN_POINT, tuple(middle), tuple(problems))
