"""The WSAT report: every number a second way, what ended the test, and the states a run can be in."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fakes import direction, measurement
from flashgauge.measurement import NS_PER_S, Direction, Intervals, Measurement
from flashgauge.report import Report, build
from flashgauge.report.model import LineFigure
from flashgauge.report.series import (
    duration,
    fills_axis,
    line,
    points,
    pooled_art_ms,
    pooled_iops,
    pooled_mb_per_s,
    seconds,
    shifted_axis,
    time_axis,
    time_value,
    written_axis,
)
from flashgauge.report.wsat_metrics import plateau_length, settled_minutes
from flashgauge.runfolder import Entry
from flashgauge.steps import Label
from report_data import cells, figure, table
from report_runs import Put, journal, latencies_ns, percentile_ns
from timed_runs import GB, REPORT_TIME, ends_s, make_timed, of, pooled, rates, rendered

SPACING = 6
MINUTE = {"minute_s": 2.5, "round_spacing_minutes": SPACING, "histogram_s": 9}
CAPACITY = 2 * GB


def falling(label: Label) -> float:
    """Fresh for five minutes, then down to a third; no two minutes alike."""
    if label.number is None:
        return 20_123.0
    fresh = 60_000 if label.number <= 5 else 20_000 + 30_000 * math.exp(-(label.number - 5) / 2)
    return fresh + 37.0 * (label.number * 7 % 11)


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    """Ended by steady state; power and CPU measured."""
    folder = tmp_path_factory.mktemp("wsat") / "steady"
    put = make_timed(
        folder, "wsat", falling, settings={**MINUTE, "max_capacities": 900}, capacity_bytes=CAPACITY, host=True
    )
    return folder, put, rendered(folder)[0]


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    """Ended by capacity after fewer than 30 minutes."""
    folder = tmp_path_factory.mktemp("wsat") / "short"
    put = make_timed(folder, "wsat", falling, settings=MINUTE, capacity_bytes=CAPACITY)
    return folder, put, rendered(folder)[0]


def minutes_of(folder: Path) -> list[dict[str, Any]]:
    return of(journal(folder), "minute")


def written(folder: Path) -> list[int]:
    """Total bytes written by the end of each minute: whole numbers, straight from the journal."""
    counts = [line["measurement"]["written_bytes"] for line in minutes_of(folder)]
    return [sum(counts[: i + 1]) for i in range(len(counts))]


def rounds_in(minutes: int) -> int:
    return (minutes + SPACING - 1) // SPACING


def lines_of(shown: LineFigure) -> dict[str, tuple[tuple[float, ...], tuple[float, ...]]]:
    return {series.name: (series.x, series.y) for series in shown.series}


# Points over time, by hand


def by_hand() -> list[Entry]:
    """Three steps with 20 ms, then 130 ms between their windows, and bytes written between the windows."""

    def step(
        number: int, start_ns: int, window_ns: int, in_window: int, between: int, series: tuple[int, ...]
    ) -> Entry:
        write = Direction(len(series), in_window, len(series), in_window, 5000, 2500, direction(2, 2500).counts)
        intervals = Intervals(
            NS_PER_S,
            (0,) * len(series),
            (1,) * len(series),
            (0,) * len(series),
            series,
            (0,) + (1,) * (len(series) - 1),
            (0,) + (2500,) * (len(series) - 1),
            (0,) + (2500,) * (len(series) - 1),
        )
        m = Measurement(
            start_ns=start_ns,
            window_ns=window_ns,
            read=direction(0),
            write=write,
            intervals=intervals,
            submitted_ios=3,
            handover_ios=0,
            late_ios=0,
            handover_ns=0,
            bridge_ios=0,
            gap_ns=0,
            stop_reason="complete",
            written_bytes=in_window + between,
        )
        return Entry(number, "measure", Label("minute", number=number + 1), m)

    return [
        step(0, 1_000_000_000, 2_500_000_000, 60, 0, (10, 20, 30)),
        step(1, 3_520_000_000, 2_000_000_000, 70, 5, (30, 40)),
        step(2, 5_650_000_000, 3_000_000_000, 90, 11, (20, 30, 40)),
    ]


@pytest.mark.clause("10.3.3")
def test_time_and_bytes_written_count_what_is_between_the_windows() -> None:
    found = points(by_hand())
    assert [point.start_s for point in found] == [0.0, 2.52, 4.65]
    assert [point.end_s for point in found] == [2.5, 4.52, 7.65]
    assert [point.written_bytes for point in found] == [60, 135, 236]
    assert [fills_axis(1000).value(point) for point in found] == [0.06, 0.135, 0.236]
    assert [written_axis().value(point) for point in found] == [6e-8, 1.35e-7, 2.36e-7]
    assert [point.iops for point in found] == [3 / 2.5, 1.0, 1.0]
    assert pooled_iops(found) == 8 / 7.5
    assert pooled_mb_per_s(found) == pytest.approx(220 / 7.5 / 1e6)
    assert pooled_art_ms(found) == pytest.approx(15_000 / 8 / 1e6)
    assert pooled_iops([]) is None and pooled_art_ms([]) is None and pooled_mb_per_s([]) is None


def test_seconds_are_whole_and_end_where_they_end() -> None:
    found = seconds(points(by_hand()))
    # The last half second of the first step is left out: its rate would be half of what it was.
    assert [second.end_s for second in found] == pytest.approx([1, 2, 3.52, 4.52, 5.65, 6.65, 7.65])
    # Before the first second of step 2, its 5 bytes between the windows are written too.
    assert [second.written_bytes for second in found] == [10, 30, 95, 135, 166, 196, 236]
    assert [second.mb_per_s * 1e6 for second in found] == pytest.approx([10, 20, 30, 40, 20, 30, 40])
    assert [second.art_ms for second in found] == [None, 0.0025, None, 0.0025, None, 0.0025, 0.0025]
    assert line("", found, time_axis(8), lambda p: p.mrt_ms, "").y[1:2] == (0.0025,)
    assert math.isnan(line("", found, time_axis(8), lambda p: p.mrt_ms, "").y[0])


@pytest.mark.parametrize(
    ("span_s", "name", "value"),
    [(300, "elapsed_s", 90.0), (301, "elapsed_min", 1.5), (10_800, "elapsed_min", 1.5), (10_801, "elapsed_h", 0.025)],
)
def test_time_axis(span_s: float, name: str, value: float) -> None:
    axis = time_axis(span_s)
    assert axis.name == name
    assert time_value(axis, 90.0) == value
    shifted = shifted_axis(span_s, 60.0, "Time", "time")
    assert time_value(shifted, 150.0) == value


@pytest.mark.parametrize(
    ("value_s", "text"),
    [
        (0.5, "0.5 s"),
        (60, "1 minute"),
        (69, "69 s"),
        (120, "2 minutes"),
        (750, "12.5 minutes"),
        (3600, "1 hour"),
        (21_600, "6 hours"),
    ],
)
def test_durations(value_s: float, text: str) -> None:
    assert duration(value_s) == text


def brute_plateau(values: list[float], hold: int) -> int:
    """The same definition, read off all positions at once."""
    ends = [i for i in range(1, len(values) - hold + 1) if max(values[i : i + hold]) < 0.9 * float(np.mean(values[:i]))]
    return min(ends, default=len(values))


@pytest.mark.parametrize("hold", [1, 5])
def test_plateau(hold: int) -> None:
    draw = np.random.default_rng(3)
    for _ in range(300):
        values = list(draw.uniform(0.85, 1.15, draw.integers(1, 30)))
        values += list(draw.uniform(0.6, 1.0, draw.integers(0, 12)))
        assert plateau_length(values, hold) == brute_plateau(values, hold)
    assert plateau_length([100.0], hold) == 1
    assert plateau_length([100.0, 100.0, 90.0], 1) == 3, "90 % is not below 90 %"
    assert plateau_length([100.0, 100.0, 89.9], 1) == 2
    assert plateau_length([100.0] + [80.0] * 4, 5) == 5, "four seconds are not five"


# The plots


@pytest.mark.clause("10.3.3")
@pytest.mark.clause("10.2.2.2.2")
@pytest.mark.parametrize("which", ["steady", "short"])
def test_rates_over_time_bytes_and_fills(which: str, request: pytest.FixtureRequest) -> None:
    folder, _, report = request.getfixturevalue(which)
    minutes = minutes_of(folder)
    ends = ends_s(minutes)
    assert ends[-1] > sum(line["measurement"]["window_ns"] for line in minutes) / 1e9, "hand-overs count"
    unit_s = 1 if ends[-1] <= 300 else 60
    axes = {
        "plot-10-1": [end / unit_s for end in ends],
        "plot-10-2": [count / 1e9 for count in written(folder)],
        "plot-10-3": [count / CAPACITY for count in written(folder)],
    }
    for section, x in axes.items():
        for index, counter, scale in ((0, "window_ios", 1.0), (1, "window_bytes", 1e-6)):
            shown = lines_of(figure(report, section, index))
            assert shown["Each minute"][0] == pytest.approx(x, rel=1e-12)
            assert shown["Each minute"][1] == pytest.approx([scale * r for r in rates(minutes, counter)], rel=1e-12)
    assert figure(report, "plot-10-2").x_title == "Total GB written (TGBW)"
    assert [figure(report, "plot-10-1", i).y_title for i in (0, 1)] == ["IOPS", "MB/s"]
    tracked = lines_of(figure(report, "plot-10-1"))["Tracking rounds"]
    assert tracked[1] == tuple(rates(minutes)[::SPACING])


@pytest.mark.clause("10.3.3")
def test_short_run_shows_its_seconds(
    short: tuple[Path, list[Put], Report], steady: tuple[Path, list[Put], Report]
) -> None:
    folder, _, report = short
    minutes = minutes_of(folder)
    wanted = [n for line in minutes for n in line["measurement"]["intervals"]["write_ios"][:2]]
    shown = lines_of(figure(report, "plot-10-1"))["Each second"]
    assert shown[1] == pytest.approx(wanted)
    starts = [(line["measurement"]["start_ns"] - minutes[0]["measurement"]["start_ns"]) / 1e9 for line in minutes]
    assert shown[0] == pytest.approx([start + i for start in starts for i in (1, 2)])
    over_bytes = lines_of(figure(report, "plot-10-2"))["Each second"][0]
    last = minutes[-1]["measurement"]["intervals"]["write_bytes"]
    assert over_bytes[-2:] == pytest.approx([(written(folder)[-1] - sum(last[i:])) / 1e9 for i in (1, 2)])
    assert "Each second" not in lines_of(figure(steady[2], "plot-10-1")), "30 minutes or more speak for themselves"


@pytest.mark.clause("10.3.4")
@pytest.mark.clause("10.2.2.2.2")
def test_response_times_over_drive_fills(steady: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = steady
    shown = lines_of(figure(report, "plot-10-5"))
    fills = [count / CAPACITY for count in written(folder)]
    each = latencies_ns(put, purpose="minute")
    assert [len(each), len(shown["ART"][0])] == [len(fills)] * 2
    for name, values in (
        ("ART", [float(np.mean(found)) for found in each]),
        ("99.999 %", [percentile_ns(found, 5) for found in each]),
        ("MRT", [float(found[-1]) for found in each]),
    ):
        assert shown[name][0] == pytest.approx(fills)
        assert [1e6 * y for y in shown[name][1]] == pytest.approx(values, rel=2e-3 if name == "99.999 %" else 1e-6), (
            name
        )
    assert lines_of(figure(report, "plot-10-5", 1))["Each minute"][1] == tuple(rates(minutes_of(folder)))


@pytest.mark.clause("10.3.4")
@pytest.mark.clause("10.2.2.4")
def test_confidence_levels_are_of_the_histogram(steady: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = steady
    rows = cells(table(report, "plot-10-4", "confidence"))
    every = latencies_ns(put, purpose="histogram")[0]
    assert rows["IOPS"][0] == pytest.approx(rates(of(journal(folder), "histogram"))[0])
    assert rows["ART"][1] == pytest.approx(every.mean() / 1e6)
    assert rows["99.999 %"][1] == pytest.approx(percentile_ns(every, 5) / 1e6, rel=2e-3)
    assert rows["MRT"][1] == every[-1] / 1e6


@pytest.mark.clause("10.3.2")
def test_steady_state(steady: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = steady
    values = rates(minutes_of(folder))[::SPACING]
    last = len(values)
    window = np.array(values[-5:])
    slope = np.polyfit(np.arange(last - 4, last + 1), window, 1)[0]
    rows = cells(table(report, "wsat-steady-state", "determination"))
    assert rows["Measurement window, last round"][1] == last
    assert [rows[f"Round {n}"][1] for n in range(last - 4, last + 1)] == list(window)
    assert rows["Slope excursion over the window, 10 % of average"][1] == pytest.approx(abs(slope) * 4, rel=1e-6)
    assert rows["Steady state (2.1.24)"][3] == "steady"
    assert np.ptp(window) <= 0.2 * window.mean() and abs(slope) * 4 <= 0.1 * window.mean()
    summary = next(t for t in report.summary if t.name == "steady-state")
    assert summary.rows[0][:2] == ("IOPS of RND 4 KiB RW0", f"{last - 4}\N{EN DASH}{last}")
    band = figure(report, "plot-10-1").bands[0]
    ends = [end / (1 if ends_s(minutes_of(folder))[-1] <= 300 else 60) for end in ends_s(minutes_of(folder))]
    assert (band.low, band.high) == pytest.approx((ends[SPACING * (last - 5)], ends[SPACING * (last - 1)]))


# The tables


@pytest.mark.clause("10.2.2.2.2")
def test_table_of_minutes(steady: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = steady
    assert report.main is not None
    minutes, fills, ends = minutes_of(folder), [c / CAPACITY for c in written(folder)], ends_s(minutes_of(folder))
    each = latencies_ns(put, purpose="minute")
    count, found = len(minutes), 0
    for row in report.main.rows:
        if not str(row[0]).isdecimal():
            continue
        i, found = int(str(row[0])) - 1, found + 1
        wanted = pooled(minutes[i : i + 1])
        host = minutes[i]["measurement"]["host"]
        assert row[1:3] == pytest.approx((ends[i] / 60, fills[i]))
        assert row[3:6] == pytest.approx((wanted["iops"], wanted["mb_per_s"], wanted["art_ms"]))
        assert row[6] == pytest.approx(percentile_ns(each[i], 5) / 1e6, rel=2e-3)
        assert row[7] == each[i][-1] / 1e6
        assert row[8:10] == (host["cpu_system_percent"], host["cpu_iowait_percent"])
    named = {str(row[-1]): str(row[0]) for row in report.main.rows}
    assert named["first"] == "1"
    assert named[f"round {rounds_in(count)}, last"] == str(count)
    best = int(np.argmax(rates(minutes))) + 1
    assert named["highest IOPS"] == str(best)
    assert found == len({1, best, *range(count - 4 * SPACING, count + 1, SPACING)})
    settled = next(row for row in report.main.rows if row[-1] == "settled")
    quarter = minutes[-min(30, count // 4) :]
    assert settled[3] == pytest.approx(np.mean(rates(quarter)))
    assert settled[5] == pytest.approx(pooled(quarter)["art_ms"])
    merged = np.sort(np.concatenate(each[-len(quarter) :]))
    assert settled[6] == pytest.approx(percentile_ns(merged, 5) / 1e6, rel=2e-3)
    histogram = report.main.rows[-1]
    assert histogram[0] == "then" and histogram[3] == pytest.approx(pooled(of(journal(folder), "histogram"))["iops"])


@pytest.mark.clause("10.3.3")
def test_shape_of_the_saturation(steady: tuple[Path, list[Put], Report]) -> None:
    folder, put, report = steady
    rows = cells(next(t for t in report.summary if t.name == "shape"))
    minutes = minutes_of(folder)
    values, ends, fills = np.array(rates(minutes)), ends_s(minutes), [c / CAPACITY for c in written(folder)]
    settled = values[-min(30, len(values) // 4) :]
    assert rows["Highest minute"][0] == values.max()
    length = brute_plateau(list(values), 1)
    assert length == 5, "the drive is fresh for five minutes"
    assert rows["FOB plateau, average"][0] == pytest.approx(values[:5].mean())
    assert f"{written(folder)[4] / 1e9:,.1f} GB, {fills[4]:,.2f} drive fills" in str(rows["FOB plateau, average"][2])
    assert duration(ends[4]) in str(rows["FOB plateau, average"][2])
    reached = next(i for i in range(5, len(values)) if values[i] <= 1.1 * settled.mean())
    assert rows["Settled level reached"][0] == pytest.approx(ends[reached] / 60)
    assert rows["Settled level"][0] == pytest.approx(settled.mean())
    assert rows["Settled level of plateau"][0] == pytest.approx(100 * settled.mean() / values[:5].mean())
    assert rows["Amplitude when settled"][0] == pytest.approx(100 * np.ptp(settled) / settled.mean())
    each = latencies_ns(put, purpose="minute")
    merged = np.sort(np.concatenate(each[-len(settled) :]))
    assert rows["ART when settled"][0] == pytest.approx(merged.mean() / 1e6)
    assert rows["99.999 % when settled"][0] == pytest.approx(percentile_ns(merged, 5) / 1e6, rel=2e-3)
    assert rows["MRT when settled"][0] == merged[-1] / 1e6
    slowest = max(range(len(each)), key=lambda i: int(each[i][-1]))
    assert rows["MRT of all minutes"] == (each[slowest][-1] / 1e6, "ms", f"minute {slowest + 1}")
    mark = figure(report, "plot-10-3").marks[0]
    assert mark.at == pytest.approx(fills[4])


def test_settled_minutes_are_the_last_quarter_and_at_most_30() -> None:
    entries = by_hand()
    made = points([replace(entries[0], sequence=i) for i in range(200)])
    assert [len(settled_minutes(made[:n])) for n in (1, 3, 4, 8, 100, 119, 120, 200)] == [1, 1, 1, 2, 25, 29, 30, 30]
    assert settled_minutes(()) == ()


def test_plateau_of_a_short_run_is_found_by_the_second(short: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = short
    table = next(t for t in report.summary if t.name == "shape")
    assert "5 seconds in a row" in table.notes[0] and "may not have settled" in table.notes[0]
    minutes = minutes_of(folder)
    values = [n for line in minutes for n in line["measurement"]["intervals"]["write_ios"][:2]]
    length = brute_plateau([float(v) for v in values], 5)
    assert cells(table)["FOB plateau, average"][0] == pytest.approx(np.mean(values[:length]))


# What ended the test


@pytest.mark.clause("10.2.2.2")
def test_steady_state_came_first(steady: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = steady
    count = len(minutes_of(folder))
    last = rounds_in(count)
    fills = f"{written(folder)[-1] / CAPACITY:,.2f}"
    assert report.status == (
        f"ended by steady state, in rounds {last - 4} - {last} (minutes {count - 4 * SPACING} - {count}), "
        f"with {fills} x the user capacity written"
    )
    assert dict(report.header.blocks[3].fields)["Steady State"] == f"{last - 4} - {last}"
    assert [row[-1] for row in report.summary[0].rows] == ["no", "no", "yes"]


@pytest.mark.clause("10.2.2.2")
@pytest.mark.parametrize(
    ("settings", "status", "field", "came_first", "steady_row"),
    [
        (
            {"max_minutes": 7, "max_capacities": 900},
            "ended by time: 17.5 s, with {fills} x the user capacity written; steady state not judged (2 of 5 rounds)",
            "n/a: 17.5 s came first",
            ["no", "yes", "no"],
            "2 rounds: not judged",
        ),
        (
            {"max_capacities": 1.5},
            "ended by capacity: 1.5 x the user capacity written, in {minutes} minutes; "
            "steady state not judged ({rounds} of 5 rounds)",
            "n/a: 1.5 x User Capacity came first",
            ["yes", "no", "no"],
            "1 round: not judged",
        ),
        (
            {"max_minutes": 26, "max_slope_excursion_percent": 0, "max_capacities": 900},
            "ended by time: 65 s, with {fills} x the user capacity written; steady state not reached in 5 rounds",
            "n/a: 65 s came first",
            ["no", "yes", "no"],
            "5 rounds: not steady",
        ),
    ],
)
def test_other_ends(
    tmp_path: Path, settings: dict[str, object], status: str, field: str, came_first: list[str], steady_row: str
) -> None:
    make_timed(tmp_path / "run", "wsat", falling, settings={**MINUTE, **settings}, capacity_bytes=CAPACITY)
    report = build(tmp_path / "run", REPORT_TIME)
    count = len(minutes_of(tmp_path / "run"))
    facts = {
        "fills": f"{written(tmp_path / 'run')[-1] / CAPACITY:,.2f}",
        "minutes": count,
        "rounds": rounds_in(count),
    }
    assert report.status == status.format(**facts)
    assert dict(report.header.blocks[3].fields)["Steady State"] == field
    ended = report.summary[0]
    assert ended.name == "ended-by"
    assert [row[-1] for row in ended.rows] == came_first
    assert ended.rows[2][2] == steady_row.format(**facts)
    assert ended.rows[0][2] == f"{written(tmp_path / 'run')[-1] / CAPACITY:,.3f}"
    assert report.complete and report.steady is None


# States of a run


@pytest.mark.parametrize("steps", [0, 1, 2, 6, 17])
def test_cut_short(tmp_path: Path, steps: int) -> None:
    settings = {**MINUTE, "max_capacities": 900}
    make_timed(tmp_path / "run", "wsat", falling, settings=settings, capacity_bytes=CAPACITY, steps=steps)
    report, text = rendered(tmp_path / "run")
    assert not report.complete
    assert report.status.startswith("incomplete")
    if not steps:
        assert report.status == "incomplete: no minute is complete"
        assert report.main is None and not report.summary
        return
    fills = written(tmp_path / "run")[-1] / CAPACITY
    minutes = f"{steps} minute{'' if steps == 1 else 's'}"
    so_far = f"incomplete: {minutes}, {fills:,.2f} x the user capacity written; "
    assert report.status == so_far + "none of the three ends of the test was reached"
    assert [s.plot for s in report.sections if s.plot] == ["10-1", "10-2", "10-3", "10-4", "10-5"]
    assert report.section("plot-10-4").notes == ("The run ended before the histogram was complete.",)
    assert "What ended the test" in text
    assert {section.id for section in report.sections if section.id == "wsat-steady-state"} == (
        {"wsat-steady-state"} if steps > SPACING else set()
    )


def test_cut_in_the_histogram(tmp_path: Path) -> None:
    settings = {**MINUTE, "max_minutes": 6, "max_capacities": 900}
    make_timed(tmp_path / "run", "wsat", falling, settings=settings, capacity_bytes=CAPACITY, steps=6)
    report, _ = rendered(tmp_path / "run")
    assert report.status.startswith("incomplete, the histogram is not there: ended by time: 15 s, with")
    assert [row[-1] for row in report.summary[0].rows] == ["no", "yes", "no"]


def test_reads_only(tmp_path: Path) -> None:
    settings = {**MINUTE, "workload": "read-intensive", "max_minutes": 6}
    make_timed(tmp_path / "run", "wsat", lambda _: 90_000.0, settings=settings, capacity_bytes=CAPACITY)
    report, text = rendered(tmp_path / "run")
    for section in ("plot-10-2", "plot-10-3"):
        assert report.section(section).items == ()
        assert "writes nothing" in report.section(section).notes[0]
    assert figure(report, "plot-10-5").x_name == "elapsed_s"
    assert report.header.title == "WSAT - RND 4 KiB RW100"
    assert cells(next(t for t in report.summary if t.name == "shape"))["FOB plateau, average"][2] == "it did not end"
    assert "RND 4 KiB RW100" in text


@pytest.mark.clause("10.2.2.2.1")
def test_composite_workload_has_its_shares(tmp_path: Path) -> None:
    settings = {**MINUTE, "workload": "composite", "max_minutes": 3}
    put = make_timed(tmp_path / "run", "wsat", lambda _: 30_000.0, settings=settings, capacity_bytes=CAPACITY)
    report, _ = rendered(tmp_path / "run")
    rows = cells(table(report, "wsat-minutes", "workload"))
    asked = {name: row[0] for name, row in rows.items()}
    assert asked["Block size 4 KiB"] == 67 and asked["Block size 0.5 KiB"] == 4
    assert asked["LBA 5\N{EN DASH}20 % of the ActiveRange"] == 30
    assert sum(float(str(v)) for name, v in asked.items() if name.startswith("Block")) == pytest.approx(100)
    assert rows["Block size 4 KiB"][1] == pytest.approx(100 / 12)
    assert rows["LBA 0\N{EN DASH}5 % of the ActiveRange"][1] == pytest.approx(100 / 3)
    assert put[0].measurement.size_ios
    fields = dict(report.header.blocks[3].fields)
    assert fields["Test Stimulus 1"] == "Composite block sizes, R/W 40/60"
    assert fields["Block Sizes"] == "12 sizes, 0.5 KiB - 64 KiB"


def test_host_metrics(steady: tuple[Path, list[Put], Report], short: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = steady
    minutes = minutes_of(folder)
    shown = lines_of(figure(report, "wsat-host"))
    for name, metric in (("CPU System Usage", "cpu_system_percent"), ("CPU IO Wait", "cpu_iowait_percent")):
        assert shown[name][1] == tuple(line["measurement"]["host"][metric] for line in minutes)
    power = lines_of(figure(report, "wsat-host", 1))["Average power"][1]
    assert power == pytest.approx([1e3 * line["measurement"]["host"]["power_w"] for line in minutes])
    other = short[2]
    assert all(section.id != "wsat-host" for section in other.sections)
    note = "Not measured (no source): Average power, CPU System Usage, CPU IO Wait."
    assert note in other.section("wsat-minutes").notes


def test_few_ios_are_marked(tmp_path: Path) -> None:
    """Below 100 000 I/Os, five nines are the slowest I/O itself."""
    make_timed(
        tmp_path / "run", "wsat", lambda _: 400.0, settings={**MINUTE, "max_minutes": 2}, capacity_bytes=CAPACITY
    )
    report = build(tmp_path / "run", REPORT_TIME)
    assert report.main is not None
    assert report.main.marks == {(i, 6) for i in range(len(report.main.rows))}
    assert "slowest I/O itself" in report.main.notes[0]
    assert "slowest I/O itself" in report.section("plot-10-5").notes[0]


def test_a_minute_without_io(tmp_path: Path) -> None:
    """No I/O completed: gaps in the lines, no division by zero."""
    rate: Callable[[Label], float] = lambda label: 1e-9 if label.number in (2, None) else 5000.0  # noqa: E731
    make_timed(tmp_path / "run", "wsat", rate, settings={**MINUTE, "max_minutes": 5}, capacity_bytes=CAPACITY)
    report, _ = rendered(tmp_path / "run")
    assert math.isnan(lines_of(figure(report, "plot-10-5"))["ART"][1][1])
    assert "no histogram" in report.section("plot-10-4").notes[-1]
    assert measurement(0.0).iops == 0
