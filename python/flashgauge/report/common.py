"""What the reports of several tests share: sections named after a plot, header fields, which rounds figures are of."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from flashgauge.report.model import Choice, Field, Item, Layout, Section, Table
from flashgauge.spec.parameters import TestParameters
from flashgauge.steadystate import Verdict

# A logarithmic axis from here: on a linear one the smallest line would sit on the axis.
LOG_FROM_RATIO = 30.0
HOST_SECTION = "Host and Drive During the Run"


def section(
    plot: str,
    title: str,
    clause: str,
    items: tuple[Item, ...],
    *,
    notes: tuple[str, ...] = (),
    layout: Layout = "stack",
    verdict: Verdict | None = None,
) -> Section:
    """A section for the plot of this number in the standard."""
    return Section(f"plot-{plot.replace('.', '-')}", title, plot, clause, items, notes, layout, verdict)


def averaged(window: Sequence[int], window_rounds: int) -> tuple[str, ...]:
    """Says which rounds the figures are of, and plainly so when they are fewer than a measurement window."""
    first, last = window[0], window[-1]
    if len(window) == 1:
        return (f"Only round {first} is complete: the figures are of that round alone, not of a measurement window.",)
    if len(window) < window_rounds:
        return (f"Only rounds {first}-{last} are complete: figures are of these, not of {window_rounds} rounds.",)
    return (f"Figures are of rounds {first}-{last}.",)


def is_wide(choices: tuple[Choice, ...]) -> bool:
    """Whether the values need a logarithmic axis to be told apart."""
    values = [y for choice in choices for series in choice.series for y in series.y]
    return bool(values) and min(values) > 0 and max(values) / min(values) > LOG_FROM_RATIO


def host_marked(table: Table, limited: Iterable[tuple[int, int]], where: str = "") -> Table:
    """The table with these (row, column) marked as the host's, and a note that says so. `where`: the columns meant,
    when others have marks of another meaning."""
    marks = frozenset(limited)
    if not marks:
        return table
    at = f"{where}: " if where else ""
    note = f"* {at}the host, not the drive, was the limit in a round or more: see {HOST_SECTION}."
    return replace(table, marks=table.marks | marks, notes=(*table.notes, note))


def entropy(parameters: TestParameters) -> str:
    """The Data Pattern of the header."""
    return f"RND, entropy {parameters.entropy_percent} %"


def toio(thread_count: int, queue_depth: int) -> str:
    """The TOIO of the header."""
    return f"TC {thread_count} / QD {queue_depth}"


def no_segments() -> Field:
    return ("AR Segments", "n/a")
