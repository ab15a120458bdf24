"""Report of the cross stimulus recovery test: plots 12-1 to 12-4 of clause 12.3, with both transitions enlarged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flashgauge.report import palette
from flashgauge.report.common import entropy, is_wide, no_segments, section, toio
from flashgauge.report.model import (
    Choice,
    Field,
    LineFigure,
    Mark,
    Section,
    Series,
    Table,
    TestPart,
)
from flashgauge.report.replay import Replay
from flashgauge.report.series import (
    ART_COLOR,
    MRT_COLOR,
    SECONDS_COLOR,
    AnyPoint,
    Axis,
    Point,
    duration,
    host_figures,
    line,
    seconds,
    shifted_axis,
    time_axis,
    time_value,
    unmeasured,
    unmeasured_note,
)
from flashgauge.report.xsr_metrics import (
    CrossStimulus,
    Group,
    arrange,
    recovery_level,
    recovery_to_level,
    recovery_to_peak,
)
from flashgauge.report.xsr_tables import groups_table, recovery_table, secondary_table
from flashgauge.runfolder import Run

GROUP_COLORS = ("#365c8d", "#a63603", "#1fa187")
# Of the enlarged transitions, as many as there are.
MINUTES_BEFORE, MINUTES_AFTER = 15, 60
# Once more, second by second, when those last longer than this.
CLOSE_BEFORE, CLOSE_AFTER = 1, 3
_LONG_S = 600.0
# Of each second, beside the minutes' own colour.
_FAINT = {ART_COLOR: "#a9b8c6", MRT_COLOR: "#e8aba4"}
_ARROW = "\N{RIGHTWARDS ARROW}"
SWITCHES = (f"SEQ{_ARROW}RND", f"RND{_ARROW}SEQ")
Value = Callable[[AnyPoint], float | None]


@dataclass(frozen=True)
class Quantity:
    """What a figure shows of each minute."""

    title: str
    unit: str
    name: str
    value: Value


_MB_PER_S = Quantity("Throughput", "MB/s", "mb_per_s", lambda point: point.mb_per_s)
_ART = Quantity("ART", "ART, ms", "art_ms", lambda point: point.art_ms)
_MRT = Quantity("MRT", "MRT, ms", "mrt_ms", lambda point: point.mrt_ms)


def xsr_part(run: Run, replay: Replay) -> TestPart:
    """The cross stimulus recovery part of the report; every section is present, with what there is to show."""
    data = arrange(replay)
    begun = bool(data.minutes)
    main = groups_table(data) if begun else None
    return TestPart(
        title=f"XSR - {' / '.join(group.name for group in data.groups)}",
        status=_status(data, replay),
        set_up=_set_up(data),
        test_parameters=_test_parameters(data),
        summary=(recovery_table(data),) if begun else (),
        main=main,
        sections=_sections(data, main) if main is not None else (),
        not_measured=unmeasured(data.minutes) if begun else (),
    )


def _sections(data: CrossStimulus, main: Table) -> tuple[Section, ...]:
    return (
        _throughput(data),
        *(found for number in (1, 2) for found in (_transition(data, number), *_close_up(data, number))),
        _all_three(data),
        section("12-3", "XSR Table: TP, ART, MRT & BW Recovery Time", "12.3.2.3", (main, recovery_table(data))),
        _secondary(data),
    )


def _status(data: CrossStimulus, replay: Replay) -> str:
    if replay.outcome is None:
        begun = [group for group in data.groups if group.minutes]
        if not begun:
            return "incomplete: no minute is complete"
        last = begun[-1]
        return f"incomplete: ended in access group {last.number}, {len(last.minutes)} of {last.expected} minutes"
    found = recovery_to_level(data)
    if found is None or found.after_s is None:
        return "three access groups complete; bandwidth NOT back at 95 % of group 1 within group 3"
    return f"three access groups complete; bandwidth back at 95 % of group 1 in {found.after_s / 60:,.2f} minutes"


# The header


def _hours(data: CrossStimulus, group: Group) -> str:
    return duration(group.expected * data.parameters.minute_s)


def _set_up(data: CrossStimulus) -> tuple[Field, ...]:
    p = data.parameters
    return (
        ("Data Pattern", entropy(p)),
        ("AR", f"{p.active_range_percent:g} %"),
        no_segments(),
        ("Pre Condition 1", "none: from Purge on"),
        ("TOIO - TC/QD", "n/a"),
        ("Duration", "n/a"),
        ("Pre Condition 2", "none"),
        ("TOIO - TC/QD", "n/a"),
        ("SS Rounds", "n/a"),
        ("Device class", p.device_class.value),
    )


def _test_parameters(data: CrossStimulus) -> tuple[Field, ...]:
    p = data.parameters
    fields: list[Field] = [
        ("Data Pattern", entropy(p)),
        ("AR & Amount", f"{p.active_range_percent:g} %"),
        ("RW Mix", "0/100"),
    ]
    for group, (access, _) in zip(data.groups, p.groups, strict=True):
        stimulus = p.stimulus(access)
        fields.append((f"Test Stimulus {group.number}", f"{group.name}, {_hours(data, group)}"))
        fields.append(("TOIO - TC/QD", toio(stimulus.thread_count, stimulus.queue_depth)))
    fields.append(("Steady State", "n/a: none is asked for"))
    return tuple(fields)


# All groups


def _switches(data: CrossStimulus) -> tuple[tuple[float, str], ...]:
    """When each transition was: at the end of the last minute before it."""
    return tuple(
        (before.minutes[-1].end_s, name)
        for before, after, name in zip(data.groups, data.groups[1:], SWITCHES, strict=False)
        if before.minutes and after.minutes
    )


def _figure(
    data: CrossStimulus, axis: Axis, shown: Quantity, extra: tuple[Series, ...] = (), log: bool = False
) -> LineFigure:
    """One quantity of all minutes, a colour for each group."""
    lines = tuple(
        line(f"Group {group.number}: {group.name}", group.minutes, axis, shown.value, color)
        for group, color in zip(data.groups, GROUP_COLORS, strict=True)
        if group.minutes
    )
    return LineFigure(
        title=f"{shown.title} v Time",
        x_title=axis.title,
        y_title=shown.unit,
        x_name=axis.name,
        y_name=shown.name,
        choices=(Choice("", (*extra, *lines)),),
        y_log=log,
        name=shown.name,
        marks=tuple(Mark("x", time_value(axis, at_s), name, palette.MUTED) for at_s, name in _switches(data)),
    )


def _minute_note(data: CrossStimulus) -> str:
    minute_s = data.parameters.minute_s
    other = "" if minute_s == 60 else f" A minute of this run has {minute_s:g} s."
    return f"Each point stands at the end of its minute.{other}"


def _incomplete_notes(data: CrossStimulus) -> tuple[str, ...]:
    return tuple(
        f"Group {group.number}: {len(group.minutes)} of {group.expected} minutes are there."
        for group in data.groups
        if not group.is_whole
    )


def _throughput(data: CrossStimulus) -> Section:
    """12.3.2.1."""
    axis = time_axis(data.minutes[-1].end_s)
    figure = _figure(data, axis, _MB_PER_S, _level_series(data, axis, 0.0, data.minutes[-1].end_s))
    notes = (_minute_note(data), *_incomplete_notes(data))
    return section("12-1", "XSR Throughput v Time, All Access Groups", "12.3.2.1", (figure,), notes=notes)


def _level_series(data: CrossStimulus, axis: Axis, first_s: float, last_s: float) -> tuple[Series, ...]:
    """What group 3 has to come back to."""
    level = recovery_level(data)
    if level is None:
        return ()
    ends = (time_value(axis, first_s), time_value(axis, last_s))
    name = f"95 % of group 1's settled average: {level:,.1f} MB/s"
    return (Series(name, ends, (level, level), palette.MUTED, "dash"),)


def _all_three(data: CrossStimulus) -> Section:
    """12.3.2.2."""
    axis = time_axis(data.minutes[-1].end_s)
    # Both response times on the same kind of axis.
    log = any(is_wide(_figure(data, axis, shown).choices) for shown in (_ART, _MRT))
    items = (_figure(data, axis, _MB_PER_S), *(_figure(data, axis, shown, log=log) for shown in (_ART, _MRT)))
    notes = (_minute_note(data), *_incomplete_notes(data))
    return section("12-2", "XSR Throughput, ART & MRT v Time", "12.3.2.2", items, notes=notes)


# Transitions


def _transition(data: CrossStimulus, number: int) -> Section:
    """12.3.2: enlarged, from the last minutes of one group to the first of the next, second by second as well."""
    before, after = data.groups[number - 1], data.groups[number]
    name = f"xsr-transition-{number}"
    title = f"XSR Transition {SWITCHES[number - 1]}, Enlarged"
    if not after.minutes:
        notes: tuple[str, ...] = (f"The run ended before the first minute of access group {number + 1} was complete.",)
        return Section(name, title, "", "12.3.2", (), notes)
    last, first = before.minutes[-MINUTES_BEFORE:], after.minutes[:MINUTES_AFTER]
    span = (last[0].start_s, first[-1].end_s)
    axis = shifted_axis(span[1] - span[0], before.minutes[-1].end_s, "Time from the switch", "from_switch")
    marks = [Mark("x", 0.0, SWITCHES[number - 1], palette.INK)]
    extra: tuple[Series, ...] = ()
    if number == 2:
        marks += _recovery_marks(data, axis, span[1])
        extra = _level_series(data, axis, *span)
    items = (
        _enlarged_throughput((before, last), (after, first), axis, tuple(marks), extra),
        _enlarged_times((*last, *first), axis, tuple(marks[:1])),
    )
    notes = (
        f"The last {_minutes(len(last))} of group {number} and the first {_minutes(len(first))} of group {number + 1}: "
        "each at its end, and each second. "
        f"{_minute_note(data).removeprefix('Each point stands at the end of its minute.').strip()}".rstrip(),
    )
    return Section(name, title, "", "12.3.2", items, notes)


def _close_up(data: CrossStimulus, number: int) -> tuple[Section, ...]:
    """12.3.2: the transition itself, which may take seconds only."""
    before, after = data.groups[number - 1], data.groups[number]
    if not after.minutes:
        return ()
    enlarged = (*before.minutes[-MINUTES_BEFORE:], *after.minutes[:MINUTES_AFTER])
    if enlarged[-1].end_s - enlarged[0].start_s <= _LONG_S:
        return ()
    last, first = before.minutes[-CLOSE_BEFORE:], after.minutes[:CLOSE_AFTER]
    span_s = first[-1].end_s - last[0].start_s
    axis = shifted_axis(span_s, before.minutes[-1].end_s, "Time from the switch", "from_switch")
    parts = ((before, seconds(last)), (after, seconds(first)))
    marks = (Mark("x", 0.0, SWITCHES[number - 1], palette.INK),)
    rates = tuple(
        line(f"Group {group.number}", found, axis, _MB_PER_S.value, GROUP_COLORS[group.number - 1], "thin")
        for group, found in parts
    )
    every = (*parts[0][1], *parts[1][1])
    times = tuple(
        line(quantity.title, every, axis, quantity.value, color, "thin")
        for quantity, color in ((_ART, ART_COLOR), (_MRT, MRT_COLOR))
    )

    def drawn(title: str, y_title: str, y_name: str, series: tuple[Series, ...]) -> LineFigure:
        choices = (Choice("", series),)
        log = y_name != "mb_per_s" and is_wide(choices)
        return LineFigure(title, axis.title, y_title, axis.name, y_name, choices, y_log=log, name=y_name, marks=marks)

    items = (
        drawn("Throughput, each second", "MB/s", "mb_per_s", rates),
        drawn("ART and MRT, each second", "Response time, ms", "response_time_ms", times),
    )
    notes = (
        f"The last {_minutes(len(last))} of group {number} and the first {_minutes(len(first))} of group {number + 1}.",
    )
    title = f"XSR Transition {SWITCHES[number - 1]}, Second by Second"
    return (Section(f"xsr-transition-{number}-seconds", title, "", "12.3.2", items, notes),)


def _recovery_marks(data: CrossStimulus, axis: Axis, last_s: float) -> list[Mark]:
    """Both recovery times, where they are within the plot."""
    found = (
        (recovery_to_level(data), "first minute at 95 %", palette.BAND),
        (recovery_to_peak(data), "peak minute", palette.FIT),
    )
    return [
        Mark("x", axis.value(recovery.at), name, color)
        for recovery, name, color in found
        if recovery is not None and recovery.at is not None and recovery.at.end_s <= last_s
    ]


def _minutes(count: int) -> str:
    return f"{count} minute{'' if count == 1 else 's'}"


def _enlarged_throughput(
    before: tuple[Group, tuple[Point, ...]],
    after: tuple[Group, tuple[Point, ...]],
    axis: Axis,
    marks: tuple[Mark, ...],
    extra: tuple[Series, ...],
) -> LineFigure:
    every = seconds((*before[1], *after[1]))
    lines = (
        line(
            f"Each minute of group {group.number}",
            found,
            axis,
            _MB_PER_S.value,
            GROUP_COLORS[group.number - 1],
            "dots",
            i,
        )
        for i, (group, found) in enumerate((before, after))
    )
    series = (*extra, line("Each second", every, axis, _MB_PER_S.value, SECONDS_COLOR, "thin"), *lines)
    return LineFigure(
        title="Throughput",
        x_title=axis.title,
        y_title="MB/s",
        x_name=axis.name,
        y_name="mb_per_s",
        choices=(Choice("", series),),
        name="mb_per_s",
        marks=marks,
    )


def _enlarged_times(shown: tuple[Point, ...], axis: Axis, marks: tuple[Mark, ...]) -> LineFigure:
    every = seconds(shown)
    quantities = ((_ART, ART_COLOR), (_MRT, MRT_COLOR))
    series = [
        *(line(f"{q.title}, each second", every, axis, q.value, _FAINT[color], "thin") for q, color in quantities),
        *(
            line(f"{q.title}, each minute", shown, axis, q.value, color, "dots", i)
            for i, (q, color) in enumerate(quantities)
        ),
    ]
    choices = (Choice("", tuple(series)),)
    return LineFigure(
        title="ART and MRT",
        x_title=axis.title,
        y_title="Response time, ms",
        x_name=axis.name,
        y_name="response_time_ms",
        choices=choices,
        y_log=is_wide(choices),
        name="response_time_ms",
        marks=marks,
    )


def _secondary(data: CrossStimulus) -> Section:
    """12.3.2.4, and what was measured of it over time."""
    table = secondary_table(data)
    notes = (*_incomplete_notes(data), *unmeasured_note(data.minutes))
    figures = host_figures(data.minutes, time_axis(data.minutes[-1].end_s))
    return section("12-4", "XSR Secondary Metrics", "12.3.2.4", (table, *figures), notes=notes)
