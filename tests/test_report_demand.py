"""The reports of CBW and DIRTH against the journal, computed a second way; and what they say in each state of a run."""

from __future__ import annotations

import json
import math
import random
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import pypdf
import pytest
from rich.console import Console

from flashgauge.measurement import HostUsage
from flashgauge.report import Report, build, show, write_csv, write_html, write_pdf
from flashgauge.report.demand_metrics import Total, knee
from flashgauge.report.formats import cell_text
from flashgauge.report.model import Bars, Columns3D, LineFigure, Section, Table
from flashgauge.runfolder import RunFolder
from flashgauge.spec import TESTS
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.workloads import COMPOSITE_BLOCKS
from flashgauge.steps import Disclose, IoStep, Label, Measure, Precondition
from report_data import CAPACITY_BYTES, cells, figure, make_run
from report_runs import Answer, Put, journal, labelled, latencies_ns, measured, percentile_ns, plots, rate, spread
from report_runs import table_of as table
from scripted import parameters_of

DEMANDS = (1, 2, 4, 6, 8, 16, 32)
COMBINATIONS = [(tc, qd) for tc in DEMANDS for qd in DEMANDS]
TESTED = ("cbw", "dirth")
BOTH = pytest.mark.parametrize("test", TESTED)
# Table 13-3 and Plot 14-1: the section, the number of its first figure, the titles.
SECTION = {"cbw": "13", "dirth": "14"}
FIRST = {"cbw": 4, "dirth": 2}
_SHARED = {
    1: "PC IOPS Plot",
    2: "PC Steady State Plot",
    4: "DV IOPS Plot, TC=Tracking",
    5: "DV Steady State Plot, Tracking Variable",
    6: "Demand Variation Plot",
    7: "Demand Intensity Plot",
    9: "MaxIOPS Prewrites",
    10: "Max IOPS Histogram",
    11: "MidIOPS Prewrites",
    12: "Mid IOPS Histogram",
    13: "MinIOPS Prewrites",
    14: "Min IOPS Histogram",
    15: "IOPS or BW v Total OIO",
}
TITLES = {
    "cbw": {**_SHARED, 3: "Btw-Round Prewrites Plot", 8: "System CPU Utilization Plot"},
    "dirth": {**_SHARED, 3: "Inter-Round Pre Writes Plot", 8: "CPU Utilization Plot"},
}
# The last five rounds of Drive's two phases, steady there and not before.
PC_WINDOW, WINDOW = range(3, 8), range(3, 8)


class Drive:
    """IOPS that saturate with the total OIO. Both phases begin faster and settle; `moving`: they never do. Latencies
    are those of a drive a hundred times as fast: few I/Os, and response times of both sides of the 5 ms."""

    def __init__(self, *, cpu: bool = False, moving: bool = False, slow: float = 1.0, flat: bool = False) -> None:
        self.cpu, self.moving, self.slow, self.flat = cpu, moving, slow, flat
        self.random = random.Random(11)

    def __call__(self, step: IoStep) -> Answer:
        oio = step.stimulus.thread_count * step.stimulus.queue_depth
        label = step.label
        iops = 800.0 if self.flat else 800 * oio / (oio + 12)
        if label.purpose == "pre-conditioning" and label.number is not None:
            iops *= 1 + (label.number / 60 if self.moving else 1.2 * math.exp(-(label.number - 1) / 20))
        if label.purpose == "demand" and label.round is not None:
            iops *= 1 + (label.round / 4 if self.moving else 0.4 * math.exp(1 - label.round))
        iops *= self.random.uniform(0.99, 1.01) if not self.flat else 1
        ios = round(iops * (step.stop.seconds or 1.0))
        reads = round(ios * step.stimulus.read_percent / 100)
        mean_ns = self.slow * oio / (100 * iops) * 1e9
        host = HostUsage()
        if self.cpu:
            host = HostUsage(self.random.uniform(1, 3) + oio / 300, self.random.uniform(4, 9), None, 40.0)
        late = min(2, ios - reads)
        return Answer(
            spread(reads, 0.8 * mean_ns, self.random), spread(ios - reads, 1.1 * mean_ns, self.random), host, late
        )

    def shares(self, ios: int, weights: list[float]) -> tuple[int, ...]:
        """Drawn at random."""
        if len(weights) == 1:
            return ()
        drawn = np.random.default_rng(self.random.randrange(2**32)).multinomial(ios, np.array(weights) / sum(weights))
        return tuple(int(count) for count in drawn)


@dataclass
class Made:
    """A run folder, what was put in, and its report."""

    folder: Path
    put: list[Put]
    report: Report
    test: str

    @cached_property
    def lines(self) -> list[dict[str, Any]]:
        return journal(self.folder)

    def plot(self, number: int) -> Section:
        """Plot 1 to 15 of the table."""
        return self.report.section(self.id(number))

    def id(self, number: int) -> str:
        return f"plot-{SECTION[self.test]}-{FIRST[self.test] + number - 1}"

    def figure(self, number: int, index: int = 0) -> LineFigure:
        return figure(self.report, self.id(number), index)


def make(path: Path, test: str, drive: Drive, **settings: object) -> Made:
    """A whole run, with the shares of its I/Os."""
    parameters = parameters_of(test, DeviceClass.ENTERPRISE, settings)
    spec = TESTS[test].spec(parameters, CAPACITY_BYTES)
    put: list[Put] = []
    now_ns, reply = 0, None
    with RunFolder(path, make_run(parameters, test=test)) as folder:
        while True:
            try:
                step = spec.send(reply)
            except StopIteration:
                break
            reply = None
            if isinstance(step, Disclose):
                folder.disclose(step.disclosure)
            if isinstance(step, Precondition | Measure):
                answer = drive(step)
                reply = measured(step, answer, now_ns, 20_000 if put else None)
                weights = [weight for _, weight in step.stimulus.block_sizes]
                chances = [group.probability_percent for group in step.stimulus.groups]
                if chances:
                    sizes, groups = drive.shares(reply.ios, weights), drive.shares(reply.ios, chances)
                    reply = replace(reply, size_ios=sizes, group_ios=groups)
                now_ns += reply.window_ns + 20_000
                folder.append("precondition" if isinstance(step, Precondition) else "measure", step.label, reply)
                put.append(Put(step.label, answer, reply))
        folder.update(state="complete", finished="2026-11-20T21:40:00+00:00")
    return Made(path, put, build(path), test)


def cut(made: Made, path: Path, where: Callable[[Label], bool]) -> Made:
    """The run, interrupted in the first step that `where` holds of."""
    end = next(i for i, put in enumerate(made.put) if where(put.label))
    shutil.copytree(made.folder, path)
    lines = (path / "journal.jsonl").read_bytes().splitlines(keepends=True)
    (path / "journal.jsonl").write_bytes(b"".join(lines[:end]))
    run = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps({**run, "state": "interrupted"}))
    return Made(path, made.put[:end], build(path), made.test)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """A steady run of each test: CBW on a host whose CPU was measured, DIRTH where it was not."""
    folder = tmp_path_factory.mktemp("demand")
    return {test: make(folder / test, test, Drive(cpu=test == "cbw")) for test in TESTED}


# The second way


def iops_of(made: Made, **label: object) -> np.ndarray:
    return np.array([rate(m) for m in labelled(made.lines, **label)])


def minutes(made: Made, **label: object) -> tuple[np.ndarray, np.ndarray]:
    """The end of each window in seconds since the first of these steps began, and its IOPS."""
    found = labelled(made.lines, **label)
    ends = np.array([m["start_ns"] + m["window_ns"] - found[0]["start_ns"] for m in found]) / 1e9
    return ends, np.array([rate(m) for m in found])


@dataclass(frozen=True)
class Expected:
    iops: float
    mb_per_s: float
    ios: int
    art_ms: float
    p99999_ms: float
    mrt_ms: float


def expected(made: Made, tc: int, qd: int, rounds: range = WINDOW) -> Expected:
    """A combination over the window, without histograms."""
    found = [
        m
        for number in rounds
        for m in labelled(made.lines, purpose="demand", round=number, thread_count=tc, queue_depth=qd)
    ]
    every = np.sort(
        np.concatenate(
            [
                one
                for number in rounds
                for one in latencies_ns(made.put, purpose="demand", round=number, thread_count=tc, queue_depth=qd)
            ]
        )
    )
    assert len(found) == len(rounds)
    return Expected(
        sum(rate(m) for m in found) / len(found),
        sum(rate(m, "window_bytes") for m in found) / len(found) / 1e6,
        len(every),
        float(every.sum()) / len(every) / 1e6,
        percentile_ns(every, 5) / 1e6,
        float(every[-1]) / 1e6,
    )


@pytest.fixture(scope="module")
def truth(runs: dict[str, Made]) -> dict[str, dict[tuple[int, int], Expected]]:
    return {test: {point: expected(made, *point) for point in COMBINATIONS} for test, made in runs.items()}


def chosen(found: dict[tuple[int, int], Expected], parts: int = 1) -> dict[str, tuple[int, int]]:
    """The operating points, from the highest IOPS down."""
    fast = [point for point in COMBINATIONS if found[point].art_ms < 5]
    highest = max(found[point].iops for point in fast)
    equal = sorted((tc * qd, -found[tc, qd].iops) for tc, qd in fast if found[tc, qd].iops >= 0.99 * highest)
    maximum = next(point for point in fast if -found[point].iops == equal[0][1])
    points = {"MaxIOPS": maximum, "MinIOPS": (1, 1)}
    step = (found[maximum].iops - found[1, 1].iops) / (parts + 1)
    for number in range(1, parts + 1):
        target = found[1, 1].iops + number * step
        name = "MidIOPS" if parts == 1 else f"MidIOPS {number}"
        points[name] = min(COMBINATIONS, key=lambda point: abs(found[point].iops - target))
    return points


# The plots, one after the other


@BOTH
@pytest.mark.clause("13.3.2")
@pytest.mark.clause("14.3.2")
@pytest.mark.clause("4.4")
def test_all_plots_are_there_with_the_titles_and_numbers_of_the_table(runs: dict[str, Made], test: str) -> None:
    report = runs[test].report
    section, first = SECTION[test], FIRST[test]
    assert plots(report) == [f"{section}-{first + i}" for i in range(15)]
    shown = [s for s in report.sections if s.plot]
    assert [s.title for s in shown] == [TITLES[test][number] for number in range(1, 16)]
    assert [s.clause for s in shown] == [f"{section}.3.2.{number}" for number in range(1, 16)]
    assert "not-reached" not in [s.id for s in report.sections]


@BOTH
@pytest.mark.clause("13.3.2")
@pytest.mark.clause("14.3.2")
def test_axes_are_those_of_the_table(runs: dict[str, Made], test: str) -> None:
    """Range and ordinate, that is y and x."""
    made = runs[test]
    time = ("Elapsed time", "IOPS")
    first = ("Tracking round", "IOPS") if test == "cbw" else time
    axes = {1: first, 2: ("Round", "IOPS"), 4: ("Round", "IOPS"), 5: ("Round", "IOPS"), 9: time, 11: time, 13: time}
    axes |= {3: time, 6: ("Queue depth", "IOPS"), 7: ("IOPS", "ART, ms"), 10: ("Response time, ms", "I/Os")}
    axes |= {12: axes[10], 14: axes[10]}
    for number, (x_title, y_title) in axes.items():
        shown = made.figure(number)
        assert (shown.x_title[: len(x_title)], shown.y_title[: len(y_title)]) == (x_title, y_title), number


@pytest.mark.clause("13.3.2.1")
@pytest.mark.clause("13.2.3.2")
def test_preconditioning_of_cbw_over_tracking_rounds(runs: dict[str, Made]) -> None:
    made = runs["cbw"]
    every, tracked = made.figure(1).series
    iops = iops_of(made, purpose="pre-conditioning")
    assert len(iops) == 181
    assert every.x == pytest.approx(1 + np.arange(181) / 30)
    assert every.y == pytest.approx(iops, rel=1e-12)
    assert tracked.x == pytest.approx([1, 2, 3, 4, 5, 6, 7])
    assert tracked.y == pytest.approx(iops[[0, 30, 60, 90, 120, 150, 180]], rel=1e-12)
    (band,) = made.figure(1).bands
    assert band.low < 3 < 3.1 < band.high
    assert band.high == pytest.approx(7, abs=0.1)
    assert band.label == "Measurement window: rounds 3-7"
    assert [text for _, text in made.figure(1).x_ticks] == list("1234567")


@pytest.mark.clause("14.3.2.1")
@pytest.mark.clause("14.2.2.2")
def test_preconditioning_of_dirth_over_time(runs: dict[str, Made]) -> None:
    made = runs["dirth"]
    every, tracked = made.figure(1).series
    ends, iops = minutes(made, purpose="pre-conditioning")
    assert made.figure(1).x_title == "Elapsed time, hours"
    assert every.x == pytest.approx(ends / 3600)
    assert every.y == pytest.approx(iops, rel=1e-12)
    assert tracked.x == pytest.approx(ends[::30] / 3600)
    assert tracked.y == pytest.approx(iops[::30], rel=1e-12)
    assert made.figure(1).bands[0].low == pytest.approx(ends[60] / 3600, abs=0.05)


@BOTH
@pytest.mark.clause("13.3.2.1")
@pytest.mark.clause("14.3.2.1")
@pytest.mark.clause("13.3.2.4")
@pytest.mark.clause("14.3.2.4")
@pytest.mark.parametrize("number", [2, 5])
def test_steady_state_of_both_phases(runs: dict[str, Made], test: str, number: int) -> None:
    made = runs[test]
    if number == 2:
        values = iops_of(made, purpose="pre-conditioning")[::30][-5:]
    else:
        values = iops_of(made, purpose="demand", thread_count=32, queue_depth=32)[-5:]
    rounds = np.arange(3, 8)
    slope, intercept = np.polyfit(rounds, values, 1)
    average = values.mean()
    rows = cells(table(made.report, made.id(number), "determination"))
    assert (rows["Measurement window, first round"][1], rows["Measurement window, last round"][1]) == (3, 7)
    assert [rows[f"Round {n}"][1] for n in rounds] == pytest.approx(values, rel=1e-12)
    numbers = {
        "Average in the window": ("", average),
        "Data excursion (max \N{MINUS SIGN} min), 20 % of average": (0.2 * average, np.ptp(values)),
        "Slope excursion over the window, 10 % of average": (0.1 * average, abs(slope) * 4),
        "Maximum, average + 10 % (7.3.4)": (1.1 * average, values.max()),
        "Minimum, average \N{MINUS SIGN} 10 % (7.3.4)": (0.9 * average, values.min()),
        "Best linear fit, slope": ("", slope),
        "Best linear fit, value at round 0": ("", intercept),
        "Correlation coefficient of the fit": ("", np.corrcoef(rounds, values)[0, 1]),
    }
    for quantity, (allowed, found) in numbers.items():
        assert rows[quantity][0] == (allowed if allowed == "" else pytest.approx(allowed)), quantity
        assert rows[quantity][1] == pytest.approx(found, rel=1e-6), quantity
    assert rows["Steady state (2.1.24)"][3] == "steady"
    measured_line = made.figure(number).series[0]
    assert measured_line.x == tuple(rounds)
    assert measured_line.y == pytest.approx(values)
    verdict = made.plot(number).verdict
    assert verdict is not None and verdict.steady
    summary = {row[0]: row for row in made.report.summary[0].rows}
    row = summary["IOPS of pre-conditioning" if number == 2 else "IOPS of T32Q32"]
    assert row[1:3] == ("3\N{EN DASH}7", pytest.approx(average))
    assert row[6] == "steady"


@BOTH
@pytest.mark.clause("13.3.2.3")
@pytest.mark.clause("14.3.2.3")
@pytest.mark.clause("13.2.4.2")
@pytest.mark.clause("14.2.3.2")
def test_prewrites_between_rounds(runs: dict[str, Made], test: str) -> None:
    made = runs[test]
    lines = made.lines
    begin = labelled(lines, purpose="pre-write")[0]["start_ns"]
    (series,) = made.figure(3).series
    found = labelled(lines, purpose="pre-write")
    assert series.style == "dots"
    hours = [(m["start_ns"] + m["window_ns"] - begin) / 3.6e12 for m in found]
    assert made.figure(3).x_title == "Elapsed time, hours, since the demand variation began"
    assert series.x == pytest.approx(hours)
    assert series.y == pytest.approx([rate(m) for m in found], rel=1e-12)
    shown = table(made.report, made.id(3), "rounds")
    for number, row in enumerate(shown.rows, 1):
        of_round = labelled(lines, purpose="pre-write", round=number)
        latencies = np.concatenate(latencies_ns(made.put, purpose="pre-write", round=number))
        written = sum(m["written_bytes"] for m in of_round)
        assert row[:2] == (number, len(of_round))
        assert row[2:8] == pytest.approx(
            (
                written / 1e9,
                100 * written / CAPACITY_BYTES,
                rate(of_round[0]),
                rate(of_round[-1]),
                latencies.mean() / 1e6,
                latencies.max() / 1e6,
            )
        )
        if test == "cbw":
            cpu = [m["host"]["cpu_system_percent"] for m in of_round]
            assert row[8] == pytest.approx(sum(cpu) / len(cpu))
    assert len(shown.rows) == 7
    assert len(made.figure(3).marks) == 7
    marks = made.figure(3).marks
    assert [mark.label for mark in marks] == [f"round {number}" for number in range(1, 8)]
    starts = [labelled(lines, purpose="pre-write", round=number)[0]["start_ns"] for number in range(1, 8)]
    assert [mark.at for mark in marks] == pytest.approx([(start - begin) / 3.6e12 for start in starts])
    assert (test == "dirth") == any("not measured" in note for note in shown.notes)


@BOTH
@pytest.mark.clause("13.3.2.4")
@pytest.mark.clause("14.3.2.4")
def test_iops_over_rounds_at_the_tracking_variables_thread_count(runs: dict[str, Made], test: str) -> None:
    made = runs[test]
    shown = made.figure(4)
    assert [series.name for series in shown.series] == [f"QD {qd}" for qd in DEMANDS]
    for qd, series in zip(DEMANDS, shown.series, strict=True):
        assert series.x == (1, 2, 3, 4, 5, 6, 7)
        assert series.y == pytest.approx(iops_of(made, purpose="demand", thread_count=32, queue_depth=qd), rel=1e-12)
    assert (shown.bands[0].low, shown.bands[0].high) == (2.7, 7.3)
    assert len({series.color for series in shown.series}) == len({series.marker for series in shown.series}) == 7


@BOTH
@pytest.mark.clause("13.3.2.6")
@pytest.mark.clause("14.3.2.6")
def test_demand_variation(runs: dict[str, Made], truth: dict[str, dict[tuple[int, int], Expected]], test: str) -> None:
    made = runs[test]
    shown = made.figure(6)
    assert [series.name for series in shown.series] == [f"TC {tc}" for tc in DEMANDS]
    assert (shown.x_log, [text for _, text in shown.x_ticks]) == (True, [str(qd) for qd in DEMANDS])
    matrix = table(made.report, made.id(6), "tabular")
    assert matrix == made.report.main
    assert [column.title for column in matrix.columns[1:]] == [str(qd) for qd in DEMANDS]
    for tc, series, row in zip(DEMANDS, shown.series, matrix.rows, strict=True):
        values = [truth[test][tc, qd].iops for qd in DEMANDS]
        assert series.x == DEMANDS
        assert series.y == pytest.approx(values, rel=1e-12)
        assert row == (str(tc), *(pytest.approx(value, rel=1e-12) for value in values))


@BOTH
@pytest.mark.clause("13.3.2.7")
@pytest.mark.clause("14.3.2.7")
@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_demand_intensity_with_its_operating_points(
    runs: dict[str, Made], truth: dict[str, dict[tuple[int, int], Expected]], test: str
) -> None:
    made, found = runs[test], truth[test]
    shown = made.figure(7)
    assert [series.name for series in shown.series] == [f"TC {tc}" for tc in DEMANDS]
    for tc, series in zip(DEMANDS, shown.series, strict=True):
        assert series.x == pytest.approx([found[tc, qd].iops for qd in DEMANDS], rel=1e-12)
        assert series.y == pytest.approx([found[tc, qd].art_ms for qd in DEMANDS], rel=1e-9)
    assert [series.color for series in shown.series] == [series.color for series in made.figure(6).series]
    points = chosen(found)
    named = {callout.label: (callout.x, callout.y) for callout in shown.callouts}
    assert named == {
        f"{name} T{tc}Q{qd}": pytest.approx((found[tc, qd].iops, found[tc, qd].art_ms))
        for name, (tc, qd) in points.items()
    }
    (limit,) = shown.marks
    assert (limit.axis, limit.at) == ("y", 5.0)
    rows = {row[0]: row[1:] for row in made.report.summary[1].rows}
    for name, (tc, qd) in points.items():
        assert rows[name][:3] == (tc, qd, tc * qd)
        assert rows[name][3:5] == pytest.approx((found[tc, qd].iops, found[tc, qd].art_ms))
    middle = (found[1, 1].iops + found[points["MaxIOPS"]].iops) / 2
    assert rows["MidIOPS"][5] == f"nearest to {middle:,.1f} IOPS"
    assert rows["MaxIOPS"][5] == "most IOPS, ART < 5 ms"
    assert any("within 1 % of the highest count as highest" in note for note in made.report.summary[1].notes)


@pytest.mark.clause("13.3.2.8")
@pytest.mark.clause("13.2.4.3")
def test_cpu_use_where_it_was_measured(runs: dict[str, Made]) -> None:
    made = runs["cbw"]
    (shown,) = made.plot(8).items
    assert isinstance(shown, Columns3D)
    assert shown.rows == shown.columns == tuple(map(str, DEMANDS))
    assert (shown.value_title, shown.row_title, shown.column_title) == (
        "CPU System Usage, %",
        "Thread count",
        "Queue depth",
    )
    rows = {row[:2]: row for row in table(made.report, "combinations", "points").rows}
    for i, tc in enumerate(DEMANDS):
        for j, qd in enumerate(DEMANDS):
            hosts = [
                m["host"]
                for number in WINDOW
                for m in labelled(made.lines, purpose="demand", round=number, thread_count=tc, queue_depth=qd)
            ]
            system = sum(host["cpu_system_percent"] for host in hosts) / 5
            assert shown.values[i][j] == pytest.approx(system)
            assert rows[tc, qd][8:] == pytest.approx((system, sum(host["cpu_iowait_percent"] for host in hosts) / 5))


@pytest.mark.clause("14.3.2.8")
def test_cpu_use_where_it_was_not_measured(runs: dict[str, Made]) -> None:
    made = runs["dirth"]
    assert made.plot(8).items == ()
    assert "not measured" in made.plot(8).notes[0]
    assert not any("cpu" in column.name for column in table(made.report, "combinations", "points").columns)
    conduct = cells(table(made.report, "run-details", "conduct"))
    assert conduct["Not measured"][0] == "CPU System Usage, CPU IO Wait"


@BOTH
@pytest.mark.clause("13.3.2.9")
@pytest.mark.clause("14.3.2.9")
@pytest.mark.parametrize(("number", "name"), [(9, "MaxIOPS"), (11, "MidIOPS"), (13, "MinIOPS")])
def test_prewrites_before_each_histogram(runs: dict[str, Made], test: str, number: int, name: str) -> None:
    made = runs[test]
    ends, iops = minutes(made, purpose=f"{name} pre-write")
    (series,) = made.figure(number).series
    assert len(iops) == 60
    assert made.figure(number).x_title == "Elapsed time, minutes"
    assert series.x == pytest.approx(ends / 60)
    assert series.y == pytest.approx(iops, rel=1e-12)
    latencies = np.concatenate(latencies_ns(made.put, purpose=f"{name} pre-write"))
    art_ms, mrt_ms = latencies.mean() / 1e6, latencies.max() / 1e6
    note = f"All of them: {iops.mean():,.1f} IOPS, ART {art_ms:,.3f} ms, MRT {mrt_ms:,.3f} ms."
    assert made.plot(number).notes[0].startswith("60 minutes")
    assert made.plot(number).notes[-1] == note


@BOTH
@pytest.mark.clause("13.3.2.10")
@pytest.mark.clause("14.3.2.10")
@pytest.mark.clause("13.2.7.mrt")
@pytest.mark.clause("14.2.6.mrt")
@pytest.mark.parametrize(("number", "name"), [(10, "MaxIOPS"), (12, "MidIOPS"), (14, "MinIOPS")])
def test_histograms_with_their_mrt(runs: dict[str, Made], test: str, number: int, name: str) -> None:
    made = runs[test]
    (every,) = latencies_ns(made.put, purpose=f"{name} histogram")
    (m,) = labelled(made.lines, purpose=f"{name} histogram")
    shown = made.figure(number)
    (series,) = shown.series
    assert series.style == "steps"
    assert sum(series.y) == len(every), "each I/O is in one bin"
    assert series.x[-1] >= every[-1] / 1e6, "the plot goes to the MRT or beyond"
    marks = {mark.label.split("  ")[0]: mark.at for mark in shown.marks}
    assert marks["MRT"] == every[-1] / 1e6
    assert marks["ART"] == pytest.approx(every.mean() / 1e6)
    assert shown.title.startswith(f"{name} T")
    row = {str(row[0]).split()[0]: row for row in made.report.summary[2].rows}[name]
    label = next(put.label for put in made.put if put.label.purpose == f"{name} histogram")
    assert row[0] == f"{name} T{label.thread_count}Q{label.queue_depth}"
    assert row[1:4] == pytest.approx((rate(m), rate(m, "window_bytes") / 1e6, every.mean() / 1e6))
    assert row[4] == pytest.approx(percentile_ns(every, 5) / 1e6, rel=1e-3)
    assert row[5:] == (every[-1] / 1e6, len(every))
    index = [str(r[0]).split()[0] for r in made.report.summary[2].rows].index(name)
    assert ((index, 4) in made.report.summary[2].marks) == (len(every) < 100_000)


@BOTH
@pytest.mark.clause("13.3.2.15")
@pytest.mark.clause("14.3.2.15")
def test_iops_and_bandwidth_over_total_oio(
    runs: dict[str, Made], truth: dict[str, dict[tuple[int, int], Expected]], test: str
) -> None:
    made, found = runs[test], truth[test]
    totals = sorted({tc * qd for tc, qd in COMBINATIONS})
    rows = table(made.report, "combinations", "total-oio").rows
    assert [row[0] for row in rows] == totals
    for index, (name, title) in enumerate((("iops", "IOPS"), ("mb_per_s", "MB/s"))):
        shown = made.plot(15).items[index]
        assert isinstance(shown, Bars)
        assert (shown.x_title, shown.y_title) == ("Total OIO", title)
        assert shown.categories == tuple(f"{total:,}" for total in totals)
        for j, total in enumerate(totals):
            same = [found[tc, qd] for tc, qd in COMBINATIONS if tc * qd == total]
            average = sum(getattr(e, name) for e in same) / len(same)
            assert shown.series[0].values[j] == pytest.approx(average)
            assert rows[j][1 + index] == pytest.approx(average)
    for row in rows:
        same = {(tc, qd): found[tc, qd] for tc, qd in COMBINATIONS if tc * qd == row[0]}
        ios = sum(e.ios for e in same.values())
        assert row[3] == pytest.approx(sum(e.art_ms * e.ios for e in same.values()) / ios)
        best = max(same, key=lambda point: same[point].iops)
        assert row[4] == f"T{best[0]}Q{best[1]}"
        assert row[5] == pytest.approx(same[best].iops)
        assert set(str(row[6]).split(", ")) == {f"T{tc}Q{qd}" for tc, qd in same}
    assert "average" in made.plot(15).notes[-1]


@BOTH
@pytest.mark.clause("13.2.4.3")
@pytest.mark.clause("14.2.3.3")
def test_table_of_all_combinations(
    runs: dict[str, Made], truth: dict[str, dict[tuple[int, int], Expected]], test: str
) -> None:
    made = runs[test]
    shown = table(made.report, "combinations", "points")
    order = [
        (put.label.thread_count, put.label.queue_depth)
        for put in made.put
        if put.label.purpose == "demand" and put.label.round == 1
    ]
    assert [row[:2] for row in shown.rows] == order
    for i, row in enumerate(shown.rows):
        e = truth[test][int(str(row[0])), int(str(row[1]))]
        assert row[2] == int(str(row[0])) * int(str(row[1]))
        assert row[3:6] == pytest.approx((e.iops, e.mb_per_s, e.art_ms), rel=1e-9)
        assert row[6] == pytest.approx(e.p99999_ms, rel=1e-3)
        assert row[7] == e.mrt_ms
        assert ((i, 6) in shown.marks) == (e.ios < 100_000)
    assert 0 < len(shown.marks) < 49
    assert cell_text(shown, max(shown.marks)[0], 6).endswith("*")


# The shares of Tables 13-1 and 13-2


@pytest.mark.clause("13.2.2.1.3")
@pytest.mark.clause("13.2.2.1.4")
def test_shares_of_every_measurement_period(runs: dict[str, Made]) -> None:
    made = runs["cbw"]
    periods = [m for number in WINDOW for m in labelled(made.lines, purpose="demand", round=number)]
    assert len(periods) == 245
    asked = {
        "size_ios": ("block_size", [share for _, share in COMPOSITE_BLOCKS]),
        "group_ios": ("lba_group", [50, 30, 20]),
    }
    for counter, (name, shares) in asked.items():
        rows = table(made.report, "shares", name).rows
        histograms = table(made.report, "shares", f"{name}-histograms").rows
        counts = np.array([m[counter] for m in periods])
        held = 100 * counts / counts.sum(axis=1, keepdims=True)
        for i, share in enumerate(shares):
            assert rows[i][1:5] == pytest.approx(
                (share, 100 * counts[:, i].sum() / counts.sum(), held[:, i].min(), held[:, i].max())
            )
            assert rows[i][5] == counts[:, i].sum()
        for j, point in enumerate(("MaxIOPS", "MidIOPS", "MinIOPS"), 2):
            (m,) = labelled(made.lines, purpose=f"{point} histogram")
            assert [row[j] for row in histograms[:-1]] == pytest.approx([100 * n / sum(m[counter]) for n in m[counter]])
            assert histograms[-1][j] == sum(m[counter])
    assert [row[0] for row in table(made.report, "shares", "lba_group").rows] == [
        "A: first 5 %",
        "B: next 15 %",
        "C: remaining 80 %",
    ]
    assert [row[0] for row in table(made.report, "shares", "block_size").rows][:4] == [
        "0.5 KiB",
        "1 KiB",
        "1.5 KiB",
        "2 KiB",
    ]
    assert all("in each of the 245 periods" in note for note in made.report.section("shares").notes)


@pytest.mark.clause("13.2.2.1.4")
def test_shares_that_do_not_hold_are_said(runs: dict[str, Made], tmp_path: Path) -> None:
    """One period of the window has all its I/Os in group C."""
    folder = tmp_path / "off"
    shutil.copytree(runs["cbw"].folder, folder)
    lines = journal(folder)
    at = next(i for i, line in enumerate(lines) if line["label"]["purpose"] == "demand" and line["label"]["round"] == 4)
    lines[at]["measurement"]["group_ios"] = [0, 0, sum(lines[at]["measurement"]["group_ios"])]
    (folder / "journal.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = build(folder)
    assert report.section("shares").notes[1].startswith("LBA groups: in 244 of the 245 periods")
    row = table(report, "shares", "lba_group").rows[2]
    assert row[4] == 100
    assert "shares_off" in [item.kind for item in report.disclosures]


def test_one_block_size_has_no_shares(runs: dict[str, Made]) -> None:
    assert "shares" not in [section.id for section in runs["dirth"].report.sections]


# The knee


def totals(*iops: float, art: float = 1.0) -> tuple[Total, ...]:
    """Total OIO 1, 2, 4 ..., each with twice the ART of the one before."""
    return tuple(Total(2**i, ((2**i, 1),), value, 1.0, art * 2**i, (2**i, 1)) for i, value in enumerate(iops))


@pytest.mark.parametrize(
    ("iops", "oio"),
    [
        ((100, 190, 340, 520, 530, 531), 8),
        # From the end of the growth on: one step that is flat by chance is no knee.
        ((100, 103, 200, 390, 395, 399), 8),
        ((100, 200, 400, 800, 1600), None),
        ((500, 500, 501, 499), 1),
        ((100, 200, 400, 419), 4),
        ((100, 200, 400, 420), None),
        ((100,), None),
    ],
)
def test_knee(iops: tuple[float, ...], oio: int | None) -> None:
    found = knee(totals(*iops))
    assert (found.oio if found else None) == oio


def test_no_knee_where_the_response_time_does_not_rise() -> None:
    flat = tuple(replace(total, art_ms=1.0) for total in totals(100, 200, 202, 203))
    assert knee(flat) is None


@BOTH
def test_knee_of_a_run(runs: dict[str, Made], truth: dict[str, dict[tuple[int, int], Expected]], test: str) -> None:
    found = truth[test]
    average: dict[int, float] = {}
    for total in sorted({tc * qd for tc, qd in COMBINATIONS}):
        same = [found[tc, qd].iops for tc, qd in COMBINATIONS if tc * qd == total]
        average[total] = sum(same) / len(same)
    growing = [total for total in average if average.get(2 * total, 0) >= 1.05 * average[total]]
    after = min(total for total in average if total > max(growing) and 2 * total in average)
    row = {r[0]: r for r in runs[test].report.summary[1].rows}["Knee (own rule)"]
    assert row[1:4] == ("", "", after)
    assert row[4] == pytest.approx(average[after])


# The header


@pytest.mark.clause("A")
@pytest.mark.clause("4.2")
def test_header_names_both_preconditionings_and_the_operating_points(runs: dict[str, Made]) -> None:
    points = {
        put.label.purpose: f"TC {put.label.thread_count} / QD {put.label.queue_depth}" for put in runs["dirth"].put
    }
    set_up, parameters = (block.fields for block in runs["dirth"].report.header.blocks[2:])
    assert set_up == (
        ("Data Pattern", "RND, entropy 100 %"),
        ("AR", "100 %"),
        ("Independent PC", "SEQ 128 KiB W, 2 x Cap., T1Q32"),
        ("Pre Condition 1", "RND/8 KiB, R/W 0/100"),
        ("TOIO - TC/QD", "TC 32 / QD 32"),
        ("SS Rounds", "3 - 7"),
        ("Pre Condition 2", "Inter Rnd Pre Write"),
        ("R/W %", "0/100"),
        ("TOIO - TC/QD", "TC 32 / QD 32"),
        ("Duration", "30 M or 10% Cap."),
    )
    assert parameters == (
        ("Data Pattern", "RND, entropy 100 %"),
        ("AR & Amount", "100 %"),
        ("Test Stimulus 1", "RND/8 KiB"),
        ("R/W %", "65/35"),
        ("TC / QD", "from 1 - 32, 49 combinations"),
        ("TC & QD Loops", "High to Low TOIO"),
        ("Steady State", "3 - 7 (of 7 rounds)"),
        ("Min IOPS Point", "TC 1 / QD 1"),
        ("Mid IOPS Point", points["MidIOPS histogram"]),
        ("Max IOPS Point", points["MaxIOPS histogram"]),
    )
    header = runs["cbw"].report.header
    assert header.title == "CBW - Composite block sizes, R/W 40/60"
    fields = dict(header.blocks[3].fields)
    assert (fields["Test Stimulus 1"], fields["R/W %"]) == ("RND/12 sizes, 0.5 - 64 KiB", "40/60")


@BOTH
@pytest.mark.clause("3.1")
def test_status_of_both_phases(runs: dict[str, Made], test: str) -> None:
    report = runs[test].report
    assert report.status == "pre-conditioning steady in rounds 3 - 7; demand variation steady in rounds 3 - 7"
    assert report.steady is True


# States of a run


def numbers(test: str, *which: int) -> list[str]:
    return [f"{SECTION[test]}-{FIRST[test] + number - 1}" for number in which]


def without_data(made: Made) -> list[str]:
    return [str(row[0]) for row in table(made.report, "not-reached", "not-reached").rows]


# How far a run came, the plots it has, its status.
CUTS: dict[str, tuple[Callable[[Label], bool], tuple[int, ...], str]] = {
    "before anything": (
        lambda label: True,
        (),
        "incomplete: pre-conditioning without a complete round; demand variation without a complete round",
    ),
    "before the first minute": (
        lambda label: label.purpose == "pre-conditioning",
        (),
        "incomplete: pre-conditioning without a complete round; demand variation without a complete round",
    ),
    "after one minute": (
        lambda label: label.purpose == "pre-conditioning" and label.number == 2,
        (1,),
        "incomplete: pre-conditioning not yet steady (1 round); demand variation without a complete round",
    ),
    "in pre-conditioning": (
        lambda label: label.purpose == "pre-conditioning" and label.number == 75,
        (1, 2),
        "incomplete: pre-conditioning not yet steady (3 rounds); demand variation without a complete round",
    ),
    "in the first pre-write": (
        lambda label: label.purpose == "pre-write" and label.number == 3,
        (1, 2, 3),
        "incomplete: pre-conditioning steady in rounds 3 - 7; demand variation without a complete round",
    ),
    "in round 2": (
        lambda label: label.purpose == "demand" and label.round == 2 and label.thread_count == label.queue_depth == 8,
        (1, 2, 3, 4, 6, 7, 8, 15),
        "incomplete: pre-conditioning steady in rounds 3 - 7; demand variation not yet steady (1 round)",
    ),
    "in round 4": (
        lambda label: label.purpose == "demand" and label.round == 4,
        (1, 2, 3, 4, 5, 6, 7, 8, 15),
        "incomplete: pre-conditioning steady in rounds 3 - 7; demand variation not yet steady (3 rounds)",
    ),
    "before the histograms": (
        lambda label: label.purpose == "MaxIOPS pre-write",
        (1, 2, 3, 4, 5, 6, 7, 8, 15),
        "incomplete: pre-conditioning steady in rounds 3 - 7; "
        "demand variation steady in rounds 3 - 7; 0 of 3 histograms",
    ),
    "between histograms": (
        lambda label: label.purpose == "MinIOPS pre-write" and label.number == 13,
        (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 15),
        "incomplete: pre-conditioning steady in rounds 3 - 7; "
        "demand variation steady in rounds 3 - 7; 1 of 3 histograms",
    ),
}


@BOTH
@pytest.mark.clause("4.4")
@pytest.mark.parametrize("state", CUTS)
def test_interrupted_runs_show_what_there_is(runs: dict[str, Made], tmp_path: Path, test: str, state: str) -> None:
    where, there, status = CUTS[state]
    made = cut(runs[test], tmp_path / "cut", where)
    assert made.report.status == status
    assert plots(made.report) == numbers(test, *there)
    assert without_data(made) == numbers(test, *(number for number in range(1, 16) if number not in there))
    assert not made.report.valid and made.report.steady is None
    assert made.report.section("run-details")
    show(made.report, Console(file=StringIO(), width=80))
    write_html(made.report, tmp_path / "report.html")


@BOTH
def test_figures_of_an_interrupted_demand_variation(runs: dict[str, Made], tmp_path: Path, test: str) -> None:
    made = cut(runs[test], tmp_path / "cut", CUTS["in round 4"][0])
    whole = runs[test]
    rows = {row[:2]: row for row in table(made.report, "combinations", "points").rows}
    for point in ((1, 1), (8, 4), (32, 32)):
        e = expected(whole, *point, rounds=range(1, 4))
        assert rows[point][3:6] == pytest.approx((e.iops, e.mb_per_s, e.art_ms))
        assert rows[point][7] == e.mrt_ms
    assert made.figure(7).callouts == ()
    assert any("chosen when the demand variation has ended" in note for note in made.plot(7).notes)
    assert dict(made.report.header.blocks[3].fields)["Max IOPS Point"] == "not chosen"
    assert any("Only rounds 1-3 are complete" in note for note in made.plot(6).notes)
    assert cells(table(made.report, made.id(5), "determination"))["Steady state (2.1.24)"][3] == "not judged"
    assert len(made.report.summary) == 1


@BOTH
def test_points_of_an_incomplete_round_are_not_shown(runs: dict[str, Made], tmp_path: Path, test: str) -> None:
    made = cut(runs[test], tmp_path / "cut", CUTS["in round 2"][0])
    partial = sum(put.label.purpose == "demand" and put.label.round == 2 for put in made.put)
    assert any(f"{partial} of 49 points of an incomplete further round" in note for note in made.plot(4).notes)
    assert made.figure(4).series[0].x == (1,)
    assert {row[0] for row in table(made.report, made.id(3), "rounds").rows} == {1, 2}, (
        "pre-writes are shown as they come"
    )


@BOTH
@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_operating_points_are_known_before_their_histograms(runs: dict[str, Made], tmp_path: Path, test: str) -> None:
    """The run did not say which they are; the report chooses as the test does."""
    made = cut(runs[test], tmp_path / "cut", CUTS["between histograms"][0])
    whole = runs[test].report
    assert made.report.summary[1] == whole.summary[1]
    assert made.figure(7).callouts == runs[test].figure(7).callouts
    assert [str(row[0]).split()[0] for row in made.report.summary[2].rows] == ["MaxIOPS"]
    assert made.plot(13).notes[0].startswith("12 of 60 minutes")


@BOTH
@pytest.mark.clause("13.2.3.2")
@pytest.mark.clause("14.2.2.2")
@pytest.mark.clause("13.2.4.3.3")
@pytest.mark.clause("14.2.3.3.3")
def test_a_run_that_is_never_steady(tmp_path: Path, test: str) -> None:
    made = make(tmp_path / "moving", test, Drive(moving=True), pc_max_rounds=6, max_rounds=7, round_spacing_minutes=5)
    assert plots(made.report) == numbers(test, *range(1, 16))
    assert made.report.status == (
        "pre-conditioning NOT steady in 6 rounds, figures are of rounds 2 - 6; "
        "demand variation NOT steady in 7 rounds, figures are of rounds 3 - 7"
    )
    assert made.report.steady is False
    assert [item.kind for item in made.report.disclosures].count("steady_state_not_reached") == 2
    assert [row[6] for row in made.report.summary[0].rows] == ["NOT steady", "NOT steady"]
    assert dict(made.report.header.blocks[2].fields)["SS Rounds"] == "not reached"
    assert dict(made.report.header.blocks[3].fields)["Steady State"] == "not reached (of 7 rounds)"
    assert made.figure(1).bands[0].label == "Rounds reported: rounds 2-6"
    e = expected(made, 4, 6)
    rows = {row[:2]: row for row in table(made.report, "combinations", "points").rows}
    assert rows[4, 6][3:6] == pytest.approx((e.iops, e.mb_per_s, e.art_ms))


@BOTH
@pytest.mark.clause("13.3.2.9")
@pytest.mark.clause("14.3.2.9")
@pytest.mark.clause("13.3.2.10")
@pytest.mark.clause("14.3.2.10")
def test_several_middle_points(tmp_path: Path, test: str) -> None:
    short = {"round_spacing_minutes": 5, "final_prewrite_minutes": 3, "mid_points": 3}
    made = make(tmp_path / "mids", test, Drive(), **short)
    section, first = SECTION[test], FIRST[test]
    middle = [f"{section}-{first + plot - 1}.{i}" for plot in (11, 12) for i in (1, 2, 3)]
    assert plots(made.report) == [*numbers(test, *range(1, 11)), *middle, *numbers(test, 13, 14, 15)]
    last = max(put.label.round or 0 for put in made.put)
    found = {point: expected(made, *point, rounds=range(last - 4, last + 1)) for point in COMBINATIONS}
    points = chosen(found, 3)
    assert {c.label for c in made.figure(7).callouts} == {f"{name} T{tc}Q{qd}" for name, (tc, qd) in points.items()}
    for number in (1, 2, 3):
        shown = made.report.section(f"plot-{middle[2 + number].replace('.', '-')}")
        (every,) = latencies_ns(made.put, purpose=f"MidIOPS {number} histogram")
        assert shown.title == f"Mid IOPS Histogram - MidIOPS {number}"
        (mrt,) = [m.at for m in shown.items[0].marks if m.label.startswith("MRT")]  # type: ignore[union-attr]
        assert mrt == every[-1] / 1e6
    assert [row[0] for row in made.report.summary[1].rows][:5] == [
        "MaxIOPS",
        "MidIOPS 1",
        "MidIOPS 2",
        "MidIOPS 3",
        "MinIOPS",
    ]
    low, high = found[1, 1].iops, found[points["MaxIOPS"]].iops
    assert made.report.summary[1].rows[3][6] == f"nearest to {low + (high - low) * 3 / 4:,.1f} IOPS"
    files = write_csv(made.report, tmp_path / "csv")
    assert len({path.name for path in files}) == len(files)


@BOTH
def test_a_drive_that_does_not_saturate_has_no_middle_point(tmp_path: Path, test: str) -> None:
    short = {"round_spacing_minutes": 5, "final_prewrite_minutes": 3}
    made = make(tmp_path / "flat", test, Drive(flat=True), **short)
    assert without_data(made) == numbers(test, 11, 12)
    (problem,) = made.report.section("not-reached").notes
    assert "no combination is left with IOPS between" in problem
    assert problem in made.report.summary[1].notes
    assert dict(made.report.header.blocks[3].fields)["Mid IOPS Point"] == "none"
    assert made.report.complete and "no_operating_point" in [item.kind for item in made.report.disclosures]
    assert {row[0]: row[3] for row in made.report.summary[1].rows}["Knee (own rule)"] == 1


@BOTH
@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_a_drive_too_slow_for_the_limit(tmp_path: Path, test: str) -> None:
    short = {"round_spacing_minutes": 5, "final_prewrite_minutes": 3}
    made = make(tmp_path / "slow", test, Drive(slow=100), **short)
    rows = {row[0]: row for row in made.report.summary[1].rows}
    assert rows["MaxIOPS"][6] == "most IOPS of all"
    assert min(y for series in made.figure(7).series for y in series.y) > 5
    assert any("no combination has an ART below 5 ms" in note for note in made.report.summary[1].notes)


def test_composite_workload_of_dirth_has_shares(tmp_path: Path) -> None:
    short = {"round_spacing_minutes": 5, "final_prewrite_minutes": 3, "histogram_s": 5.0, "point_s": 1.0}
    made = make(tmp_path / "composite", "dirth", Drive(), workload="composite", **short)
    assert made.report.header.title == "DIRTH - Composite block sizes, R/W 40/60"
    assert made.report.section("shares").clause == "13.2 2.1.3, 2.1.4"
    assert made.report.summary[2].title == "Histograms, 5 s each"


# As pages and files


@BOTH
def test_pages_and_files(runs: dict[str, Made], tmp_path: Path, test: str) -> None:
    report = runs[test].report
    write_html(report, tmp_path / "report.html")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert all(f"Plot {plot}, clause" in html for plot in numbers(test, *range(1, 16)))
    assert all(title in html for title in TITLES[test].values())
    files = {path.name for path in write_csv(report, tmp_path / "csv")}
    assert {f"plot-{plot}.csv" for plot in numbers(test, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 14)} <= files
    assert {"combinations-points.csv", "combinations-total-oio.csv"} <= files
    for width in (80, 120):
        out = StringIO()
        show(report, Console(file=out, width=width))
        text = out.getvalue()
        assert "Operating points" in text and "MidIOPS" in text
        matrix = report.main
        assert isinstance(matrix, Table)
        assert all(cell_text(matrix, i, j) in text for i in range(7) for j in range(1, 8)), "no number is cut"


def test_paper(runs: dict[str, Made], tmp_path: Path) -> None:
    write_pdf(runs["cbw"].report, tmp_path / "report.pdf")
    pages = [page.extract_text() for page in pypdf.PdfReader(tmp_path / "report.pdf").pages]
    for number, title in TITLES["cbw"].items():
        place = f"Plot {numbers('cbw', number)[0]}, clause 13.3.2.{number}"
        assert any(title in page and place in page for page in pages), title
