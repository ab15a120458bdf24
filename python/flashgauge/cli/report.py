"""`flashgauge report`: write reports from a run folder, any time later."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashgauge.campaign import is_campaign
from flashgauge.finish import Formats, write_campaign_reports, write_reports
from flashgauge.report import build
from flashgauge.report.campaign import build_campaign


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a campaign's.")],
    html: Annotated[bool, typer.Option("--html", help="Write report.html.")] = False,
    pdf: Annotated[bool, typer.Option("--pdf", help="Write report.pdf.")] = False,
    csv: Annotated[bool, typer.Option("--csv", help="Write csv/, what the plots show.")] = False,
) -> None:
    """Write reports from the folder alone: HTML, PDF and CSV, or those that are named."""
    named = Formats(html, pdf, csv, data=False) if html or pdf or csv else Formats()
    if is_campaign(run):
        paths = write_campaign_reports(run, build_campaign(run), named)
    else:
        paths = write_reports(run, build(run), named)
    for path in paths:
        print(path)
