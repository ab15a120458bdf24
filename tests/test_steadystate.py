"""Steady state against numpy and exact fractions, on both sides of each limit."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgauge.steadystate import Verdict, judge, judge_last

iops = st.floats(min_value=1.0, max_value=1e7, allow_nan=False)
windows = st.lists(iops, min_size=5, max_size=5)


def exact(values: list[float], first_round: int) -> dict[str, Fraction]:
    """The definition's figures in exact arithmetic, by the textbook formulas rather than centred sums."""
    ys = [Fraction(value) for value in values]
    xs = [Fraction(first_round + i) for i in range(len(ys))]
    n = len(ys)
    slope = (n * sum(x * y for x, y in zip(xs, ys, strict=True)) - sum(xs) * sum(ys)) / (
        n * sum(x * x for x in xs) - sum(xs) ** 2
    )
    return {"average": sum(ys) / n, "range": max(ys) - min(ys), "slope": slope, "rise": abs(slope) * (n - 1)}


@pytest.mark.clause("2.1.24")
@given(windows, st.integers(min_value=1, max_value=21))
def test_figures_are_those_of_exact_arithmetic(values: list[float], first_round: int) -> None:
    verdict, truth = judge(values, first_round), exact(values, first_round)
    scale = float(truth["average"])
    assert verdict.average == pytest.approx(scale, rel=1e-12)
    assert verdict.data_excursion == pytest.approx(float(truth["range"]), abs=1e-9 * scale)
    assert verdict.slope_excursion == pytest.approx(float(truth["rise"]), abs=1e-9 * scale)
    near_limit = any(
        abs(truth[name] / truth["average"] - limit) < Fraction(1, 10**9)
        for name, limit in (("range", Fraction(1, 5)), ("rise", Fraction(1, 10)))
    )
    if not near_limit:
        steady = truth["range"] <= truth["average"] / 5 and truth["rise"] <= truth["average"] / 10
        assert verdict.steady is bool(steady)


@pytest.mark.clause("7.3.4")
@given(windows, st.integers(min_value=1, max_value=21))
def test_line_is_that_of_numpy_polyfit(values: list[float], first_round: int) -> None:
    verdict = judge(values, first_round)
    rounds = np.arange(first_round, first_round + 5)
    slope, intercept = np.polyfit(rounds, values, 1)
    scale = max(values)
    assert verdict.slope == pytest.approx(slope, abs=1e-7 * scale)
    assert verdict.intercept == pytest.approx(intercept, abs=1e-6 * scale * (1 + first_round))
    if np.std(values) > 1e-6 * scale:
        assert verdict.correlation == pytest.approx(np.corrcoef(rounds, values)[0, 1], abs=1e-6)


@pytest.mark.clause("2.1.24")
@pytest.mark.parametrize(
    ("values", "data_ok", "slope_ok", "band_ok"),
    [
        ([100, 100, 100, 100, 100], True, True, True),
        # Range just within and just over 20 % of the average, symmetric in time so that the line is flat.
        ([90, 110, 100, 110, 90], True, True, True),
        ([89.9, 110, 100, 110.1, 90], False, True, False),
        # A straight ramp: range and rise are equal, so only the 10 % limit of the line can fail.
        ([95, 97.5, 100, 102.5, 105], True, True, True),
        ([94.9, 97.45, 100, 102.55, 105.1], True, False, True),
        # One value 11.2 % above: the range is within 20 %, the band of 7.3.4 is not kept.
        ([98, 98, 114, 98, 104.5], True, True, False),
    ],
)
def test_both_sides_of_each_limit(values: list[float], data_ok: bool, slope_ok: bool, band_ok: bool) -> None:
    verdict = judge(values, 3)
    assert (verdict.data_excursion_ok, verdict.slope_excursion_ok, verdict.band_ok) == (data_ok, slope_ok, band_ok)
    assert verdict.steady is (data_ok and slope_ok)
    assert (verdict.first_round, verdict.last_round) == (3, 7)


def test_a_device_that_does_nothing_is_not_steady() -> None:
    verdict = judge([0.0] * 5, 1)
    assert not verdict.steady
    assert math.isnan(verdict.slope_percent)


def test_slow_ramp_after_low_over_provisioning_can_pass_early() -> None:
    """WA 4.46, 6.04, 7.35, 7.60 at 3, 4, 6 and more drive writes: rates fall 11 % a round, and five rounds of that
    fail on the range; the settled ones pass."""
    falling = [1 / wa for wa in (4.46, 5.3, 6.04, 6.8, 7.35)]
    assert not judge(falling, 3).steady
    assert judge([1 / wa for wa in (7.35, 7.5, 7.58, 7.6, 7.6)], 6).steady


def test_window_is_the_last_five_rounds() -> None:
    assert judge_last([1.0] * 4) is None
    verdict = judge_last([500.0, 100.0, 100.0, 100.0, 100.0, 100.0])
    assert isinstance(verdict, Verdict)
    assert (verdict.first_round, verdict.last_round, verdict.steady) == (2, 6, True)


@pytest.mark.parametrize("values", [[], [1.0], [1.0, math.nan], [1.0, math.inf]])
def test_what_cannot_be_judged_is_an_error(values: list[float]) -> None:
    with pytest.raises(ValueError, match="finite"):
        judge(values, 1)


def test_line_formula_reads_as_an_equation() -> None:
    assert judge([100.0, 101.0, 102.0, 103.0, 104.0], 1).line == "y = +1.00 x round + 99.00"
    assert judge([-1.0, 0.0, 1.0, 2.0, 3.0], 2).line == "y = +1.00000 x round - 3.00000"
