"""The XSR report: every number a second way, both readings of the recovery time at their limits, and the states."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes import measurement
from flashgauge.report import Report
from flashgauge.report.series import Point
from flashgauge.report.xsr_metrics import (
    CrossStimulus,
    Group,
    recovery_level,
    recovery_to_level,
    recovery_to_level_by_second,
    recovery_to_peak,
    settled_minutes,
)
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.xsr import XsrParameters
from flashgauge.steps import Label
from report_data import cells, figure, table
from report_runs import Put, journal, latencies_ns
from timed_runs import ends_s, make_timed, of, pooled, rates, rendered

SETTINGS = {"group_1_minutes": 20, "group_2_minutes": 18, "group_3_minutes": 70, "minute_s": 3.5}
COUNTS = (20, 18, 70)


def dipping(label: Label) -> float:
    """400 MB/s, then 140, then a climb back over nine minutes; no two minutes alike."""
    number = label.number or 0
    odd = number * 7 % 11
    if label.purpose == "access group 1":
        return 400 + odd / 10
    if label.purpose == "access group 2":
        return 17_000 + odd * 10
    return min(392.0, 150 + 28 * number) + odd / 10


def second_weights(label: Label, i: int) -> float:
    """In group 3 each minute climbs within itself."""
    return 1.0 + 0.02 * i if label.purpose == "access group 3" else 1.0


@pytest.fixture(scope="module")
def recovered(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    folder = tmp_path_factory.mktemp("xsr") / "recovered"
    put = make_timed(folder, "xsr", dipping, settings=SETTINGS, host=True, weights=second_weights)
    return folder, put, rendered(folder)[0]


def groups(folder: Path) -> list[list[dict[str, Any]]]:
    lines = journal(folder)
    return [of(lines, f"access group {number}") for number in (1, 2, 3)]


def mb_per_s(lines: list[dict[str, Any]]) -> list[float]:
    return [rate / 1e6 for rate in rates(lines, "window_bytes")]


# Plots


@pytest.mark.clause("12.3.2")
@pytest.mark.clause("12.2.2")
@pytest.mark.clause("12.2.3")
@pytest.mark.clause("12.2.4")
def test_all_groups_over_time(recovered: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = recovered
    ends = np.array(ends_s(journal(folder))) / 60
    shown = [figure(report, "plot-12-2", i) for i in range(3)]
    assert [f.y_title for f in shown] == ["MB/s", "ART, ms", "MRT, ms"]
    assert shown[1].y_log == shown[2].y_log
    places = np.split(ends, np.cumsum(COUNTS)[:-1])
    for number, lines in enumerate(groups(folder), 1):
        each = latencies_ns(put, purpose=f"access group {number}")
        wanted = (mb_per_s(lines), [v.mean() / 1e6 for v in each], [v[-1] / 1e6 for v in each])
        for drawn, values in zip(shown, wanted, strict=True):
            series = drawn.series[number - 1]
            assert series.name.startswith(f"Group {number}: {'RND 8' if number == 2 else 'SEQ 1024'} KiB W")
            assert series.x == pytest.approx(places[number - 1])
            assert series.y == pytest.approx(values)
        alone = next(s for s in figure(report, "plot-12-1").series if s.name.startswith(f"Group {number}"))
        assert alone.y == pytest.approx(wanted[0])
    marks = figure(report, "plot-12-1").marks
    arrow = "\N{RIGHTWARDS ARROW}"
    assert [mark.label for mark in marks] == [f"SEQ{arrow}RND", f"RND{arrow}SEQ"]
    assert [mark.at for mark in marks] == pytest.approx([ends[COUNTS[0] - 1], ends[sum(COUNTS[:2]) - 1]])


@pytest.mark.clause("12.3.2.transitions")
@pytest.mark.parametrize("number", [1, 2])
def test_transitions_are_enlarged(recovered: tuple[Path, list[Put], Report], number: int) -> None:
    folder, _, report = recovered
    lines, every = journal(folder), groups(folder)
    first = sum(COUNTS[:number])
    shown = lines[first - 15 : first + 60][: 15 + COUNTS[number]]
    ends = ends_s(lines)
    origin, zero = lines[0]["measurement"]["start_ns"], ends[first - 1]
    throughput, times = (figure(report, f"xsr-transition-{number}", i) for i in (0, 1))
    series = {s.name: s for s in throughput.series}
    for group in (number, number + 1):
        found = series[f"Each minute of group {group}"]
        part = every[group - 1][-15:] if group == number else every[group - 1][:60]
        assert found.y == pytest.approx(mb_per_s(part))
        places = [ends[line["sequence"]] - zero for line in part]
        assert found.x == pytest.approx(places if throughput.x_name == "from_switch_s" else np.array(places) / 60)
    # Each minute has three whole seconds and a half one, which is left out.
    seconds = [n / 1e6 for line in shown for n in line["measurement"]["intervals"]["write_bytes"][:3]]
    assert series["Each second"].y == pytest.approx(seconds)
    starts = [(line["measurement"]["start_ns"] - origin) / 1e9 - zero for line in shown]
    assert series["Each second"].x == pytest.approx([s + i for s in starts for i in (1, 2, 3)])
    response = {s.name: s for s in times.series}
    assert response["ART, each minute"].y == pytest.approx([pooled([line])["art_ms"] for line in shown])
    assert response["MRT, each minute"].y == pytest.approx([pooled([line])["mrt_ms"] for line in shown])
    assert len(response["ART, each second"].x) == len(seconds) == len(response["MRT, each second"].x)
    assert throughput.marks[0].at == 0.0


@pytest.mark.clause("12.3.2.transitions")
def test_long_transitions_are_shown_by_the_second(tmp_path: Path, recovered: tuple[Path, list[Put], Report]) -> None:
    assert all("seconds" not in section.id for section in recovered[2].sections), "they are visible as they are"
    settings = {"group_1_minutes": 3, "group_2_minutes": 4, "group_3_minutes": 12, "minute_s": 60}
    folder = tmp_path / "run"
    make_timed(folder, "xsr", dipping, settings=settings, weights=second_weights)
    report, _ = rendered(folder)
    second, third = groups(folder)[1:]
    throughput, times = (figure(report, "xsr-transition-2-seconds", i) for i in (0, 1))
    for series, lines in zip(throughput.series, (second[-1:], third[:3]), strict=True):
        wanted = [n / 1e6 for line in lines for n in line["measurement"]["intervals"]["write_bytes"]]
        assert series.y == pytest.approx(wanted)
    assert throughput.series[0].x[-1] == pytest.approx(0.0)
    assert throughput.series[1].x == pytest.approx([60.007 * (i // 60) + 0.007 + i % 60 + 1 for i in range(180)])
    assert [series.name for series in times.series] == ["ART", "MRT"]
    counts = [line["measurement"]["intervals"] for line in (*second[-1:], *third[:3])]
    assert times.series[1].y == pytest.approx([n / 1e6 for found in counts for n in found["latency_max_ns"]])


# Tables


@pytest.mark.clause("12.3.2.3")
def test_table_of_groups(recovered: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = recovered
    rows = cells(table(report, "plot-12-3", "groups"))
    for column, lines in enumerate(groups(folder)):
        each = latencies_ns(put, purpose=f"access group {column + 1}")
        values = mb_per_s(lines)
        wanted = {
            "MB/s, average": pooled(lines)["mb_per_s"],
            "MB/s, peak": max(values),
            "Minute of that peak": values.index(max(values)) + 1,
            "MB/s, settled": np.mean(values[-(len(values) // 4) :]),
            "ART, ms, average": np.concatenate(each).mean() / 1e6,
            "ART, ms, peak": max(v.mean() for v in each) / 1e6,
            "MRT, ms, peak": max(v[-1] for v in each) / 1e6,
        }
        for name, value in wanted.items():
            assert rows[name][column] == pytest.approx(value), name
        assert rows["Minutes measured"][column] == str(COUNTS[column])
    titles = [column.title for column in table(report, "plot-12-3", "groups").columns]
    assert titles[1:4] == ["1: SEQ 1024 KiB W, 70 s", "2: RND 8 KiB W, 63 s", "3: SEQ 1024 KiB W, 4.08 minutes"]


@pytest.mark.clause("12.3.2.3")
def test_recovery_times(recovered: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = recovered
    first, second, third = groups(folder)
    ends = ends_s(journal(folder))
    ended = ends[second[-1]["sequence"]]
    values = mb_per_s(third)
    level = 0.95 * float(np.mean(mb_per_s(first)[-5:]))
    peak = int(np.argmax(values))
    back = next(i for i, value in enumerate(values) if value >= level)
    assert 0 < back < peak
    origin = journal(folder)[0]["measurement"]["start_ns"]
    seconds = [
        ((line["measurement"]["start_ns"] - origin) / 1e9 + i + 1 - ended, n / 1e6)
        for line in third
        for i, n in enumerate(line["measurement"]["intervals"]["write_bytes"][:3])
    ]
    second_back = next((at, value) for at, value in seconds if value >= level)
    for found in (report.summary[0], table(report, "plot-12-3", "recovery")):
        rows = [row[1:] for row in found.rows]
        assert rows[0][:3] == pytest.approx(((ends[third[peak]["sequence"]] - ended) / 60, values[peak], values[peak]))
        assert rows[1][:3] == pytest.approx(((ends[third[back]["sequence"]] - ended) / 60, level, values[back]))
        assert rows[2][:3] == pytest.approx((second_back[0] / 60, level, second_back[1]))
        assert [row[3] for row in rows] == ["minute", "minute", "second"]
        assert "12.1" in str(found.rows[0][0])
    settled = [float(np.mean(mb_per_s(lines)[-(len(lines) // 4) :])) for lines in (first, third)]
    assert (
        f"Group 3 settled at {settled[1]:,.1f} MB/s, {100 * settled[1] / settled[0]:,.1f} %"
        in report.summary[0].notes[1]
    )
    assert report.status.endswith(f"{(ends[third[back]['sequence']] - ended) / 60:,.2f} minutes")
    marks = {mark.label: mark.at for mark in figure(report, "xsr-transition-2").marks}
    assert marks["first minute at 95 %"] == pytest.approx(ends[third[back]["sequence"]] - ended)


@pytest.mark.clause("12.3.2.4")
def test_secondary_metrics(recovered: tuple[Path, list[Put], Report], tmp_path: Path) -> None:
    folder, _, report = recovered
    rows = cells(table(report, "plot-12-4", "secondary"))
    for name, metric, scale in (
        ("Average power, mW", "power_w", 1e3),
        ("CPU System Usage, %", "cpu_system_percent", 1.0),
        ("CPU IO Wait, %", "cpu_iowait_percent", 1.0),
    ):
        wanted = [scale * np.mean([line["measurement"]["host"][metric] for line in lines]) for lines in groups(folder)]
        assert rows[name] == pytest.approx(tuple(wanted))
    assert figure(report, "plot-12-4", 1).name == "cpu" and figure(report, "plot-12-4", 2).name == "power"
    make_timed(tmp_path / "run", "xsr", dipping, settings={**SETTINGS, "group_3_minutes": 4})
    bare, _ = rendered(tmp_path / "run")
    found = cells(table(bare, "plot-12-4", "secondary"))
    assert all(row == ("not measured",) * 3 for row in found.values())
    assert bare.section("plot-12-4").notes == (
        "Not measured (no source): Average power, CPU System Usage, CPU IO Wait.",
    )


@pytest.mark.clause("12.1.oio")
def test_header(recovered: tuple[Path, list[Put], Report]) -> None:
    _, _, report = recovered
    assert report.header.title == "XSR - SEQ 1024 KiB W / RND 8 KiB W / SEQ 1024 KiB W"
    fields = report.header.blocks[3].fields
    places = [name for name, _ in fields]
    for number, toio in ((1, "TC 1 / QD 32"), (2, "TC 4 / QD 32"), (3, "TC 1 / QD 32")):
        assert fields[places.index(f"Test Stimulus {number}") + 1] == ("TOIO - TC/QD", toio)
    assert dict(fields)["Steady State"] == "n/a: none is asked for"
    assert report.steady is None and report.complete


# The recovery times, by hand: minutes of one second each, and their MB/s


def crossed(first: list[float], third: list[float], *, expected: int | None = None) -> CrossStimulus:
    """Minutes of 1 s each; group 2 has two. `expected`: minutes of group 3, those given by default."""
    parameters = XsrParameters.standard(DeviceClass.ENTERPRISE)
    made = {}
    at_s = 0.0
    for number, values in ((1, first), (2, [1.0, 1.0]), (3, third)):
        points = []
        for i, value in enumerate(values):
            m = measurement(value * 1e6 / 4096, window_s=1.0)
            points.append(Point(Label("", number=i + 1), at_s, at_s + 1, 0, m))
            at_s += 1
        count = len(values) if number < 3 or expected is None else expected
        made[number] = Group(number, "", tuple(points), count)
    return CrossStimulus(parameters, (made[1], made[2], made[3]))


LEVEL = [900.0, 500.0, 300.0, 100.0, 100.0, 100.0, 100.0, 100.0]


@pytest.mark.clause("12.3.2.3")
@pytest.mark.parametrize(
    ("third", "to_level_s", "to_peak_s"),
    [
        ([100.0, 100.0, 100.0], 1, 1),  # At once; a tie: the first.
        ([50.0, 99.0, 120.0, 120.0], 2, 3),
        ([96.0, 10.0, 99.0], 1, 3),
        ([10.0, 94.9, 95.1], 3, 3),
        ([94.9, 94.8], None, 1),  # A peak there always is.
        ([20.0], None, 1),
        ([120.0], 1, 1),
    ],
)
def test_recovery_at_its_limits(third: list[float], to_level_s: int | None, to_peak_s: int) -> None:
    data = crossed(LEVEL, third)
    level = recovery_level(data)
    assert level == pytest.approx(0.95 * 100, rel=1e-4), "of the last two of eight minutes, not of all"
    found, by_second, peak = recovery_to_level(data), recovery_to_level_by_second(data), recovery_to_peak(data)
    assert found is not None and by_second is not None and peak is not None
    assert (found.after_s, by_second.after_s) == (to_level_s, to_level_s)
    assert (found.at is None) == (to_level_s is None)
    assert peak.after_s == to_peak_s
    assert peak.level_mb_per_s == max(point.mb_per_s for point in data.groups[2].minutes)


@pytest.mark.clause("12.3.2.3")
def test_recovery_is_not_claimed_before_it_is_known() -> None:
    cut_low, cut_high = crossed(LEVEL, [20.0, 30.0], expected=5), crossed(LEVEL, [20.0, 99.0], expected=5)
    assert recovery_to_level(cut_low) is None, "it may still come"
    found = recovery_to_level(cut_high)
    assert found is not None and found.after_s == 2
    assert recovery_to_peak(cut_low) is None and recovery_to_peak(cut_high) is None, "the peak may still come"
    empty = crossed(LEVEL, [], expected=5)
    assert recovery_to_level(empty) is None and recovery_to_peak(empty) is None


@pytest.mark.parametrize(("count", "settled"), [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (480, 120)])
def test_settled_is_the_last_quarter(count: int, settled: int) -> None:
    minutes = crossed([1.0] * count, []).groups[0].minutes
    assert settled_minutes(minutes) == minutes[-settled:]


@pytest.mark.clause("12.3.2.3")
@pytest.mark.parametrize(
    ("rate", "to_level", "status"),
    [
        (lambda n: 200.0, "not recovered", "bandwidth NOT back at 95 % of group 1 within group 3"),
        (lambda n: 400.0, pytest.approx(3.507 / 60), "bandwidth back at 95 % of group 1 in 0.06 minutes"),
    ],
)
def test_recovery_in_words(tmp_path: Path, rate: Callable[[int], float], to_level: Any, status: str) -> None:
    """It never comes, and it comes in the first minute: the hand-over of 7 ms and a minute of 3.5 s later."""

    def drive(label: Label) -> float:
        return {"1": 400.0, "2": 17_000.0}.get(label.purpose[-1]) or rate(label.number or 0)

    make_timed(tmp_path / "run", "xsr", drive, settings=SETTINGS)
    report, text = rendered(tmp_path / "run")
    rows = report.summary[0].rows
    assert rows[1][1] == to_level
    assert (rows[2][1] == "not recovered") == (to_level == "not recovered")
    assert rows[0][1] == pytest.approx(3.507 / 60), "all minutes are equal: the first is the peak"
    assert report.status == f"three access groups complete; {status}"
    assert ("not recovered" in text) == (to_level == "not recovered")


# States of a run


@pytest.mark.parametrize("steps", [0, 1, 20, 21, 38, 39, 60])
def test_cut_short(tmp_path: Path, steps: int) -> None:
    make_timed(tmp_path / "run", "xsr", dipping, settings=SETTINGS, steps=steps)
    report, _ = rendered(tmp_path / "run")
    assert not report.complete
    if not steps:
        assert report.status == "incomplete: no minute is complete"
        assert not report.summary and report.main is None
        return
    done = next(n for n, last in ((1, 20), (2, 38), (3, 108)) if steps <= last)
    count = steps - (0, 20, 38)[done - 1]
    assert report.status == f"incomplete: ended in access group {done}, {count} of {COUNTS[done - 1]} minutes"
    assert [s.plot for s in report.sections if s.plot] == ["12-1", "12-2", "12-3", "12-4"]
    for number in (1, 2):
        section = report.section(f"xsr-transition-{number}")
        assert bool(section.items) == (done > number), section.id
        if done <= number:
            assert section.notes == (
                f"The run ended before the first minute of access group {number + 1} was complete.",
            )
    rows = cells(table(report, "plot-12-3", "groups"))
    assert rows["Minutes measured"][done - 1] == (
        str(count) if count == COUNTS[done - 1] else f"{count} of {COUNTS[done - 1]}"
    )
    if done < 3:
        assert rows["MB/s, average"][2] is None
        assert [row[1] for row in report.summary[0].rows] == ["not known"] * 3
    if steps == 60:
        assert report.summary[0].rows[0][1] == "not known", "the peak may still come"
        assert isinstance(report.summary[0].rows[1][1], float)
