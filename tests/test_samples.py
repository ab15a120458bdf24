"""Counters into shares of a window and of its intervals; the second way is in exact fractions."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flashgauge.measurement import HostSeries, HostUsage
from flashgauge.rig.samples import Sample, Window, series, usage

S = 1_000_000_000


def sample(at_s: float, busy: int, total: int, **more: float) -> Sample:
    """`busy` ticks are of the system, the rest idle."""
    facts = {"total_ticks": total, "system_ticks": busy, "iowait_ticks": 0, "idle_ticks": total - busy}
    return Sample(round(at_s * S), **{**facts, **more})  # type: ignore[arg-type]


def test_a_window_between_samples_gets_its_share() -> None:
    # 100 ticks a second on two CPUs; the system has none in the first two seconds and all of one CPU then.
    found = [sample(0, 0, 0), sample(2, 0, 400), sample(4, 200, 800)]
    got = usage(found, Window(S, 3 * S, S, 1))
    assert got.cpu_system_percent == pytest.approx(25.0)  # half of one second of two, of two CPUs
    assert got.cpu_busy_percent == pytest.approx(25.0)
    assert got.cpu_iowait_percent == 0


def test_energy_and_threads_of_a_window() -> None:
    found = [
        sample(10, 0, 0, energy_j=100.0, engine_ns=0, interrupts=5),
        sample(11, 0, 200, energy_j=104.0, engine_ns=2 * S, interrupts=105),
        sample(12, 0, 400, energy_j=112.0, engine_ns=3 * S, interrupts=505),
    ]
    got = usage(found, Window(round(10.5 * S), round(11.5 * S), S, 4))
    assert got.energy_j == pytest.approx(2 + 4)
    assert got.power_w == pytest.approx(6.0)
    assert got.engine_busy_percent == pytest.approx(100 * 1.5 / 4)
    assert got.interrupts == 50 + 200


def test_what_the_samples_do_not_cover_is_taken_to_be_like_the_rest() -> None:
    """A step that drained has no sample before its window."""
    found = [sample(2, 0, 0, energy_j=0.0, interrupts=0), sample(4, 100, 400, energy_j=20.0, interrupts=40)]
    got = usage(found, Window(S, 5 * S, S, 1))
    assert got.power_w == pytest.approx(10.0)
    assert got.energy_j == pytest.approx(40.0)
    assert got.interrupts == 80
    assert got.cpu_system_percent == pytest.approx(25.0)


@pytest.mark.parametrize(
    "found",
    [
        [],
        [sample(1, 0, 0)],
        [sample(5, 0, 0), sample(6, 1, 9)],  # all after the window
        [Sample(0), Sample(10 * S)],  # no source at all
        [sample(0, 0, 100), sample(4, 0, 100)],  # not one tick
    ],
)
def test_without_samples_or_ticks_nothing_is_known(found: list[Sample]) -> None:
    window = Window(S, 3 * S, S, 1)
    assert usage(found, window) == HostUsage()
    assert series(found, window) == HostSeries()


def test_iowait_that_runs_backwards_is_none() -> None:
    found = [Sample(0, 0, 0, 50, 0), Sample(2 * S, 400, 100, 40, 300)]
    assert usage(found, Window(0, 2 * S, S, 1)).cpu_iowait_percent == 0


def test_the_series_has_one_value_for_each_interval() -> None:
    found = [sample(at, 10 * at * at, 200 * at, energy_j=3.0 * at, interrupts=7 * at) for at in range(5)]
    got = series(
        found, Window(0, round(3.5 * S), S, 1), [(round(1.2 * S), 41.0), (round(3.4 * S), 42.0), (9 * S, 50.0)]
    )
    assert got.power_w == (3.0, 3.0, 3.0, 3.0)
    assert got.interrupts == (7, 7, 7, 4)
    assert got.cpu_system_percent == (5.0, 15.0, 25.0, 35.0)
    assert got.cpu_iowait_percent == (0.0, 0.0, 0.0, 0.0)
    assert got.temperature_c == (None, 41.0, None, 42.0)
    assert HostSeries.from_json(got.to_json()) == got


def test_a_single_interval_has_no_series() -> None:
    found = [sample(0, 0, 0), sample(2, 10, 400)]
    assert series(found, Window(0, S, S, 1)) == HostSeries()


counts = st.lists(st.tuples(st.integers(1, 2_000), st.integers(0, 300), st.integers(1, 300)), min_size=2, max_size=12)


@given(counts, st.integers(0, 8_000), st.integers(1, 6_000), st.integers(1, 1_500))
def test_intervals_add_up_to_the_window(steps: list[tuple[int, int, int]], start: int, length: int, each: int) -> None:
    """And both to what straight lines between the samples give, in exact fractions. Times are in ms."""
    at = busy = total = 0
    found = [sample(0, 0, 0, energy_j=0.0)]
    for ms, more_busy, more in steps:
        at, busy, total = at + ms, busy + more_busy, total + more_busy + more
        found.append(sample(at / 1000, busy, total, energy_j=float(total)))
    window = Window(start * 1_000_000, (start + length) * 1_000_000, each * 1_000_000, 1)

    def exact(ms: int) -> tuple[Fraction, Fraction]:
        ms = min(max(ms, 0), at)
        for first, last in pairwise(found):
            from_ms, to_ms = first.at_ns // 1_000_000, last.at_ns // 1_000_000
            if from_ms <= ms <= to_ms:
                share = Fraction(ms - from_ms, to_ms - from_ms)
                return tuple(  # type: ignore[return-value]
                    Fraction(a) + (b - a) * share
                    for a, b in ((first.system_ticks, last.system_ticks), (first.total_ticks, last.total_ticks))
                )
        raise AssertionError

    got = usage(found, window)
    end = start + length
    if start >= at:
        assert got == HostUsage()
        return
    spent = [b - a for a, b in zip(exact(start), exact(end), strict=True)]
    assert got.cpu_system_percent == pytest.approx(float(100 * spent[0] / spent[1]), abs=1e-6)
    covered_s = (min(end, at) - start) / 1000
    assert got.power_w == pytest.approx(float(spent[1]) / covered_s)
    parts = series(found, window)
    if parts.power_w:
        lengths = [min(each, end - begin) / 1000 for begin in range(start, end, each)]
        joules = sum(watts * seconds for watts, seconds in zip(parts.power_w, lengths, strict=True))
        assert joules == pytest.approx(float(spent[1]), abs=1e-3 * length)
