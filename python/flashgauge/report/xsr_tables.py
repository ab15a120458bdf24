"""Tables of an XSR report: each access group's averages and peaks, the recovery times, secondary metrics."""

from __future__ import annotations

from flashgauge.report.model import Column, Table, Value
from flashgauge.report.series import duration
from flashgauge.report.xsr_metrics import (
    CrossStimulus,
    Group,
    Recovery,
    recovery_level,
    recovery_to_level,
    recovery_to_level_by_second,
    recovery_to_peak,
    settled_mb_per_s,
    settled_minutes,
)


def _group_columns(data: CrossStimulus) -> tuple[Column, ...]:
    minute_s = data.parameters.minute_s
    return tuple(
        Column(f"{group.number}: {group.name}, {duration(group.expected * minute_s)}", f"group_{group.number}", "s")
        for group in data.groups
    )


def groups_table(data: CrossStimulus) -> Table:
    """12.3.2.3: averages over the group, and the peaks of its minutes (12.1)."""

    def row(name: str, spec: str, values: list[Value], of: str) -> tuple[tuple[Value, ...], str]:
        return (name, *values, of), spec

    groups = data.groups
    lines = (
        row("MB/s, average", ",.1f", [group.average_mb_per_s for group in groups], "all bytes over all windows"),
        row("MB/s, peak", ",.1f", [_peak_mb_per_s(group) for group in groups], "the best minute"),
        row("Minute of that peak", ",d", [_peak_minute(group) for group in groups], "the first of equals"),
        row("MB/s, settled", ",.1f", [settled_mb_per_s(group) for group in groups], "the last quarter of the minutes"),
        row("ART, ms, average", ",.3f", [group.average_art_ms for group in groups], "all I/Os"),
        row("ART, ms, peak", ",.3f", [group.peak_art_ms for group in groups], "the worst minute"),
        row("MRT, ms, peak", ",.3f", [group.mrt_ms for group in groups], "the slowest I/O"),
        row("Minutes measured", "", [_minutes(group) for group in groups], ""),
    )
    return Table(
        title="TP, ART and MRT of each access group",
        columns=(Column("Metric", "metric"), *_group_columns(data), Column("Of", "of")),
        rows=tuple(line for line, _ in lines),
        formats=tuple(spec for _, spec in lines),
        name="groups",
    )


def _peak_mb_per_s(group: Group) -> float | None:
    return None if group.peak is None else group.peak.mb_per_s


def _peak_minute(group: Group) -> int | None:
    return None if group.peak is None else group.peak.label.number


def _minutes(group: Group) -> str:
    count = len(group.minutes)
    return f"{count}" if group.is_whole else f"{count} of {group.expected}"


def recovery_table(data: CrossStimulus) -> Table:
    """12.3.2.3: the time until the bandwidth has recovered, read both ways."""
    level = recovery_level(data)
    rows: list[tuple[Value, ...]] = [
        _recovery("As worded (12.1): to the peak of group 3", recovery_to_peak(data), "minute"),
        _recovery("To 95 % of group 1, first minute", recovery_to_level(data), "minute"),
        _recovery("To 95 % of group 1, first second", recovery_to_level_by_second(data), "second"),
    ]
    notes = ["Time from the end of group 2 to the end of the minute or second. " + _definition(data)]
    first, third = settled_mb_per_s(data.groups[0]), settled_mb_per_s(data.groups[2])
    if level is not None and first and third is not None and data.groups[2].is_whole:
        notes.append(
            f"Group 3 settled at {third:,.1f} MB/s, {100 * third / first:,.1f} % of the {first:,.1f} MB/s of group 1."
        )
    return Table(
        title="Recovery of the bandwidth from group 2 to group 3",
        columns=(
            Column("Reading", "reading"),
            Column("Recovery, min", "recovery_min", ",.2f"),
            Column("MB/s to reach", "mb_per_s_to_reach", ",.1f"),
            Column("MB/s there", "mb_per_s_there", ",.1f"),
            Column("Found by", "found_by"),
        ),
        rows=tuple(rows),
        notes=tuple(notes),
        name="recovery",
    )


def _recovery(name: str, found: Recovery | None, resolution: str) -> tuple[Value, ...]:
    if found is None:
        return (name, "not known", None, None, resolution)
    if found.after_s is None or found.at is None:
        return (name, "not recovered", found.level_mb_per_s, None, resolution)
    return (name, found.after_s / 60, found.level_mb_per_s, found.at.mb_per_s, resolution)


def _definition(data: CrossStimulus) -> str:
    count = len(settled_minutes(data.groups[0].minutes))
    return (
        "The peak is the minute of the highest bandwidth, the first of equals: on a level drive it may be any. "
        f"95 % is of the settled average of group 1, its last quarter ({count} minute{'' if count == 1 else 's'})."
    )


def secondary_table(data: CrossStimulus) -> Table:
    """12.3.2.4: averages over each group; "not measured" where there was no source."""

    def values(metric: str, factor: float) -> list[Value]:
        found = [group.host(metric) for group in data.groups]
        return [
            factor * value if value is not None else "not measured" if group.minutes else None
            for value, group in zip(found, data.groups, strict=True)
        ]

    return Table(
        title="Power and CPU usage, average of each access group",
        columns=(Column("Metric", "metric"), *_group_columns(data)),
        rows=(
            ("Average power, mW", *values("power_w", 1e3)),
            ("CPU System Usage, %", *values("cpu_system_percent", 1.0)),
            ("CPU IO Wait, %", *values("cpu_iowait_percent", 1.0)),
        ),
        formats=(",.0f", ",.2f", ",.2f"),
        name="secondary",
    )
