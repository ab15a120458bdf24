"""Report of the IOPS test: plots 7-1 to 7-6 of clause 7.3, and the verdicts behind them."""

from __future__ import annotations

from flashgauge.report import palette
from flashgauge.report.common import averaged, entropy, host_marked, is_wide, section, toio
from flashgauge.report.formats import kib, mix
from flashgauge.report.iops_metrics import Point, Rounds, arrange, window_metrics, window_verdict
from flashgauge.report.metrics import FIVE_NINES_IOS, PointMetrics
from flashgauge.report.model import (
    Band,
    Choice,
    Column,
    Columns3D,
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
from flashgauge.runfolder import Run
from flashgauge.spec.iops import TRACKING, IopsParameters
from flashgauge.steadystate import Verdict
from flashgauge.steps import KIB

TITLE = "IOPS - Block Size x RW Mix Matrix"

Metrics = dict[Point, PointMetrics]


def iops_part(run: Run, replay: Replay) -> TestPart:
    """The IOPS part of the report; every section is present, with what there is to show."""
    rounds = arrange(replay)
    metrics = window_metrics(rounds)
    verdicts = {name: v for name, point in TRACKING.items() if (v := window_verdict(rounds, point)) is not None}
    status = _status(replay, rounds)
    main = _tabular(rounds, metrics) if metrics else None
    sections: tuple[Section, ...] = ()
    not_measured: tuple[str, ...] = ()
    if main:
        secondary, not_measured = _secondary(rounds, metrics)
        sections = (
            _convergence(rounds, replay),
            *(_window(i, name, verdicts.get(name), rounds) for i, name in enumerate(TRACKING, 1)),
            section(
                "7-3",
                "IOPS - All RW Mix & BS - Tabular Data",
                "7.3.6.1",
                (main,),
                notes=averaged(rounds.window, rounds.criteria.window_rounds),
            ),
            _plot_2d(rounds, metrics),
            _plot_3d(rounds, metrics),
            secondary,
        )
    summary = ((verdict_table(verdicts, "IOPS"),) if verdicts else ()) + ((_key_numbers(metrics),) if metrics else ())
    return TestPart(
        title=TITLE,
        status=status,
        set_up=_set_up(replay.parameters, replay, rounds),
        test_parameters=_test_parameters(replay.parameters, replay, rounds),
        summary=summary,
        main=main,
        sections=sections,
        not_measured=not_measured,
    )


def _status(replay: Replay, rounds: Rounds) -> str:
    if replay.outcome is None:
        count = replay.complete_rounds
        return f"incomplete: {count} complete round{'' if count == 1 else 's'}, steady state not established"
    window = f"{rounds.window[0]} - {rounds.window[-1]}"
    if replay.outcome.steady:
        return f"steady state reached, measurement window rounds {window}"
    return f"steady state NOT reached in {replay.complete_rounds} rounds; figures are of rounds {window}"


def _steady_rounds(replay: Replay, rounds: Rounds) -> str:
    if replay.outcome is None or not replay.outcome.steady:
        return "not reached"
    return f"{rounds.window[0]} - {rounds.window[-1]}"


def _set_up(parameters: IopsParameters, replay: Replay, rounds: Rounds) -> tuple[Field, ...]:
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR", "100 %"),
        ("AR Segments", "n/a"),
        ("Pre Condition 1", f"SEQ {parameters.wipc_block_kib:g} KiB W"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Duration", f"{parameters.wipc_capacities:g} x User Capacity"),
        ("Pre Condition 2", "IOPS Loop"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("SS Rounds", _steady_rounds(replay, rounds)),
        ("Device class", parameters.device_class.value),
    )


def _test_parameters(parameters: IopsParameters, replay: Replay, rounds: Rounds) -> tuple[Field, ...]:
    return (
        ("Data Pattern", entropy(parameters)),
        ("AR & Amount", f"{parameters.active_range_percent:g} %"),
        ("Test Stimulus 1", "IOPS Loop, RND"),
        ("RW Mix", f"Outer Loop ({len(parameters.read_percents)})"),
        ("Block Sizes", f"Inner Loop ({len(parameters.block_sizes_kib)})"),
        ("TOIO - TC/QD", toio(parameters.thread_count, parameters.queue_depth)),
        ("Steady State", _steady_rounds(replay, rounds)),
        ("Test Stimulus 2", "n/a"),
        ("Point Duration", f"{parameters.point_s:g} s"),
        ("Complete Rounds", f"{replay.complete_rounds} (at most {parameters.max_rounds})"),
    )


def _round_axis(rounds: Rounds) -> tuple[float, ...]:
    return tuple(float(number) for number in sorted(rounds.by_round))


def _convergence(rounds: Rounds, replay: Replay) -> Section:
    """7.3.3: all block sizes at each R/W mix, writes first; and each tracking variable, as 7.3 asks."""
    x = _round_axis(rounds)
    choices = tuple(
        Choice(
            f"R/W {mix(read)}",
            tuple(
                Series(kib(block), x, rounds.iops((read, block)), palette.block_color(block), marker=i)
                for i, block in enumerate(rounds.blocks)
            ),
        )
        for read in rounds.reads
    )
    tracked = Choice(
        "",
        tuple(
            Series(name, x, rounds.iops(point), palette.block_color(point[1]), marker=rounds.blocks.index(point[1]))
            for name, point in TRACKING.items()
        ),
    )
    first, last = rounds.window[0], rounds.window[-1]
    name = "Measurement window" if replay.outcome and replay.outcome.steady else "Rounds reported"
    window = Band("x", first - 0.3, last + 0.3, f"{name}: {first}-{last}", palette.WINDOW)
    step = 1 if len(x) <= 12 else 2
    ticks = tuple((value, f"{value:g}") for value in x[::step])

    def figure(title: str, choices: tuple[Choice, ...], name: str) -> LineFigure:
        return LineFigure(
            title, "Round", "IOPS", "round", "iops", choices, (window,), ticks, y_log=is_wide(choices), name=name
        )

    notes: tuple[str, ...] = (f"Rounds {x[0]:g}-{x[-1]:g}; shaded: rounds {first}-{last}.",)
    if rounds.partial_points:
        total = len(rounds.reads) * len(rounds.blocks)
        notes += (f"{rounds.partial_points} of {total} points of an incomplete further round are not shown.",)
    return section(
        "7-1",
        "IOPS Steady State Convergence Plot - All Block Sizes",
        "7.3.3",
        (
            figure("RND, all block sizes", choices, ""),
            figure("Steady state tracking variables", (tracked,), "tracking"),
        ),
        notes=notes,
        layout="side",
    )


def _window(number: int, name: str, verdict: Verdict | None, rounds: Rounds) -> Section:
    """7.3.4 and 7.3.5 for one tracking variable."""
    plot, title = f"7-2.{number}", f"IOPS Steady State Measurement Window - {name}"
    if verdict is None:
        return section(plot, title, "7.3.5", (), notes=("Fewer than two rounds are complete: nothing to verify.",))
    block = TRACKING[name][1]
    color, marker = palette.block_color(block), rounds.blocks.index(block)
    figure = window_figure(name, verdict, y_title="IOPS", y_name="iops", color=color, marker=marker)
    items = (figure, determination_table(verdict, "IOPS"))
    notes = averaged(rounds.window, rounds.criteria.window_rounds)
    return section(plot, title, "7.3.4, 7.3.5", items, notes=notes, layout="side", verdict=verdict)


def _matrix_columns(rounds: Rounds, spec: str) -> tuple[Column, ...]:
    return (
        Column("Block Size (KiB)", "block_size_kib"),
        *(Column(mix(read), f"rw_{read}_{100 - read}", spec) for read in rounds.reads),
    )


def _tabular(rounds: Rounds, metrics: Metrics) -> Table:
    """7.3.6.1: average IOPS over the window's rounds."""
    table = Table(
        title="IOPS, average of the window's rounds",
        columns=_matrix_columns(rounds, ",.1f"),
        rows=tuple((f"{b / KIB:g}", *(metrics[r, b].iops for r in rounds.reads)) for b in rounds.blocks),
        group="Read / Write Mix %",
    )
    cells = ((i, j, metrics[r, b]) for i, b in enumerate(rounds.blocks) for j, r in enumerate(rounds.reads, 1))
    return host_marked(table, ((i, j) for i, j, point in cells if point.host_limited))


def _of_the_host(rounds: Rounds, metrics: Metrics) -> tuple[Series, ...]:
    """The points that the host limited, for a plot over block size."""
    found = [(b / KIB, metrics[r, b].iops) for r in rounds.reads for b in rounds.blocks if metrics[r, b].host_limited]
    x, y = tuple(at for at, _ in found), tuple(iops for _, iops in found)
    return (Series("limited by the host", x, y, palette.FIT, "dots", marker=len(rounds.reads)),) if found else ()


def _plot_2d(rounds: Rounds, metrics: Metrics) -> Section:
    x = tuple(block / KIB for block in rounds.blocks)
    choices = (
        Choice(
            "",
            tuple(
                Series(
                    f"R/W {mix(read)}",
                    x,
                    tuple(metrics[read, block].iops for block in rounds.blocks),
                    palette.mix_color(read),
                    marker=i,
                )
                for i, read in enumerate(rounds.reads)
            )
            + _of_the_host(rounds, metrics),
        ),
    )
    figure = LineFigure(
        title="IOPS over block size, one line for each R/W mix",
        x_title="Block size (KiB)",
        y_title="IOPS",
        x_name="block_size_kib",
        y_name="iops",
        choices=choices,
        x_ticks=tuple((value, f"{value:g}") for value in x),
        x_log=True,
        y_log=is_wide(choices),
    )
    return section(
        "7-4",
        "IOPS Measurement Plot - 2D",
        "7.3.6.2",
        (figure,),
        notes=averaged(rounds.window, rounds.criteria.window_rounds),
    )


def _plot_3d(rounds: Rounds, metrics: Metrics) -> Section:
    figure = Columns3D(
        title="IOPS over R/W mix and block size",
        row_title="R/W mix (%)",
        column_title="Block size (KiB)",
        value_title="IOPS",
        value_name="iops",
        rows=tuple(mix(read) for read in rounds.reads),
        columns=tuple(f"{block / KIB:g}" for block in rounds.blocks),
        values=tuple(tuple(metrics[read, block].iops for block in rounds.blocks) for read in rounds.reads),
        colors=tuple(palette.mix_color(read) for read in rounds.reads),
    )
    return section(
        "7-5",
        "IOPS Measurement Plot - 3D",
        "7.3.6.3",
        (figure,),
        notes=averaged(rounds.window, rounds.criteria.window_rounds),
    )


# Title, format, and attribute of PointMetrics, in the order of Table 7-6.
_SECONDARY = (
    ("ART, ms", ",.3f", "art_ms"),
    ("99.999 % response time, ms", ",.3f", "p99999_ms"),
    ("MRT, ms", ",.3f", "mrt_ms"),
    ("I/Os behind the response times", ",d", "ios"),
    ("Average power, mW", ",.0f", "power_mw"),
    ("IOPS/W", ",.1f", "iops_per_w"),
    ("CPU System Usage, %", ",.2f", "cpu_system_percent"),
    ("CPU IO Wait, %", ",.2f", "cpu_iowait_percent"),
)


def _secondary(rounds: Rounds, metrics: Metrics) -> tuple[Section, tuple[str, ...]]:
    """7.3.6.4, and the names of the metrics that had no source."""
    tables: list[Table] = []
    absent: list[str] = []
    for title, spec, attribute in _SECONDARY:
        values = {point: getattr(found, attribute) for point, found in metrics.items()}
        if all(value is None for value in values.values()):
            absent.append(title.split(",", maxsplit=1)[0])
            continue
        rows: tuple[tuple[Value, ...], ...] = tuple(
            (f"{b / KIB:g}", *(values[r, b] for r in rounds.reads)) for b in rounds.blocks
        )
        few = frozenset(
            (i, j)
            for i, b in enumerate(rounds.blocks)
            for j, r in enumerate(rounds.reads, 1)
            if attribute == "p99999_ms" and 0 < metrics[r, b].ios < FIVE_NINES_IOS
        )
        tables.append(
            Table(title, _matrix_columns(rounds, spec), rows, "Read / Write Mix %", marks=few, name=attribute)
        )
    notes = [
        *averaged(rounds.window, rounds.criteria.window_rounds),
        "Percentiles are of the window's merged histograms; MRT is the largest of all.",
    ]
    if any(table.marks for table in tables):
        notes.append(
            f"* fewer than {FIVE_NINES_IOS:,} I/Os, that is 1/(1 \N{MINUS SIGN} 0.99999): "
            "this value is the slowest I/O itself."
        )
    if absent:
        notes.append(f"Not measured (no source): {', '.join(absent)}.")
    title = "IOPS Measurements - Secondary Metrics"
    return section("7-6", title, "7.3.6.4", tuple(tables), notes=tuple(notes), layout="grid"), tuple(absent)


def _key_numbers(metrics: Metrics) -> Table:
    """The corners of the matrix and the tracking variables."""
    wanted = ((0, 4), (65, 4), (100, 4), (65, 64), (0, 128), (100, 128), (100, 1024))
    points = [(read, block * KIB) for read, block in wanted if (read, block * KIB) in metrics]
    few = frozenset((i, 4) for i, point in enumerate(points) if 0 < metrics[point].ios < FIVE_NINES_IOS)
    return Table(
        title="Key numbers",
        columns=(
            Column("RND point", "point"),
            Column("IOPS", "iops", ",.1f"),
            Column("MB/s", "mb_per_s", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("99.999 %, ms", "p99999_ms", ",.3f"),
            Column("MRT, ms", "mrt_ms", ",.3f"),
        ),
        rows=tuple(
            (f"{kib(b)}, R/W {mix(r)}", m.iops, m.mb_per_s, m.art_ms, m.p99999_ms, m.mrt_ms)
            for r, b in points
            for m in (metrics[r, b],)
        ),
        marks=few,
        notes=(f"* fewer than {FIVE_NINES_IOS:,} I/Os: this value is the slowest I/O itself.",) if few else (),
        name="key-numbers",
    )
