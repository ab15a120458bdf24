"""Report of the throughput test: plots 8-1 to 8-7 of clause 8.3, and the verdicts behind them.

Each block size is a test of its own, with its own rounds and its own measurement window. The larger size comes first,
as the standard numbers its plots. 8.3.5 verifies by the writes; the reads decide too (8.2 step 2.4.1.3), so both are
here: plot 8-3 has one page for each block size and R/W mix.
"""

from __future__ import annotations

from flashgauge.report import palette
from flashgauge.report.common import entropy, host_marked, is_wide, no_segments, section, toio
from flashgauge.report.formats import mix
from flashgauge.report.metrics import FIVE_NINES_IOS, PointMetrics
from flashgauge.report.model import (
    Band,
    Bars,
    BarSeries,
    Choice,
    Column,
    Field,
    LineFigure,
    Section,
    Series,
    Table,
    TestPart,
    Value,
)
from flashgauge.report.replay import Replay
from flashgauge.report.steady import determination_table, verdict_table, window_figure
from flashgauge.report.tp_metrics import Size, arrange
from flashgauge.runfolder import Run
from flashgauge.spec.tp import TpParameters, variable_name

# Block size in KiB: its table and its measurement plot in the standard.
PLOTS = {1024.0: ("8-4", "8-6"), 128.0: ("8-5", "8-7")}
SEQUENCE = "The sequence goes on from step to step and from round to round (8.2 step 2.4.1.5)."


def tp_part(run: Run, replay: Replay) -> TestPart:
    """The throughput part of the report; with one complete round every section is present, with what there is."""
    parameters: TpParameters = replay.parameters
    sizes = arrange(replay)
    measured = tuple(size for size in sizes if size.metrics)
    sections: tuple[Section, ...] = ()
    summary: tuple[Table, ...] = ()
    not_measured: tuple[str, ...] = ()
    if measured:
        secondary, not_measured = _secondary(measured)
        sections = (
            *_convergence(parameters, sizes),
            *_windows(sizes),
            *(_tabular_section(size) for size in sizes),
            *(_measurement_plot(size) for size in sizes),
            secondary,
        )
        verdicts = {
            variable_name(size.kib, read): verdict
            for size in measured
            for read in size.rounds.reads
            if (verdict := size.verdict(read)) is not None
        }
        summary = ((verdict_table(verdicts, "MB/s", "8.3.5"),) if verdicts else ()) + (_key_numbers(measured),)
    order = sorted(sizes, key=lambda size: parameters.block_sizes_kib.index(size.kib))
    return TestPart(
        title=f"TP - {' & '.join(size.name for size in sizes)}",
        status=_status(replay, order),
        set_up=_set_up(parameters, order),
        test_parameters=_test_parameters(parameters, order),
        summary=summary,
        main=_tabular(measured) if measured else None,
        sections=sections,
        not_measured=not_measured,
    )


def _status(replay: Replay, sizes: list[Size]) -> str:
    found = "; ".join(_state(size) for size in sizes)
    if replay.outcome is None:
        return f"incomplete: {found}"
    return f"steady state {'reached' if replay.outcome.steady else 'NOT reached'}: {found}"


def _state(size: Size) -> str:
    """How far one block size came."""
    count = len(size.rounds.by_round)
    if size.steady:
        return f"{size.name} steady, measurement window rounds {size.window_text}"
    if size.ended:
        return f"{size.name} NOT steady in {count} rounds, figures are of rounds {size.window_text}"
    return f"{size.name} {count} complete round{'' if count == 1 else 's'}, steady state not established"


def _steady_rounds(size: Size) -> str:
    return size.window_text if size.steady else "not reached"


def _each_steady(sizes: list[Size]) -> str:
    if len(sizes) == 1:
        return _steady_rounds(sizes[0])
    return "; ".join(f"{size.kib:g} KiB: {_steady_rounds(size)}" for size in sizes)


def _all_kib(sizes: list[Size]) -> str:
    return f"{' / '.join(f'{size.kib:g}' for size in sizes)} KiB"


def _set_up(parameters: TpParameters, sizes: list[Size]) -> tuple[Field, ...]:
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR", f"{parameters.active_range_percent:g} %"),
        no_segments(),
        ("Pre Condition 1", f"SEQ {_all_kib(sizes)} W"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Duration", f"{parameters.wipc_capacities:g} x User Capacity, each"),
        ("Pre Condition 2", f"SEQ {_all_kib(sizes)}"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("SS Rounds", _each_steady(sizes)),
        ("Device class", parameters.device_class.value),
    )


def _test_parameters(parameters: TpParameters, sizes: list[Size]) -> tuple[Field, ...]:
    stimuli: list[Field] = []
    for number, size in enumerate(sizes, 1):
        stimuli += [
            (f"Test Stimulus {number}", f"{size.name}, continuous"),
            ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
            ("Steady State", f"{_steady_rounds(size)} (rounds run: {len(size.rounds.by_round)})"),
        ]
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR & Amount", f"{parameters.active_range_percent:g} %"),
        ("RW Mix", f"{', '.join(mix(read) for read in parameters.read_percents)}; {parameters.point_s:g} s each"),
        ("Block Sizes", f"{_all_kib(sizes)}, a test each"),
        *stimuli,
    )


def _convergence(parameters: TpParameters, sizes: tuple[Size, ...]) -> tuple[Section, ...]:
    """8.3.3 and 8.3.4: all rounds of both block sizes, writes and reads apart; other R/W mixes after them."""
    others = sorted(set(parameters.read_percents) - {0, 100})
    return (
        _convergence_of("8-1", "Write", "8.3.3", 0, sizes),
        _convergence_of("8-2", "Read", "8.3.4", 100, sizes),
        *(_convergence_of(f"8-2.{i}", f"R/W {mix(read)}", "8.3.4", read, sizes) for i, read in enumerate(others, 1)),
    )


def _convergence_of(plot: str, name: str, clause: str, read: int, sizes: tuple[Size, ...]) -> Section:
    title = f"TP Steady State Convergence - {name}"
    if read not in sizes[0].rounds.reads:
        return section(plot, title, clause, (), notes=(f"R/W {mix(read)} is not among the R/W mixes of this run.",))
    measured = [size for size in sizes if size.rounds.by_round]
    series = tuple(
        Series(size.name, _axis(size), size.mb_per_s(read), size.color, marker=size.number) for size in measured
    )
    choices = (Choice("", series),)
    longest = max((_axis(size) for size in measured), key=len)
    figure = LineFigure(
        title=f"SEQ, R/W {mix(read)}, every round of each block size",
        x_title="Round",
        y_title="MB/s",
        x_name="round",
        y_name="mb_per_s",
        choices=choices,
        bands=_bands(measured),
        x_ticks=tuple((x, f"{x:g}") for x in longest[:: 1 if len(longest) <= 12 else 2]),
        y_log=is_wide(choices),
    )
    notes = [f"{size.name}: {_rounds(1, len(size.rounds.by_round))}." for size in measured]
    for size in sizes:
        if not size.rounds.by_round:
            notes += size.notes
        if size.rounds.partial_points:
            total = len(size.rounds.reads)
            notes.append(f"{size.name}: {size.rounds.partial_points} of {total} points of a further round not shown.")
    return section(plot, title, clause, (figure,), notes=(" ".join(notes), SEQUENCE))


def _rounds(first: int, last: int) -> str:
    return f"round {first}" if first == last else f"rounds {first}-{last}"


def _axis(size: Size) -> tuple[float, ...]:
    return tuple(float(number) for number in sorted(size.rounds.by_round))


def _bands(sizes: list[Size]) -> tuple[Band, ...]:
    """The windows; one band where they are the same rounds."""
    windows: dict[tuple[int, int, bool], list[Size]] = {}
    for size in sizes:
        windows.setdefault((size.rounds.window[0], size.rounds.window[-1], size.steady), []).append(size)
    found = []
    for (first, last, steady), same in windows.items():
        name = "measurement window" if steady else "reported"
        color = same[0].color if len(windows) > 1 else palette.WINDOW
        names = " & ".join(f"{size.kib:g}" for size in same)
        found.append(Band("x", first - 0.3, last + 0.3, f"{names} KiB, {name}: {_rounds(first, last)}", color))
    return tuple(found)


def _windows(sizes: tuple[Size, ...]) -> tuple[Section, ...]:
    """8.3.5 and 8.3.6, for each block size and R/W mix."""
    pages = [(size, read) for size in sizes for read in size.rounds.reads]
    return tuple(_window(f"8-3.{number}", size, read) for number, (size, read) in enumerate(pages, 1))


def _window(plot: str, size: Size, read: int) -> Section:
    name = variable_name(size.kib, read)
    title = f"TP Steady State Measurement Window - {name}"
    verdict = size.verdict(read)
    if verdict is None:
        few = () if size.rounds.window else size.notes
        return section(plot, title, "8.3.6", (), notes=(*few, "Fewer than two rounds are complete: nothing to verify."))
    figure = window_figure(
        name, verdict, y_title="MB/s", y_name="mb_per_s", color=size.color, marker=size.number, clause="8.3.5"
    )
    role = "Tracked as well as the writes (8.2 step 2.4.1.3); 8.3.5 itself asks for the writes."
    if read == 0:
        role = "The writes are the dependent variable of 8.3.5; the other R/W mixes are tracked too (8.2 step 2.4.1.3)."
    items = (figure, determination_table(verdict, "MB/s", "8.3.5"))
    return section(plot, title, "8.3.5, 8.3.6", items, notes=(role, *size.notes), layout="side", verdict=verdict)


def _plot(size: Size, place: int) -> str:
    """The plot's number in the standard; sizes that it does not know follow those for 1024 KiB."""
    return PLOTS[size.kib][place] if size.kib in PLOTS else f"{PLOTS[1024.0][place]}.{size.number + 1}"


def _tabular(sizes: tuple[Size, ...]) -> Table:
    """8.3.7.1: average MB/s over the window's rounds."""
    reads = sizes[0].rounds.reads
    table = Table(
        title="MB/s, average of the window's rounds",
        columns=(
            Column("Block Size (KiB)", "block_size_kib"),
            *(Column(mix(read), f"rw_{read}_{100 - read}", ",.1f") for read in reads),
        ),
        rows=tuple((f"{size.kib:g}", *(size.metrics[read, size.block].mb_per_s for read in reads)) for size in sizes),
        group="Read / Write Mix %",
    )
    cells = ((i, j, size.metrics[r, size.block]) for i, size in enumerate(sizes) for j, r in enumerate(reads, 1))
    return host_marked(table, ((i, j) for i, j, point in cells if point.host_limited))


def _each_round(size: Size) -> Table:
    """The values that the averages are of."""
    reads = size.rounds.reads
    return Table(
        title="MB/s, each round of the window",
        columns=(Column("Round", "round"), *(Column(mix(r), f"rw_{r}_{100 - r}", ",.1f") for r in reads)),
        rows=tuple(
            (str(n), *(size.rounds.by_round[n][r, size.block].mb_per_s for r in reads)) for n in size.rounds.window
        ),
        group="Read / Write Mix %",
        name="rounds",
    )


def _tabular_section(size: Size) -> Section:
    title = f"TP Measurement Window Tabular Data - {size.name}"
    clause = "8.3.7.2" if size.kib == 128 else "8.3.7.1"
    items = (_tabular((size,)), _each_round(size)) if size.metrics else ()
    return section(_plot(size, 0), title, clause, items, notes=size.notes)


def _measurement_plot(size: Size) -> Section:
    title = f"TP Measurement Plot - 2D {size.name}"
    clause = "8.3.7.4" if size.kib == 128 else "8.3.7.3"
    if not size.metrics:
        return section(_plot(size, 1), title, clause, (), notes=size.notes)
    reads = size.rounds.reads
    figure = Bars(
        title=f"{size.name}, average of the window's rounds",
        x_title="Read / Write Mix %",
        y_title="MB/s",
        x_name="rw_mix",
        y_name="mb_per_s",
        categories=tuple(mix(read) for read in reads),
        series=(BarSeries(size.name, tuple(size.metrics[read, size.block].mb_per_s for read in reads), size.color),),
    )
    return section(_plot(size, 1), title, clause, (figure,), notes=size.notes)


# Title, format, and attribute of PointMetrics, as in Table 7-6.
_SECONDARY = (
    ("MB/s", ",.1f", "mb_per_s"),
    ("IOPS", ",.1f", "iops"),
    ("ART, ms", ",.3f", "art_ms"),
    ("99.999 % response time, ms", ",.3f", "p99999_ms"),
    ("MRT, ms", ",.3f", "mrt_ms"),
    ("I/Os behind the response times", ",d", "ios"),
    ("Average power, mW", ",.0f", "power_mw"),
    ("CPU System Usage, %", ",.2f", "cpu_system_percent"),
    ("CPU IO Wait, %", ",.2f", "cpu_iowait_percent"),
)
_FROM_HOST = {"power_mw", "cpu_system_percent", "cpu_iowait_percent"}
_FEW = (
    f"* fewer than {FIVE_NINES_IOS:,} I/Os, that is 1/(1 \N{MINUS SIGN} 0.99999): this value is the slowest I/O itself."
)


def _points(sizes: tuple[Size, ...]) -> list[tuple[Size, int, PointMetrics]]:
    return [(size, read, size.metrics[read, size.block]) for size in sizes for read in size.rounds.reads]


def _secondary(sizes: tuple[Size, ...]) -> tuple[Section, tuple[str, ...]]:
    """The metrics of 7.3.6.4 for every point, and the names of those that had no source."""
    points = _points(sizes)
    rows: list[tuple[Value, ...]] = []
    absent: list[str] = []
    for title, _, attribute in _SECONDARY:
        values: list[Value] = [getattr(metrics, attribute) for _, _, metrics in points]
        if attribute in _FROM_HOST and all(value is None for value in values):
            absent.append(title.split(",", maxsplit=1)[0])
            values = ["not measured" for _ in values]
        rows.append((title, *values))
    five_nines = next(i for i, (_, _, attribute) in enumerate(_SECONDARY) if attribute == "p99999_ms")
    few = frozenset((five_nines, j) for j, (_, _, m) in enumerate(points, 1) if 0 < m.ios < FIVE_NINES_IOS)
    table = Table(
        title="Secondary metrics over the measurement windows",
        columns=(
            Column("Metric", "metric"),
            *(
                Column(f"{size.kib:g} KiB, {mix(read)}", f"seq_{size.kib:g}_kib_rw_{read}_{100 - read}", ",.1f")
                for size, read, _ in points
            ),
        ),
        rows=tuple(rows),
        group="Block size, Read / Write Mix %",
        formats=tuple(spec for _, spec, _ in _SECONDARY),
        marks=few,
        notes=(_FEW,) if few else (),
        name="secondary",
    )
    notes = [f"{size.name}: {note[0].lower()}{note[1:]}" for size in sizes for note in size.notes]
    notes.append("Percentiles are of the window's merged histograms; MRT is the largest of all.")
    if absent:
        notes.append(f"Not measured (no source): {', '.join(absent)}.")
    title = "TP Measurements - Secondary Metrics"
    return Section("secondary-metrics", title, "", "7.3.6.4", (table,), tuple(notes)), tuple(absent)


def _key_numbers(sizes: tuple[Size, ...]) -> Table:
    points = _points(sizes)
    few = frozenset((i, 4) for i, (_, _, m) in enumerate(points) if 0 < m.ios < FIVE_NINES_IOS)
    return Table(
        title="Key numbers",
        columns=(
            Column("SEQ point", "point"),
            Column("MB/s", "mb_per_s", ",.1f"),
            Column("IOPS", "iops", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("99.999 %, ms", "p99999_ms", ",.3f"),
            Column("MRT, ms", "mrt_ms", ",.3f"),
        ),
        rows=tuple(
            (f"{size.kib:g} KiB, R/W {mix(read)}", m.mb_per_s, m.iops, m.art_ms, m.p99999_ms, m.mrt_ms)
            for size, read, m in points
        ),
        marks=few,
        notes=(f"* fewer than {FIVE_NINES_IOS:,} I/Os: this value is the slowest I/O itself.",) if few else (),
        name="key-numbers",
    )
