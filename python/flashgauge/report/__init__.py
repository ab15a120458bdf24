"""Reports from a run folder, at any time: `build` makes the model, the others show it.

    build(folder) -> Report                     model.py: what to show; replay.py: the journal, judged again
    write_html(report, path)                    one interactive file, offline
    write_pdf(report, path)                     paged, Annex A header on each page
    write_csv(report, folder) -> paths          what the plots show
    write_data(folder) -> paths                 measurements and intervals as Parquet, histograms as HdrHistogram log
    show(report, console)                       the terminal

A test adds report/<test>.py with a function `<test>_part`. The renderers are imported on first use: each
brings a large library, and `show` should not wait for plotting.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flashgauge.report.build import build
from flashgauge.report.model import Report
from flashgauge.report.replay import ReplayError

if TYPE_CHECKING:
    from flashgauge.report.csv import write_csv
    from flashgauge.report.export import write_data
    from flashgauge.report.html import write_html
    from flashgauge.report.pdf import write_pdf
    from flashgauge.report.text import show

__all__ = ["ReplayError", "Report", "build", "show", "write_csv", "write_data", "write_html", "write_pdf"]

_MODULES = {"show": "text", "write_csv": "csv", "write_data": "export", "write_html": "html", "write_pdf": "pdf"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
