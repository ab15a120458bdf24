"""Report of the latency test: plots 9-1 to 9-4 of clause 9.3, and the verdict behind them.

IOPS and ART of a test point are averages of the window's rounds, as 9.3.6.1 has them; MRT is the largest. The standard
averages the rounds' 99.999 % values too; a percentile of all the window's I/Os together is more: both are shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import nan

from flashgauge.measurement import Measurement
from flashgauge.report import palette
from flashgauge.report.common import averaged, entropy, is_wide, no_segments, section, toio
from flashgauge.report.confidence import LEAST_NINES, confidence_section, is_few, level_ns
from flashgauge.report.formats import kib, mix
from flashgauge.report.iops_metrics import Point, Rounds
from flashgauge.report.metrics import FIVE_NINES_IOS, PointMetrics, mean, point_metrics
from flashgauge.report.model import Band, Choice, Column, Field, LineFigure, Section, Series, Table, TestPart, Value
from flashgauge.report.replay import Replay
from flashgauge.report.steady import determination_table, verdict_table, window_figure
from flashgauge.runfolder import Run
from flashgauge.spec.lat import TRACKED, TRACKING, LatParameters
from flashgauge.steadystate import Verdict, judge
from flashgauge.steps import KIB

TITLE = "LAT - Response Time, Block Size x RW Mix"
_MINUS = "\N{MINUS SIGN}"
_FEW = (
    f"* fewer than {FIVE_NINES_IOS:,} I/Os in the window, or in one of its rounds, that is 1/(1 {_MINUS} 0.99999): the "
    "value is, or contains, the slowest I/O itself."
)


@dataclass(frozen=True)
class LatPoint:
    """One test point over the window. `art_ms` and `rounds_p99999_ms`: averages of the rounds' values; None where a
    round has no I/O. `few`, `rounds_few`: too few I/Os for five nines, in the window or in one of its rounds."""

    merged: PointMetrics
    art_ms: float | None
    rounds_p99999_ms: float | None
    few: bool
    rounds_few: bool


@dataclass(frozen=True)
class Found:
    """What the journal holds. `steady`, `ended`: the rounds. `histogram`: None when it was not completed."""

    rounds: Rounds
    steady: bool
    ended: bool
    points: dict[Point, LatPoint]
    verdict: Verdict | None
    histogram: Measurement | None

    @property
    def window_text(self) -> str:
        return f"{self.rounds.window[0]} - {self.rounds.window[-1]}"

    @property
    def notes(self) -> tuple[str, ...]:
        return averaged(self.rounds.window, self.rounds.criteria.window_rounds)


def lat_part(run: Run, replay: Replay) -> TestPart:
    """The latency part of the report; with one complete round every section is present, with what there is to show."""
    found = arrange(replay)
    parameters: LatParameters = replay.parameters
    main: Table | None = None
    sections: tuple[Section, ...] = ()
    summary: tuple[Table, ...] = ()
    not_measured: tuple[str, ...] = ()
    if found.points:
        main = _tabular(found)
        behind, not_measured = _behind(found)
        notes = (
            *found.notes,
            "99.999 %: the standard averages the values of the rounds; merged is of all the window's I/Os together.",
        )
        title = "Latency Tabular Data - IOPS, ART, 99.999 %, MRT"
        sections = (
            *_convergence(found),
            _window(found),
            section("9-3", title, "9.3.6.1", (main, behind), notes=notes, layout="side"),
            _histogram(parameters, found),
        )
        verdicts = (verdict_table({TRACKING: found.verdict}, "ms", "9.3.4"),) if found.verdict else ()
        summary = (*verdicts, _key_numbers(found))
    return TestPart(
        title=TITLE,
        status=_status(replay, found),
        set_up=_set_up(parameters, found),
        test_parameters=_test_parameters(parameters, found),
        summary=summary,
        main=main,
        sections=sections,
        not_measured=not_measured,
    )


def arrange(replay: Replay) -> Found:
    """The journal's complete rounds, the figures of the measurement window, and the histogram."""
    parameters: LatParameters = replay.parameters
    last = replay.complete_rounds
    by_round: dict[int, dict[Point, Measurement]] = {}
    partial = 0
    for entry in replay.entries:
        label = entry.label
        if label.round is None or label.read_percent is None or label.block_bytes is None:
            continue
        if label.round > last:
            partial += 1
        else:
            by_round.setdefault(label.round, {})[label.read_percent, label.block_bytes] = entry.measurement
    rounds = Rounds(
        reads=tuple(sorted({read for read, _ in parameters.points})),
        blocks=tuple(sorted({block for _, block in parameters.points})),
        by_round=by_round,
        window=tuple(range(max(1, last - parameters.window_rounds + 1), last + 1)),
        partial_points=partial,
        criteria=parameters.criteria,
    )
    verdicts = replay.judged[-1].verdicts if replay.judged else {}
    steady = bool(verdicts) and all(verdict.steady for verdict in verdicts.values())
    # A round without I/O counts as 0 ms, as it did when the run was judged.
    tracked = [_art_ms(measurement) or 0.0 for measurement in rounds.in_window(TRACKED)]
    return Found(
        rounds=rounds,
        steady=steady,
        ended=steady or last == parameters.max_rounds,
        points={point: _point(rounds.in_window(point)) for point in parameters.points} if last else {},
        verdict=judge(tracked, rounds.window[0], rounds.criteria) if len(tracked) > 1 else None,
        histogram=next((e.measurement for e in replay.entries if e.label.purpose == "histogram"), None),
    )


def _point(measurements: list[Measurement]) -> LatPoint:
    arts = [art for m in measurements if (art := _art_ms(m)) is not None]
    five_nines = [p for m in measurements if (p := point_metrics([m]).p99999_ms) is not None]
    whole = len(arts) == len(measurements)
    merged = point_metrics(measurements)
    return LatPoint(
        merged=merged,
        art_ms=mean(arts) if whole else None,
        rounds_p99999_ms=mean(five_nines) if whole else None,
        few=is_few(LEAST_NINES, merged.ios),
        rounds_few=any(is_few(LEAST_NINES, m.ios) for m in measurements),
    )


def _art_ms(measurement: Measurement) -> float | None:
    return None if measurement.art_ns is None else measurement.art_ns / 1e6


def _mrt_ms(measurement: Measurement) -> float | None:
    return None if measurement.mrt_ns is None else measurement.mrt_ns / 1e6


def _status(replay: Replay, found: Found) -> str:
    count = len(found.rounds.by_round)
    if found.ended and found.steady:
        state = f"steady state reached, measurement window rounds {found.window_text}"
    elif found.ended:
        state = f"steady state NOT reached in {count} rounds; figures are of rounds {found.window_text}"
    else:
        state = f"{count} complete round{'' if count == 1 else 's'}, steady state not established"
    if replay.outcome is not None:
        return state
    return f"incomplete: {state}" + ("; the histogram is missing" if found.ended else "")


def _steady_rounds(found: Found) -> str:
    return found.window_text if found.steady else "not reached"


def _set_up(parameters: LatParameters, found: Found) -> tuple[Field, ...]:
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR", f"{parameters.active_range_percent:g} %"),
        no_segments(),
        ("Pre Condition 1", f"SEQ {parameters.wipc_block_kib:g} KiB W"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Duration", f"{parameters.wipc_capacities:g} x User Capacity"),
        ("Pre Condition 2", "LAT Loop"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("SS Rounds", _steady_rounds(found)),
        ("Device class", parameters.device_class.value),
    )


def _test_parameters(parameters: LatParameters, found: Found) -> tuple[Field, ...]:
    histogram = f"{found.histogram.window_s:,g} s" if found.histogram else "not completed"
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR & Amount", f"{parameters.active_range_percent:g} %"),
        ("Test Stimulus 1", f"LAT Loop, RND, {parameters.point_s:g} s each"),
        ("RW Mix", f"Outer Loop ({len(parameters.read_percents)})"),
        ("Block Sizes", f"Inner Loop ({len(parameters.block_sizes_kib)})"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Steady State", f"{_steady_rounds(found)} (rounds run: {len(found.rounds.by_round)})"),
        ("Test Stimulus 2", f"{_point_name(TRACKED)}, histogram"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Duration", histogram),
    )


def _point_name(point: Point) -> str:
    return f"RND {kib(point[1])} RW{point[0]}"


def _convergence(found: Found) -> tuple[Section, Section]:
    """9.3.3: the tracking variable, and ART and MRT of every point, in all rounds. Two pages, both plot 9-1."""
    rounds = found.rounds
    x = tuple(float(number) for number in sorted(rounds.by_round))
    first, last = rounds.window[0], rounds.window[-1]
    reported = f"round {first}" if first == last else f"rounds {first}-{last}"
    name = "Measurement window" if found.steady else "Reported"
    window = Band("x", first - 0.3, last + 0.3, f"{name}: {reported}", palette.WINDOW)
    every = [(read, block) for read in rounds.reads for block in rounds.blocks]

    def line(point: Point, get: Callable[[Measurement], float | None], name: str) -> Series:
        found_ms = (get(points[point]) for _, points in sorted(rounds.by_round.items()))
        y = tuple(nan if value is None else value for value in found_ms)
        return Series(name, x, y, palette.mix_color(point[0]), marker=rounds.blocks.index(point[1]))

    def figure(title: str, unit: str, series: tuple[Series, ...], name: str) -> LineFigure:
        choices = (Choice("", series),)
        return LineFigure(
            title=title,
            x_title="Round",
            y_title=f"{unit}, ms",
            x_name="round",
            y_name=f"{unit.lower()}_ms",
            choices=choices,
            bands=(window,),
            x_ticks=tuple((value, f"{value:g}") for value in x[:: 1 if len(x) <= 12 else 2]),
            y_log=is_wide(choices),
            name=name,
        )

    notes: tuple[str, ...] = (f"All complete rounds, {len(x)}; shaded: {reported}.",)
    if rounds.partial_points:
        notes += (f"{rounds.partial_points} of {len(every)} points of an incomplete further round are not shown.",)
    arts = tuple(line(point, _art_ms, _point_name(point)) for point in every)
    mrts = tuple(line(point, _mrt_ms, _point_name(point)) for point in every)
    tracked = (line(TRACKED, _art_ms, TRACKING),)
    average = (
        figure("Average response time, all R/W mixes and block sizes", "ART", arts, "art"),
        figure("Steady state tracking variable", "ART", tracked, "tracking"),
    )
    maximum = figure("Maximum response time, all R/W mixes and block sizes", "MRT", mrts, "mrt")
    title = "Latency Steady State Convergence"
    first_page = section("9-1", f"{title} - Average", "9.3.3", average, notes=notes, layout="side")
    return first_page, Section("plot-9-1-maximum", f"{title} - Maximum", "9-1", "9.3.3", (maximum,), notes)


def _window(found: Found) -> Section:
    """9.3.4 and 9.3.5."""
    plot, title = "9-2", f"Latency Steady State Measurement Window - {TRACKING}"
    verdict, rounds = found.verdict, found.rounds
    if verdict is None:
        return section(plot, title, "9.3.5", (), notes=("Fewer than two rounds are complete: nothing to verify.",))
    color, marker = palette.mix_color(TRACKED[0]), rounds.blocks.index(TRACKED[1])
    figure = window_figure(
        TRACKING, verdict, y_title="ART, ms", y_name="art_ms", color=color, marker=marker, clause="9.3.4"
    )
    items = (figure, determination_table(verdict, "ms", "9.3.4"))
    return section(plot, title, "9.3.4, 9.3.5", items, notes=found.notes, layout="side", verdict=verdict)


# Title, format, value, and whether too few I/Os are behind it.
_TABULAR: tuple[tuple[str, str, Callable[[LatPoint], Value], Callable[[LatPoint], bool]], ...] = (
    ("IOPS", ",.1f", lambda p: p.merged.iops, lambda _: False),
    ("ART, ms", ",.4f", lambda p: p.art_ms, lambda _: False),
    ("99.999 %, merged, ms", ",.4f", lambda p: p.merged.p99999_ms, lambda p: p.few),
    ("99.999 %, average of the rounds', ms", ",.4f", lambda p: p.rounds_p99999_ms, lambda p: p.rounds_few),
    ("MRT, ms", ",.4f", lambda p: p.merged.mrt_ms, lambda _: False),
)
_BEHIND: tuple[tuple[str, str, Callable[[PointMetrics], Value]], ...] = (
    ("I/Os behind the response times", ",d", lambda m: m.ios),
    ("CPU System Usage, %", ",.2f", lambda m: m.cpu_system_percent),
    ("CPU IO Wait, %", ",.2f", lambda m: m.cpu_iowait_percent),
    ("Average power, mW", ",.0f", lambda m: m.power_mw),
)


def _columns(found: Found, name: str) -> tuple[Column, ...]:
    """`name`: of the first column; tables with the same names become one CSV file."""
    sizes = (Column(kib(block), f"block_{block / KIB:g}_kib", ",.4f") for block in found.rounds.blocks)
    return (Column("Metric", name), Column("R/W", "read_write_mix"), *sizes)


def _tabular(found: Found) -> Table:
    """9.3.6.1: each metric at each R/W mix and block size."""
    reads, blocks = found.rounds.reads, found.rounds.blocks
    rows: list[tuple[Value, ...]] = []
    marks: set[tuple[int, int]] = set()
    for title, _, get, few in _TABULAR:
        for read in reads:
            points = [found.points[read, block] for block in blocks]
            marks |= {(len(rows), j) for j, point in enumerate(points, 2) if few(point)}
            rows.append((title, f"RW {read}", *(get(point) for point in points)))
    return Table(
        title="IOPS, average, 99.999 % and maximum response times",
        columns=_columns(found, "metric"),
        rows=tuple(rows),
        formats=tuple(spec for _, spec, _, _ in _TABULAR for _ in reads),
        marks=frozenset(marks),
        notes=(_FEW,) if marks else (),
    )


def _behind(found: Found) -> tuple[Table, tuple[str, ...]]:
    """How many I/Os the response times are of, and what the host needed; the names of what had no source."""
    reads, blocks = found.rounds.reads, found.rounds.blocks
    rows: list[tuple[Value, ...]] = []
    formats: list[str] = []
    absent: list[str] = []
    for title, spec, get in _BEHIND:
        if all(get(point.merged) is None for point in found.points.values()):
            absent.append(title.split(",", maxsplit=1)[0])
            rows.append((title, "all", *("not measured" for _ in blocks)))
            formats.append(spec)
            continue
        rows += [(title, f"RW {read}", *(get(found.points[read, block].merged) for block in blocks)) for read in reads]
        formats += [spec for _ in reads]
    columns = _columns(found, "quantity")
    return Table("I/Os, host and power", columns, tuple(rows), formats=tuple(formats), name="secondary"), tuple(absent)


def _histogram(parameters: LatParameters, found: Found) -> Section:
    """9.3.6.2."""
    title = f"Latency Response Time Histogram, Confidence Levels - {_point_name(TRACKED)}"
    if found.histogram is None:
        note = "The histogram after the rounds (9.2 step 3.3) was not completed."
        return section("9-4", title, "9.3.6.2", (), notes=(note,))
    loaded = toio(parameters.thread_count, parameters.queue_depth)
    facts = f"{_point_name(TRACKED)}, {loaded}, {found.histogram.iops:,.1f} IOPS. {_host(found.histogram)}"
    return confidence_section("9-4", title, "9.3.6.2", found.histogram, nines=parameters.nines, notes=(facts,))


def _host(measurement: Measurement) -> str:
    host = measurement.host
    values = (
        ("CPU System Usage", host.cpu_system_percent, ".2f", "%"),
        ("CPU IO Wait", host.cpu_iowait_percent, ".2f", "%"),
        ("Average power", None if host.power_w is None else host.power_w * 1e3, ",.0f", "mW"),
    )
    shown = [f"{name} {value:{spec}} {unit}" for name, value, spec, unit in values if value is not None]
    absent = [name for name, value, _, _ in values if value is None]
    return " ".join(
        ([f"{', '.join(shown)}."] if shown else []) + ([f"Not measured: {', '.join(absent)}."] if absent else [])
    )


def _key_numbers(found: Found) -> Table:
    """4 KiB at each R/W mix, and the histogram."""
    block = TRACKED[1]
    rows: list[tuple[Value, ...]] = []
    few: set[int] = set()
    for read in found.rounds.reads:
        point = found.points[read, block]
        if point.few:
            few.add(len(rows))
        five_nines, mrt = point.merged.p99999_ms, point.merged.mrt_ms
        rows.append((f"{kib(block)}, R/W {mix(read)}", point.merged.iops, point.art_ms, five_nines, mrt))
    histogram = found.histogram
    if histogram is not None and histogram.ios:
        if is_few(LEAST_NINES, histogram.ios):
            few.add(len(rows))
        five_nines = level_ns(histogram, histogram.histogram, LEAST_NINES) / 1e6
        name = f"{kib(block)}, R/W {mix(TRACKED[0])}, histogram of {histogram.window_s:,g} s"
        rows.append((name, histogram.iops, _art_ms(histogram), five_nines, _mrt_ms(histogram)))
    return Table(
        title="Key numbers",
        columns=(
            Column("RND point", "point"),
            Column("IOPS", "iops", ",.1f"),
            Column("ART, ms", "art_ms", ",.4f"),
            Column("99.999 %, merged, ms", "p99999_ms", ",.4f"),
            Column("MRT, ms", "mrt_ms", ",.4f"),
        ),
        rows=tuple(rows),
        marks=frozenset((i, 3) for i in few),
        notes=(f"* fewer than {FIVE_NINES_IOS:,} I/Os: this value is the slowest I/O itself.",) if few else (),
        name="key-numbers",
    )
