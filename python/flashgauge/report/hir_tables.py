"""Tables of a HIR report: Table 11-4, gains and amplitudes, and the idle times kept."""

from __future__ import annotations

from flashgauge.report.hir_metrics import HostIdle, Segment, WaitState, excess, gain_percent
from flashgauge.report.model import Column, Table, Value

# Title, name, format and how to find it, in the order of Plot 11-4's table.
_HOST = (
    ("Avg Power, mW", "average_power_mw", ",.0f", "power_w", 1e3),
    ("CPU Sys, %", "cpu_system_percent", ",.2f", "cpu_system_percent", 1.0),
    ("CPU IO Wait, %", "cpu_iowait_percent", ",.2f", "cpu_iowait_percent", 1.0),
)


def secondary_table(data: HostIdle) -> Table:
    """11.3.2.4: baseline, wait states and returns to baseline; host metrics that had no source have no column."""
    segments: list[tuple[Segment, float | None]] = [(data.baseline, None)]
    for state in data.begun:
        segments.append((state.bursts, state.wait_s))
        if state.back.accesses:
            segments.append((state.back, 0.0))
    measured = [column for column in _HOST if any(s.host(column[3]) is not None for s, _ in segments)]
    return Table(
        title="Baseline, wait states and returns to baseline",
        columns=(
            Column("Segment", "segment"),
            Column("Idle, s", "idle_s", ",g"),
            Column("IOPS", "iops", ",.1f"),
            Column("ART, ms", "art_ms", ",.3f"),
            Column("MRT, ms", "mrt_ms", ",.3f"),
            *(Column(title, name, spec) for title, name, spec, _, _ in measured),
            Column("Accesses", "accesses"),
        ),
        rows=tuple(
            (
                segment.name,
                idle,
                segment.iops,
                segment.art_ms,
                segment.mrt_ms,
                *(_scaled(segment.host(metric), factor) for _, _, _, metric, factor in measured),
                _count(data, segment),
            )
            for segment, idle in segments
        ),
        name="secondary",
    )


def _scaled(value: float | None, factor: float) -> float | None:
    return None if value is None else factor * value


def _count(data: HostIdle, segment: Segment) -> str:
    p = data.parameters
    if segment is data.baseline:
        return f"{len(segment.accesses)} minutes" if p.minute_s == 60 else f"{len(segment.accesses)} x {p.minute_s:g} s"
    return f"{_part(segment)} x {p.access_s:g} s"


def _part(segment: Segment) -> str:
    """How many accesses there are, and of how many when some are missing."""
    count = len(segment.accesses)
    return f"{count}" if segment.is_whole else f"{count} of {segment.expected}"


def gain_table(data: HostIdle) -> Table:
    """11.1: the staircase, and the amplitude within each wait state."""
    base = data.baseline.iops

    def row(state: WaitState) -> tuple[Value, ...]:
        bursts = state.bursts
        return (
            state.short_name if bursts.is_whole else f"{state.short_name}, {_part(bursts)}",
            state.wait_s,
            bursts.iops,
            gain_percent(bursts.iops, base),
            gain_percent(bursts.iops, state.back.iops),
            bursts.lowest,
            bursts.highest,
            bursts.amplitude_percent,
        )

    at_most = "highest \N{MINUS SIGN} lowest"
    return Table(
        title=f"Gain of each wait state (baseline: {base:,.1f} IOPS)" if base else "Gain of each wait state",
        columns=(
            Column("Wait state", "wait_state"),
            Column("Idle, s", "idle_s", ",g"),
            Column("IOPS", "iops", ",.1f"),
            Column("Gain v baseline, %", "gain_baseline_percent", "+,.2f"),
            Column("Gain v return, %", "gain_return_percent", "+,.2f"),
            Column("Lowest burst", "lowest_iops", ",.1f"),
            Column("Highest burst", "highest_iops", ",.1f"),
            Column("Range, %", "amplitude_percent", ",.2f"),
        ),
        rows=tuple(row(state) for state in data.begun),
        notes=(
            "Baseline: steady state of the pre-conditioning. Return: the return to baseline after the wait state. "
            f"Range (the amplitude of 11.1): {at_most} burst, of the wait state's IOPS.",
        ),
        name="gain",
    )


def idle_table(data: HostIdle) -> Table:
    """Idle time asked for, and the excess over it, for each wait state."""
    rows: list[tuple[Value, ...]] = []
    for state in data.begun:
        found = excess(state)
        numbers = (None, None, None) if found is None else (found.median_ms, found.least_ms, found.most_ms)
        count = 0 if found is None else found.count
        rows.append((state.bursts.name, state.wait_s, *numbers, f"{count} of {state.bursts.expected}"))
    return Table(
        title="Idle time before an access beyond what was asked for (11.2 step 4.1)",
        columns=(
            Column("Wait state (idle)", "wait_state"),
            Column("Asked for, s", "asked_s", ",g"),
            Column("Excess, median, ms", "excess_median_ms", "+,.3f"),
            Column("least, ms", "excess_least_ms", "+,.3f"),
            Column("most, ms", "excess_most_ms", "+,.3f"),
            Column("Idle times", "idle_times"),
        ),
        rows=tuple(rows),
        name="idle",
    )
