"""Confidence levels and the response time histogram against every single latency."""

from __future__ import annotations

import random

import numpy as np
import pytest

from flashgauge.measurement import Measurement
from flashgauge.report.confidence import (
    BINS_PER_DECADE,
    confidence_figure,
    confidence_levels,
    confidence_section,
    level_name,
    share_of,
)
from flashgauge.report.formats import cell_text
from flashgauge.report.model import LineFigure, Table
from flashgauge.steps import Label, Measure, Stimulus, Stop
from report_data import cells
from report_runs import Answer, Samples, measured, percentile_ns, spread

STEP = Measure(
    Stimulus("random", ((4096, 1),), 0, thread_count=1, queue_depth=1), Stop(seconds=10.0), Label("histogram")
)


def made(reads: Samples, writes: Samples = (), late: int = 0) -> tuple[Measurement, np.ndarray]:
    """A measurement of 10 s, and all its latencies in ns, ascending."""
    answer = Answer(reads, writes, late=late)
    return measured(STEP, answer, 0, None), answer.latencies_ns


@pytest.fixture(scope="module")
def large() -> tuple[Measurement, np.ndarray]:
    """More than 10^6 I/Os, reads and writes, with a tail each."""
    source = random.Random(11)
    return made(spread(800_000, 90_000, source), spread(700_000, 40_000, source), late=1)


def levels_by_hand(latencies: np.ndarray, nines: int) -> dict[str, float]:
    expected = {"ART": latencies.mean()}
    expected |= {level_name(n): percentile_ns(latencies, n) for n in range(1, nines + 1)}
    return {**expected, "MRT": latencies.max()}


@pytest.mark.clause("9.3.6.2")
@pytest.mark.parametrize("nines", [3, 5, 6])
def test_levels_of_every_single_latency(large: tuple[Measurement, np.ndarray], nines: int) -> None:
    measurement, latencies = large
    shown = confidence_levels(measurement, nines=nines)
    rows = cells(shown)
    expected = levels_by_hand(latencies, max(nines, 5))
    assert list(rows) == ["IOPS", *expected], "never fewer than five nines"
    assert rows["IOPS"][0] == pytest.approx((len(latencies) - 1) / 10.0), "completed in the window: one was late"
    for name, value in expected.items():
        assert rows[name][1] == pytest.approx(value / 1e6, rel=1.001e-3), name
        # The samples lie farther apart than the histogram's resolution: the counts are exact.
        assert rows[name][2] == np.count_nonzero(latencies > value), name
    assert rows["MRT"][1:] == (latencies.max() / 1e6, 0)
    assert rows["ART"][1] == pytest.approx(latencies.mean() / 1e6, rel=1e-9)
    assert shown.notes == (f"I/Os in the histogram: {len(latencies):,}, in 10 s.",)
    assert not shown.marks


@pytest.mark.clause("9.3.6.2")
def test_counts_of_the_figure_add_up_to_the_ios(large: tuple[Measurement, np.ndarray]) -> None:
    measurement, latencies = large
    shown = confidence_figure("RT", measurement)
    (series,) = shown.series
    assert series.style == "steps"
    assert sum(series.y) == len(latencies) == measurement.ios
    assert series.y[0] == 0, "belongs to no bin"
    by_hand, _ = np.histogram(latencies / 1e6, bins=np.array(series.x))
    assert tuple(by_hand) == series.y[1:]
    assert np.diff(np.log10(series.x)) == pytest.approx(1 / BINS_PER_DECADE)
    assert 0 in series.y[1:], "empty bins are there too"
    assert series.x[0] <= latencies.min() / 1e6
    assert latencies.max() / 1e6 <= series.x[-1]
    assert (shown.x_log, shown.y_log, shown.x_title) == (True, True, "Response time, ms")


@pytest.mark.clause("9.3.6.2")
@pytest.mark.parametrize(("nines", "names"), [(5, []), (7, ["99.9999 %", "99.99999 %*"])])
def test_marks_of_the_figure(large: tuple[Measurement, np.ndarray], nines: int, names: list[str]) -> None:
    measurement, latencies = large
    shown = confidence_figure("RT", measurement, nines=nines)
    expected = levels_by_hand(latencies, nines)
    wanted = ["ART", "99.9 %", "99.99 %", "99.999 %", *names, "MRT"]
    assert [mark.label.split("  ")[0] for mark in shown.marks] == wanted
    for mark, name in zip(shown.marks, wanted, strict=True):
        assert mark.axis == "x"
        assert mark.at == pytest.approx(expected[name.removesuffix("*")] / 1e6, rel=1.001e-3)
        assert f"{mark.at:.3g}"[:3] in mark.label.split("  ")[1], "the value is in the label"
    assert shown.marks[-1].at == latencies.max() / 1e6
    assert shown.marks[-1].label.endswith(" ms")


@pytest.mark.parametrize("ios", [999, 1000, 9_999, 10_000, 99_999, 100_000])
def test_a_level_with_too_few_ios_is_marked(ios: int) -> None:
    measurement, latencies = made(((50_000, ios - 1), (9_000_000, 1)))
    shown = confidence_levels(measurement)
    marked = {str(shown.rows[i][0]) for i, j in shown.marks if j == 2}
    assert marked == {level_name(n) for n in range(1, 6) if ios < 10**n}
    for i, row in enumerate(shown.rows):
        if row[0] in marked:
            assert cell_text(shown, i, 2).endswith("*")
            assert row[1:] == ("", latencies.max() / 1e6, 0), "it is the slowest I/O itself"
    assert bool(marked) == any("slowest I/O itself" in note for note in shown.notes)


@pytest.mark.parametrize("slowest_ns", [1_000_001, 2_097_153, 77_777_777, 3])
def test_nothing_lies_beyond_the_maximum(slowest_ns: int) -> None:
    """The bucket of the slowest I/Os reaches beyond them."""
    measurement, _ = made(((2, 50), (slowest_ns, 200_000)))
    top_ns = measurement.histogram.buckets()[-1][0]
    assert top_ns >= slowest_ns
    rows = cells(confidence_levels(measurement))
    assert all(row[1] <= slowest_ns / 1e6 for name, row in rows.items() if name != "IOPS")
    assert rows["99.999 %"][1:] == (slowest_ns / 1e6, 0)
    shown = confidence_figure("RT", measurement)
    assert max(mark.at for mark in shown.marks) == slowest_ns / 1e6
    (series,) = shown.series
    assert series.x[-2] <= slowest_ns / 1e6 < series.x[-1], "the last bin is that of the slowest I/O"


@pytest.mark.parametrize("latency_ns", [1, 10, 100_000, 1_000_000])
def test_equal_latencies_are_one_bin(latency_ns: int) -> None:
    """Also on the edge of a bin, where a logarithm rounds either way."""
    measurement, _ = made(((latency_ns, 5),))
    (series,) = confidence_figure("RT", measurement).series
    assert (len(series.x), series.y) == (2, (0, 5))
    assert series.x[0] == pytest.approx(latency_ns / 1e6)
    assert cells(confidence_levels(measurement))["ART"][1:] == (latency_ns / 1e6, 0)


def test_random_histograms() -> None:
    source = random.Random(5)
    for _ in range(20):
        pairs = tuple((source.randint(1_000, 10**9), source.randint(1, 3000)) for _ in range(source.randint(1, 60)))
        measurement, latencies = made(pairs[::2], pairs[1::2])
        rows = cells(confidence_levels(measurement, nines=6))
        for name, value in levels_by_hand(latencies, 6).items():
            assert rows[name][1] == pytest.approx(value / 1e6, rel=1.001e-3)
        series = confidence_figure("RT", measurement).series[0]
        assert sum(series.y) == len(latencies)


def test_the_section_is_figure_and_table(large: tuple[Measurement, np.ndarray]) -> None:
    section = confidence_section("9-4", "RT CLP", "9.3.6.2", large[0], nines=6, notes=("RND 4 KiB",))
    figure, table = section.items
    assert isinstance(figure, LineFigure)
    assert isinstance(table, Table)
    assert (section.id, section.plot, section.layout) == ("plot-9-4", "9-4", "side")
    assert section.notes == ("RND 4 KiB",)
    assert table.name == "confidence"
    assert [row[0] for row in table.rows][-2:] == ["99.9999 %", "MRT"]
    assert figure.series[0].color != confidence_figure("RT", made(((1000, 10),))[0]).series[0].color, "of a R/W mix"


def test_without_ios_there_is_no_histogram() -> None:
    section = confidence_section("9-4", "RT CLP", "9.3.6.2", made(())[0], notes=("RND 4 KiB",))
    assert section.items == ()
    assert section.notes == ("RND 4 KiB", "No I/O was completed: there is no histogram.")


def test_names_of_the_levels() -> None:
    assert [level_name(n) for n in (1, 2, 3, 5, 9)] == ["90 %", "99 %", "99.9 %", "99.999 %", "99.9999999 %"]
    assert [share_of(n) for n in (1, 5, 9)] == [0.9, 0.99999, 0.999999999]
