"""Plots 1 to 8 and 15 of CBW and DIRTH: pre-conditioning, pre-writes between rounds, demand variation and intensity.

Each maker returns None when the run did not come to the plot's data.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import groupby

from flashgauge.report import palette
from flashgauge.report.common import averaged, host_marked, is_wide, section, toio
from flashgauge.report.demand_metrics import PREWRITE, Demand, rank_color, short
from flashgauge.report.demand_points import TITLE
from flashgauge.report.metrics import host_mean
from flashgauge.report.model import (
    Band,
    Bars,
    BarSeries,
    Callout,
    Choice,
    Column,
    Columns3D,
    LineFigure,
    Mark,
    Section,
    Series,
    Style,
    Table,
    Value,
)
from flashgauge.report.series import (
    Axis,
    Point,
    duration,
    largest_mrt_ms,
    line,
    of_purpose,
    points,
    pooled_art_ms,
    time_axis,
)
from flashgauge.report.steady import determination_table, window_figure
from flashgauge.runfolder import Run
from flashgauge.spec.demand import tracking_name
from flashgauge.steadystate import Verdict

PC_VARIABLE = "IOPS of pre-conditioning"
# More rounds than this have no room for a label each.
MOST_LABELLED = 12


@dataclass(frozen=True)
class Plots:
    """What the standard calls the plots of one test. `first`: the number of plot 1 among the section's figures.
    `over_rounds`: whether plot 1 counts in rounds or in time."""

    test: str
    section: str
    first: int
    titles: tuple[str, ...]
    over_rounds: bool

    def number(self, plot: int) -> str:
        return f"{self.section}-{self.first + plot - 1}"

    def title(self, plot: int) -> str:
        return self.titles[plot - 1]

    def clause(self, plot: int) -> str:
        return f"{self.section}.3.2.{plot}"


@dataclass(frozen=True)
class Context:
    run: Run
    demand: Demand
    plots: Plots

    def section(self, plot: int, *items: LineFigure | Bars | Columns3D | Table, notes: tuple[str, ...]) -> Section:
        return section(self.plots.number(plot), self.plots.title(plot), self.plots.clause(plot), items, notes=notes)

    @property
    def averaged(self) -> tuple[str, ...]:
        return averaged(self.demand.variation.window, self.demand.parameters.window_rounds)

    def color(self, values: tuple[int, ...], value: int) -> str:
        return rank_color(sorted(values).index(value), len(values))


def _preconditioning(context: Context) -> Section | None:
    """Plot 1: all minutes, the tracking rounds marked."""
    demand, p = context.demand, context.demand.parameters
    found = points(demand.of("pre-conditioning"))
    if not found:
        return None
    spacing = p.round_spacing_minutes
    tracked = found[::spacing][: len(demand.preconditioning.values)]
    axis = time_axis(found[-1].end_s)
    place = {id(at): (1 + i / spacing if context.plots.over_rounds else axis.value(at)) for i, at in enumerate(found)}

    def series(name: str, chosen: tuple[Point, ...], color: str, style: Style) -> Series:
        return Series(name, tuple(place[id(at)] for at in chosen), tuple(at.iops for at in chosen), color, style)

    made = [series("Each minute", found, palette.MUTED, "thin")]
    bands: list[Band] = []
    if tracked:
        made.append(series("Tracking rounds", tracked, palette.mix_color(0), "dots"))
        window = demand.preconditioning.window
        ends = [place[id(tracked[number - 1])] for number in (window[0], window[-1])]
        margin = 0.01 * max(place.values())
        name = "Measurement window" if demand.preconditioning.steady else "Rounds reported"
        label = f"{name}: rounds {window[0]}-{window[-1]}"
        bands.append(Band("x", ends[0] - margin, ends[1] + margin, label, palette.WINDOW))
    every = f"every {spacing} minutes"
    figure = LineFigure(
        title=f"Pre-conditioning, R/W 0/100 at {toio(*p.heaviest)}",
        x_title=f"Tracking round, {every}" if context.plots.over_rounds else axis.title,
        y_title="IOPS",
        x_name="round" if context.plots.over_rounds else axis.name,
        y_name="iops",
        choices=(Choice("", tuple(made)),),
        bands=tuple(bands),
        x_ticks=_round_ticks(len(tracked)) if context.plots.over_rounds else (),
    )
    length = "" if p.minute_s == 60 else f" of {duration(p.minute_s)}"
    notes = (
        f"{len(found):,} minutes{length}; the rounds are the first and those that begin {every} after it.",
        f"All minutes: ART {_ms(pooled_art_ms(found))}, MRT {_ms(largest_mrt_ms(found))}.",
    )
    return context.section(1, figure, notes=notes)


def _ms(value: float | None) -> str:
    return "not measured" if value is None else f"{value:,.3f} ms"


def _round_ticks(count: int) -> tuple[tuple[float, str], ...]:
    step = 1 if count <= MOST_LABELLED else 2
    return tuple((float(number), str(number)) for number in range(1, count + 1, step))


def _window(context: Context, plot: int, name: str, verdict: Verdict | None, color: str) -> Section | None:
    """Plots 2 and 5."""
    if verdict is None:
        return None
    figure = window_figure(name, verdict, y_title="IOPS", y_name="iops", color=color, marker=0)
    window = tuple(range(verdict.first_round, verdict.last_round + 1))
    return section(
        context.plots.number(plot),
        context.plots.title(plot),
        context.plots.clause(plot),
        (figure, determination_table(verdict, "IOPS")),
        notes=averaged(window, context.demand.parameters.window_rounds),
        layout="side",
        verdict=verdict,
    )


def _preconditioning_window(context: Context) -> Section | None:
    return _window(context, 2, PC_VARIABLE, context.demand.preconditioning.verdict, palette.mix_color(0))


def _variation_window(context: Context) -> Section | None:
    demand = context.demand
    color = context.color(demand.parameters.queue_depths, demand.parameters.heaviest_queue_depth)
    return _window(context, 5, tracking_name(demand.parameters), demand.variation.verdict, color)


def _between_rounds(context: Context) -> Section | None:
    """Plot 3: the pre-writes of all rounds, also of one that is not complete."""
    demand, p = context.demand, context.demand.parameters
    entries = [*demand.of(PREWRITE), *demand.of("demand")]
    if not entries:
        return None
    found = of_purpose(points(sorted(entries, key=lambda entry: entry.sequence)), PREWRITE)
    rounds = [(number, list(group)) for number, group in groupby(found, key=lambda at: at.label.round)]
    axis = time_axis(found[-1].end_s)
    begins = tuple(Mark("x", _begin(axis, group[0]), f"round {number}", palette.MUTED) for number, group in rounds)
    figure = LineFigure(
        title=f"Pre-writes, R/W 0/100 at {toio(*p.heaviest)}",
        x_title=f"{axis.title}, since the demand variation began",
        y_title="IOPS",
        x_name=axis.name,
        y_name="iops",
        choices=(Choice("", (line("Pre-writes", found, axis, lambda at: at.iops, palette.mix_color(0), "dots"),)),),
        marks=begins if len(begins) <= MOST_LABELLED else (),
    )
    notes = (
        f"Each point is a minute, at its end. A pre-write ends after {p.prewrite_min_minutes} minutes at least, then "
        f"when {p.prewrite_capacity_percent:g} % of the user capacity is written or {p.prewrite_max_minutes} minutes "
        "have passed.",
    )
    return context.section(3, figure, _prewrite_table(context, rounds), notes=notes)


def _begin(axis: Axis, point: Point) -> float:
    """Where a point's window begins on a time axis."""
    return axis.value(replace(point, end_s=point.start_s))


def _prewrite_table(context: Context, rounds: list[tuple[int | None, list[Point]]]) -> Table:
    capacity = context.run.dut.capacity_bytes
    rows: list[tuple[Value, ...]] = []
    for number, group in rounds:
        written = sum(at.measurement.written_bytes for at in group)
        cpu = host_mean([at.measurement for at in group], lambda m: m.host.cpu_system_percent)
        rates = (group[0].iops, group[-1].iops)
        share = 100 * written / capacity if capacity else None
        art_ms, mrt_ms = pooled_art_ms(group), largest_mrt_ms(group)
        rows.append((number, len(group), written / 1e9, share, *rates, art_ms, mrt_ms, cpu))
    columns: tuple[Column, ...] = (
        Column("Round", "round", "d"),
        Column("Minutes", "minutes", "d"),
        Column("Written, GB", "written_gb", ",.2f"),
        Column("of capacity, %", "written_percent", ",.2f"),
        Column("IOPS, first minute", "iops_first", ",.1f"),
        Column("IOPS, last minute", "iops_last", ",.1f"),
        Column("ART, ms", "art_ms", ",.3f"),
        Column("MRT, ms", "mrt_ms", ",.3f"),
        Column("CPU System Usage, %", "cpu_system_percent", ",.2f"),
    )
    notes: tuple[str, ...] = ()
    if all(row[-1] is None for row in rows):
        columns, rows, notes = columns[:-1], [row[:-1] for row in rows], ("CPU System Usage: not measured.",)
    return Table("Pre-writes of each round", columns, tuple(rows), notes=notes, name="rounds")


def _over_rounds(context: Context) -> Section | None:
    """Plot 4: the thread count of the tracking variable, a line for each queue depth."""
    demand, p = context.demand, context.demand.parameters
    if not demand.by_round:
        return None
    tc, rounds = p.heaviest_thread_count, sorted(demand.by_round)
    depths = sorted(p.queue_depths)
    series = tuple(
        Series(
            f"QD {qd}",
            tuple(map(float, rounds)),
            tuple(demand.by_round[number][tc, qd].iops for number in rounds),
            context.color(p.queue_depths, qd),
            marker=i,
        )
        for i, qd in enumerate(depths)
    )
    window = demand.variation.window
    name = "Measurement window" if demand.variation.steady else "Rounds reported"
    choices = (Choice("", series),)
    figure = LineFigure(
        title=f"TC {tc}, all queue depths",
        x_title="Round",
        y_title="IOPS",
        x_name="round",
        y_name="iops",
        choices=choices,
        bands=(Band("x", window[0] - 0.3, window[-1] + 0.3, f"{name}: {window[0]}-{window[-1]}", palette.WINDOW),),
        x_ticks=_round_ticks(len(rounds)),
        y_log=is_wide(choices),
    )
    notes: tuple[str, ...] = (f"The tracking variable is {tracking_name(p)}.",)
    if demand.partial_points:
        notes += (f"{demand.partial_points} of {len(p.points)} points of an incomplete further round are not shown.",)
    return context.section(4, figure, notes=notes)


def _over_depth(context: Context) -> Section | None:
    """Plot 6, with its numbers."""
    demand, p = context.demand, context.demand.parameters
    if not demand.metrics:
        return None
    depths = sorted(p.queue_depths)
    x = tuple(map(float, depths))
    series = tuple(
        Series(
            f"TC {tc}",
            x,
            tuple(demand.metrics[tc, qd].iops for qd in depths),
            context.color(p.thread_counts, tc),
            marker=i,
        )
        for i, tc in enumerate(sorted(p.thread_counts))
    )
    choices = (Choice("", series),)
    figure = LineFigure(
        title="IOPS over queue depth, one line for each thread count",
        x_title="Queue depth (OIO per thread)",
        y_title="IOPS",
        x_name="queue_depth",
        y_name="iops",
        choices=choices,
        x_ticks=tuple((value, f"{value:g}") for value in x),
        x_log=True,
        y_log=is_wide(choices),
    )
    return context.section(6, figure, iops_matrix(demand), notes=context.averaged)


def iops_matrix(demand: Demand) -> Table:
    """Average IOPS of every combination."""
    p = demand.parameters
    depths, counts = sorted(p.queue_depths), sorted(p.thread_counts)
    table = Table(
        title="IOPS, average of the window's rounds",
        columns=(Column("Thread Count", "thread_count"), *(Column(f"{qd}", f"qd_{qd}", ",.1f") for qd in depths)),
        rows=tuple((f"{tc}", *(demand.metrics[tc, qd].iops for qd in depths)) for tc in counts),
        group="Queue Depth (OIO per thread)",
        name="tabular",
    )
    cells = ((i, j, demand.metrics[tc, qd]) for i, tc in enumerate(counts) for j, qd in enumerate(depths, 1))
    return host_marked(table, ((i, j) for i, j, point in cells if point.host_limited))


def _intensity(context: Context) -> Section | None:
    """Plot 7: ART over IOPS, the operating points named."""
    demand, p = context.demand, context.demand.parameters
    if not demand.metrics:
        return None
    depths = sorted(p.queue_depths)
    series = []
    for i, tc in enumerate(sorted(p.thread_counts)):
        found = [m for qd in depths if (m := demand.metrics[tc, qd]).art_ms is not None]
        x, y = tuple(m.iops for m in found), tuple(m.art_ms for m in found if m.art_ms is not None)
        series.append(Series(f"TC {tc}", x, y, context.color(p.thread_counts, tc), marker=i))
    callouts = tuple(
        Callout(m.iops, m.art_ms, f"{name} {short(point)}", palette.INK)
        for name, point in demand.names.items()
        if (m := demand.metrics[point]).art_ms is not None
    )
    choices = (Choice("", tuple(series)),)
    limit = Mark("y", p.max_art_ms, f"limit {p.max_art_ms:g} ms", palette.FIT)
    figure = LineFigure(
        title="Average response time over IOPS, one line for each thread count",
        x_title="IOPS",
        y_title="ART, ms",
        x_name="iops",
        y_name="art_ms",
        choices=choices,
        y_log=is_wide(choices),
        marks=(limit,),
        callouts=callouts,
    )
    notes = (
        *context.averaged,
        f"Each line goes from the lowest queue depth up. The ART of MaxIOPS must be below {p.max_art_ms:g} ms.",
    )
    if not demand.names:
        notes += ("The operating points are chosen when the demand variation has ended.",)
    return context.section(7, figure, notes=notes)


def _cpu(context: Context) -> Section | None:
    """Plot 8; where the host's CPU use was not measured, a sentence that says so."""
    demand, p = context.demand, context.demand.parameters
    if not demand.metrics:
        return None
    counts, depths = sorted(p.thread_counts), sorted(p.queue_depths)
    values = [[demand.metrics[tc, qd].cpu_system_percent for qd in depths] for tc in counts]
    known = tuple(tuple(value for value in row if value is not None) for row in values)
    if not demand.cpu_measured:
        why = "there was no source for it in every round."
        if context.run.dut.kind == "simulated":
            why = "the drive is simulated, in virtual time, and no host works for it."
        return context.section(8, notes=(f"System CPU use: not measured; {why}",))
    figure = Columns3D(
        title="System CPU use over thread count and queue depth",
        row_title="Thread count",
        column_title="Queue depth",
        value_title="CPU System Usage, %",
        value_name="cpu_system_percent",
        rows=tuple(f"{tc}" for tc in counts),
        columns=tuple(f"{qd}" for qd in depths),
        values=known,
        colors=tuple(context.color(p.thread_counts, tc) for tc in counts),
    )
    return context.section(8, figure, notes=context.averaged)


def total_oio(context: Context) -> Section | None:
    """Plot 15: averages of the combinations that have the same total OIO."""
    demand = context.demand
    totals = demand.totals
    if not totals:
        return None
    categories = tuple(f"{total.oio:,}" for total in totals)

    def bars(title: str, name: str, values: tuple[float, ...], color: str, spec: str) -> Bars:
        series = BarSeries(title, values, color)
        heading = f"{title} over total OIO"
        return Bars(heading, "Total OIO", title, "total_oio", name, categories, (series,), format=spec, name=name)

    color = palette.mix_color(demand.parameters.pattern.read_percent)
    return context.section(
        15,
        bars("IOPS", "iops", tuple(total.iops for total in totals), color, ",.0f"),
        bars("MB/s", "mb_per_s", tuple(total.mb_per_s for total in totals), color, ",.1f"),
        notes=(
            *context.averaged,
            "Where several combinations have the same total OIO, the bar is their average; the best of them is named "
            f"under {TITLE}.",
        ),
    )


def plots_1_to_8(context: Context) -> tuple[Section | None, ...]:
    return tuple(
        make(context)
        for make in (
            _preconditioning,
            _preconditioning_window,
            _between_rounds,
            _over_rounds,
            _variation_window,
            _over_depth,
            _intensity,
            _cpu,
        )
    )
