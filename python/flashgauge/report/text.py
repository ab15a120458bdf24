"""The report in the terminal: header facts, disclosures, verdicts, key numbers and the main table."""

from __future__ import annotations

from typing import Literal

from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from flashgauge.disclosure import Disclosure
from flashgauge.report.formats import cell_text, is_number
from flashgauge.report.model import Report, Table

ROOMY_COLUMNS = 6
# Words up to this long are not broken.
LONGEST_WORD = 16
_VERDICT_STYLE = {
    **dict.fromkeys(("pass", "steady", "yes"), "green"),
    **dict.fromkeys(("FAIL", "NOT steady", "NOT PROVIDED", "NO"), "bold red"),
}


def show(report: Report, console: Console | None = None) -> None:
    """Print the report's essentials."""
    (console or Console()).print(rendered(report))


def rendered(report: Report) -> RenderableType:
    parts: list[RenderableType] = []
    if report.banner:
        parts += [Text(f" {report.banner} ", style="bold white on red"), Text()]
    parts += [
        Text(f"{report.header.title}  ({report.header.revision})", style="bold"),
        Text(report.status[0].upper() + report.status[1:]),
        Text(),
        _facts(report),
    ]
    parts += [Text(f"missing: {line}", style="red") for line in report.missing]
    parts += [Text(), Text("Disclosures", style="bold")]
    parts += [_disclosure(item) for item in report.disclosures] or [Text("  none", style="dim")]
    main = () if report.main is None or report.main in report.summary else (report.main,)
    for table in (*report.summary, *main):
        parts += [Text(), _table(table), *(Text(note, style="dim") for note in table.notes)]
    return Group(*parts)


def _facts(report: Report) -> RichTable:
    """The header of Annex A in two columns of name and value."""
    grid = RichTable.grid(padding=(0, 2))
    for column in range(4):
        grid.add_column(style="dim" if column % 2 == 0 else "", overflow="fold")
    header = report.header
    fields = [
        ("Test run", header.test_run_date),
        ("Test Sponsor", header.sponsor),
        *header.blocks[1].fields,
        *header.blocks[3].fields,
        ("Run folder", report.folder),
    ]
    half = (len(fields) + 1) // 2
    for i in range(half):
        right = fields[half + i] if half + i < len(fields) else ("", "")
        # Text, not markup: a drive may call itself "[red]".
        grid.add_row(*(Text(value) for value in (*fields[i], *right)))
    return grid


def _disclosure(item: Disclosure) -> RenderableType:
    text = Text()
    text.append(f"{item.kind.value.replace('_', ' ')} ", style="bold red" if item.invalidates else "bold yellow")
    text.append(f"(clause {item.clause}) ", style="dim")
    text.append(item.message)
    if item.invalidates:
        text.append("  invalidates the result", style="red")
    text.append(f"\n  {item.advice}", style="dim")
    return Padding(text, (0, 0, 0, 2))


def _table(table: Table) -> RichTable:
    """Numbers are never cut: headings wrap instead, and wide tables stand close enough for 80 columns."""
    matrix = bool(table.group)
    shown = RichTable(
        box=box.SIMPLE_HEAD,
        title_justify="left",
        title_style="bold",
        pad_edge=False,
        padding=(0, 0) if len(table.columns) > ROOMY_COLUMNS else (0, 1, 0, 0),
    )
    shown.title = Text(f"{table.title}, by {table.group}" if matrix else table.title)
    texts = [[cell_text(table, i, j) for j in range(len(table.columns))] for i in range(len(table.rows))]
    for index, column in enumerate(table.columns):
        words = [word for row in texts for word in row[index].split()]
        width = max((len(row[index]) for row in texts), default=0)
        right = is_number(column) or matrix
        justify: Literal["left", "right"] = "right" if right else "left"
        shown.add_column(
            Text(column.title),
            justify=justify,
            min_width=width if right else min(LONGEST_WORD, max(map(len, words), default=0)),
            overflow="fold",
        )
    for row in texts:
        shown.add_row(*(Text(text, style=_VERDICT_STYLE.get(text, "")) for text in row))
    return shown
