"""The report of the latency test against the journal, computed a second way; and what it says of every state."""

from __future__ import annotations

import math
import random
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pypdf
import pytest
from rich.console import Console

from flashgauge.disclosure import Kind
from flashgauge.measurement import HostUsage
from flashgauge.report import Report, build, show, write_csv, write_html, write_pdf
from flashgauge.report.formats import cell_text
from flashgauge.report.model import Table
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, IoStep
from report_data import cells, figure
from report_runs import Answer, Put, journal, labelled, latencies_ns, make_folder, mixed, percentile_ns, plots, rate
from report_runs import table_of as table

READS = (0, 65, 100)
BLOCKS = (512, 4 * KIB, 8 * KIB)
POINTS = [(read, block) for read in READS for block in BLOCKS]
METRICS = ("IOPS", "ART, ms", "99.999 %, merged, ms", "99.999 %, average of the rounds', ms", "MRT, ms")
PLOTS = ["9-1", "9-1", "9-2", "9-3", "9-4"]


class Drive:
    """Writes begin faster and settle; RND 4 KiB reads are many, so that each round has 100,000 I/Os."""

    def __init__(self, settle_rounds: float = 1.5, host: bool = True) -> None:
        self.settle_rounds, self.host, self.random = settle_rounds, host, random.Random(5)

    def __call__(self, step: IoStep) -> Answer:
        if step.label.purpose == "wipc":
            return mixed(step, 3000, self.random)
        block, share = step.stimulus.block_sizes[0][0], step.stimulus.read_percent / 100
        number = step.label.round or 99
        fresh = 1 + 1.5 * (1 - share) * math.exp(-(number - 1) / self.settle_rounds)
        iops = 900 * fresh * (2.4 if share == 1 else 1.0) * (0.8 if block == 8 * KIB else 1.0)
        host = HostUsage()
        if self.host:
            host = HostUsage(self.random.uniform(1, 3), self.random.uniform(4, 9), self.random.uniform(5, 7), 40.0)
        return mixed(step, iops * self.random.uniform(0.99, 1.01), self.random, host)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    """A complete run, steady after more than five rounds."""
    folder = tmp_path_factory.mktemp("lat") / "good"
    put = make_folder(folder, "lat", Drive())
    return folder, put, build(folder)


def steps_of(folder: Path, point: tuple[int, int]) -> list[dict[str, Any]]:
    """The journal's measurements of one point, round by round."""
    return labelled(journal(folder), purpose="round", read_percent=point[0], block_bytes=point[1])


def put_in(put: list[Put], point: tuple[int, int]) -> list[np.ndarray]:
    return latencies_ns(put, purpose="round", read_percent=point[0], block_bytes=point[1])


def art_ms(measurement: dict[str, Any]) -> float:
    read, write = measurement["read"], measurement["write"]
    return (read["latency_sum_ns"] + write["latency_sum_ns"]) / (read["ios"] + write["ios"]) / 1e6


def mrt_ms(measurement: dict[str, Any]) -> float:
    return max(measurement["read"]["latency_max_ns"], measurement["write"]["latency_max_ns"]) / 1e6


def name_of(point: tuple[int, int]) -> str:
    return f"RND {point[1] / KIB:g} KiB RW{point[0]}"


@pytest.mark.clause("9.3.3")
def test_convergence_shows_every_round_of_every_point(good: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = good
    last = len(steps_of(folder, (0, 4 * KIB)))
    assert last > 5
    for section, name, value in (("plot-9-1", "art", art_ms), ("plot-9-1-maximum", "mrt", mrt_ms)):
        shown = next(item for item in report.section(section).items if item.name == name)
        assert not isinstance(shown, Table)
        assert [series.name for series in shown.series] == [name_of(point) for point in POINTS]
        for point, series in zip(POINTS, shown.series, strict=True):
            assert series.x == tuple(range(1, last + 1))
            assert series.y == pytest.approx([value(m) for m in steps_of(folder, point)], rel=1e-12)
        assert shown.y_title == f"{name.upper()}, ms"
        (band,) = shown.bands
        assert (band.low, band.high, band.label) == (
            last - 4.3,
            last + 0.3,
            f"Measurement window: rounds {last - 4}-{last}",
        )
    (tracked,) = figure(report, "plot-9-1", 1).series
    assert tracked.name == "ART of RND 4 KiB RW0"
    assert tracked.y == pytest.approx([art_ms(m) for m in steps_of(folder, (0, 4 * KIB))], rel=1e-12)
    assert len({(s.color, s.marker) for s in figure(report, "plot-9-1").series}) == len(POINTS)


@pytest.mark.clause("9.3.4")
def test_verification(good: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = good
    every = np.array([art_ms(m) for m in steps_of(folder, (0, 4 * KIB))])
    values, rounds = every[-5:], np.arange(len(every) - 4, len(every) + 1)
    slope, intercept = np.polyfit(rounds, values, 1)
    average = values.mean()
    rows = cells(table(report, "plot-9-2", "determination"))
    assert rows["Measurement window, first round"][1] == rounds[0]
    assert rows["Measurement window, last round"][1] == rounds[-1]
    assert [rows[f"Round {n}"][1] for n in rounds] == pytest.approx(list(values))
    expected = {
        "Average in the window": ("", average),
        "Data excursion (max \N{MINUS SIGN} min), 20 % of average": (0.2 * average, np.ptp(values)),
        "Slope excursion over the window, 10 % of average": (0.1 * average, abs(slope) * 4),
        "Slope of the best linear fit (9.3.4)": (10.0, abs(slope) * 4 / average * 100),
        "Maximum, average + 10 % (9.3.4)": (1.1 * average, values.max()),
        "Minimum, average \N{MINUS SIGN} 10 % (9.3.4)": (0.9 * average, values.min()),
        "Best linear fit, slope": ("", slope),
        "Best linear fit, value at round 0": ("", intercept),
        "Correlation coefficient of the fit": ("", np.corrcoef(rounds, values)[0, 1]),
    }
    for quantity, (allowed, found) in expected.items():
        assert rows[quantity][0] == (allowed if allowed == "" else pytest.approx(allowed, rel=1e-9)), quantity
        assert rows[quantity][1] == pytest.approx(found, rel=1e-6), quantity
    assert rows["Average in the window"][2] == "ms"
    assert rows["Steady state (2.1.24)"][3] == "steady"
    assert report.section("plot-9-2").verdict is not None
    tabular = table(report, "plot-9-3", "")
    row = next(row for row in tabular.rows if row[:2] == ("ART, ms", "RW 0"))
    assert row[3] == rows["Average in the window"][1], "9-2 and 9-3 show one and the same average"


@pytest.mark.clause("9.3.5")
def test_window_plot(good: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = good
    values = np.array([art_ms(m) for m in steps_of(folder, (0, 4 * KIB))])[-5:]
    shown = figure(report, "plot-9-2")
    lines = {series.name: series for series in shown.series}
    assert lines["Measured, each round"].y == pytest.approx(values)
    assert lines["Average"].y == pytest.approx((values.mean(), values.mean()))
    assert (shown.bands[0].low, shown.bands[0].high) == pytest.approx((0.9 * values.mean(), 1.1 * values.mean()))
    assert shown.y_title == "ART, ms"


@pytest.mark.clause("9.3.6.1")
def test_tabular_data(good: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = good
    shown = table(report, "plot-9-3", "")
    assert shown == report.main
    assert [column.title for column in shown.columns] == ["Metric", "R/W", "0.5 KiB", "4 KiB", "8 KiB"]
    assert [row[:2] for row in shown.rows] == [(metric, f"RW {read}") for metric in METRICS for read in READS]
    found = {(row[0], row[1]): row[2:] for row in shown.rows}
    marked = set()
    for read, block in POINTS:
        steps, rounds = steps_of(folder, (read, block))[-5:], put_in(put, (read, block))[-5:]
        together = np.sort(np.concatenate(rounds))
        expected = (
            np.mean([rate(m) for m in steps]),
            np.mean([art_ms(m) for m in steps]),
            percentile_ns(together, 5) / 1e6,
            np.mean([percentile_ns(latencies, 5) for latencies in rounds]) / 1e6,
            max(mrt_ms(m) for m in steps),
        )
        j = BLOCKS.index(block)
        for metric, value in zip(METRICS, expected, strict=True):
            tolerance = 1.001e-3 if metric.startswith("99.999") else 1e-9
            assert found[metric, f"RW {read}"][j] == pytest.approx(value, rel=tolerance), (metric, read, block)
        assert found["MRT, ms", f"RW {read}"][j] == together.max() / 1e6
        if len(together) < 100_000:
            marked.add((6 + READS.index(read), j + 2))
        if any(len(latencies) < 100_000 for latencies in rounds):
            marked.add((9 + READS.index(read), j + 2))
    assert shown.marks == marked
    assert marked, "the example has rounds with few I/Os"
    assert len(marked) < 2 * len(POINTS), "and others with enough"
    assert any("100,000" in note for note in shown.notes)
    assert cell_text(shown, 9, 3).endswith("*")


def test_ios_and_host_behind_the_figures(good: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = good
    shown = table(report, "plot-9-3", "secondary")
    found = {(row[0], row[1]): row[2:] for row in shown.rows}
    for read, block in POINTS:
        steps = steps_of(folder, (read, block))[-5:]
        expected = {
            "I/Os behind the response times": sum(m["read"]["ios"] + m["write"]["ios"] for m in steps),
            "CPU System Usage, %": np.mean([m["host"]["cpu_system_percent"] for m in steps]),
            "CPU IO Wait, %": np.mean([m["host"]["cpu_iowait_percent"] for m in steps]),
            "Average power, mW": np.mean([m["host"]["power_w"] for m in steps]) * 1e3,
        }
        for name, value in expected.items():
            assert found[name, f"RW {read}"][BLOCKS.index(block)] == pytest.approx(value), (name, read, block)
    assert len(found) == 4 * len(READS)
    assert cell_text(shown, 0, 2).replace(",", "").isdigit(), "I/Os are whole numbers"


class OneSlowRound(Drive):
    """100,000 I/Os a round at RND 4 KiB RW0, of which three are slow, in one round only."""

    def __call__(self, step: IoStep) -> Answer:
        label = step.label
        if (label.purpose, label.read_percent, label.block_bytes) != ("round", 0, 4 * KIB):
            return super().__call__(step)
        slow = 3 if label.round == 3 else 0
        return Answer(writes=((100_000, 100_000 - slow), *(((50_000_000, slow),) if slow else ())))


@pytest.mark.clause("9.3.6.1")
def test_five_nines_averaged_and_merged_are_not_the_same(tmp_path: Path) -> None:
    make_folder(tmp_path / "run", "lat", OneSlowRound())
    report = build(tmp_path / "run")
    shown = table(report, "plot-9-3", "")
    found = {(row[0], row[1]): row[3] for row in shown.rows}
    # Of one round's 100,000 the one slowest is left out, of all 500,000 the five slowest.
    averaged = found["99.999 %, average of the rounds', ms", "RW 0"]
    merged = found["99.999 %, merged, ms", "RW 0"]
    assert averaged == pytest.approx((4 * 0.1 + 50) / 5, rel=1e-3)
    assert merged == pytest.approx(0.1, rel=1e-3)
    assert found["MRT, ms", "RW 0"] == 50.0
    assert not {(6, 3), (9, 3)} & shown.marks, "100,000 are just enough"
    assert any("the standard averages" in note for note in report.section("plot-9-3").notes)


@pytest.mark.clause("9.3.6.2")
def test_confidence_level_plot(good: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = good
    section = report.section("plot-9-4")
    (measurement,) = labelled(journal(folder), purpose="histogram")
    (latencies,) = latencies_ns(put, purpose="histogram")
    assert measurement["window_ns"] == 1200 * 10**9
    assert sum(figure(report, section.id).series[0].y) == len(latencies)
    rows = cells(table(report, section.id, "confidence"))
    assert rows["IOPS"][0] == pytest.approx(rate(measurement))
    assert rows["ART"][1] == pytest.approx(latencies.mean() / 1e6)
    assert rows["99.999 %"][1] == pytest.approx(percentile_ns(latencies, 5) / 1e6, rel=1.001e-3)
    assert rows["MRT"][1:] == (latencies.max() / 1e6, 0)
    for name in list(rows)[1:]:
        value = latencies.mean() if name == "ART" else percentile_ns(latencies, name.count("9"))
        if name != "MRT":
            assert rows[name][2] == np.count_nonzero(latencies > value), name
    facts = section.notes[0]
    assert facts.startswith(f"RND 4 KiB RW0, TC 1 / QD 1, {rate(measurement):,.1f} IOPS.")
    host = measurement["host"]
    assert f"CPU System Usage {host['cpu_system_percent']:.2f} %" in facts
    assert f"Average power {host['power_w'] * 1e3:,.0f} mW" in facts
    assert "Not measured" not in facts


@pytest.mark.clause("9.2.3.3.3")
def test_more_nines_are_shown_when_asked_for(tmp_path: Path) -> None:
    settings: dict[str, object] = {"nines": 6, "point_s": 2, "max_rounds": 5, "histogram_s": 10}
    put = make_folder(tmp_path / "run", "lat", Drive(settle_rounds=0.2), settings=settings)
    report = build(tmp_path / "run")
    (latencies,) = latencies_ns(put, purpose="histogram")
    assert len(latencies) >= 10**6
    shown = table(report, "plot-9-4", "confidence")
    assert cells(shown)["99.9999 %"][1] == pytest.approx(percentile_ns(latencies, 6) / 1e6, rel=1.001e-3)
    assert not shown.marks
    assert "99.9999 %" in {mark.label.split("  ")[0] for mark in figure(report, "plot-9-4").marks}


def test_key_numbers(good: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = good
    key = next(t for t in report.summary if t.name == "key-numbers")
    for row, read in zip(key.rows, READS, strict=False):
        steps, rounds = steps_of(folder, (read, 4 * KIB))[-5:], put_in(put, (read, 4 * KIB))[-5:]
        together = np.sort(np.concatenate(rounds))
        assert row[0] == f"4 KiB, R/W {read}/{100 - read}"
        assert row[1] == pytest.approx(np.mean([rate(m) for m in steps]))
        assert row[2] == pytest.approx(np.mean([art_ms(m) for m in steps]))
        assert row[3] == pytest.approx(percentile_ns(together, 5) / 1e6, rel=1.001e-3)
        assert row[4] == together.max() / 1e6
    (measurement,) = labelled(journal(folder), purpose="histogram")
    (latencies,) = latencies_ns(put, purpose="histogram")
    last = key.rows[-1]
    assert (len(key.rows), last[0]) == (4, "4 KiB, R/W 0/100, histogram of 1,200 s")
    assert last[1:3] == (pytest.approx(rate(measurement)), pytest.approx(latencies.mean() / 1e6))
    assert last[3] == pytest.approx(percentile_ns(latencies, 5) / 1e6, rel=1.001e-3)
    assert last[4] == latencies.max() / 1e6


@pytest.mark.clause("A")
def test_header(good: tuple[Path, list[Put], Report], tmp_path: Path) -> None:
    folder, _, report = good
    last = len(steps_of(folder, (0, 4 * KIB)))
    assert report.header.test_name == "Latency Test - Report Page"
    set_up, test = (dict(block.fields) for block in report.header.blocks[2:])
    assert (set_up["Pre Condition 1"], set_up["Pre Condition 2"]) == ("SEQ 128 KiB W", "LAT Loop")
    assert set_up["TOIO - TC/QD"] == test["TOIO - TC/QD"] == "TC 1 / QD 1"
    assert set_up["SS Rounds"] == f"{last - 4} - {last}"
    assert test["Steady State"] == f"{last - 4} - {last} (rounds run: {last})"
    assert (test["Test Stimulus 2"], test["Duration"]) == ("RND 4 KiB RW0, histogram", "1,200 s")
    client = tmp_path / "client"
    make_folder(client, "lat", Drive(), device_class=DeviceClass.CLIENT, steps=11)
    blocks = build(client).header.blocks
    assert (dict(blocks[2].fields)["AR"], dict(blocks[3].fields)["AR & Amount"]) == ("75 %", "75 %")


def test_every_plot_is_there(good: tuple[Path, list[Put], Report]) -> None:
    report = good[2]
    assert plots(report) == PLOTS
    assert len({section.id for section in report.sections}) == len(report.sections)
    assert report.status.startswith("steady state reached, measurement window rounds ")
    assert (report.valid, report.steady) == (True, True)


# States of a run


def rendered(report: Report, folder: Path) -> str:
    """Through every renderer; the text of the PDF."""
    write_html(report, folder / "report.html")
    write_csv(report, folder / "csv")
    show(report, Console(file=StringIO(), width=80))
    write_pdf(report, folder / "report.pdf")
    return "".join(page.extract_text() for page in pypdf.PdfReader(folder / "report.pdf").pages)


def cut_at(path: Path, rounds: float, drive: Drive | None = None) -> Report:
    """The report of a run that stops after so many rounds."""
    folder = path / f"cut-{rounds}"
    make_folder(folder, "lat", drive or Drive(settle_rounds=0.2), steps=1 + round(9 * rounds))
    return build(folder)


def test_before_the_first_round(tmp_path: Path) -> None:
    report = cut_at(tmp_path, 0.5)
    assert plots(report) == []
    assert report.status == "incomplete: 0 complete rounds, steady state not established"
    assert "Too little was measured" in rendered(report, tmp_path)


def test_one_round(tmp_path: Path) -> None:
    report = cut_at(tmp_path, 1)
    assert plots(report) == PLOTS
    assert report.section("plot-9-2").items == report.section("plot-9-4").items == ()
    assert "Only round 1" in report.section("plot-9-3").notes[0]
    assert "not completed" in report.section("plot-9-4").notes[0]
    assert dict(report.header.blocks[3].fields)["Duration"] == "not completed"
    assert report.status == "incomplete: 1 complete round, steady state not established"
    rendered(report, tmp_path)


@pytest.mark.clause("9.3")
def test_interrupted_in_a_round(tmp_path: Path) -> None:
    report = cut_at(tmp_path, 2 + 4 / 9)
    assert "Only rounds 1-2" in report.section("plot-9-3").notes[0]
    assert any("4 of 9 points" in note for note in report.section("plot-9-1").notes)
    assert cells(table(report, "plot-9-2", "determination"))["Steady state (2.1.24)"][3] == "not judged"
    assert dict(report.header.blocks[3].fields)["Steady State"] == "not reached (rounds run: 2)"
    assert report.banner is not None
    rendered(report, tmp_path)


def test_interrupted_in_the_histogram(good: tuple[Path, list[Put], Report], tmp_path: Path) -> None:
    rounds = len(steps_of(good[0], (0, 4 * KIB)))
    report = cut_at(tmp_path, rounds, Drive())
    window = f"{rounds - 4} - {rounds}"
    assert (
        report.status
        == f"incomplete: steady state reached, measurement window rounds {window}; the histogram is missing"
    )
    assert report.section("plot-9-4").items == ()
    assert report.section("plot-9-2").verdict is not None
    assert len(next(t for t in report.summary if t.name == "key-numbers").rows) == 3
    rendered(report, tmp_path)


@pytest.mark.clause("9.3")
def test_not_steady(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    put = make_folder(folder, "lat", Drive(settle_rounds=6), settings={"max_rounds": 6})
    report = build(folder)
    assert report.complete
    assert report.status == "steady state NOT reached in 6 rounds; figures are of rounds 2 - 6"
    assert Kind.STEADY_STATE_NOT_REACHED in {disclosure.kind for disclosure in report.disclosures}
    row = next(row for row in table(report, "plot-9-3", "").rows if row[:2] == ("ART, ms", "RW 0"))
    assert row[3] == pytest.approx(np.mean([latencies.mean() for latencies in put_in(put, (0, 4 * KIB))[1:6]]) / 1e6)
    assert figure(report, "plot-9-1").bands[0].label == "Reported: rounds 2-6"
    assert cells(table(report, "plot-9-2", "determination"))["Steady state (2.1.24)"][3] == "NOT steady"
    rendered(report, tmp_path)


def test_without_a_source_nothing_is_invented(tmp_path: Path) -> None:
    make_folder(tmp_path / "run", "lat", Drive(host=False))
    report = build(tmp_path / "run")
    rows = {row[0]: row[1:] for row in table(report, "plot-9-3", "secondary").rows}
    for name in ("CPU System Usage, %", "CPU IO Wait, %", "Average power, mW"):
        assert rows[name] == ("all", "not measured", "not measured", "not measured")
    assert "Not measured: CPU System Usage, CPU IO Wait, Average power." in report.section("plot-9-4").notes[0]
    conduct = cells(table(report, "run-details", "conduct"))
    assert conduct["Not measured"] == ("CPU System Usage, CPU IO Wait, Average power",)
    assert "not measured" in rendered(report, tmp_path)


def test_a_histogram_with_few_ios_is_marked(tmp_path: Path) -> None:
    settings: dict[str, object] = {"point_s": 1, "max_rounds": 5, "histogram_s": 20}
    make_folder(tmp_path / "run", "lat", Drive(), settings=settings)
    report = build(tmp_path / "run")
    shown = table(report, "plot-9-4", "confidence")
    assert {str(shown.rows[i][0]) for i, _ in shown.marks} == {"99.999 %"}
    assert "99.999 %*" in {mark.label.split("  ")[0] for mark in figure(report, "plot-9-4").marks}
    assert Kind.FEW_IOS in {disclosure.kind for disclosure in report.disclosures}
    assert (3, 3) in next(t for t in report.summary if t.name == "key-numbers").marks


def test_a_drive_that_does_nothing(tmp_path: Path) -> None:
    make_folder(tmp_path / "run", "lat", lambda step: Answer(), settings={"max_rounds": 5})
    report = build(tmp_path / "run")
    assert "NOT reached" in report.status
    assert {row[2:] for row in table(report, "plot-9-3", "").rows if row[0] != "IOPS"} == {(None, None, None)}
    assert any("No I/O was completed" in note for note in report.section("plot-9-4").notes)
    rendered(report, tmp_path)
