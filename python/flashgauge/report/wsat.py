"""Report of the write saturation test: plots 10-1 to 10-5 of clause 10.3, and what ended the test."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from flashgauge.report import palette
from flashgauge.report.common import entropy, is_wide, no_segments, section, toio
from flashgauge.report.confidence import confidence_section
from flashgauge.report.formats import decimals, kib, mix
from flashgauge.report.metrics import FIVE_NINES_IOS, mean
from flashgauge.report.model import (
    Band,
    Choice,
    Field,
    LineFigure,
    Mark,
    Section,
    Series,
    Style,
    Table,
    TestPart,
)
from flashgauge.report.replay import Replay
from flashgauge.report.series import (
    ART_COLOR,
    FIVE_NINES_COLOR,
    MRT_COLOR,
    SECONDS_COLOR,
    AnyPoint,
    Axis,
    Point,
    duration,
    fills_axis,
    host_figures,
    line,
    time_axis,
    unmeasured,
    unmeasured_note,
    written_axis,
)
from flashgauge.report.steady import determination_table, verdict_table, window_figure
from flashgauge.report.wsat_metrics import SHORT_RUN_MINUTES, Saturation, arrange
from flashgauge.report.wsat_tables import ended_by, minutes_table, shape_table, workload_table
from flashgauge.runfolder import Run
from flashgauge.spec.wsat import WsatParameters

NO_WRITES = "This workload writes nothing: there is nothing to plot over what was written."


def wsat_part(run: Run, replay: Replay) -> TestPart:
    """The write saturation part of the report; with one minute every section is present, with what there is."""
    data = arrange(replay, run.dut.capacity_bytes)
    sections: tuple[Section, ...] = ()
    summary: tuple[Table, ...] = ()
    main: Table | None = None
    not_measured: tuple[str, ...] = ()
    if data.minutes:
        main = minutes_table(data)
        not_measured = unmeasured(data.minutes)
        sections = (
            _rates("10-1", "WSAT IOPS v Time", data, _time(data)),
            _rates("10-2", "WSAT IOPS v TGBW", data, written_axis()),
            _rates("10-3", "WSAT IOPS v Total Drive Writes/Fills", data, fills_axis(data.capacity_bytes)),
            *_steady_state(data),
            _confidence(data),
            _response_times(data),
            _minutes(data, main),
            *_host(data),
        )
        verdict = data.verdict
        summary = (ended_by(data), shape_table(data))
        if verdict is not None:
            summary += (verdict_table({_tracking(data.parameters): verdict}, "IOPS"),)
    return TestPart(
        title=f"WSAT - {data.parameters.pattern.title}",
        status=_status(data, replay),
        set_up=_set_up(data),
        test_parameters=_test_parameters(data),
        summary=summary,
        main=main,
        sections=sections,
        not_measured=not_measured,
    )


def _tracking(parameters: WsatParameters) -> str:
    return f"IOPS of {parameters.pattern.title}"


def _time(data: Saturation) -> Axis:
    return time_axis(data.minutes[-1].end_s)


# What ended the test


def _status(data: Saturation, replay: Replay) -> str:
    p, count = data.parameters, len(data.minutes)
    minutes = f"{count} minute{'' if count == 1 else 's'}"
    fills = f"{data.fills:,.2f} x the user capacity written"
    if not count:
        return "incomplete: no minute is complete"
    match data.stop:
        case None:
            return f"incomplete: {minutes}, {fills}; none of the three ends of the test was reached"
        case "steady":
            first, last = data.rounds[data.window[0] - 1], data.rounds[data.window[-1] - 1]
            rounds = f"rounds {data.window[0]} - {data.window[-1]}"
            found = (
                f"ended by steady state, in {rounds} (minutes {first.label.number} - {last.label.number}), with {fills}"
            )
        case "written":
            found = (
                f"ended by capacity: {p.max_capacities:g} x the user capacity written, in {minutes}; {_rounds(data)}"
            )
        case _:
            found = f"ended by time: {_time_limit(data)}, with {fills}; {_rounds(data)}"
    return found if replay.outcome is not None else f"incomplete, the histogram is not there: {found}"


def _time_limit(data: Saturation) -> str:
    return duration(data.parameters.max_minutes * data.parameters.minute_s)


def _rounds(data: Saturation) -> str:
    """Steady state, where it is not what ended the test."""
    count = len(data.rounds)
    if count < data.parameters.window_rounds:
        return f"steady state not judged ({count} of {data.parameters.window_rounds} rounds)"
    return f"steady state not reached in {count} rounds"


def _steady_field(data: Saturation) -> str:
    p = data.parameters
    match data.stop:
        case "steady":
            return f"{data.window[0]} - {data.window[-1]}"
        case "written":
            return f"n/a: {p.max_capacities:g} x User Capacity came first"
        case "time":
            return f"n/a: {_time_limit(data)} came first"
    return "not reached"


# The header


def _set_up(data: Saturation) -> tuple[Field, ...]:
    p = data.parameters
    return (
        ("Data Pattern", entropy(p)),
        ("AR", f"{p.active_range_percent:g} %"),
        _segments(p),
        ("Pre Condition 1", "none: from Purge on"),
        ("TOIO - TC/QD", "n/a"),
        ("Duration", "n/a"),
        ("Pre Condition 2", "none"),
        ("TOIO - TC/QD", "n/a"),
        ("SS Rounds", _steady_field(data) if data.stop == "steady" else "n/a"),
        ("Device class", p.device_class.value),
    )


def _segments(parameters: WsatParameters) -> Field:
    groups = parameters.pattern.groups
    if not groups:
        return no_segments()
    shares = ", ".join(f"{g.start_percent:g}-{g.end_percent:g} %: {g.probability_percent:g} %" for g in groups)
    return ("AR Segments", shares)


def _test_parameters(data: Saturation) -> tuple[Field, ...]:
    p, pattern, stimulus = data.parameters, data.parameters.pattern, data.parameters.stimulus
    blocks = [size for size, _ in pattern.blocks]
    sizes = kib(blocks[0]) if len(blocks) == 1 else f"{len(blocks)} sizes, {kib(min(blocks))} - {kib(max(blocks))}"
    limit = f"{p.max_capacities:g} x User Capacity, {duration(p.max_minutes * p.minute_s)} or steady state"
    return (
        ("Data Pattern", entropy(p)),
        ("AR & Amount", f"{p.active_range_percent:g} %"),
        ("Test Stimulus 1", pattern.title),
        ("RW Mix", mix(pattern.read_percent)),
        ("Block Sizes", sizes),
        ("TOIO - TC/QD", toio(stimulus.thread_count, stimulus.queue_depth)),
        ("Steady State", _steady_field(data)),
        ("Duration", limit),
        ("Test Stimulus 2", f"Histogram, {p.histogram_s:,g} s" if data.histogram is None else _histogram(data)),
        ("Complete Rounds", f"{len(data.rounds)} ({len(data.minutes)} minutes)"),
    )


def _histogram(data: Saturation) -> str:
    assert data.histogram is not None
    return f"Histogram, {data.histogram.window_s:,g} s"


# Plots


def _rates(plot: str, title: str, data: Saturation, axis: Axis) -> Section:
    """10.3.3: IOPS, and bandwidth, which is optional, over one of time, GB written and drive fills."""
    if axis.name == _time(data).name:
        notes = _minute_notes(data)
    elif not data.writes:
        return section(plot, title, "10.3.3", (), notes=(NO_WRITES,))
    else:
        notes = ("Bytes written are all that were written to the device from the first I/O after the purge on.",)
    over = title.split(" v ")[1]
    items = (
        _rate_figure(data, axis, "IOPS", "iops", lambda point: point.iops, f"IOPS v {over}", ""),
        _rate_figure(data, axis, "MB/s", "mb_per_s", lambda point: point.mb_per_s, f"MB/s v {over}", "mb_per_s"),
    )
    return section(plot, title, "10.3.3", items, notes=notes)


def _minute_notes(data: Saturation) -> tuple[str, ...]:
    minute_s = data.parameters.minute_s
    notes = ["Each point stands at the end of its minute; time runs from the first I/O after the purge."]
    if minute_s != 60:
        notes.append(f"A minute of this run has {minute_s:g} s.")
    if data.seconds:
        notes.append(f"With fewer than {SHORT_RUN_MINUTES} minutes, the values of each second are shown as well.")
        notes.append("A minute's point is the average of the seconds before it.")
    return (" ".join(notes),)


def _rate_figure(
    data: Saturation,
    axis: Axis,
    y_title: str,
    y_name: str,
    value: Callable[[AnyPoint], float | None],
    title: str,
    name: str,
) -> LineFigure:
    color = palette.mix_color(data.parameters.pattern.read_percent)
    shown: Sequence[AnyPoint] = data.seconds or data.minutes
    ends = (axis.value(shown[0]), axis.value(shown[-1]))
    level = mean([value(point) or 0.0 for point in data.settled])
    # Below the data, of which it would hide the last part.
    series = []
    if data.has_settled:
        name_of_level = f"Settled level: {level:,.{decimals([level])}f} {y_title}"
        series.append(Series(name_of_level, ends, (level, level), palette.BAND, "dash"))
    if data.seconds:
        series.append(line("Each second", data.seconds, axis, value, SECONDS_COLOR, "thin"))
    style: Style | None = "dots" if data.seconds else None
    series.append(line("Each minute", data.minutes, axis, value, color, style))
    if len(data.rounds) > 1:
        series.append(line("Tracking rounds", data.rounds, axis, value, palette.INK, "dots", 2))
    marks: tuple[Mark, ...] = ()
    if data.plateau is not None and data.plateau.ended:
        marks = (Mark("x", axis.value(data.plateau.last), "End of the FOB plateau", palette.MUTED),)
    return LineFigure(
        title=title,
        x_title=axis.title,
        y_title=y_title,
        x_name=axis.name,
        y_name=y_name,
        choices=(Choice("", tuple(series)),),
        bands=_window_band(data, axis),
        name=name,
        marks=marks,
    )


def _window_band(data: Saturation, axis: Axis) -> tuple[Band, ...]:
    """The measurement window, when steady state was reached."""
    if data.stop != "steady":
        return ()
    first, last = data.window[0], data.window[-1]
    ends = (axis.value(data.rounds[first - 1]), axis.value(data.rounds[last - 1]))
    return (Band("x", *ends, f"Measurement window: rounds {first}-{last}", palette.WINDOW),)


def _steady_state(data: Saturation) -> tuple[Section, ...]:
    """10.3.2: five rounds of a minute, 30 minutes apart. Nothing while there are fewer than two."""
    title, clause = "WSAT Steady State Measurement", "10.3.2"
    p, verdict = data.parameters, data.verdict
    spacing = f"Round k is minute 1 + (k \N{MINUS SIGN} 1) x {p.round_spacing_minutes}."
    if verdict is None:
        return ()
    color = palette.mix_color(p.pattern.read_percent)
    figure = window_figure(_tracking(p), verdict, y_title="IOPS", y_name="iops", color=color, marker=0)
    items = (figure, determination_table(verdict, "IOPS"))
    return (Section("wsat-steady-state", title, "", clause, items, (spacing,), "side", verdict),)


def _confidence(data: Saturation) -> Section:
    """10.3.4, of the 20 minutes after the last one."""
    title = "WSAT Response Time Histogram - Confidence Level Plot"
    if data.histogram is None:
        return section("10-4", title, "10.3.4", (), notes=("The run ended before the histogram was complete.",))
    stimulus = data.parameters.stimulus
    notes = (
        f"{data.parameters.pattern.title}, {toio(stimulus.thread_count, stimulus.queue_depth)}, "
        f"{duration(data.histogram.window_s)} at once after the last minute.",
    )
    return confidence_section("10-4", title, "10.3.4", data.histogram, nines=data.parameters.nines, notes=notes)


def _response_times(data: Saturation) -> Section:
    """10.3.4, optional: response times and IOPS over drive fills; over time, when nothing is written."""
    axis = fills_axis(data.capacity_bytes) if data.writes else _time(data)
    few = any(0 < point.measurement.ios < FIVE_NINES_IOS for point in data.minutes)
    notes = ["ART, 99.999 % and MRT of each minute."]
    if not data.writes:
        notes.append("Over time: this workload writes nothing.")
    if few:
        notes.append(
            f"Minutes of fewer than {FIVE_NINES_IOS:,} I/Os: there the 99.999 % value is the slowest I/O itself."
        )
    lines: tuple[tuple[str, Callable[[Point], float | None], str], ...] = (
        ("ART", lambda point: point.art_ms, ART_COLOR),
        ("99.999 %", lambda point: point.p99999_ms, FIVE_NINES_COLOR),
        ("MRT", lambda point: point.mrt_ms, MRT_COLOR),
    )
    choices = (
        Choice(
            "",
            tuple(
                line(name, data.minutes, axis, value, color, marker=i) for i, (name, value, color) in enumerate(lines)
            ),
        ),
    )
    times = LineFigure(
        title="Response times: ART, 5 9s and MRT",
        x_title=axis.title,
        y_title="Response time, ms",
        x_name=axis.name,
        y_name="response_time_ms",
        choices=choices,
        y_log=is_wide(choices),
        name="response-times",
    )
    rate = _rate_figure(data, axis, "IOPS", "iops", lambda point: point.iops, "IOPS", "iops")
    title = "WSAT Response Times & IOPS v Drive Fills"
    return section("10-5", title, "10.3.4", (times, rate), notes=(" ".join(notes),))


def _minutes(data: Saturation, main: Table) -> Section:
    """10.2 step 2.2.2: what is recorded of each minute."""
    items = (main,) if len(data.parameters.pattern.blocks) == 1 else (main, workload_table(data))
    notes = ("Every minute is in the CSV files of plots 10-1 to 10-5.", *unmeasured_note(data.minutes))
    return Section("wsat-minutes", "WSAT - Minutes", "", "10.2 2.2.2", items, notes)


def _host(data: Saturation) -> tuple[Section, ...]:
    """Optional secondary metrics of each minute, where there was a source."""
    figures = host_figures(data.minutes, _time(data))
    return (Section("wsat-host", "WSAT - CPU Usage and Power v Time", "", "10.3.3", figures),) if figures else ()
