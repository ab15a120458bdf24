"""The report as PDF: a typst document with the Annex A header on each page, and matplotlib's figures.

The document reads its data from a JSON file beside it. No text of a run ever becomes typst source, so nothing
a drive calls itself can break or change the document.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import matplotlib as mpl
import typst

from flashgauge.report.formats import cell_text, is_number
from flashgauge.report.model import Columns3D, LineFigure, Report, Section, Table
from flashgauge.report.print_figures import figure_svg

TEMPLATE = Path(__file__).parent / "templates" / "report.typ"
# Figure sizes on A4 landscape, in mm, below a header of a quarter page.
_WHOLE_MM = (272.0, 128.0)
_BESIDE_TABLE_MM = (156.0, 124.0)
_HALF_MM = (135.0, 120.0)


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
    size = _WHOLE_MM
    if section.layout == "side":
        size = _BESIDE_TABLE_MM if any(isinstance(item, Table) for item in section.items) else _HALF_MM
    items: list[dict[str, Any]] = []
    for number, item in enumerate(section.items):
        if isinstance(item, Table):
            items.append(_table(item))
            continue
        name = f"{section.id}-{number}.svg"
        (folder / name).write_bytes(figure_svg(item, *size))
        items.append({"kind": "figure", "title": _printed_title(item), "file": name, "width_mm": size[0]})
    return {
        "title": section.title,
        "plot": section.plot,
        "clause": section.clause,
        "layout": section.layout,
        "notes": section.notes,
        "items": items,
    }


def _table(table: Table) -> dict[str, Any]:
    return {
        "kind": "table",
        "title": table.title,
        "group": table.group,
        "columns": [{"title": column.title, "number": is_number(column)} for column in table.columns],
        "rows": [[cell_text(table, i, j) for j in range(len(table.columns))] for i in range(len(table.rows))],
        "notes": table.notes,
    }


def _printed_title(figure: LineFigure | Columns3D) -> str:
    """Paper has no selector: where the screen offers a choice, the title says which one is printed."""
    if isinstance(figure, LineFigure) and len(figure.choices) > 1:
        return f"{figure.title}, {figure.choices[0].name}"
    return figure.title
