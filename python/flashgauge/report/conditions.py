"""The section on what host and drive did meanwhile: temperature, power, CPU over the run; health log; host's limits.

The same for every test, from run.json and the journal alone; a run of an earlier version has less of it. Time is the
device's, from the begin of the first step. Each step is one point; the series within the steps are in
intervals.parquet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from flashgauge import hostlimit
from flashgauge.health import Health
from flashgauge.hostoverhead import HostOverhead
from flashgauge.measurement import NS_PER_S, Measurement
from flashgauge.report import palette
from flashgauge.report.common import HOST_SECTION
from flashgauge.report.model import Choice, Column, Item, LineFigure, Section, Series, Table, Value
from flashgauge.report.replay import Replay
from flashgauge.report.series import Axis, Point, line, points, style_of, time_axis, time_value
from flashgauge.runfolder import Entry, Run
from flashgauge.steps import Label

ID = "conditions"
# Beyond so many test points, the table keeps to those that the host limited and the busiest others.
MOST_POINTS = 24
LOW, HIGH, THIRD = "#365c8d", palette.FIT, palette.BAND

# Title of a row, field of `Health`, format and scale.
_HEALTH: tuple[tuple[str, str, str, float], ...] = (
    ("Temperature, C", "temperature_c", ",.1f", 1),
    ("Percentage used", "percentage_used", ",d", 1),
    ("Available spare, %", "available_spare_percent", ",d", 1),
    ("Media errors", "media_errors", ",d", 1),
    ("Error log entries", "error_log_entries", ",d", 1),
    ("Critical warning (bits)", "critical_warning", ",d", 1),
    ("Throttle transitions", "throttle_transitions", ",d", 1),
    ("Time throttled, s", "throttled_s", ",d", 1),
    ("Time above warning temperature, s", "warning_temperature_s", ",d", 1),
    ("Time above critical temperature, s", "critical_temperature_s", ",d", 1),
    ("Data read, GB", "read_bytes", ",.1f", 1e9),
    ("Data written, GB", "written_bytes", ",.1f", 1e9),
    ("Power cycles", "power_cycles", ",d", 1),
    ("Unsafe shutdowns", "unsafe_shutdowns", ",d", 1),
    ("Power-on hours", "power_on_h", ",d", 1),
)
Get = Callable[[Measurement], "float | None"]


def conditions_section(run: Run, replayed: Replay) -> Section:
    found = points(replayed.entries)
    figures = tuple(figure for figure in (_temperature(found), _power(found), _cpu(found)) if figure is not None)
    tables = tuple(table for table in (health_table(run), limits_table(replayed.entries)) if table is not None)
    items: tuple[Item, ...] = (*figures, *tables)
    return Section(ID, HOST_SECTION, "", "5.2, 5.4", items, _notes(run, found))


def _notes(run: Run, found: Sequence[Point]) -> tuple[str, ...]:
    hosts = [point.measurement.host for point in found]
    sources = {
        "drive temperature": [host.temperature_c for host in hosts],
        "power": [host.power_w for host in hosts],
        "CPU usage": [host.cpu_system_percent for host in hosts],
        "interrupts of the device": [host.interrupts for host in hosts],
    }
    absent = [name for name, values in sources.items() if all(value is None for value in values)]
    notes = [f"Not measured (no source): {', '.join(absent)}."] if absent else []
    if run.power_source is not None:
        notes.append(f"Power by {run.power_source}: of what that meter is wired to.")
    if run.health.get("before") is None:
        why = run.health.get("not_read", "the version that ran did not ask for it")
        notes.append(f"The drive's health log was not read: {why}.")
    if run.host_overhead:
        notes.append(_overhead(run.host_overhead))
    return tuple(notes)


def _overhead(found: dict[str, Any]) -> str:
    if (why := found.get("not_measured")) is not None:
        return f"What the host adds to a latency was not measured: {why}."
    return f"Of a latency the host's part outside the block layer, before the first step: {HostOverhead(**found)}."


def _axis(found: Sequence[Point]) -> Axis:
    return time_axis(found[-1].end_s if found else 0.0)


def _lines(found: Sequence[Point], axis: Axis, *lines: tuple[str, Get, str]) -> tuple[Series, ...]:
    """Those of the lines that have a value somewhere."""
    return tuple(
        line(name, found, axis, partial(_of, get), color, marker=i)
        for i, (name, get, color) in enumerate(lines)
        if any(get(point.measurement) is not None for point in found)
    )


def _of(get: Get, point: Point) -> float | None:
    return get(point.measurement)


def _figure(title: str, unit: str, name: str, axis: Axis, series: tuple[Series, ...]) -> LineFigure | None:
    if not series:
        return None
    choices = (Choice("", series),)
    return LineFigure(title, axis.title, f"{title}, {unit}", axis.name, name, choices, name=name)


def _temperature(found: Sequence[Point]) -> LineFigure | None:
    axis = _axis(found)
    lines = _lines(found, axis, ("Drive, highest in the step", lambda m: m.host.temperature_max_c, HIGH))
    read = [(time_value(axis, at_s), value) for point in found for at_s, value in _readings(point)]
    drive = Series("Drive", tuple(x for x, _ in read), tuple(y for _, y in read), LOW, style_of(len(read)))
    return _figure("Temperature", "C", "temperature_c", axis, (drive, *lines) if read else lines)


def _readings(point: Point) -> list[tuple[float, float]]:
    """In the step where it was read there, then that of the step as a whole."""
    m = point.measurement
    length_s = m.intervals.interval_ns / NS_PER_S
    within = [
        (point.start_s + (i + 1) * length_s, t) for i, t in enumerate(m.host_series.temperature_c) if t is not None
    ]
    whole = [] if m.host.temperature_c is None else [(point.end_s, m.host.temperature_c)]
    return [*within, *whole]


def _power(found: Sequence[Point]) -> LineFigure | None:
    axis = _axis(found)
    lines = _lines(
        found,
        axis,
        ("Mean of the step", lambda m: m.host.power_w, LOW),
        ("Highest second of the step", lambda m: max(m.host_series.power_w, default=None), HIGH),
    )
    return _figure("Power", "W", "power_w", axis, lines)


def _cpu(found: Sequence[Point]) -> LineFigure | None:
    axis = _axis(found)
    lines = _lines(
        found,
        axis,
        ("All CPUs, busy", lambda m: m.host.cpu_busy_percent, LOW),
        ("All CPUs, system", lambda m: m.host.cpu_system_percent, THIRD),
        ("Engine's threads, busy", lambda m: m.host.engine_busy_percent, HIGH),
    )
    return _figure("CPU", "%", "cpu_percent", axis, lines)


def health_table(run: Run) -> Table | None:
    """The drive's log before the run and after it; None when there was none before."""
    logs = (run.health.get("before"), run.health.get("after"))
    before, after = (None if log is None else Health.from_json(log) for log in logs)
    if before is None:
        return None
    rows: list[tuple[Value, ...]] = []
    formats: list[str] = []
    for title, name, spec, scale in _HEALTH:
        first, last = getattr(before, name), getattr(after, name, None)
        if first is None and last is None:
            continue
        values = (first, last, last - first if first is not None and last is not None else None)
        rows.append((title, *(None if v is None else v / scale if scale != 1 else v for v in values)))
        formats.append(spec)
    why = run.health.get("not_read", "the run was cut off")
    notes = [f"Source: {before.source}.", *([] if after is not None else [f"Not read after the run: {why}."])]
    return Table(
        "The drive's own record (SMART / health log)",
        (
            Column("Item", "item"),
            Column("Before", "before", ",d"),
            Column("After", "after", ",d"),
            Column("Delta", "delta", ",d"),
        ),
        tuple(rows),
        formats=tuple(formats),
        notes=tuple(notes),
        name="health",
    )


@dataclass(frozen=True)
class Limited:
    """A test point over all its steps. `reasons`: which limits were reached in `limited` of its `steps`."""

    label: Label
    steps: int
    limited: int
    reasons: tuple[str, ...]
    iops: float
    ceiling_iops: float | None
    engine_percent: float | None
    cpu_percent: float | None


def limited_points(entries: Sequence[Entry]) -> list[Limited]:
    """Every test point that has something to judge it by, in order of appearance."""
    groups: dict[Label, list[Measurement]] = {}
    for entry in entries:
        if entry.kind == "measure":
            groups.setdefault(replace(entry.label, round=None, number=None), []).append(entry.measurement)
    return [
        judged
        for label, steps in groups.items()
        if (judged := _judged(label, steps)).engine_percent is not None or judged.cpu_percent is not None
    ]


def _judged(label: Label, steps: Sequence[Measurement]) -> Limited:
    found = [hostlimit.limits(m.host, m.iops) for m in steps]
    ceilings = [m.host.ceiling_iops for m in steps if m.host.ceiling_iops is not None]
    return Limited(
        label,
        len(steps),
        sum(map(bool, found)),
        tuple(dict.fromkeys(name for names in found for name in names)),
        sum(m.iops for m in steps) / len(steps),
        ceilings[0] if ceilings else None,
        _mean([m.host.engine_busy_percent for m in steps]),
        _mean([m.host.cpu_busy_percent for m in steps]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def limits_table(entries: Sequence[Entry]) -> Table | None:
    """What of the host each test point used; None where nothing is known, as of a simulated drive."""
    found = limited_points(entries)
    if not found:
        return None
    shown = found
    if len(found) > MOST_POINTS:
        busiest = sorted(found, key=lambda point: (not point.limited, -(point.engine_percent or 0.0)))
        count = max(MOST_POINTS, sum(point.limited > 0 for point in found))
        shown = sorted(busiest[:count], key=found.index)
    rows = tuple(
        (
            str(point.label).removeprefix("round, "),
            point.iops,
            point.ceiling_iops,
            100 * point.iops / point.ceiling_iops if point.ceiling_iops else None,
            point.engine_percent,
            point.cpu_percent,
            f"host ({', '.join(point.reasons)}) in {point.limited} of {point.steps}" if point.limited else "drive",
        )
        for point in shown
    )
    notes = [
        "Limited by the host: at the ceiling, "
        f"{100 * hostlimit.CEILING_SHARE:g} % or more of what the engine reaches with the same stimulus and no device; "
        "or the engine's threads, or all CPUs with half of it or more in the kernel, busy for "
        f"{hostlimit.BUSY_PERCENT:g} % or more. A faster drive would have been no faster here. "
        "Other limits of the host, such as an adapter or a link, do not show.",
    ]
    if len(shown) < len(found):
        notes.append(f"The {len(shown)} of {len(found)} test points that used the host most.")
    return Table(
        "What limited each test point",
        (
            Column("Test point", "point"),
            Column("IOPS", "iops", ",.0f"),
            Column("Ceiling, IOPS", "ceiling_iops", ",.0f"),
            Column("Of it, %", "ceiling_percent", ",.2f"),
            Column("Engine busy, %", "engine_busy_percent", ",.1f"),
            Column("CPUs busy, %", "cpu_busy_percent", ",.1f"),
            Column("Limited by", "limited_by"),
        ),
        rows,
        notes=tuple(notes),
        name="host-limits",
    )
