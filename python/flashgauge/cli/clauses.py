"""`flashgauge clauses`: the table of the standard's clauses, with what satisfies and what tests each."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashgauge.spec.clauses import listed


def clauses(
    section: Annotated[str | None, typer.Option("--section", metavar="N", help="Of this section only: 7, A.")] = None,
    json: Annotated[bool, typer.Option("--json", help="A list of JSON objects.")] = False,
) -> None:
    """Show every requirement of the standard, where it is satisfied, and by which tests."""
    found = listed(section)
    if not found:
        raise typer.BadParameter(f"no clause of section {section} is in the table", param_hint="--section")
    if json:
        print(jsonlib.dumps(found))
        return
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, leading=1)
    table.add_column("Clause")
    table.add_column("Strength")
    table.add_column("Requirement, place, tests", overflow="fold")
    for row in found:
        table.add_row(row["id"], row["strength"], _body(row))
    Console().print(table)


def _body(row: dict[str, Any]) -> Text:
    """One above the other: side by side, names of tests would need a terminal of 200 columns."""
    text = Text(row["requirement"])
    if row["note"]:
        text.append(f"\nread as: {row['note']}", style="italic")
    text.append(f"\nplace: {row['place'] or 'none'}", style="dim")
    for name in row["tests"] or ("none",):
        text.append(f"\ntest: {name}", style="dim")
    return text
