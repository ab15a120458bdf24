"""Combinations and operating points of CBW and DIRTH: their tables, plots 9 to 14, and the shares of a composite.

"Asked" shares are the access pattern's; "held" are of the I/Os that a measurement period issued (Tables 13-1, 13-2).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from flashgauge.measurement import Measurement
from flashgauge.report import palette
from flashgauge.report.common import averaged, host_marked, section, toio
from flashgauge.report.confidence import confidence_section
from flashgauge.report.demand_metrics import KNEE_GROWTH, Demand, knee, short
from flashgauge.report.formats import kib, mix
from flashgauge.report.metrics import FIVE_NINES_IOS, point_metrics
from flashgauge.report.model import Choice, Column, LineFigure, Section, Table, Value
from flashgauge.report.series import duration, largest_mrt_ms, line, points, pooled_art_ms, pooled_iops, time_axis
from flashgauge.spec.demand import SHARE_SIGMAS, shares_hold
from flashgauge.steps import LbaGroup

TITLE = "All Thread Count / Queue Depth Combinations"
CPU_NOT_MEASURED = "CPU System Usage and CPU IO Wait: not measured."
_FEW_IOS = f"* fewer than {FIVE_NINES_IOS:,} I/Os: this value is the slowest I/O itself."


def all_points(demand: Demand, clause: str) -> Section:
    """Every combination, in the order of issue."""
    # Short titles, and no column more: side by side with the other table, there is no room for them.
    columns = [
        Column("TC", "thread_count", ",d"),
        Column("QD", "queue_depth", ",d"),
        Column("TOIO", "total_oio", ",d"),
        Column("IOPS", "iops", ",.1f"),
        Column("MB/s", "mb_per_s", ",.1f"),
        Column("ART, ms", "art_ms", ",.3f"),
        Column("5 9s, ms", "p99999_ms", ",.3f"),
        Column("MRT, ms", "mrt_ms", ",.3f"),
    ]
    if demand.cpu_measured:
        columns += [
            Column("CPU sys, %", "cpu_system_percent", ",.2f"),
            Column("IO wait, %", "cpu_iowait_percent", ",.2f"),
        ]
    rows: list[tuple[Value, ...]] = []
    for tc, qd in demand.parameters.points:
        m = demand.metrics[tc, qd]
        row: tuple[Value, ...] = (tc, qd, tc * qd, m.iops, m.mb_per_s, m.art_ms, m.p99999_ms, m.mrt_ms)
        rows.append((*row, m.cpu_system_percent, m.cpu_iowait_percent) if demand.cpu_measured else row)
    measured = [demand.metrics[point] for point in demand.parameters.points]
    few = frozenset((i, 6) for i, m in enumerate(measured) if 0 < m.ios < FIVE_NINES_IOS)
    notes = (
        *averaged(demand.variation.window, demand.parameters.window_rounds),
        "Rows are in the order of issue. IOPS and MB/s are averages of the rounds; ART is of all their I/Os, 5 9s "
        "(99.999 %) of the merged histograms, MRT the largest of all.",
        *((_FEW_IOS,) if few else ()),
        "CPU sys: CPU System Usage. IO wait: CPU IO Wait." if demand.cpu_measured else CPU_NOT_MEASURED,
    )
    table = Table("Average of the window's rounds", tuple(columns), tuple(rows), marks=few, notes=notes, name="points")
    table = host_marked(table, ((i, 3) for i, m in enumerate(measured) if m.host_limited), "at IOPS")
    # The notes stand in the table: under two full columns, they would be alone on the next page.
    return Section("combinations", TITLE, "", clause, (table, _by_total(demand)), layout="flow")


def _by_total(demand: Demand) -> Table:
    return Table(
        title="By total OIO, averages of the combinations",
        columns=(
            Column("Total OIO", "total_oio", ",d"),
            Column("IOPS", "iops", ",.1f"),
            Column("MB/s", "mb_per_s", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("Best", "best"),
            Column("IOPS, best", "iops_best", ",.1f"),
            Column("Combinations", "combinations"),
        ),
        rows=tuple(
            (
                total.oio,
                total.iops,
                total.mb_per_s,
                total.art_ms,
                short(total.best),
                demand.metrics[total.best].iops,
                ", ".join(map(short, total.points)),
            )
            for total in demand.totals
        ),
        name="total-oio",
    )


def operating_points(demand: Demand) -> tuple[Table, ...]:
    """The chosen points as the demand variation measured them, and what their histograms say; once they are chosen."""
    if demand.chosen is None:
        return ()
    p = demand.parameters
    rows: list[tuple[Value, ...]] = []
    for name, (tc, qd) in demand.names.items():
        m = demand.metrics[tc, qd]
        rows.append((name, tc, qd, tc * qd, m.iops, m.art_ms, _how(demand, name)))
    found = knee(demand.totals)
    if found is not None:
        rows.append(("Knee (own rule)", "", "", found.oio, found.iops, found.art_ms, "see below"))
    notes = (
        *demand.chosen.problems,
        f"MaxIOPS: IOPS within {p.same_iops_percent:g} % of the highest count as highest; the lowest total OIO wins.",
        "Knee, by a rule of our own: the lowest total OIO from which on twice as much gives less than "
        f"{100 * KNEE_GROWTH:g} % more IOPS, and a longer ART{'' if found else '; there is none here'}.",
    )
    chosen = Table(
        title="Operating points",
        columns=(
            Column("Point", "point"),
            Column("TC", "thread_count", "d"),
            Column("QD", "queue_depth", "d"),
            Column("Total OIO", "total_oio", ",d"),
            Column("IOPS", "iops", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("Chosen as", "chosen_as"),
        ),
        rows=tuple(rows),
        notes=notes,
        name="operating-points",
    )
    return (chosen, *_histograms(demand))


def _how(demand: Demand, name: str) -> str:
    p = demand.parameters
    if name == "MinIOPS":
        return "T1Q1 by definition"
    if name == "MaxIOPS":
        within = any(m.art_ms is not None and m.art_ms < p.max_art_ms for m in demand.metrics.values())
        return f"most IOPS, ART < {p.max_art_ms:g} ms" if within else "most IOPS of all"
    assert demand.chosen is not None, "a named point was chosen"
    number = int(name.split()[1]) if " " in name else 1
    low, high = demand.metrics[demand.chosen.minimum].iops, demand.metrics[demand.chosen.maximum].iops
    return f"nearest to {low + (high - low) * number / (p.mid_points + 1):,.1f} IOPS"


def _histograms(demand: Demand) -> tuple[Table, ...]:
    found = [
        (name, point, captured)
        for name, point in demand.names.items()
        if (captured := demand.histogram(name)) is not None
    ]
    if not found:
        return ()
    rows: list[tuple[Value, ...]] = []
    for name, point, measurement in found:
        m = point_metrics([measurement])
        rows.append((f"{name} {short(point)}", m.iops, m.mb_per_s, m.art_ms, m.p99999_ms, m.mrt_ms, m.ios))
    few = frozenset((i, 4) for i, (_, _, captured) in enumerate(found) if 0 < captured.ios < FIVE_NINES_IOS)
    table = Table(
        title=f"Histograms, {duration(demand.parameters.histogram_s)} each",
        columns=(
            Column("Point", "point"),
            Column("IOPS", "iops", ",.1f"),
            Column("MB/s", "mb_per_s", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("99.999 %, ms", "p99999_ms", ",.3f"),
            Column("MRT, ms", "mrt_ms", ",.3f"),
            Column("I/Os", "ios", ",d"),
        ),
        rows=tuple(rows),
        marks=few,
        notes=(_FEW_IOS,) if few else (),
        name="histograms",
    )
    return (table,)


def prewrites(demand: Demand, name: str, plot: str, title: str, clause: str) -> Section | None:
    """Plots 9, 11 and 13: the writes before a histogram, minute by minute. None when they have not begun."""
    entries = demand.of(f"{name} pre-write")
    if not entries:
        return None
    found = points(entries)
    axis = time_axis(found[-1].end_s)
    point = demand.names[name]
    figure = LineFigure(
        title=f"{name} pre-writes, {short(point)}",
        x_title=axis.title,
        y_title="IOPS",
        x_name=axis.name,
        y_name="iops",
        choices=(Choice("", (line(name, found, axis, lambda at: at.iops, palette.mix_color(0)),)),),
    )
    iops, art_ms, mrt_ms = pooled_iops(found), pooled_art_ms(found), largest_mrt_ms(found)
    notes = [_minutes(demand, len(found)), f"R/W 0/100 at {toio(*point)}, total OIO {point[0] * point[1]:,}."]
    if iops is not None and art_ms is not None and mrt_ms is not None:
        notes.append(f"All of them: {iops:,.1f} IOPS, ART {art_ms:,.3f} ms, MRT {mrt_ms:,.3f} ms.")
    return section(plot, title, clause, (figure,), notes=tuple(notes))


def _minutes(demand: Demand, count: int) -> str:
    wanted = demand.parameters.final_prewrite_minutes
    text = f"{count} minutes" if count == wanted else f"{count} of {wanted} minutes"
    if demand.parameters.minute_s == 60:
        return f"{text} before the histogram, each a point at its end."
    return f"{text} of {duration(demand.parameters.minute_s)} before the histogram, each a point at its end."


def histogram(demand: Demand, name: str, plot: str, title: str, clause: str) -> Section | None:
    """Plots 10, 12 and 14. None when it has not been captured."""
    measurement = demand.histogram(name)
    if measurement is None:
        return None
    point, read = demand.names[name], demand.parameters.pattern.read_percent
    made = confidence_section(plot, title, clause, measurement)
    heading = f"{name} {short(point)}: response time histogram"
    notes = (
        f"R/W {mix(read)} at {toio(*point)}, total OIO {point[0] * point[1]:,}, for "
        f"{duration(demand.parameters.histogram_s)}.",
    )
    items = tuple(replace(item, title=heading) if isinstance(item, LineFigure) else item for item in made.items)
    return replace(made, items=items, notes=(*notes, *made.notes))


# Shares of a composite access pattern


@dataclass(frozen=True)
class _Drawn:
    """Something that each I/O draws at random. `asked`: the share of each, adding up to 1."""

    title: str
    column: Column
    names: tuple[str, ...]
    asked: tuple[float, ...]
    counts: Callable[[Measurement], tuple[int, ...]]


def shares(demand: Demand, clause: str) -> Section | None:
    """Tables 13-1 and 13-2 against what each measurement period issued. None for a pattern of one block size and one
    range, or when nothing was counted."""
    pattern = demand.parameters.pattern
    weights = [weight for _, weight in pattern.blocks]
    sizes = _Drawn(
        "Block sizes",
        Column("Block size", "block_size"),
        tuple(kib(size) for size, _ in pattern.blocks),
        tuple(weight / sum(weights) for weight in weights),
        lambda m: m.size_ios,
    )
    groups = _Drawn(
        "LBA groups",
        Column("LBA group", "lba_group"),
        tuple(_group_name(number, pattern.groups) for number in range(len(pattern.groups))),
        tuple(group.probability_percent / 100 for group in pattern.groups),
        lambda m: m.group_ios,
    )
    items: list[Table] = []
    notes: list[str] = []
    for drawn in (sizes, groups):
        counted = {
            name: (m, drawn.counts(m)) for name in demand.names if (m := demand.histogram(name)) and drawn.counts(m)
        }
        every = [m for number in demand.variation.window for m in demand.by_round[number].values()]
        periods = [counts for m in every if any(counts := drawn.counts(m))]
        if periods:
            items.append(_held_table(drawn, periods))
            notes.append(_held_note(drawn, periods))
        if counted:
            items.append(_histogram_shares(drawn, {name: counts for name, (_, counts) in counted.items()}))
    if not items:
        return None
    title = "Access Pattern: Shares Asked For and Held"
    return Section("shares", title, "", clause, tuple(items), tuple(notes), layout="grid")


def _group_name(number: int, groups: Sequence[LbaGroup]) -> str:
    """As Table 13-2 has it: the first, the next, the remaining part."""
    group = groups[number]
    place = "first" if number == 0 else "remaining" if number == len(groups) - 1 else "next"
    return f"{chr(ord('A') + number)}: {place} {group.end_percent - group.start_percent:g} %"


def _held_table(drawn: _Drawn, periods: Sequence[tuple[int, ...]]) -> Table:
    totals = [sum(counts) for counts in zip(*periods, strict=True)]
    held = [[100 * count / sum(counts) for count in counts] for counts in periods]
    rows: list[tuple[Value, ...]] = []
    for i, (name, asked) in enumerate(zip(drawn.names, drawn.asked, strict=True)):
        found = [row[i] for row in held]
        rows.append((name, 100 * asked, 100 * totals[i] / sum(totals), min(found), max(found), totals[i]))
    return Table(
        title=f"{drawn.title}, demand variation: {len(periods):,} measurement periods",
        columns=(
            drawn.column,
            Column("Asked, %", "asked_percent", ",.4g"),
            Column("Held, %", "held_percent", ",.3f"),
            Column("Smallest of a period, %", "smallest_percent", ",.3f"),
            Column("Largest of a period, %", "largest_percent", ",.3f"),
            Column("I/Os", "ios", ",d"),
        ),
        rows=tuple(rows),
        name=drawn.column.name,
    )


def _held_note(drawn: _Drawn, periods: Sequence[tuple[int, ...]]) -> str:
    off = sum(not shares_hold(counts, drawn.asked) for counts in periods)
    which = f"in {len(periods) - off:,} of" if off else "in each of"
    return (
        f"{drawn.title}: {which} the {len(periods):,} periods every share is within {SHARE_SIGMAS:g} standard "
        "deviations of that asked for: the draws are random."
    )


def _histogram_shares(drawn: _Drawn, counted: dict[str, tuple[int, ...]]) -> Table:
    rows: tuple[tuple[Value, ...], ...] = tuple(
        (name, 100 * asked, *(100 * counts[i] / max(1, sum(counts)) for counts in counted.values()))
        for i, (name, asked) in enumerate(zip(drawn.names, drawn.asked, strict=True))
    )
    totals: tuple[Value, ...] = ("I/Os", "", *(sum(counts) for counts in counted.values()))
    return Table(
        title=f"{drawn.title}, histograms",
        columns=(
            drawn.column,
            Column("Asked, %", "asked_percent", "s"),
            *(Column(f"{name}, %", f"{name.lower().replace(' ', '_')}_percent", "s") for name in counted),
        ),
        rows=(*rows, totals),
        formats=(*(",.3f" for _ in rows), ",d"),
        name=f"{drawn.column.name}-histograms",
    )
