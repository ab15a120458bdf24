"""The report as PDF: a typst document with the Annex A header on each page, and matplotlib's figures.

The document reads its data from a JSON file beside it. No text of a run ever becomes typst source, so nothing
a drive calls itself can break or change the document.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import typst

from flashgauge.report.formats import cell_text, is_number
from flashgauge.report.model import Columns3D, Figure, LineFigure, Report, Section, Table
from flashgauge.report.print_figures import figures_svg

TEMPLATE = Path(__file__).parent / "templates" / "report.typ"
# Figure sizes on A4 landscape, in mm, below a header of a quarter page.
_WIDTH_MM = 272.0
_WHOLE_MM = (_WIDTH_MM, 128.0)
_BESIDE_TABLE_MM = (156.0, 124.0)
_HALF_MM = (135.0, 120.0)
# What figures under one another share: the page below the header, its banner and the section's title.
_PAGE_MM = 139.0
_MOST_ON_A_PAGE = 3
_LEAST_MM = 36.0
_FIGURE_TITLE_MM = 6.2
_NOTE_LINE_MM = 3.4
_NOTE_CHARACTERS = 180
_TABLE_ROW_MM = 5.4
_TABLE_ENDS_MM = 14.0


def write_pdf(report: Report, path: Path) -> None:
    """Write the document to `path`. Raises OSError."""
    with TemporaryDirectory(prefix="flashgauge-") as name:
        folder = Path(name)
        (folder / "report.typ").write_bytes(TEMPLATE.read_bytes())
        (folder / "data.json").write_text(json.dumps(_data(report, folder)), encoding="utf-8")
        # matplotlib brings the one sans serif family used; the machine's own fonts are left alone, so that
        # the same report looks the same everywhere.
        fonts = Path(mpl.get_data_path()) / "fonts" / "ttf"
        document = typst.compile(
            str(folder / "report.typ"), root=str(folder), font_paths=[str(fonts)], ignore_system_fonts=True
        )
    path.write_bytes(document)


def _data(report: Report, folder: Path) -> dict[str, Any]:
    """The report as JSON for the template; figures become files in `folder`."""
    return {
        "banner": report.banner,
        "status": report.status[0].upper() + report.status[1:],
        "folder": report.folder,
        "generator": report.generator,
        "header": asdict(report.header),
        "missing": report.missing,
        "disclosures": [{**item.to_json(), "kind": item.kind.value.replace("_", " ")} for item in report.disclosures],
        "summary": [_table(item) for item in report.summary],
        "sections": [_section(section, folder) for section in report.sections],
    }


def _section(section: Section, folder: Path) -> dict[str, Any]:
    figures = [item for item in section.items if not isinstance(item, Table)]
    size = _size(section, figures)
    # Figures under one another have their axes in line.
    drawn = iter(figures_svg(figures, *size) if section.layout == "stack" else _apart(figures, size))
    items: list[dict[str, Any]] = []
    for number, item in enumerate(section.items):
        if isinstance(item, Table):
            items.append(_table(item))
            continue
        name = f"{section.id}-{number}.svg"
        (folder / name).write_bytes(next(drawn))
        items.append({"kind": "figure", "title": _printed_title(item), "file": name, "width_mm": size[0]})
    return {
        "title": section.title,
        "plot": section.plot,
        "clause": section.clause,
        "layout": section.layout,
        "notes": [*section.notes, *(f"{text}: {path}" for text, path in section.links)],
        "items": items,
    }


def _apart(figures: list[Figure], size: tuple[float, float]) -> list[bytes]:
    return [figures_svg((figure,), *size)[0] for figure in figures]


def _size(section: Section, figures: list[Figure]) -> tuple[float, float]:
    """Of each figure of the section: as high as lets those that belong together stand on one page."""
    tables = [item for item in section.items if isinstance(item, Table)]
    if section.layout == "side":
        return _BESIDE_TABLE_MM if tables else _HALF_MM
    if not figures or section.layout != "stack" or any(isinstance(figure, Columns3D) for figure in figures):
        return _WHOLE_MM
    on_a_page = ceil(len(figures) / ceil(len(figures) / _MOST_ON_A_PAGE))
    left = _PAGE_MM - sum(_NOTE_LINE_MM * ceil(len(note) / _NOTE_CHARACTERS) + 1.5 for note in section.notes)
    beside = sum(_TABLE_ENDS_MM + _TABLE_ROW_MM * (len(table.rows) + len(table.notes)) for table in tables)
    height = left / on_a_page - _FIGURE_TITLE_MM
    shared = (left - beside) / on_a_page - _FIGURE_TITLE_MM
    # Tables that would leave too little go to a page of their own.
    if shared >= (_LEAST_MM if on_a_page > 1 else 2 * _LEAST_MM):
        height = shared
    return _WIDTH_MM, min(height, _WHOLE_MM[1])


def _table(table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "title": table.title,
        "group": table.group,
        "columns": [{"title": column.title, "number": is_number(column)} for column in table.columns],
        "rows": [[cell_text(table, i, j) for j in range(len(table.columns))] for i in range(len(table.rows))],
        "notes": table.notes,
    }


def _printed_title(figure: Figure) -> str:
    """Paper has no selector: where the screen offers a choice, the title says which one is printed."""
    if isinstance(figure, LineFigure) and len(figure.choices) > 1:
        return f"{figure.title}, {figure.choices[0].name}"
    return figure.title
