"""The report of the throughput test against the journal, computed a second way; and what it says of every state."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from io import StringIO
from pathlib import Path

import numpy as np
import pypdf
import pytest
from rich.console import Console

from flashgauge.disclosure import Kind
from flashgauge.measurement import HostUsage
from flashgauge.report import Report, build, show, write_csv, write_html, write_pdf
from flashgauge.report.formats import cell_text
from flashgauge.report.model import Bars
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, IoStep
from report_data import cells, figure
from report_runs import Answer, Put, journal, labelled, latencies_ns, make_folder, mixed, percentile_ns, plots, rate
from report_runs import table_of as table

SIZES = (1024, 128)
READS = (0, 100)
POINTS = [(kib, read) for kib in SIZES for read in READS]
PLOTS = ["8-1", "8-2", "8-3.1", "8-3.2", "8-3.3", "8-3.4", "8-4", "8-5", "8-6", "8-7"]


class Drive:
    """Writes begin faster and settle: 1024 KiB within `settle_rounds`, 128 KiB in half of them."""

    def __init__(self, settle_rounds: float = 4.0, host: bool = True) -> None:
        self.settle_rounds, self.host, self.random = settle_rounds, host, random.Random(3)

    def __call__(self, step: IoStep) -> Answer:
        kib = step.stimulus.block_sizes[0][0] / KIB
        if step.label.round is None:
            return mixed(step, 2000, self.random)
        settle = self.settle_rounds * (1.0 if kib == 1024 else 0.5)
        fresh = 1 + 1.2 * math.exp(-(step.label.round - 1) / settle)
        mb_per_s = 520.0 if step.stimulus.read_percent else 430.0 * fresh
        mb_per_s *= self.random.uniform(0.98, 1.02)
        host = HostUsage()
        if self.host:
            host = HostUsage(self.random.uniform(1, 3), self.random.uniform(4, 9), self.random.uniform(5, 7), 40.0)
        return mixed(step, mb_per_s * 1e6 / (kib * KIB), self.random, host)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    """A complete run, both block sizes steady, each after its own number of rounds."""
    folder = tmp_path_factory.mktemp("tp") / "good"
    put = make_folder(folder, "tp", Drive())
    return folder, put, build(folder)


def steps_of(folder: Path, kib: int, read: int) -> list[dict]:
    """The journal's measurements of one point, round by round."""
    return labelled(journal(folder), purpose="round", block_bytes=kib * KIB, read_percent=read)


def mb_per_s(folder: Path, kib: int, read: int) -> np.ndarray:
    return np.array([rate(m, "window_bytes") / 1e6 for m in steps_of(folder, kib, read)])


@pytest.mark.clause("8.3.3")
@pytest.mark.clause("8.3.4")
@pytest.mark.parametrize(("plot", "read"), [("8-1", 0), ("8-2", 100)])
def test_convergence_shows_every_round_of_both_block_sizes(
    good: tuple[Path, list[Put], Report], plot: str, read: int
) -> None:
    folder, _, report = good
    shown = figure(report, f"plot-{plot}")
    assert [series.name for series in shown.series] == ["SEQ 1024 KiB", "SEQ 128 KiB"]
    for kib, series in zip(SIZES, shown.series, strict=True):
        expected = mb_per_s(folder, kib, read)
        assert series.y == pytest.approx(expected, rel=1e-12)
        assert series.x == tuple(range(1, len(expected) + 1))
    assert len(shown.series[0].x) != len(shown.series[1].x), "each size is a test of its own, with its own rounds"
    assert (shown.x_title, shown.y_title, shown.y_name) == ("Round", "MB/s", "mb_per_s")
    windows = {(band.low, band.high) for band in shown.bands}
    assert windows == {(len(series.x) - 4.3, len(series.x) + 0.3) for series in shown.series}
    assert all("measurement window" in band.label for band in shown.bands)
    assert len({series.color for series in shown.series}) == len({series.marker for series in shown.series}) == 2


@pytest.mark.clause("8.2.2.4.1.5")
def test_the_report_says_that_the_sequence_goes_on(good: tuple[Path, list[Put], Report]) -> None:
    assert any("goes on from step to step" in note for note in good[2].section("plot-8-1").notes)


@pytest.mark.clause("8.3.5")
@pytest.mark.parametrize(("number", "point"), list(enumerate(POINTS, 1)))
def test_verification(good: tuple[Path, list[Put], Report], number: int, point: tuple[int, int]) -> None:
    folder, _, report = good
    kib, read = point
    every = mb_per_s(folder, kib, read)
    values, rounds = every[-5:], np.arange(len(every) - 4, len(every) + 1)
    slope, intercept = np.polyfit(rounds, values, 1)
    average = values.mean()
    section = report.section(f"plot-8-3-{number}")
    assert section.title.endswith(f"SEQ {kib} KiB RW{read}")
    rows = cells(table(report, section.id, "determination"))
    assert (rows["Measurement window, first round"][1], rows["Measurement window, last round"][1]) == (
        rounds[0],
        rounds[-1],
    )
    assert [rows[f"Round {n}"][1] for n in rounds] == pytest.approx(list(values))
    expected = {
        "Average in the window": ("", average),
        "Data excursion (max \N{MINUS SIGN} min), 20 % of average": (0.2 * average, np.ptp(values)),
        "Slope excursion over the window, 10 % of average": (0.1 * average, abs(slope) * 4),
        "Slope of the best linear fit (8.3.5)": (10.0, abs(slope) * 4 / average * 100),
        "Maximum, average + 10 % (8.3.5)": (1.1 * average, values.max()),
        "Minimum, average \N{MINUS SIGN} 10 % (8.3.5)": (0.9 * average, values.min()),
        "Best linear fit, slope": ("", slope),
        "Best linear fit, value at round 0": ("", intercept),
        "Correlation coefficient of the fit": ("", np.corrcoef(rounds, values)[0, 1]),
    }
    for quantity, (allowed, found) in expected.items():
        assert rows[quantity][0] == (allowed if allowed == "" else pytest.approx(allowed, rel=1e-9)), quantity
        assert rows[quantity][1] == pytest.approx(found, rel=1e-6), quantity
    assert rows["Average in the window"][2] == "MB/s"
    assert rows["Steady state (2.1.24)"][3] == "steady"
    assert section.verdict is not None
    said = any("dependent variable of 8.3.5" in note for note in section.notes)
    assert said == (read == 0), "the standard verifies by the writes, and the page says which they are"


@pytest.mark.clause("8.3.6")
@pytest.mark.parametrize(("number", "point"), list(enumerate(POINTS, 1)))
def test_window_plots(good: tuple[Path, list[Put], Report], number: int, point: tuple[int, int]) -> None:
    folder, _, report = good
    values = mb_per_s(folder, *point)[-5:]
    shown = figure(report, f"plot-8-3-{number}")
    lines = {series.name: series for series in shown.series}
    assert lines["Measured, each round"].y == pytest.approx(values)
    assert lines["Average"].y == pytest.approx((values.mean(), values.mean()))
    assert (shown.bands[0].low, shown.bands[0].high) == pytest.approx((0.9 * values.mean(), 1.1 * values.mean()))
    assert shown.y_title == "MB/s"


@pytest.mark.clause("8.3.7.1")
@pytest.mark.parametrize(("plot", "kib"), [("8-4", 1024), ("8-5", 128)])
def test_tabular_data_is_the_average_of_five_rounds(good: tuple[Path, list[Put], Report], plot: str, kib: int) -> None:
    folder, _, report = good
    section = report.section(f"plot-{plot}")
    shown = table(report, section.id, "")
    assert section.title.endswith(f"SEQ {kib} KiB")
    assert [column.title for column in shown.columns] == ["Block Size (KiB)", "0/100", "100/0"]
    assert shown.rows == ((str(kib), *(pytest.approx(mb_per_s(folder, kib, read)[-5:].mean()) for read in READS)),)
    each = table(report, section.id, "rounds")
    last = len(mb_per_s(folder, kib, 0))
    assert [row[0] for row in each.rows] == [str(n) for n in range(last - 4, last + 1)]
    for column, read in enumerate(READS, 1):
        assert [row[column] for row in each.rows] == pytest.approx(list(mb_per_s(folder, kib, read)[-5:]))


def test_the_main_table_has_both_block_sizes(good: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = good
    assert report.main is not None
    for row, kib in zip(report.main.rows, SIZES, strict=True):
        assert row == (str(kib), *(pytest.approx(mb_per_s(folder, kib, read)[-5:].mean()) for read in READS))


@pytest.mark.clause("8.3.7.3")
@pytest.mark.parametrize(("plot", "kib"), [("8-6", 1024), ("8-7", 128)])
def test_measurement_plots(good: tuple[Path, list[Put], Report], plot: str, kib: int) -> None:
    folder, _, report = good
    (shown,) = report.section(f"plot-{plot}").items
    assert isinstance(shown, Bars)
    assert (shown.categories, shown.y_title) == (("0/100", "100/0"), "MB/s")
    (bars,) = shown.series
    assert bars.values == tuple(pytest.approx(mb_per_s(folder, kib, read)[-5:].mean()) for read in READS)


def test_secondary_metrics(good: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = good
    shown = table(report, "secondary-metrics", "secondary")
    assert [column.title for column in shown.columns[1:]] == [f"{kib} KiB, {read}/{100 - read}" for kib, read in POINTS]
    rows = cells(shown)
    marked = set()
    for j, (kib, read) in enumerate(POINTS):
        steps = steps_of(folder, kib, read)[-5:]
        every = np.sort(
            np.concatenate(latencies_ns(put, purpose="round", block_bytes=kib * KIB, read_percent=read)[-5:])
        )
        expected = {
            "MB/s": np.mean([rate(m, "window_bytes") / 1e6 for m in steps]),
            "IOPS": np.mean([rate(m) for m in steps]),
            "ART, ms": every.mean() / 1e6,
            "99.999 % response time, ms": percentile_ns(every, 5) / 1e6,
            "MRT, ms": every.max() / 1e6,
            "I/Os behind the response times": len(every),
            "Average power, mW": np.mean([m["host"]["power_w"] for m in steps]) * 1e3,
            "CPU System Usage, %": np.mean([m["host"]["cpu_system_percent"] for m in steps]),
            "CPU IO Wait, %": np.mean([m["host"]["cpu_iowait_percent"] for m in steps]),
        }
        assert list(rows) == list(expected)
        for name, value in expected.items():
            tolerance = 1.001e-3 if name.startswith("99.999") else 1e-9
            assert rows[name][j] == pytest.approx(value, rel=tolerance), (name, kib, read)
        if len(every) < 100_000:
            marked.add((list(rows).index("99.999 % response time, ms"), j + 1))
    assert shown.marks == marked
    assert cell_text(shown, 5, 1).replace(",", "").isdigit(), "I/Os are whole numbers"


@pytest.mark.clause("2.4.1")
def test_key_numbers_are_the_window_s(good: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = good
    key = next(t for t in report.summary if t.name == "key-numbers")
    for row, (kib, read) in zip(key.rows, POINTS, strict=True):
        steps = steps_of(folder, kib, read)[-5:]
        every = np.sort(
            np.concatenate(latencies_ns(put, purpose="round", block_bytes=kib * KIB, read_percent=read)[-5:])
        )
        assert row[0] == f"{kib} KiB, R/W {read}/{100 - read}"
        assert row[1] == pytest.approx(np.mean([rate(m, "window_bytes") / 1e6 for m in steps]))
        assert row[2] == pytest.approx(np.mean([rate(m) for m in steps]))
        assert row[1] == pytest.approx(float(row[2] or 0) * kib * 1024 / 1e6), "MB of 10^6 bytes, blocks of 1024"
        assert row[3] == pytest.approx(every.mean() / 1e6)
        assert row[4] == pytest.approx(percentile_ns(every, 5) / 1e6, rel=1.001e-3)
        assert row[5] == every.max() / 1e6
    verdicts = next(t for t in report.summary if t.name == "steady-state")
    assert [row[0] for row in verdicts.rows] == [f"SEQ {kib} KiB RW{read}" for kib, read in POINTS]
    assert {row[-1] for row in verdicts.rows} == {"steady"}


@pytest.mark.clause("A")
def test_header(good: tuple[Path, list[Put], Report], tmp_path: Path) -> None:
    folder, _, report = good
    header = report.header
    assert header.title == "TP - SEQ 1024 KiB & SEQ 128 KiB"
    assert header.test_name == "Throughput Test - Report Page"
    set_up, test = header.blocks[2].fields, header.blocks[3].fields
    rounds = {kib: len(mb_per_s(folder, kib, 0)) for kib in SIZES}
    windows = {kib: f"{last - 4} - {last}" for kib, last in rounds.items()}
    assert dict(set_up)["Pre Condition 1"] == "SEQ 128 / 1024 KiB W"
    assert dict(set_up)["Duration"] == "2 x User Capacity, each"
    assert dict(set_up)["SS Rounds"] == f"128 KiB: {windows[128]}; 1024 KiB: {windows[1024]}"
    assert dict(set_up)["AR"] == "100 %"
    assert [value for name, value in test if name.startswith("TOIO")] == ["TC 1 / QD 32"] * 2
    steady = [f"{windows[kib]} (rounds run: {rounds[kib]})" for kib in (128, 1024)]
    assert [value for name, value in test if name == "Steady State"] == steady
    assert dict(test)["RW Mix"] == "100/0, 0/100; 60 s each"
    client = tmp_path / "client"
    make_folder(client, "tp", Drive(), device_class=DeviceClass.CLIENT, steps=4)
    blocks = build(client).header.blocks
    assert (dict(blocks[2].fields)["AR"], dict(blocks[3].fields)["AR & Amount"]) == ("75 %", "75 %")


def test_every_plot_is_there(good: tuple[Path, list[Put], Report]) -> None:
    report = good[2]
    assert plots(report) == PLOTS
    assert report.section("secondary-metrics").items
    assert report.status.startswith("steady state reached: SEQ 128 KiB steady, measurement window rounds ")
    assert (report.valid, report.steady) == (True, True)


# States of a run


def rendered(report: Report, folder: Path) -> str:
    """Through every renderer; the terminal's text."""
    write_html(report, folder / "report.html")
    write_csv(report, folder / "csv")
    write_pdf(report, folder / "report.pdf")
    text = StringIO()
    show(report, Console(file=text, width=120))
    return text.getvalue()


def cut_at(path: Path, rounds_128: int, rounds_1024: float = -1, **options: object) -> Report:
    """The report of a run that stops after so many rounds; -1: before the pre-conditioning of 1024 KiB."""
    folder = path / "cut"
    steps = 1 + 2 * rounds_128 if rounds_1024 < 0 else 2 + 2 * rounds_128 + round(2 * rounds_1024)
    make_folder(folder, "tp", Drive(settle_rounds=1), steps=steps, **options)  # type: ignore[arg-type]
    return build(folder)


def test_before_the_first_round(tmp_path: Path) -> None:
    report = cut_at(tmp_path, 0)
    assert plots(report) == []
    assert report.main is None
    assert "SEQ 128 KiB 0 complete rounds" in report.status
    assert "Too little was measured" in pypdf_text(report, tmp_path)


def pypdf_text(report: Report, folder: Path) -> str:
    rendered(report, folder)
    return "".join(page.extract_text() for page in pypdf.PdfReader(folder / "report.pdf").pages)


def test_one_round_of_one_block_size(tmp_path: Path) -> None:
    report = cut_at(tmp_path, 1)
    assert plots(report) == PLOTS
    assert not report.section("plot-8-3-3").items, "one round has nothing to verify"
    assert any("No round of SEQ 1024 KiB" in note for note in report.section("plot-8-4").notes)
    assert report.section("plot-8-4").items == report.section("plot-8-6").items == ()
    assert any("Only round 1" in note for note in report.section("plot-8-5").notes)
    assert report.status == (
        "incomplete: SEQ 128 KiB 1 complete round, steady state not established; "
        "SEQ 1024 KiB 0 complete rounds, steady state not established"
    )
    rendered(report, tmp_path)


@pytest.mark.clause("8.3")
def test_interrupted_in_the_second_block_size(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    put = make_folder(folder, "tp", Drive(settle_rounds=1))
    first = sum(p.label.block_bytes == 128 * KIB and p.label.round is not None for p in put)
    report = cut_at(tmp_path, first // 2, 2.5)
    assert f"SEQ 128 KiB steady, measurement window rounds {first // 2 - 4} - {first // 2}" in report.status
    assert "SEQ 1024 KiB 2 complete rounds, steady state not established" in report.status
    assert report.status.startswith("incomplete")
    assert report.banner is not None
    rows = cells(table(report, "plot-8-3-1", "determination"))
    assert rows["Steady state (2.1.24)"][3] == "not judged"
    assert cells(table(report, "plot-8-3-3", "determination"))["Steady state (2.1.24)"][3] == "steady"
    assert "1 of 2 points of a further round" in report.section("plot-8-1").notes[0]
    test = report.header.blocks[3].fields
    assert [value for name, value in test if name == "Steady State"][1] == "not reached (rounds run: 2)"
    assert "Only rounds 1-2" in " ".join(report.section("plot-8-4").notes)
    rendered(report, tmp_path)


@pytest.mark.clause("8.3")
def test_not_steady(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder, "tp", Drive(settle_rounds=7), settings={"max_rounds": 6})
    report = build(folder)
    assert report.complete
    assert report.status.startswith("steady state NOT reached")
    assert "SEQ 1024 KiB NOT steady in 6 rounds, figures are of rounds 2 - 6" in report.status
    assert Kind.STEADY_STATE_NOT_REACHED in {disclosure.kind for disclosure in report.disclosures}
    for read, found in enumerate(report.main.rows[0][1:] if report.main else ()):
        assert found == pytest.approx(mb_per_s(folder, 1024, READS[read])[1:6].mean())
    assert any("reported: rounds 2-6" in band.label for band in figure(report, "plot-8-1").bands)
    assert cells(table(report, "plot-8-3-1", "determination"))["Steady state (2.1.24)"][3] == "NOT steady"
    rendered(report, tmp_path)


def test_without_a_source_nothing_is_invented(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    make_folder(folder, "tp", Drive(host=False), steps=9)
    report = build(folder)
    rows = cells(table(report, "secondary-metrics", "secondary"))
    for name in ("CPU System Usage, %", "CPU IO Wait, %", "Average power, mW"):
        assert set(rows[name]) == {"not measured"}
    assert any("Not measured (no source)" in note for note in report.section("secondary-metrics").notes)
    conduct = cells(table(report, "run-details", "conduct"))
    assert conduct["Not measured"] == ("Average power, CPU System Usage, CPU IO Wait",)
    assert "not measured" in pypdf_text(report, tmp_path)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"block_sizes_kib": "1024"}, ["8-1", "8-2", "8-3.1", "8-3.2", "8-4", "8-6"]),
        ({"block_sizes_kib": "64, 128"}, ["8-1", "8-2", *PLOTS[2:6], "8-5", "8-4.2", "8-7", "8-6.2"]),
        ({"read_percents": "0", "block_sizes_kib": "128"}, ["8-1", "8-2", "8-3.1", "8-5", "8-7"]),
        (
            {"read_percents": "100, 50, 0", "block_sizes_kib": "128"},
            ["8-1", "8-2", "8-2.1", "8-3.1", "8-3.2", "8-3.3", "8-5", "8-7"],
        ),
    ],
)
def test_other_block_sizes_and_mixes(tmp_path: Path, settings: dict[str, object], expected: list[str]) -> None:
    folder = tmp_path / "run"
    make_folder(folder, "tp", Drive(settle_rounds=0.1), settings=settings)
    report = build(folder)
    assert plots(report) == expected
    assert len({section.id for section in report.sections}) == len(report.sections)
    write_html(report, tmp_path / "report.html")
    write_csv(report, tmp_path / "csv")


def test_a_drive_that_does_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    dead: Callable[[IoStep], Answer] = lambda step: Answer()  # noqa: E731
    make_folder(folder, "tp", dead, settings={"max_rounds": 5})
    report = build(folder)
    assert "NOT reached" in report.status
    assert cells(table(report, "secondary-metrics", "secondary"))["ART, ms"] == (None,) * 4
    rendered(report, tmp_path)
