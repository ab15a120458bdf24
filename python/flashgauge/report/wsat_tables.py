"""Tables of a WSAT report: what ended the test, the shape of the saturation curve, and minutes worth a line."""

from __future__ import annotations

from flashgauge.report.formats import kib
from flashgauge.report.metrics import FIVE_NINES_IOS, PointMetrics, point_metrics
from flashgauge.report.model import Column, Table, Value
from flashgauge.report.series import Point, duration
from flashgauge.report.wsat_metrics import Saturation

_FEW = f"* fewer than {FIVE_NINES_IOS:,} I/Os: this value is the slowest I/O itself."


def ended_by(data: Saturation) -> Table:
    """10.2 step 2.2: three conditions, of which the first to come true ends the test."""
    p, count, rounds = data.parameters, len(data.minutes), len(data.rounds)
    judged = "not judged" if rounds < p.window_rounds else "steady" if data.stop == "steady" else "not steady"
    rows = (
        (
            "User capacities written",
            f"{p.max_capacities:g}",
            f"{data.fills:,.3f}",
            _first(data.stop == "written"),
        ),
        (
            "Time",
            duration(p.max_minutes * p.minute_s),
            duration(count * p.minute_s),
            _first(data.stop == "time"),
        ),
        (
            "Steady state (2.1.24)",
            f"{p.window_rounds} rounds, {p.round_spacing_minutes} minutes apart",
            f"{rounds} round{'' if rounds == 1 else 's'}: {judged}",
            _first(data.stop == "steady"),
        ),
    )
    return Table(
        title="What ended the test (10.2 step 2.2)",
        columns=(
            Column("Condition", "condition"),
            Column("Limit", "limit"),
            Column("At the end", "at_the_end"),
            Column("Came first", "came_first"),
        ),
        rows=rows,
        notes=() if data.stop else ("The run was cut short before any of them.",),
        name="ended-by",
    )


def _first(came: bool) -> str:
    return "yes" if came else "no"


def _numbers(found: tuple[Point, ...]) -> str:
    first, last = found[0].label.number, found[-1].label.number
    return f"minute {first}" if first == last else f"minutes {first}\N{EN DASH}{last}"


NOT_SETTLED = "not settled"


def shape_table(data: Saturation) -> Table:
    """10.1: plateau, transition, settled level and its amplitude, response time peaks."""
    assert data.plateau is not None
    highest = max(data.minutes, key=lambda point: point.iops)
    slowest = max(data.minutes, key=lambda point: point.mrt_ms or 0.0)
    plateau, level, settled = data.plateau, data.settled_iops, point_metrics([p.measurement for p in data.settled])
    each = [point.iops for point in data.settled]
    where = _numbers(data.settled)
    name, when = (
        ("Settled level", "when settled") if data.has_settled else (f"Level at the end, {NOT_SETTLED}", "at the end")
    )
    fills = f", {plateau.last.written_bytes / data.capacity_bytes:,.2f} drive fills" if data.writes else ""
    length = f"{duration(plateau.last.end_s)}, {plateau.last.written_bytes / 1e9:,.1f} GB{fills}"
    reached = data.reached
    rows: list[tuple[str, Value, str, str, str]] = [
        ("Highest minute", highest.iops, "IOPS", _numbers((highest,)), ",.1f"),
        (
            "FOB plateau, average",
            plateau.average_iops,
            "IOPS",
            f"the first {length}" if plateau.ended else "it did not end",
            ",.1f",
        ),
        (
            "Settled level reached",
            None if reached is None else reached.end_s / 60,
            "minutes",
            ""
            if reached is None
            else f"{_numbers((reached,))}, {reached.written_bytes / data.capacity_bytes:,.2f} drive fills",
            ",.1f",
        ),
        (name, level, "IOPS", where, ",.1f"),
        (
            "Settled level of plateau" if data.has_settled else "Level at the end, of plateau",
            100 * level / plateau.average_iops if plateau.average_iops else None,
            "%",
            "",
            ",.1f",
        ),
        (
            f"Amplitude {when}",
            100 * (max(each) - min(each)) / level if level and len(each) > 1 else None,
            "%",
            "highest \N{MINUS SIGN} lowest minute, of the average",
            ",.2f",
        ),
        (f"ART {when}", settled.art_ms, "ms", where, ",.3f"),
        (f"99.999 % {when}", settled.p99999_ms, "ms", where, ",.3f"),
        (f"MRT {when}", settled.mrt_ms, "ms", where, ",.3f"),
        ("MRT of all minutes", slowest.mrt_ms, "ms", _numbers((slowest,)), ",.3f"),
    ]
    marks = frozenset({(7, 1)}) if 0 < settled.ios < FIVE_NINES_IOS else frozenset()
    return Table(
        title="Shape of the saturation (10.1)",
        columns=(
            Column("Quantity", "quantity"),
            Column("Value", "value", "s"),
            Column("Unit", "unit"),
            Column("Where", "where"),
        ),
        rows=tuple(row[:4] for row in rows),
        formats=tuple(row[4] for row in rows),
        marks=marks,
        notes=(_definitions(data), *((_FEW,) if marks else ())),
        name="shape",
    )


def _definitions(data: Saturation) -> str:
    """The standard names these and gives no numbers: how they are found here."""
    assert data.plateau is not None
    short = " With so few minutes, the level may not have settled yet." if data.is_short else ""
    unit = "5 seconds in a row" if data.plateau.by_second else "a minute"
    return (
        f"FOB plateau: until {unit} {'are' if data.plateau.by_second else 'is'} below 90 % of the average so far. "
        "Settled: the last quarter of the minutes, at most 30; reached with the first minute after the plateau at or "
        f"below 110 % of it.{short}"
    )


def minutes_table(data: Saturation) -> Table:
    """First, highest, tracking rounds of the window, last; the settled minutes together; the histogram."""
    host = any(point.measurement.host.cpu_system_percent is not None for point in data.minutes)
    rows: list[tuple[Value, ...]] = []
    counts: list[int] = []

    def add(minute: str, point: Point | None, m: PointMetrics, what: str) -> None:
        at = (None, None) if point is None else (point.end_s / 60, point.written_bytes / data.capacity_bytes)
        cpu: tuple[Value, ...] = (m.cpu_system_percent, m.cpu_iowait_percent) if host else ()
        rows.append((minute, *at, m.iops, m.mb_per_s, m.art_ms, m.p99999_ms, m.mrt_ms, *cpu, what))
        counts.append(m.ios)

    for what, point in _chosen(data):
        add(str(point.label.number), point, point_metrics([point.measurement]), what)
    if len(data.settled) > 1:
        first, last = data.settled[0].label.number, data.settled[-1].label.number
        settled = point_metrics([point.measurement for point in data.settled])
        add(f"{first}\N{EN DASH}{last}", None, settled, "settled" if data.has_settled else NOT_SETTLED)
    if data.histogram is not None:
        add("then", None, point_metrics([data.histogram]), f"histogram of {data.histogram.window_s:,g} s")
    few = frozenset((i, 6) for i, count in enumerate(counts) if 0 < count < FIVE_NINES_IOS)
    cpu_columns = (
        Column("CPU Sys, %", "cpu_system_percent", ",.2f"),
        Column("CPU IO Wait, %", "cpu_iowait_percent", ",.2f"),
    )
    return Table(
        title="Minutes",
        columns=(
            Column("Minute", "minute"),
            Column("Elapsed, min", "elapsed_min", ",.1f"),
            Column("Drive fills", "drive_fills", ",.3f"),
            Column("IOPS", "iops", ",.1f"),
            Column("MB/s", "mb_per_s", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("99.999 %, ms", "p99999_ms", ",.3f"),
            Column("MRT, ms", "mrt_ms", ",.3f"),
            *(cpu_columns if host else ()),
            Column("What", "what"),
        ),
        rows=tuple(rows),
        marks=few,
        notes=(_FEW,) if few else (),
        name="minutes",
    )


def _chosen(data: Saturation) -> list[tuple[str, Point]]:
    """Minutes with their names, in order; one with several roles has one line."""
    names: dict[int, list[str]] = {}

    def call(point: Point, name: str) -> None:
        names.setdefault(data.minutes.index(point), []).append(name)

    call(data.minutes[0], "first")
    call(max(data.minutes, key=lambda point: point.iops), "highest IOPS")
    if len(data.rounds) > 1:
        for number in data.window:
            call(data.rounds[number - 1], f"round {number}")
    call(data.minutes[-1], "last")
    return [(", ".join(roles), data.minutes[index]) for index, roles in sorted(names.items())]


def workload_table(data: Saturation) -> Table:
    """A composite workload: block sizes and LBA groups with their shares, asked for and measured over all minutes."""
    pattern = data.parameters.pattern
    sizes = _shares([point.measurement.size_ios for point in data.minutes])
    groups = _shares([point.measurement.group_ios for point in data.minutes])
    total = sum(share for _, share in pattern.blocks)
    rows: list[tuple[Value, ...]] = [
        (f"Block size {kib(size)}", 100 * share / total, sizes[i] if sizes else None)
        for i, (size, share) in enumerate(pattern.blocks)
    ]
    rows += [
        (
            f"LBA {g.start_percent:g}\N{EN DASH}{g.end_percent:g} % of the ActiveRange",
            g.probability_percent,
            groups[i] if groups else None,
        )
        for i, g in enumerate(pattern.groups)
    ]
    return Table(
        title=f"{pattern.title}: shares of the I/Os",
        columns=(
            Column("Part", "part"),
            Column("Asked for, %", "asked_percent", ",.1f"),
            Column("Measured, %", "measured_percent", ",.3f"),
        ),
        rows=tuple(rows),
        name="workload",
    )


def _shares(counts: list[tuple[int, ...]]) -> tuple[float, ...]:
    sums = [sum(column) for column in zip(*counts, strict=False)]
    total = sum(sums)
    return tuple(100 * value / total for value in sums) if total else ()
