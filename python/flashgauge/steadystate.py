"""Steady state: definition 2.1.24, and the verification figures of clause 7.3.4. Pure functions.

Definition 2.1.24 bounds max - min of the data to 20 % of the average and the excursion of the least-squares
line to 10 % of it. Clause 7.3.4 prints a second, different bound: every value within +-10 % of the average.
A value 11 % above and none below passes the first and fails the second, so both are judged, separately.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite, nan, sqrt

WINDOW_ROUNDS = 5
MAX_DATA_EXCURSION = 0.20
MAX_SLOPE_EXCURSION = 0.10
BAND = 0.10


@dataclass(frozen=True)
class Criteria:
    """The numbers of definitions 2.1.13 and 2.1.24; the excursions are shares of the average."""

    window_rounds: int = WINDOW_ROUNDS
    data_excursion: float = MAX_DATA_EXCURSION
    slope_excursion: float = MAX_SLOPE_EXCURSION


STANDARD = Criteria()


@dataclass(frozen=True)
class Verdict:
    """Judgement of one tracking variable over one measurement window, by `criteria`.

    `first_round`..`last_round`: the window. Values carry the tracking variable's unit.
    The best linear fit is y = `slope` * round + `intercept`; `correlation` is Pearson's r (nan when all
    values are equal).
    """

    first_round: int
    last_round: int
    values: tuple[float, ...]
    average: float
    data_excursion: float
    data_excursion_allowed: float
    slope: float
    intercept: float
    slope_excursion: float
    slope_excursion_allowed: float
    correlation: float
    band_min: float
    band_max: float
    criteria: Criteria = STANDARD

    @property
    def data_excursion_ok(self) -> bool:
        return self.data_excursion <= self.data_excursion_allowed

    @property
    def slope_excursion_ok(self) -> bool:
        return self.slope_excursion <= self.slope_excursion_allowed

    @property
    def band_ok(self) -> bool:
        """Clause 7.3.4: every value within +-10 % of the average."""
        return self.band_min <= min(self.values) and max(self.values) <= self.band_max

    @property
    def steady(self) -> bool:
        """Definition 2.1.24, a and b."""
        return self.average > 0 and self.data_excursion_ok and self.slope_excursion_ok

    @property
    def slope_percent(self) -> float:
        """Excursion of the fitted line over the window, percent of the average (7.3.4); nan for an average of 0."""
        return 100 * self.slope_excursion / self.average if self.average else nan

    @property
    def line(self) -> str:
        digits = 2 if abs(self.average) >= 10 else 5
        sign = "-" if self.intercept < 0 else "+"
        return f"y = {self.slope:+z,.{digits}f} x round {sign} {abs(self.intercept):,.{digits}f}"


def judge(values: Sequence[float], first_round: int, criteria: Criteria = STANDARD) -> Verdict:
    """Judge the values of consecutive rounds beginning with `first_round`; at least two, all finite."""
    count = len(values)
    if count < 2 or not all(isfinite(value) for value in values):
        raise ValueError(f"steady state needs at least two finite values, got {list(values)}")
    average = sum(values) / count
    rounds = [first_round + i for i in range(count)]
    centre = sum(rounds) / count
    sxx = sum((x - centre) ** 2 for x in rounds)
    sxy = sum((x - centre) * (y - average) for x, y in zip(rounds, values, strict=True))
    syy = sum((y - average) ** 2 for y in values)
    slope = sxy / sxx
    return Verdict(
        first_round=first_round,
        last_round=rounds[-1],
        values=tuple(values),
        average=average,
        data_excursion=max(values) - min(values),
        data_excursion_allowed=criteria.data_excursion * average,
        slope=slope,
        intercept=average - slope * centre,
        slope_excursion=abs(slope) * (count - 1),
        slope_excursion_allowed=criteria.slope_excursion * average,
        correlation=sxy / sqrt(sxx * syy) if syy > 0 else nan,
        band_min=(1 - BAND) * average,
        band_max=(1 + BAND) * average,
        criteria=criteria,
    )


def judge_last(values: Sequence[float], criteria: Criteria = STANDARD) -> Verdict | None:
    """Judge the window of the last values of rounds 1..len(values); None while there are too few."""
    if len(values) < criteria.window_rounds:
        return None
    return judge(values[-criteria.window_rounds :], len(values) - criteria.window_rounds + 1, criteria)
