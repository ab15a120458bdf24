"""The report against the numbers that were put in, computed a second way; and what it says when they are missing."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import polars as pl
import pypdf
import pytest
from rich.console import Console

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.report import ReplayError, Report, build, show, write_csv, write_data, write_html, write_pdf
from flashgauge.report.formats import cell_text, gb, kib, when
from flashgauge.report.model import INVALID_BANNER, Columns3D, Table
from flashgauge.report.replay import replay
from flashgauge.report.screen_figures import figure_json
from flashgauge.runfolder import read_journal, read_run
from flashgauge.spec.iops import TRACKING
from flashgauge.steps import KIB
from report_data import CAPACITY_BYTES, Loads, Truth, cells, figure, make_folder, table, window_of

READS = (0, 5, 35, 50, 65, 95, 100)
BLOCKS = tuple(int(size * KIB) for size in (0.5, 4, 8, 16, 32, 64, 128, 1024))
POINTS = [(read, block) for read in READS for block in BLOCKS]
GAPS = Disclosure(Kind.GAP_OVER_LIMIT, "6", "3 gaps of <4> ms & more", "use a quiet machine [red]", invalidates=True)
REPORT_TIME = "2026-11-21T09:00:00+00:00"


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth, Report]:
    """A complete run, steady."""
    folder = tmp_path_factory.mktemp("runs") / "good"
    truth = make_folder(folder)
    return folder, truth, build(folder, REPORT_TIME)


@pytest.fixture(scope="module")
def cut(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth, Report]:
    """Interrupted half way through round 3, with nothing known of host and power, and an invalidating disclosure."""
    folder = tmp_path_factory.mktemp("runs") / "cut"
    truth = make_folder(folder, rounds=2.5, host=False, disclosures=(GAPS,))
    return folder, truth, build(folder, REPORT_TIME)


@pytest.fixture(scope="module")
def pages(cut: tuple[Path, Truth, Report]) -> list[str]:
    """The text of each page of the PDF of the interrupted run."""
    path = cut[0] / "report.pdf"
    write_pdf(cut[2], path)
    return [page.extract_text() for page in pypdf.PdfReader(path).pages]


@pytest.fixture(scope="module")
def html(cut: tuple[Path, Truth, Report]) -> str:
    path = cut[0] / "report.html"
    write_html(cut[2], path)
    return path.read_text(encoding="utf-8")


# Numbers


@pytest.mark.clause("7.3.3")
def test_convergence_shows_every_round_of_every_point(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    shown = figure(report, "plot-7-1")
    last = max(number for number, _, _ in truth.iops)
    assert [choice.name for choice in shown.choices] == [f"R/W {read}/{100 - read}" for read in READS]
    assert [series.name for series in shown.series] == [kib(block) for block in BLOCKS]
    for read, choice in zip(READS, shown.choices, strict=True):
        for block, series in zip(BLOCKS, choice.series, strict=True):
            assert series.x == tuple(range(1, last + 1))
            assert series.y == tuple(truth.iops[number, read, block] for number in range(1, last + 1))
    assert (shown.x_title, shown.y_title, shown.y_log) == ("Round", "IOPS", True)
    assert (shown.bands[0].low, shown.bands[0].high) == (last - 4.3, last + 0.3)
    tracked = figure(report, "plot-7-1", 1)
    assert {series.name for series in tracked.series} == set(TRACKING)
    for series in tracked.series:
        assert series.y == tuple(truth.iops[(number, *TRACKING[series.name])] for number in range(1, last + 1))


@pytest.mark.clause("7.3.4")
@pytest.mark.parametrize(("number", "name"), list(enumerate(TRACKING, 1)))
def test_verification_figures(good: tuple[Path, Truth, Report], number: int, name: str) -> None:
    _, truth, report = good
    values = window_of(truth, TRACKING[name])
    last = max(n for n, _, _ in truth.iops)
    rounds = np.arange(last - 4, last + 1)
    slope, intercept = np.polyfit(rounds, values, 1)
    average = np.mean(values)
    rows = cells(table(report, f"plot-7-2-{number}", "determination"))
    assert rows["Measurement window, first round"][1] == last - 4
    assert rows["Measurement window, last round"][1] == last
    assert [rows[f"Round {n}"][1] for n in rounds] == list(values)
    expected = {
        "Average in the window": ("", average, ""),
        "Data excursion (max \N{MINUS SIGN} min), 20 % of average": (0.2 * average, np.ptp(values), "pass"),
        "Slope excursion over the window, 10 % of average": (0.1 * average, abs(slope) * 4, "pass"),
        "Slope of the best linear fit (7.3.4)": (10.0, abs(slope) * 4 / average * 100, "pass"),
        "Maximum, average + 10 % (7.3.4)": (1.1 * average, np.max(values), "pass"),
        "Minimum, average \N{MINUS SIGN} 10 % (7.3.4)": (0.9 * average, np.min(values), "pass"),
        "Best linear fit, slope": ("", slope, ""),
        "Best linear fit, value at round 0": ("", intercept, ""),
        "Correlation coefficient of the fit": ("", np.corrcoef(rounds, values)[0, 1], ""),
    }
    for quantity, (allowed, measured, verdict) in expected.items():
        assert rows[quantity][0] == (allowed if allowed == "" else pytest.approx(allowed, rel=1e-9)), quantity
        assert rows[quantity][1] == pytest.approx(measured, rel=1e-6), quantity
        assert rows[quantity][3] == verdict, quantity
    assert rows["Measured range within \N{PLUS-MINUS SIGN}10 % (7.3.4)"][3] == "pass"
    assert rows["Steady state (2.1.24)"][3] == "steady"
    assert report.section(f"plot-7-2-{number}").verdict is not None


@pytest.mark.clause("7.3.5")
@pytest.mark.parametrize(("number", "name"), list(enumerate(TRACKING, 1)))
def test_window_plots(good: tuple[Path, Truth, Report], number: int, name: str) -> None:
    _, truth, report = good
    section = report.section(f"plot-7-2-{number}")
    values = window_of(truth, TRACKING[name])
    assert section.plot == f"7-2.{number}"
    assert name in section.title
    shown = figure(report, section.id)
    lines = {series.name: series for series in shown.series}
    measured = lines["Measured, each round"]
    assert measured.y == tuple(values)
    assert lines["Average"].y == pytest.approx((values.mean(), values.mean()))
    fit = np.poly1d(np.polyfit(measured.x, values, 1))
    assert lines["Best linear fit"].y == pytest.approx((fit(measured.x[0]), fit(measured.x[-1])))
    assert (shown.bands[0].low, shown.bands[0].high) == pytest.approx((0.9 * values.mean(), 1.1 * values.mean()))
    block_line = figure(report, "plot-7-1").series[BLOCKS.index(TRACKING[name][1])]
    assert measured.color == block_line.color, "a block size has one colour in all figures"


@pytest.mark.clause("7.3.6.1")
def test_tabular_data_is_the_average_of_five_rounds(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    shown = report.section("plot-7-3").items[0]
    assert isinstance(shown, Table)
    assert shown == report.main
    assert [column.title for column in shown.columns[1:]] == [f"{read}/{100 - read}" for read in READS]
    assert [row[0] for row in shown.rows] == ["0.5", "4", "8", "16", "32", "64", "128", "1024"]
    for i, block in enumerate(BLOCKS):
        for j, read in enumerate(READS):
            assert shown.rows[i][j + 1] == pytest.approx(np.mean(window_of(truth, (read, block))), rel=1e-12)
    assert re.fullmatch(r"\d{1,3}(,\d{3})*\.\d", cell_text(shown, 1, 7))


@pytest.mark.clause("7.3.6.2")
def test_plot_2d(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    shown = figure(report, "plot-7-4")
    assert (shown.x_log, shown.y_log, shown.x_title, shown.y_title) == (True, True, "Block size (KiB)", "IOPS")
    assert [text for _, text in shown.x_ticks] == ["0.5", "4", "8", "16", "32", "64", "128", "1024"]
    for read, series in zip(READS, shown.series, strict=True):
        assert series.x == (0.5, 4, 8, 16, 32, 64, 128, 1024)
        assert series.y == pytest.approx([np.mean(window_of(truth, (read, block))) for block in BLOCKS])
    assert len({series.color for series in shown.series}) == len(READS)


@pytest.mark.clause("7.3.6.3")
def test_plot_3d(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    shown = report.section("plot-7-5").items[0]
    assert isinstance(shown, Columns3D)
    assert shown.colors == tuple(series.color for series in figure(report, "plot-7-4").series)
    for i, read in enumerate(READS):
        assert shown.values[i] == pytest.approx([np.mean(window_of(truth, (read, block))) for block in BLOCKS])
    mesh = figure_json(shown)["data"][0]
    assert max(mesh["z"]) == pytest.approx(max(shown.values[0])), "a box is as high as its value"
    assert len(mesh["i"]) == 12 * len(BLOCKS)


@pytest.mark.clause("7.3.6.4")
def test_secondary_metrics(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    last = max(number for number, _, _ in truth.iops)
    tables = {t.name: t for t in report.section("plot-7-6").items if isinstance(t, Table)}
    for i, block in enumerate(BLOCKS):
        for j, read in enumerate(READS, 1):
            keys = [(number, read, block) for number in range(last - 4, last + 1)]
            samples = np.array(sorted(sample for key in keys for sample in truth.latencies[key]))
            latencies_ns, counts = samples[:, 0], samples[:, 1]
            ios = counts.sum()
            rank = np.ceil(ios * 0.99999)
            p99999_ns = latencies_ns[np.searchsorted(np.cumsum(counts), rank)]
            hosts = [truth.host[key] for key in keys]
            power_w = sum(host.power_w or 0 for host in hosts) / len(hosts)
            expected = {
                "art_ms": (latencies_ns * counts).sum() / ios / 1e6,
                "p99999_ms": p99999_ns / 1e6,
                "mrt_ms": latencies_ns.max() / 1e6,
                "ios": ios,
                "power_mw": power_w * 1000,
                "iops_per_w": np.mean([truth.iops[key] for key in keys]) / power_w,
                "cpu_system_percent": np.mean([host.cpu_system_percent for host in hosts]),
                "cpu_iowait_percent": np.mean([host.cpu_iowait_percent for host in hosts]),
            }
            for name, value in expected.items():
                assert tables[name].rows[i][j] == pytest.approx(value, rel=1.001e-3), (name, read, block)
            assert ((i, j) in tables["p99999_ms"].marks) == (ios < 100_000)
    assert tables["p99999_ms"].marks, "the example has points with few I/Os"
    assert cell_text(tables["p99999_ms"], 7, 1).endswith("*")
    assert any("100,000" in note for note in report.section("plot-7-6").notes)


def test_five_nines_of_few_ios_against_every_single_latency(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    last = max(number for number, _, _ in truth.iops)
    samples = [sample for n in range(last - 4, last + 1) for sample in truth.latencies[n, 0, 1024 * KIB]]
    every = np.sort(np.repeat([latency for latency, _ in samples], [count for _, count in samples]))
    assert len(every) < 100_000
    value = table(report, "plot-7-6", "p99999_ms").rows[7][1]
    assert value == pytest.approx(every[-1] / 1e6, rel=1e-3), "fewer than 100,000: the slowest I/O"


def test_without_a_source_nothing_is_invented(cut: tuple[Path, Truth, Report]) -> None:
    section = cut[2].section("plot-7-6")
    assert {item.name for item in section.items} == {"art_ms", "p99999_ms", "mrt_ms", "ios"}
    assert any("Not measured" in note and "CPU IO Wait" in note and "power" in note for note in section.notes)
    assert "CPU IO Wait" in str(cells(table(cut[2], "run-details", "conduct"))["Not measured"])


@pytest.mark.clause("2.4.1")
def test_capacity_in_base_10_and_transfer_sizes_in_base_2(good: tuple[Path, Truth, Report]) -> None:
    assert gb(CAPACITY_BYTES) == "480.1 GB"
    assert gb(2_000_000_000_000) == "2,000 GB"
    assert gb(8 * 1024**3) == "8.59 GB"
    assert [kib(512), kib(4096), kib(1 << 20)] == ["0.5 KiB", "4 KiB", "1024 KiB"]
    device = dict(good[2].header.blocks[1].fields)
    assert device["Capacity"] == "480.1 GB"
    key = next(t for t in good[2].summary if t.name == "key-numbers")
    iops, mb_per_s = key.rows[-1][1], key.rows[-1][2]
    assert key.rows[-1][0] == "1024 KiB, R/W 100/0"
    assert mb_per_s == pytest.approx(float(iops or 0) * 1.048576)


# Header and details


@pytest.mark.clause("A")
def test_header_fields(good: tuple[Path, Truth, Report]) -> None:
    header = good[2].header
    assert (header.test_name, header.title) == ("IOPS Test - Report Page", "IOPS - Block Size x RW Mix Matrix")
    assert (header.test_run_date, header.report_run_date) == ("2026-11-20 08:15 UTC", "2026-11-21 09:00 UTC")
    assert header.revision == "PTS-E 2.0.1"
    assert header.specification.endswith("(PTS) 2.0.1")
    platform, device, set_up, test = (dict(block.fields) for block in header.blocks)
    titles = "Test Platform, Device Under Test, Set Up Parameters, Test Parameters"
    assert ", ".join(block.title for block in header.blocks) == titles
    assert (platform["HBA"], platform["Test ID No."], platform["Test SW"]) == ("not known", "good", "flashgauge 0.1.0")
    assert (device["Form Factor"], device["NAND Type"], device["Write Cache"]) == ("not known", "not known", "disabled")
    assert set_up["Pre Condition 1"] == "SEQ 128 KiB W"
    assert set_up["Duration"] == "2 x User Capacity"
    assert test["TOIO - TC/QD"] == "TC 4 / QD 32"
    assert re.fullmatch(r"\d+ - \d+", test["Steady State"])


@pytest.mark.clause("5")
def test_common_report_items(good: tuple[Path, Truth, Report]) -> None:
    rows = table(good[2], "run-details", "common").rows
    items = {(str(clause), str(item)): value for clause, item, value in rows}
    assert len({item for clause, item in items if clause == "5.2"}) == 8
    assert len({item for clause, item in items if clause == "5.4"}) == 9
    assert items["5.1", "Test operator"] == "A. Operator"
    assert items["5.2", "Device interposer card"] == "not known"
    assert items["5.4", "User capacity"] == "480.1 GB"
    assert all(value for value in items.values())
    assert when(None) == "not known"


def test_conduct_of_the_run(good: tuple[Path, Truth, Report]) -> None:
    _, truth, report = good
    rows = {name: str(value[0]) for name, value in cells(table(report, "run-details", "conduct")).items()}
    gaps_ms = np.array([gap / 1e6 for gap in truth.gaps_ns])
    assert rows["Gap between steps, median"] == f"{np.median(gaps_ms):.3f} ms"
    assert rows["Gap between steps, longest"].startswith(f"{gaps_ms.max():.3f} ms")
    assert rows["Gaps over the limit of 1 ms"] == f"0 of {len(gaps_ms)}"
    assert rows["Seed"] == "1234567890123"
    assert int(rows["Bridge I/Os (between windows, in no result)"]) == 3 * len(truth.labels)
    parameters = {row[0] for row in table(report, "run-details", "parameters").rows}
    assert {"thread_count", "queue_depth", "point_s", "max_rounds"} <= parameters


# What is missing, and what is wrong


def test_complete_run_is_valid(good: tuple[Path, Truth, Report]) -> None:
    report = good[2]
    assert (report.valid, report.complete, report.banner) == (True, True, None)
    assert (report.missing, report.disclosures) == ((), ())


def test_interrupted_run_says_where(cut: tuple[Path, Truth, Report]) -> None:
    report = cut[2]
    assert report.missing == ("the run was interrupted in round 3 at R/W 50/50, 16 KiB; rounds 1-2 are complete",)
    assert not report.valid
    assert report.banner is not None
    assert report.banner.startswith(INVALID_BANNER)
    kinds = {disclosure.kind: disclosure for disclosure in report.disclosures}
    assert set(kinds) == {Kind.GAP_OVER_LIMIT, Kind.INTERRUPTED}
    assert kinds[Kind.INTERRUPTED].invalidates
    assert dict(report.header.blocks[3].fields)["Steady State"] == "not reached"
    assert any("Only rounds 1-2" in note for note in report.section("plot-7-3").notes)
    rows = cells(table(report, "plot-7-2-1", "determination"))
    assert rows["Steady state (2.1.24)"][3] == "not judged"
    assert any("28 of 56" in note for note in report.section("plot-7-1").notes)


@pytest.mark.parametrize("whole_lines", [0, 1, 57])
def test_torn_journal(cut: tuple[Path, Truth, Report], tmp_path: Path, whole_lines: int) -> None:
    folder = shutil.copytree(cut[0], tmp_path / "torn")
    lines = (folder / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "journal.jsonl").write_bytes(b"".join(lines[:whole_lines]) + lines[whole_lines][:100])
    report = build(folder)
    assert "the journal's last line was torn: the step it held is not used" in report.missing
    assert Kind.DATA_MISSING in {disclosure.kind for disclosure in report.disclosures}
    where = {0: "during the workload independent", 1: "in round 1 at R/W 100/0, 1024 KiB", 57: "in round 2"}
    assert where[whole_lines] in report.missing[0]
    write_html(report, tmp_path / "report.html")
    write_csv(report, tmp_path / "csv")
    write_data(folder)
    show(report, Console(file=StringIO()))
    if whole_lines == 57:
        assert any("Only round 1" in note for note in report.section("plot-7-3").notes)
        assert not report.section("plot-7-2-1").items
    else:
        assert [section.id for section in report.sections] == ["conditions", "compliance", "run-details"]
        write_pdf(report, tmp_path / "report.pdf")
        text = pypdf.PdfReader(tmp_path / "report.pdf").pages[0].extract_text()
        assert "Too little was measured" in text


def test_not_steady_after_the_last_round(tmp_path: Path) -> None:
    folder = tmp_path / "unsteady"
    truth = make_folder(folder, max_rounds=5, settle_rounds=6)
    report = build(folder)
    assert "NOT reached in 5 rounds" in report.status
    assert report.complete
    assert [disclosure.kind for disclosure in report.disclosures] == [Kind.STEADY_STATE_NOT_REACHED]
    verdicts = next(t for t in report.summary if t.name == "steady-state")
    assert "NOT steady" in {row[-1] for row in verdicts.rows}
    assert report.main is not None
    assert report.main.rows[1][1] == pytest.approx(np.mean(window_of(truth, (0, 4096))))


def test_a_complete_journal_without_an_orderly_end_is_not_valid(
    good: tuple[Path, Truth, Report], tmp_path: Path
) -> None:
    folder = shutil.copytree(good[0], tmp_path / "killed")
    run = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**run, "state": "running"}))
    report = build(folder)
    assert report.status.startswith("steady state reached")
    assert not report.valid
    assert report.disclosures[-1].invalidates


def test_replay_rejects_a_foreign_journal(cut: tuple[Path, Truth, Report]) -> None:
    run = read_run(cut[0])
    entries, _ = read_journal(cut[0])
    with pytest.raises(ReplayError, match="the test asks for measure"):
        replay(run, [entries[0], entries[2], entries[1]], False)
    with pytest.raises(ReplayError, match="no test 'nosuch'"):
        replay(replace(run, test="nosuch"), entries, False)
    with pytest.raises(ReplayError, match="unknown: speed"):
        replay(replace(run, parameters={**run.parameters, "speed": 1}), entries, False)
    early = replace(entries[5], measurement=replace(entries[5].measurement, stop_reason="io_error"))
    found = replay(run, [*entries[:5], early, *entries[6:8]], False)
    assert len(found.entries) == 5
    assert "ended early (io_error)" in found.missing[1]
    assert found.missing[2] == "2 later steps are in the journal and not used"


def test_replay_rejects_entries_after_the_end(good: tuple[Path, Truth, Report]) -> None:
    entries, _ = read_journal(good[0])
    with pytest.raises(ReplayError, match="1 entries after the end"):
        replay(read_run(good[0]), [*entries, entries[-1]], False)


# Renderers


def test_html_loads_nothing(html: str, cut: tuple[Path, Truth, Report]) -> None:
    page = Loads()
    page.feed(html)
    assert page.found == []
    assert {section.id for section in cut[2].sections} | {"summary"} <= page.ids
    assert "default-src 'none'" in html
    assert "showSendToCloud: false" in html, "plotly offers an upload of the data otherwise"
    style = html.split("<style>")[1].split("</style>", maxsplit=1)[0]
    assert "url(" not in style
    assert "@import" not in style
    assert html.count("plotly.js v") == 1


def test_html_banner_and_escaping(html: str, cut: tuple[Path, Truth, Report]) -> None:
    outside = html.split("<body>")[1].split("/**\n* plotly.js", maxsplit=1)[0]
    assert outside.count(INVALID_BANNER) == 1 + len(cut[2].sections)
    assert "EX-480 <b>" not in outside
    assert "EX-480 &lt;b&gt;&amp;#x&lt;/b&gt; $x$ #let" in outside
    assert "3 gaps of &lt;4&gt; ms &amp; more" in outside
    assert outside.index("Disclosures") < outside.index("data-figure")


def test_html_figures_are_the_model(html: str, cut: tuple[Path, Truth, Report]) -> None:
    texts = dict(re.findall(r'<script type="application/json" id="([^"]+)">([^<]+)</script>', html))
    shown = figure(cut[2], "plot-7-4")
    drawn = json.loads(texts["plot-7-4-1"])
    assert [trace["y"] for trace in drawn["data"]] == [list(series.y) for series in shown.series]
    assert drawn["layout"]["xaxis"]["title"]["text"] == "Block size (KiB)"
    assert len(texts) == sum(not isinstance(i, Table) for section in cut[2].sections for i in section.items)


@pytest.mark.clause("A")
def test_every_pdf_page_has_header_number_and_banner(pages: list[str], cut: tuple[Path, Truth, Report]) -> None:
    assert len(pages) >= 1 + len(cut[2].sections)
    for number, text in enumerate(pages, 1):
        flat = " ".join(text.split())
        assert f"Page {number} of {len(pages)}" in flat
        assert INVALID_BANNER in flat
        for block in cut[2].header.blocks:
            assert block.title in flat
        assert "PTS-E 2.0.1" in flat
        assert "S4EXNX0R1234567" in flat
        assert "EX-480 <b>&#x</b> $x$ #let" in flat, "a name is text, whatever it holds"
    assert "3 gaps of <4> ms & more" in " ".join(pages[0].split())


def test_csv_is_the_model(good: tuple[Path, Truth, Report], tmp_path: Path) -> None:
    report = good[2]
    files = {path.name: path for path in write_csv(report, tmp_path / "csv")}
    numbers = ("7-1", "7-2.1", "7-2.2", "7-2.3", "7-3", "7-4", "7-5", "7-6")
    assert {f"plot-{number}.csv" for number in numbers} <= set(files)

    def read(name: str) -> list[dict[str, str]]:
        with files[name].open(newline="") as file:
            return list(csv.DictReader(file))

    assert report.main is not None
    for row, expected in zip(read("plot-7-3.csv"), report.main.rows, strict=True):
        assert row.pop("block_size_kib") == expected[0]
        assert [float(value) for value in row.values()] == list(expected[1:])
    rows = read("plot-7-1.csv")
    shown = figure(report, "plot-7-1")
    assert len(rows) == sum(len(series.x) for choice in shown.choices for series in choice.series)
    assert set(rows[0]) == {"choice", "series", "round", "iops"}
    art = [row for row in read("plot-7-6.csv") if row["metric"] == "art_ms"]
    assert [float(row["rw_0_100"]) for row in art] == [r[1] for r in table(report, "plot-7-6", "art_ms").rows]
    assert "plot-7-2.1-determination.csv" in files
    assert "run-details-parameters.csv" in files


def test_terminal(cut: tuple[Path, Truth, Report]) -> None:
    out = StringIO()
    show(cut[2], Console(file=out, width=80))
    text = out.getvalue()
    assert INVALID_BANNER in text
    assert "[red]" in text
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert cut[2].main is not None
    for i in range(len(BLOCKS)):
        for j in range(1, len(READS) + 1):
            assert cell_text(cut[2].main, i, j) in text
    assert "rounds 1-2 are" in text


def test_exported_data(good: tuple[Path, Truth, Report], tmp_path: Path) -> None:
    folder = shutil.copytree(good[0], tmp_path / "run")
    files = write_data(folder)
    assert [file.name for file in files] == ["measurements.parquet", "intervals.parquet", "histograms.hlog"]
    frame = pl.read_parquet(files[0])
    truth = good[1]
    assert frame.height == len(truth.labels)
    rounds = frame.filter(pl.col("purpose") == "round")
    found = {(r["round"], r["read_percent"], r["block_bytes"]): r["iops"] for r in rounds.iter_rows(named=True)}
    assert found == truth.iops
    units = {
        "ns",
        "ios",
        "bytes",
        "percent",
        "w",
        "j",
        "c",
        "s",
        "iops",
        "sequence",
        "purpose",
        "round",
        "kind",
        "reason",
    }
    units |= {"number", "count", "depth"}  # of a label
    units |= {"interrupts", "errors", "transitions"}  # counted of host and drive
    assert {name.rsplit("_", 1)[-1] for name in frame.columns} <= units
    intervals = pl.read_parquet(files[1])
    assert intervals.height == 4 * len(truth.labels)
    assert "round1-rw100-1024KiB-read" in files[2].read_text()
