"""The HIR report: every number a second way, on a drive that recovers when idle and on one that does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flashgauge.report import Report, build
from flashgauge.report.hir_metrics import gain_percent
from flashgauge.report.model import Bars
from flashgauge.runfolder import read_journal
from flashgauge.steps import Label
from report_data import cells, figure, table
from report_runs import Put, journal
from timed_runs import IDLE_ERROR_NS, REPORT_TIME, ends_s, make_timed, of, pooled, rates, rendered

SPACING = 3
WAITS = (0.5, 1.0, 2.5)
MULTIPLES = ("1", "2", "5")
SETTINGS = {
    "minute_s": 1.5,
    "round_spacing_minutes": SPACING,
    "waits_s": "0.5,1,2.5",
    "access_s": 0.5,
    "wait_accesses": 6,
    "baseline_accesses": 5,
}


def recovering(label: Label) -> float:
    """The longer the wait, the faster; the return falls back. No two accesses alike."""
    number = label.number or 0
    if label.purpose == "pre-conditioning":
        return 21_000 + (9_000 if number < 4 else 0) + number * 13 % 7
    wait = float(label.purpose.split()[-2])
    if label.purpose.startswith("wait"):
        return 21_000 + 6_000 * wait + 50 * (number * 5 % 6)
    return 21_000 + 2_000 * wait / number


def flat(label: Label) -> float:
    return 21_000.0


@pytest.fixture(scope="module")
def staircase(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Put], Report]:
    folder = tmp_path_factory.mktemp("hir") / "staircase"
    put = make_timed(folder, "hir", recovering, settings=SETTINGS, host=True)
    return folder, put, rendered(folder)[0]


def segments(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Accesses by the name the report gives their segment."""
    lines = journal(folder)
    found = {}
    for wait, multiple in zip(WAITS, MULTIPLES, strict=True):
        name = f"WS {multiple} ({wait:g} s)"
        found[name] = of(lines, f"wait {wait:g} s")
        found[f"Return after {name}"] = of(lines, f"baseline after {wait:g} s")
    return found


def window(folder: Path) -> list[dict[str, Any]]:
    """The minutes of the last five rounds."""
    return of(journal(folder), "pre-conditioning")[::SPACING][-5:]


# Pre-conditioning


@pytest.mark.clause("11.3.2.1")
@pytest.mark.clause("11.2.3")
def test_preconditioning(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    minutes = of(journal(folder), "pre-conditioning")
    shown = figure(report, "plot-11-1")
    each, tracked = shown.series
    assert each.x == pytest.approx(ends_s(minutes))
    assert each.y == tuple(rates(minutes))
    assert tracked.y == tuple(rates(minutes)[::SPACING])
    assert tracked.x == pytest.approx(ends_s(minutes)[::SPACING])
    rounds = len(tracked.x)
    assert shown.bands[0].label == f"Measurement window: rounds {rounds - 4} - {rounds}"
    assert (shown.bands[0].low, shown.bands[0].high) == (tracked.x[-5], tracked.x[-1])


@pytest.mark.clause("11.3.2.2")
@pytest.mark.clause("11.2.3.2")
def test_steady_state_window(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    values = np.array(rates(window(folder)))
    shown = {series.name: series for series in figure(report, "plot-11-2").series}
    assert shown["Measured, each round"].y == tuple(values)
    assert shown["Average"].y[0] == pytest.approx(values.mean())
    rows = cells(table(report, "plot-11-2", "determination"))
    last = len(of(journal(folder), "pre-conditioning")[::SPACING])
    assert rows["Measurement window, last round"][1] == last
    slope = np.polyfit(np.arange(last - 4, last + 1), values, 1)[0]
    assert rows["Best linear fit, slope"][1] == pytest.approx(slope, rel=1e-6, abs=1e-9)
    assert rows["Steady state (2.1.24)"][3] == "steady"
    verdict = report.section("plot-11-2").verdict
    assert verdict is not None and verdict.steady


# Wait states


@pytest.mark.clause("11.3.2.3")
@pytest.mark.clause("11.1.results")
@pytest.mark.clause("11.2.4")
@pytest.mark.clause("11.2.4.2")
def test_every_access_over_time(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    lines = journal(folder)
    ends = {line["sequence"]: end for line, end in zip(lines, ends_s(lines), strict=True)}
    shown = {series.name: series for series in figure(report, "plot-11-3").series}
    every = segments(folder)
    for name in every:
        if name.startswith("WS"):
            assert shown[name].y == tuple(rates(every[name]))
            assert shown[name].x == pytest.approx([ends[line["sequence"]] for line in every[name]])
    returns = [line for name, found in every.items() if name.startswith("Return") for line in found]
    assert shown["Return to baseline"].y == tuple(rates(returns))
    assert shown["Return to baseline"].x == pytest.approx([ends[line["sequence"]] for line in returns])
    assert len({series.color for series in shown.values()}) == len(shown), "a colour for each"
    assert [(band.label, band.low) for band in figure(report, "plot-11-3").bands] == [
        (f"WS {m}", shown[f"WS {m} ({w:g} s)"].x[0]) for m, w in zip(MULTIPLES, WAITS, strict=True)
    ]
    base = f"Baseline (steady state): {np.mean(rates(window(folder))):,.0f} IOPS"
    assert shown[base].y == pytest.approx([np.mean(rates(window(folder)))] * 2)


@pytest.mark.clause("11.3.2.3")
def test_every_access_without_the_idle_time(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    every = [line for found in segments(folder).values() for line in found]
    drawn = figure(report, "hir-accesses")
    shown = [series for series in drawn.series if series.style == "dots"]
    pairs = sorted((x, y) for series in shown for x, y in zip(series.x, series.y, strict=True))
    assert pairs == list(enumerate(rates(every), 1))
    returns = [y for name, found in segments(folder).items() if name.startswith("Return") for y in rates(found)]
    assert (drawn.bands[0].axis, drawn.bands[0].low, drawn.bands[0].high) == ("y", min(returns), max(returns))
    for index, counter in enumerate(("art", "mrt")):
        series = figure(report, "hir-response-times", index).series
        pairs = sorted((x, y) for s in series for x, y in zip(s.x, s.y, strict=True))
        wanted = [pooled([line])[f"{counter}_ms"] for line in every]
        assert [y for _, y in pairs] == pytest.approx(wanted)


@pytest.mark.clause("11.3.2.4")
@pytest.mark.clause("11.1.results")
def test_secondary_metrics(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    rows = cells(table(report, "plot-11-4", "secondary"))
    every = {"Baseline": window(folder), **segments(folder)}
    assert list(rows) == list(every)
    for name, lines in every.items():
        wanted = pooled(lines)
        assert rows[name][1:4] == pytest.approx((wanted["iops"], wanted["art_ms"], wanted["mrt_ms"])), name
        host = [line["measurement"]["host"] for line in lines]
        means = [
            np.mean([h[metric] for h in host]) for metric in ("power_w", "cpu_system_percent", "cpu_iowait_percent")
        ]
        assert rows[name][4:7] == pytest.approx((1e3 * means[0], means[1], means[2]))
    assert rows["Baseline"][0] is None and rows["WS 2 (1 s)"][0] == 1.0 and rows["Return after WS 2 (1 s)"][0] == 0.0
    assert rows["WS 2 (1 s)"][-1] == "6 x 0.5 s" and rows["Return after WS 2 (1 s)"][-1] == "5 x 0.5 s"
    assert report.main == table(report, "plot-11-4", "secondary")
    bars = next(item for item in report.section("plot-11-4").items if isinstance(item, Bars))
    assert bars.categories == ("Baseline", "WS 1", "WS 2", "WS 5")
    assert bars.series[0].values == pytest.approx([rows[n][1] for n in every if not n.startswith("Return")])
    assert bars.series[1].values[0] is None
    assert bars.series[1].values[1:] == pytest.approx([rows[n][1] for n in every if n.startswith("Return")])


def test_gains_and_amplitudes(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    found = cells(next(t for t in report.summary if t.name == "gain"))
    every, base = segments(folder), float(np.mean(rates(window(folder))))
    for wait, multiple in zip(WAITS, MULTIPLES, strict=True):
        name = f"WS {multiple} ({wait:g} s)"
        values = np.array(rates(every[name]))
        mean, back = values.mean(), np.mean(rates(every[f"Return after {name}"]))
        assert found[f"WS {multiple}"] == pytest.approx(
            (
                wait,
                mean,
                100 * (mean / base - 1),
                100 * (mean / back - 1),
                values.min(),
                values.max(),
                100 * np.ptp(values) / mean,
            )
        )
    gains = [float(str(row[2])) for row in found.values()]
    assert gains == sorted(gains) and gains[0] > 5, "a staircase"
    assert gain_percent(110.0, 100.0) == pytest.approx(10.0)
    assert gain_percent(None, 100.0) is None and gain_percent(1.0, None) is None and gain_percent(1.0, 0.0) is None


@pytest.mark.clause("11.2.4")
def test_idle_times_kept(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    rows = cells(table(report, "plot-11-4", "idle"))
    lines = journal(folder)
    for wait, multiple in zip(WAITS, MULTIPLES, strict=True):
        purposes = (f"wait {wait:g} s", f"baseline after {wait:g} s")
        # Each idle time is before the next access: all bursts but the first, and the first access of the return.
        after = [line["measurement"] for line in lines if line["label"]["purpose"] == purposes[0]][1:]
        after += [line["measurement"] for line in lines if line["label"]["purpose"] == purposes[1]][:1]
        over = [(m["gap_ns"] - wait * 1e9) / 1e6 for m in after]
        assert rows[f"WS {multiple} ({wait:g} s)"] == (
            wait,
            pytest.approx(np.median(over)),
            pytest.approx(min(over)),
            pytest.approx(max(over)),
            "6 of 6",
        )
        assert 0 <= min(over) <= max(over) <= IDLE_ERROR_NS / 1e6


@pytest.mark.clause("11.3.2.3")
def test_flat_drive_reads_well(tmp_path: Path) -> None:
    make_timed(tmp_path / "run", "hir", flat, settings=SETTINGS)
    report, text = rendered(tmp_path / "run")
    found = cells(next(t for t in report.summary if t.name == "gain"))
    assert [row[2:4] for row in found.values()] == [pytest.approx((0.0, 0.0), abs=0.1)] * 3
    assert [row[-1] for row in found.values()] == [0.0] * 3
    assert "+0.00" in text
    names = [column.name for column in table(report, "plot-11-4", "secondary").columns]
    assert "average_power_mw" not in names
    note = "Not measured (no source): Average power, CPU System Usage, CPU IO Wait."
    assert note in report.section("plot-11-4").notes


def test_header_and_status(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    rounds = len(of(journal(folder), "pre-conditioning")[::SPACING])
    assert report.status == f"steady state reached in rounds {rounds - 4} - {rounds}; wait states 1, 2, 5 measured"
    assert report.header.title == "HIR - RND 4 KiB W"
    fields = dict(report.header.blocks[3].fields)
    assert fields["Steady State"] == f"{rounds - 4} - {rounds}"
    assert fields["Test Stimulus 1"] == "Wait State: 6 x 0.5 s, then idle"
    assert fields["Idle Times"] == "0.5, 1, 2.5 s"
    assert dict(report.header.blocks[2].fields)["Pre Condition 1"] == "RND 4 KiB W"


# States of a run


def cut(tmp_path: Path, steps: int) -> tuple[Report, str]:
    make_timed(tmp_path / "run", "hir", recovering, settings=SETTINGS, steps=steps)
    return rendered(tmp_path / "run")


def steps_before_the_wait_states(staircase: tuple[Path, list[Put], Report]) -> int:
    return len(of(journal(staircase[0]), "pre-conditioning"))


@pytest.mark.parametrize("steps", [0, 1, 4, 8])
def test_cut_in_the_preconditioning(tmp_path: Path, steps: int) -> None:
    report, _ = cut(tmp_path, steps)
    rounds = (steps + SPACING - 1) // SPACING
    plural = "" if rounds == 1 else "s"
    assert report.status == (
        f"incomplete: {rounds} complete round{plural} of the pre-conditioning, steady state not established"
    )
    assert report.main is None
    assert [s.plot for s in report.sections if s.plot] == (["11-1", "11-2", "11-3", "11-4"] if steps else [])
    if steps:
        assert report.section("plot-11-3").items == ()
        assert "only when the pre-conditioning is steady" in report.section("plot-11-3").notes[0]
    if 0 < rounds < 2:
        assert "Fewer than two rounds" in report.section("plot-11-2").notes[0]


@pytest.mark.parametrize(
    ("extra", "status"),
    [
        (0, "no access of a wait state is complete"),
        (1, "then as far as WS 1 (0.5 s), 1 of 6 accesses"),
        (6, "then as far as WS 1 (0.5 s), 6 of 6 accesses"),
        (8, "then as far as return after WS 1 (0.5 s), 2 of 5 accesses"),
        (14, "then as far as WS 2 (1 s), 3 of 6 accesses"),
    ],
)
def test_cut_in_the_wait_states(
    tmp_path: Path, staircase: tuple[Path, list[Put], Report], extra: int, status: str
) -> None:
    report, text = cut(tmp_path, steps_before_the_wait_states(staircase) + extra)
    assert report.status.startswith("incomplete: steady state reached in rounds ")
    assert report.status.endswith(status)
    if not extra:
        assert "ended before the first access" in report.section("plot-11-4").notes[0]
        return
    assert "Gain of each wait state" in text
    rows = cells(next(t for t in report.summary if t.name == "gain"))
    assert list(rows)[-1] == ("WS 2, 3 of 6" if extra == 14 else "WS 1, 1 of 6" if extra == 1 else "WS 1")
    if extra in (1, 6):
        assert next(iter(rows.values()))[3] is None, "no return to compare with yet"
    secondary = cells(table(report, "plot-11-4", "secondary"))
    if extra == 14:
        assert secondary["WS 2 (1 s)"][-1] == "3 of 6 x 0.5 s"
        assert cells(table(report, "plot-11-4", "idle"))["WS 2 (1 s)"][-1] == "2 of 6"


@pytest.mark.clause("11.2.3.2")
def test_never_steady(tmp_path: Path) -> None:
    """The test ends with the pre-conditioning."""
    settings = {**SETTINGS, "max_rounds": 6}
    rate = lambda label: 20_000.0 + 20_000.0 * ((label.number - 1) // SPACING % 2)  # noqa: E731
    make_timed(tmp_path / "run", "hir", rate, settings=settings)
    report, _ = rendered(tmp_path / "run")
    assert report.complete and report.steady is False
    assert report.status == "steady state NOT reached in 6 rounds of the pre-conditioning: no wait state was run"
    assert dict(report.header.blocks[3].fields)["Steady State"] == "not reached"
    assert report.main is None
    verdict = next(t for t in report.summary if t.name == "steady-state")
    assert verdict.rows[0][-1] == "NOT steady"
    for section in ("plot-11-3", "plot-11-4"):
        assert "No wait state was run" in report.section(section).notes[0]
    assert not figure(report, "plot-11-1").bands


def test_report_is_of_the_journal_alone(staircase: tuple[Path, list[Put], Report]) -> None:
    folder, _, report = staircase
    again = build(folder, REPORT_TIME)
    assert again == report
    assert len(read_journal(folder)[0]) == len(journal(folder))
