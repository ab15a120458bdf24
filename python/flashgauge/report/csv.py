"""What the plots show as CSV: one file for each plot or table, numbers unrounded, units in the column names.

What a plot points out in its data, as a percentile's line or a named point, is in a file of its own, `...-marks.csv`.
"""

from __future__ import annotations

import csv
from itertools import groupby
from math import isfinite
from pathlib import Path

from flashgauge.report.model import Bars, Columns3D, Item, LineFigure, Report, Section, Table, Value

Rows = list[tuple[Value, ...]]
File = tuple[str, tuple[str, ...], Rows]


def write_csv(report: Report, folder: Path) -> list[Path]:
    """Write `plot-7-1.csv` and so on into `folder` (made if needed); returns the files. Raises OSError."""
    folder.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    for section in report.sections:
        for name, head, rows in section_rows(section):
            path = folder / f"{name}.csv"
            assert path not in written, f"two plots would be {path.name}: give sections and figures different names"
            with path.open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                writer.writerows(rows)
            written.append(path)
    return written


def section_rows(section: Section) -> list[File]:
    """(file name without ending, column names, rows) of a section. Neighbouring tables with the same columns,
    as in 7-6, become one, with the table's name in the first column."""
    base = f"plot-{section.plot}" if section.plot else section.id
    found: list[File] = []
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
    for item in section.items:
        if isinstance(item, LineFigure) and (item.marks or item.callouts):
            name = f"{base}-{item.name}-marks" if item.name else f"{base}-marks"
            found.append((name, ("label", item.x_name, item.y_name), _marks(item)))
    return found


def _marks(figure: LineFigure) -> Rows:
    """A vertical line has no y, a horizontal line no x."""
    lines = [(m.label, m.at if m.axis == "x" else None, m.at if m.axis == "y" else None) for m in figure.marks]
    return [*lines, *((callout.label, callout.x, callout.y) for callout in figure.callouts)]


def _number(value: float) -> float | None:
    """A gap in a line is an empty cell."""
    return value if isfinite(value) else None


def _rows(item: Item) -> tuple[tuple[str, ...], Rows]:
    match item:
        case LineFigure():
            chosen = len(item.choices) > 1
            head = ("choice",) * chosen + ("series", item.x_name, item.y_name)
            return head, [
                ((choice.name,) if chosen else ()) + (series.name, x, _number(y))
                for choice in item.choices
                for series in choice.series
                for x, y in zip(series.x, series.y, strict=True)
            ]
        case Bars():
            return ("series", item.x_name, item.y_name), [
                (series.name, category, value)
                for series in item.series
                for category, value in zip(item.categories, series.values, strict=True)
            ]
        case Columns3D():
            return ("row", "column", item.value_name), [
                (row, column, _number(item.values[i][j]))
                for i, row in enumerate(item.rows)
                for j, column in enumerate(item.columns)
            ]
        case Table():
            return tuple(column.name for column in item.columns), list(item.rows)
