"""Report of a test that varies the demand: the 15 plots of CBW (Table 13-3) and of DIRTH (Plot 14-1).

Both tests have the same steps and the same plots under other numbers (`Plots`). A plot whose data the run did not come
to is named at the end instead of being an empty page.
"""

from __future__ import annotations

from flashgauge.report.common import entropy, toio
from flashgauge.report.demand_metrics import Demand, arrange
from flashgauge.report.demand_plots import PC_VARIABLE, Context, Plots, iops_matrix, plots_1_to_8, total_oio
from flashgauge.report.demand_points import all_points, histogram, operating_points, prewrites, shares
from flashgauge.report.formats import kib, mix
from flashgauge.report.model import Column, Field, Section, Table, TestPart
from flashgauge.report.replay import Replay
from flashgauge.report.steady import verdict_table
from flashgauge.runfolder import Run
from flashgauge.spec.demand import tracking_name

# Tables 13-1 and 13-2; DIRTH may have the same pattern.
SHARES_CLAUSE = "13.2 2.1.3, 2.1.4"


def demand_part(run: Run, replay: Replay, plots: Plots) -> TestPart:
    """The part of the report, in every state of the run."""
    demand = arrange(replay)
    context = Context(run, demand, plots)
    verdicts = {
        name: verdict
        for name, phase in ((PC_VARIABLE, demand.preconditioning), (tracking_name(demand.parameters), demand.variation))
        if (verdict := phase.verdict) is not None
    }
    pattern = demand.parameters.pattern
    measured = bool(demand.metrics)
    return TestPart(
        title=f"{plots.test} - {pattern.title}",
        status=_status(replay, demand),
        set_up=_set_up(demand),
        test_parameters=_test_parameters(demand),
        summary=((verdict_table(verdicts, "IOPS"),) if verdicts else ()) + operating_points(demand),
        main=iops_matrix(demand) if measured else None,
        sections=_sections(context),
        not_measured=() if demand.cpu_measured or not measured else ("CPU System Usage", "CPU IO Wait"),
    )


# The header


def _status(replay: Replay, demand: Demand) -> str:
    phases = f"{demand.preconditioning.state}; {demand.variation.state}"
    if replay.outcome is not None:
        return phases
    captured = sum(demand.histogram(name) is not None for name in demand.names)
    after = f"; {captured} of {len(demand.names)} histograms" if demand.names else ""
    return f"incomplete: {phases}{after}"


def _stimulus(demand: Demand) -> str:
    """The access pattern in the header's words."""
    pattern = demand.parameters.pattern
    access = "SEQ" if pattern.access == "sequential" else "RND"
    sizes = [size for size, _ in pattern.blocks]
    if len(sizes) == 1:
        return f"{access}/{kib(sizes[0])}"
    return f"{access}/{len(sizes)} sizes, {kib(min(sizes)).removesuffix(' KiB')} - {kib(max(sizes))}"


def _set_up(demand: Demand) -> tuple[Field, ...]:
    p = demand.parameters
    heaviest = toio(*p.heaviest)
    wipc = f"SEQ {p.wipc_block_kib:g} KiB W, {p.wipc_capacities:g} x Cap., T{p.wipc_thread_count}Q{p.wipc_queue_depth}"
    return (
        ("Data Pattern", entropy(p)),
        ("AR", f"{p.active_range_percent:g} %"),
        ("Independent PC", wipc),
        ("Pre Condition 1", f"{_stimulus(demand)}, R/W 0/100"),
        ("TOIO - TC/QD", heaviest),
        ("SS Rounds", demand.preconditioning.steady_rounds),
        ("Pre Condition 2", "Inter Rnd Pre Write"),
        ("R/W %", "0/100"),
        ("TOIO - TC/QD", heaviest),
        ("Duration", f"{p.prewrite_max_minutes} M or {p.prewrite_capacity_percent:g}% Cap."),
    )


def _test_parameters(demand: Demand) -> tuple[Field, ...]:
    p = demand.parameters
    names = demand.names
    middle = [toio(*point) for name, point in names.items() if name.startswith("Mid")]

    def chosen(name: str) -> str:
        return toio(*names[name]) if name in names else "not chosen"

    lists = [p.thread_counts, p.queue_depths]
    span = f"from {min(map(min, lists))} - {max(map(max, lists))}, {len(p.points)} combinations"
    return (
        ("Data Pattern", entropy(p)),
        ("AR & Amount", f"{p.active_range_percent:g} %"),
        ("Test Stimulus 1", _stimulus(demand)),
        ("R/W %", mix(p.pattern.read_percent)),
        ("TC / QD", span),
        ("TC & QD Loops", "High to Low TOIO"),
        ("Steady State", f"{demand.variation.steady_rounds} (of {len(demand.variation.values)} rounds)"),
        ("Min IOPS Point", toio(1, 1)),
        ("Mid IOPS Point", "; ".join(middle) or ("none" if names else "not chosen")),
        ("Max IOPS Point", chosen("MaxIOPS")),
    )


# The sections


def _sections(context: Context) -> tuple[Section, ...]:
    """In the order of the standard's plots; at the end, those the run did not come to."""
    demand, plots = context.demand, context.plots
    made: list[tuple[str, str, Section | None]] = []
    for plot, found in enumerate(plots_1_to_8(context), 1):
        made.append((plots.number(plot), plots.title(plot), found))
    middle = [name for name in demand.names if name.startswith("Mid")]
    for plot, names in ((9, ["MaxIOPS"]), (11, middle or ["MidIOPS"]), (13, ["MinIOPS"])):
        for at, make in ((plot, prewrites), (plot + 1, histogram)):
            for name, number in zip(names, _numbers(plots.number(at), len(names)), strict=True):
                title = plots.title(at) if len(names) == 1 else f"{plots.title(at)} - {name}"
                found = make(demand, name, number, title, plots.clause(at)) if name in demand.names else None
                made.append((number, title, found))
    made.append((plots.number(15), plots.title(15), total_oio(context)))
    sections = [found for _, _, found in made if found is not None]
    clause = demand.parameters.clause
    if demand.metrics:
        sections.append(all_points(demand, clause("14.2 4")))
        sections += filter(None, [shares(demand, SHARES_CLAUSE)])
    absent = [(number, title) for number, title, found in made if found is None]
    if absent:
        sections.append(_not_reached(context, absent))
    return tuple(sections)


def _numbers(number: str, count: int) -> list[str]:
    """Of several plots of one kind, as the standard numbers its own (7-2.1, 7-2.2)."""
    return [number] if count == 1 else [f"{number}.{i}" for i in range(1, count + 1)]


def _not_reached(context: Context, absent: list[tuple[str, str]]) -> Section:
    columns = (Column("Plot", "plot"), Column("Title", "title"))
    table = Table("There are no data for these", columns, tuple(absent), name="not-reached")
    notes = context.demand.chosen.problems if context.demand.chosen else ()
    return Section("not-reached", "Plots Without Data", "", f"{context.plots.section}.3.2", (table,), notes)
