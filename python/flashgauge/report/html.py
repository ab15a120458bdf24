"""The report as one HTML file that needs nothing else: plotly.js and styles are inside, no network is used.

A content security policy in the page forbids every outside load, so that this holds by construction.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from flashgauge.report.formats import cell_text, is_number
from flashgauge.report.model import Item, Report, Table
from flashgauge.report.screen_figures import figure_json

TEMPLATES = Path(__file__).parent / "templates"


def write_html(report: Report, path: Path) -> None:
    """Write the page to `path`. Raises OSError."""
    path.write_text(html_text(report), encoding="utf-8")


def html_text(report: Report) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(cell_text=cell_text, is_number=is_number, is_table=is_table, embedded=embedded)
    environment.filters["verdict_class"] = verdict_class
    return environment.get_template("report.html.j2").render(
        report=report,
        # The only texts not escaped: our own style sheet, and the library itself.
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        plotly=Markup(plotly_js()),
    )


def plotly_js() -> str:
    """The library's text from its package; importing the package would take longer than the rest of the report."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def is_table(item: Item) -> bool:
    return isinstance(item, Table)


def embedded(item: Any) -> Markup:
    """A figure as JSON inside a script element: no "<" may appear there, or the text could close it."""
    text = json.dumps(figure_json(item), separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def verdict_class(text: str) -> str:
    """The style of a verdict's cell."""
    return {"pass": "ok", "steady": "ok", "FAIL": "bad", "NOT steady": "bad"}.get(text, "")
