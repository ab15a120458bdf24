"""Report of the host idle recovery test: plots 11-1 to 11-4 of clause 11.3.

"Baseline" is the steady state of the pre-conditioning: the minutes of its measurement window. After each wait state
comes a return to baseline of its own. Gains are given against both (11.1).
"""

from __future__ import annotations

from collections.abc import Callable

from flashgauge.report import palette
from flashgauge.report.common import entropy, no_segments, section, toio
from flashgauge.report.formats import kib
from flashgauge.report.hir_metrics import HostIdle, Segment, WaitState, arrange
from flashgauge.report.hir_tables import gain_table, idle_table, secondary_table
from flashgauge.report.model import (
    Band,
    Bars,
    BarSeries,
    Choice,
    Field,
    LineFigure,
    Section,
    Series,
    Table,
    TestPart,
)
from flashgauge.report.replay import Replay
from flashgauge.report.series import Point, line, time_axis, unmeasured, unmeasured_note
from flashgauge.report.steady import determination_table, verdict_table, window_figure
from flashgauge.runfolder import Run
from flashgauge.spec.hir import TRACKING
from flashgauge.steps import KIB

# Longer waits, later colours; returns to baseline are grey in every plot.
_STATE_COLORS = ("#440154", "#365c8d", "#1fa187", "#8fb923", "#e0a800", "#d9622b")
_RETURN_COLOR = "#7d8a97"
_ACCESS_TITLE = "Access, counted over all wait states and returns to baseline"
_COLOR = palette.mix_color(0)


def hir_part(run: Run, replay: Replay) -> TestPart:
    """The host idle recovery part of the report; every section is present, with what there is to show."""
    data = arrange(replay)
    verdict = data.verdict
    verdicts = {TRACKING: verdict} if verdict is not None else {}
    begun = bool(data.begun)
    main = secondary_table(data) if begun else None
    summary = ((gain_table(data),) if begun else ()) + ((verdict_table(verdicts, "IOPS"),) if verdicts else ())
    measured = [point for segment in (data.baseline, *data.segments) for point in segment.accesses]
    return TestPart(
        title=f"HIR - RND {kib(data.parameters.stimulus.block_sizes[0][0])} W",
        status=_status(data, replay),
        set_up=_set_up(data),
        test_parameters=_test_parameters(data),
        summary=summary,
        main=main,
        sections=_sections(data, main) if data.minutes else (),
        not_measured=unmeasured(measured or data.minutes) if data.minutes else (),
    )


def _sections(data: HostIdle, main: Table | None) -> tuple[Section, ...]:
    return (
        _preconditioning(data),
        _window(data),
        _wait_states(data),
        *((_without_idle(data),) if data.begun else ()),
        _secondary(data, main),
        *((_response_times(data),) if data.begun else ()),
    )


def _status(data: HostIdle, replay: Replay) -> str:
    rounds, states = len(data.rounds), data.begun
    window = f"rounds {data.window[0]} - {data.window[-1]}" if data.window else "no round"
    if replay.outcome is not None and not data.steady:
        return f"steady state NOT reached in {rounds} rounds of the pre-conditioning: no wait state was run"
    if not data.steady:
        complete = f"{rounds} complete round{'' if rounds == 1 else 's'} of the pre-conditioning"
        return f"incomplete: {complete}, steady state not established"
    if replay.outcome is not None:
        names = ", ".join(state.short_name.removeprefix("WS ") for state in states)
        return f"steady state reached in {window}; wait states {names} measured"
    if not states:
        return f"incomplete: steady state reached in {window}, no access of a wait state is complete"
    last = states[-1].back if states[-1].back.accesses else states[-1].bursts
    return f"incomplete: steady state reached in {window}, then as far as {_lower(last.name)}, {_part(last)}"


def _part(segment: Segment) -> str:
    return f"{len(segment.accesses)} of {segment.expected} accesses"


def _lower(name: str) -> str:
    return name if name.startswith("WS") else f"{name[0].lower()}{name[1:]}"


# The header


def _steady_rounds(data: HostIdle) -> str:
    return f"{data.window[0]} - {data.window[-1]}" if data.steady else "not reached"


def _set_up(data: HostIdle) -> tuple[Field, ...]:
    p = data.parameters
    return (
        ("Data Pattern", entropy(p)),
        ("AR", f"{p.active_range_percent:g} %"),
        no_segments(),
        ("Pre Condition 1", f"RND {p.block_kib:g} KiB W"),
        ("TOIO - TC/QD", toio(p.thread_count, p.queue_depth)),
        ("Duration", f"to Steady State, at most {p.max_rounds} rounds"),
        ("Pre Condition 2", "none"),
        ("TOIO - TC/QD", "n/a"),
        ("SS Rounds", _steady_rounds(data)),
        ("Device class", p.device_class.value),
    )


def _test_parameters(data: HostIdle) -> tuple[Field, ...]:
    p = data.parameters
    return (
        ("Data Pattern", entropy(p)),
        ("AR & Amount", f"{p.active_range_percent:g} %"),
        ("Test Stimulus 1", f"Wait State: {p.wait_accesses} x {p.access_s:g} s, then idle"),
        ("Idle Times", f"{', '.join(f'{wait_s:g}' for wait_s in p.waits_s)} s"),
        ("RW Mix", "0/100"),
        ("Block Sizes", f"RND {kib(int(p.block_kib * KIB))}"),
        ("TOIO - TC/QD", toio(p.thread_count, p.queue_depth)),
        ("Steady State", _steady_rounds(data)),
        ("Test Stimulus 2", f"Return to baseline: {p.baseline_accesses} x {p.access_s:g} s"),
        ("TOIO - TC/QD", toio(p.thread_count, p.queue_depth)),
    )


# Pre-conditioning


def _preconditioning(data: HostIdle) -> Section:
    """11.3.2.1: all minutes, the tracking rounds among them marked."""
    p = data.parameters
    axis = time_axis(data.minutes[-1].end_s)
    series = [line("Each minute", data.minutes, axis, lambda point: point.iops, _COLOR)]
    if data.rounds:
        series.append(line("Tracking rounds", data.rounds, axis, lambda point: point.iops, palette.INK, "dots", 2))
    bands: tuple[Band, ...] = ()
    if data.steady:
        ends = (axis.value(data.rounds[data.window[0] - 1]), axis.value(data.rounds[data.window[-1] - 1]))
        bands = (Band("x", *ends, f"Measurement window: rounds {_steady_rounds(data)}", palette.WINDOW),)
    figure = LineFigure(
        title=f"Pre-conditioning, RND {p.block_kib:g} KiB writes from the purge on",
        x_title=axis.title,
        y_title="IOPS",
        x_name=axis.name,
        y_name="iops",
        choices=(Choice("", tuple(series)),),
        bands=bands,
    )
    notes = "Each point stands at the end of its minute. Round k is minute 1 + (k \N{MINUS SIGN} 1) x "
    notes += f"{p.round_spacing_minutes}.{'' if p.minute_s == 60 else f' A minute of this run has {p.minute_s:g} s.'}"
    return section("11-1", "HIR Pre-conditioning IOPS v Time", "11.3.2.1", (figure,), notes=(notes,))


def _window(data: HostIdle) -> Section:
    """11.3.2.2."""
    title, clause, verdict = "HIR Pre-conditioning Steady State Measurement Window", "11.3.2.2", data.verdict
    if verdict is None:
        return section("11-2", title, clause, (), notes=("Fewer than two rounds are complete: nothing to verify.",))
    figure = window_figure(TRACKING, verdict, y_title="IOPS", y_name="iops", color=_COLOR, marker=0)
    items = (figure, determination_table(verdict, "IOPS"))
    return section("11-2", title, clause, items, layout="side", verdict=verdict)


# Wait states


def _why_none(data: HostIdle) -> tuple[str, ...]:
    if data.steady:
        return ("The run ended before the first access of a wait state was complete.",)
    return ("No wait state was run: they follow only when the pre-conditioning is steady (11.2 step 3.2).",)


def _color(data: HostIdle, state: WaitState) -> str:
    return _STATE_COLORS[data.states.index(state) % len(_STATE_COLORS)]


def _wait_states(data: HostIdle) -> Section:
    """11.3.2.3: over time, and once more without the idle time, where each access has the same room."""
    title, clause = "HIR IOPS v Time for All Wait States", "11.3.2.3"
    if not data.begun:
        return section("11-3", title, clause, (), notes=_why_none(data))
    axis = time_axis(list(data.segments)[-1].accesses[-1].end_s)
    figure = _accesses(
        data, axis.value, "IOPS v Time", axis.title, axis.name, lambda point: point.iops, "IOPS", "iops", ""
    )
    return section("11-3", title, clause, (figure,), notes=_access_notes(data))


def _access_notes(data: HostIdle) -> tuple[str, ...]:
    return (
        f"Each point is one access of {data.parameters.access_s:g} s. WS n: idle time of n times the access follows "
        "each one. Shaded: wait states; grey points: returns to baseline, without idle time.",
    )


def _without_idle(data: HostIdle) -> Section:
    """11.3.2.3 once more: each access has the same room, and the values have all of the axis."""
    number = _numbers(data)
    figure = _accesses(
        data,
        lambda point: float(number[id(point)]),
        "IOPS v access: as plot 11-3, without the idle time and enlarged",
        _ACCESS_TITLE,
        "access",
        lambda point: point.iops,
        "IOPS",
        "iops",
        "accesses",
    )
    title = "HIR IOPS v Access for All Wait States"
    notes = _access_notes(data)
    if figure.bands[0].axis == "y":
        notes += ("The value axis does not begin at 0.",)
    return Section("hir-accesses", title, "", "11.3.2.3", (figure,), notes)


def _numbers(data: HostIdle) -> dict[int, int]:
    """Place of each access among all."""
    every = [point for segment in data.segments for point in segment.accesses]
    return {id(point): place for place, point in enumerate(every, 1)}


def _accesses(
    data: HostIdle,
    place: Callable[[Point], float],
    title: str,
    x_title: str,
    x_name: str,
    value: Callable[[Point], float | None],
    y_title: str,
    y_name: str,
    name: str,
) -> LineFigure:
    """All accesses: a colour for each wait state, one for the returns, and the baseline as a line."""
    every = [point for segment in data.segments for point in segment.accesses]
    series = []
    base = data.baseline.iops
    if y_name == "iops" and base is not None:
        label = f"Baseline (steady state): {base:,.0f} IOPS"
        series.append(Series(label, (place(every[0]), place(every[-1])), (base, base), palette.INK, "dash"))
    returns = [point for state in data.begun for point in state.back.accesses]
    if returns:
        series.append(_dots("Return to baseline", returns, place, value, _RETURN_COLOR, 0))
    # A band of values, the first of the bands, frees the value axis from 0.
    bands = [_return_range(returns)] if returns and name == "accesses" else []
    for i, state in enumerate(data.begun):
        found = list(state.bursts.accesses)
        series.append(_dots(state.bursts.title, found, place, value, _color(data, state), i + 1))
        bands.append(Band("x", place(found[0]), place(found[-1]), state.short_name, _color(data, state)))
    return LineFigure(
        title=title,
        x_title=x_title,
        y_title=y_title,
        x_name=x_name,
        y_name=y_name,
        choices=(Choice("", tuple(series)),),
        bands=tuple(bands),
        name=name,
    )


def _return_range(returns: list[Point]) -> Band:
    rates = [point.iops for point in returns]
    return Band("y", min(rates), max(rates), "Returns to baseline, lowest to highest", _RETURN_COLOR)


def _dots(
    name: str,
    found: list[Point],
    place: Callable[[Point], float],
    value: Callable[[Point], float | None],
    color: str,
    marker: int,
) -> Series:
    shown = [(place(point), y) for point in found if (y := value(point)) is not None]
    return Series(name, tuple(x for x, _ in shown), tuple(y for _, y in shown), color, "dots", marker)


def _secondary(data: HostIdle, main: Table | None) -> Section:
    """11.3.2.4, with the staircase as bars."""
    title, clause = "HIR Secondary Metrics", "11.3.2.4"
    if main is None:
        return section("11-4", title, clause, (), notes=_why_none(data))
    categories = ["Baseline"] + [state.short_name for state in data.begun]
    bars = Bars(
        title="IOPS of each wait state, and of the return to baseline after it",
        x_title="Segment",
        y_title="IOPS",
        x_name="segment",
        y_name="iops",
        categories=tuple(categories),
        series=(
            BarSeries("Baseline and wait states", (data.baseline.iops, *(s.bursts.iops for s in data.begun)), _COLOR),
            BarSeries("Return to baseline", (None, *(s.back.iops for s in data.begun)), _RETURN_COLOR),
        ),
        format=",.0f",
        name="staircase",
    )
    window = _steady_rounds(data)
    points = [point for segment in (data.baseline, *data.segments) for point in segment.accesses]
    notes = (
        f"Baseline: the minutes that are rounds {window} of the pre-conditioning. IOPS: all I/Os over all windows; "
        "idle time is in no window. ART: of all I/Os. MRT: the largest of all.",
        "Idle time is what the device had: from the last completion before it to the first I/O after it.",
        *unmeasured_note(points),
    )
    return section("11-4", title, clause, (main, idle_table(data), bars), notes=notes)


def _response_times(data: HostIdle) -> Section:
    """ART and MRT of each access, which 11.2 step 4.1 records."""
    number = _numbers(data)
    place: Callable[[Point], float] = lambda point: float(number[id(point)])  # noqa: E731
    items = tuple(
        _accesses(data, place, f"{name} of each access", _ACCESS_TITLE, "access", value, f"{name}, ms", column, column)
        for name, value, column in (
            ("ART", lambda point: point.art_ms, "art_ms"),
            ("MRT", lambda point: point.mrt_ms, "mrt_ms"),
        )
    )
    return Section("hir-response-times", "HIR Response Times for All Wait States", "", "11.2 4.1", items)
