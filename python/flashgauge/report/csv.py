"""What the plots show as CSV: one file for each plot or table, numbers unrounded, units in the column names."""

from __future__ import annotations

import csv
from itertools import groupby
from pathlib import Path

from flashgauge.report.model import Columns3D, Item, LineFigure, Report, Section, Table, Value

Rows = list[tuple[Value, ...]]


def write_csv(report: Report, folder: Path) -> list[Path]:
    """Write `plot-7-1.csv` and so on into `folder` (made if needed); returns the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for section in report.sections:
        for name, head, rows in section_rows(section):
            path = folder / f"{name}.csv"
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                writer.writerows(rows)
            written.append(path)
    return written


def section_rows(section: Section) -> list[tuple[str, tuple[str, ...], Rows]]:
    """(file name without ending, column names, rows) of a section. Neighbouring tables with the same columns,
    as in 7-6, become one, with the table's name in the first column."""
    base = f"plot-{section.plot}" if section.plot else section.id
    found: list[tuple[str, tuple[str, ...], Rows]] = []
    for head, group in groupby(((item, *_rows(item)) for item in section.items), key=lambda entry: entry[1]):
        items = list(group)
        if len(items) == 1:
            item, _, rows = items[0]
            found.append((f"{base}-{item.name}" if item.name else base, head, rows))
        elif all(isinstance(item, Table) for item, _, _ in items):
            joined = [(item.name, *row) for item, _, rows in items for row in rows]
            found.append((base, ("metric", *head), joined))
        else:
            found.extend((f"{base}-{item.name}" if item.name else base, head, rows) for item, _, rows in items)
    return found


def _rows(item: Item) -> tuple[tuple[str, ...], Rows]:
    match item:
        case LineFigure():
            chosen = len(item.choices) > 1
            head = ("choice",) * chosen + ("series", item.x_name, item.y_name)
            return head, [
                ((choice.name,) if chosen else ()) + (series.name, x, y)
                for choice in item.choices
                for series in choice.series
                for x, y in zip(series.x, series.y, strict=True)
            ]
        case Columns3D():
            return ("row", "column", item.value_name), [
                (row, column, item.values[i][j])
                for i, row in enumerate(item.rows)
                for j, column in enumerate(item.columns)
            ]
        case Table():
            return tuple(column.name for column in item.columns), list(item.rows)
