"""The report as one HTML file that needs nothing else: plotly.js and styles are inside, no network is used.

A content security policy in the page forbids every outside load, so that this holds by construction.
"""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from flashgauge.report.formats import cell_text, is_number
from flashgauge.report.model import Item, Report, Section, Table
from flashgauge.report.screen_figures import HEIGHT, figure_json

# Of each figure, by how many stand under one another.
STACKED_HEIGHTS = {1: HEIGHT, 2: 350}
STACKED_HEIGHT = 310
# In the sidebar, whose lines are short; "SS" is the standard's own word.
_SHORT = (("Steady State", "SS"), ("Measurement Window", "Window"))
TEMPLATES = Path(__file__).parent / "templates"


def write_html(report: Report, path: Path) -> None:
    """Write the page to `path`. Raises OSError."""
    path.write_text(html_text(report), encoding="utf-8")


def html_text(report: Report) -> str:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.globals.update(cell_text=cell_text, is_number=is_number, is_table=is_table, drawn=drawn)
    environment.filters["verdict_class"] = verdict_class
    return environment.get_template("report.html.j2").render(
        report=report,
        names=short_names(report),
        # The only texts not escaped: our own style sheet, and the library itself.
        style=Markup((TEMPLATES / "report.css").read_text(encoding="utf-8")),
        plotly=Markup(plotly_js()),
    )


def plotly_js() -> str:
    """The library's text from its package; importing the package would take longer than the rest of the report."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")


def is_table(item: Item) -> bool:
    return isinstance(item, Table)


def drawn(item: Any, section: Section) -> dict[str, Any]:
    """The figure as JSON for a script element, and its height: its place is kept until it is drawn."""
    figures = [other for other in section.items if not is_table(other)]
    stacked = section.layout == "stack" and len(figures) > 1
    height = STACKED_HEIGHTS.get(len(figures), STACKED_HEIGHT) if stacked else HEIGHT
    figure = figure_json(item, height, stacked)
    return {"json": embedded(figure), "height": figure["layout"]["height"]}


def embedded(figure: dict[str, Any]) -> Markup:
    """JSON inside a script element: no "<" may appear there, or the text could close it."""
    text = json.dumps(figure, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def short_names(report: Report) -> list[str]:
    """The sections' names in the sidebar: without the words that all plots of the report begin with."""
    titles = [re.split(r"\s+", section.title) for section in report.sections]
    plots = [words for words, section in zip(titles, report.sections, strict=True) if section.plot]
    shared = 0
    while len(plots) > 1 and all(len(words) > shared + 1 and words[shared] == plots[0][shared] for words in plots):
        shared += 1
    if not shared:
        # One test among several in a report: at least its own name, which stands above them all.
        first = report.header.title.split(" ")[0]
        titles = [words[1:] if words[0] == first and len(words) > 1 else words for words in titles]
    names = []
    for words, section in zip(titles, report.sections, strict=True):
        name = " ".join(words[shared:] if section.plot else words).removeprefix("- ")
        for long, short in _SHORT:
            name = name.replace(long, short)
        names.append(name)
    return names


def verdict_class(text: str) -> str:
    """The style of a verdict's cell."""
    if text.startswith("DEPARTED"):
        return "bad"
    good, bad = ("pass", "steady", "yes"), ("FAIL", "NOT steady", "NOT PROVIDED", "NO")
    return "ok" if text in good else "bad" if text in bad else ""
