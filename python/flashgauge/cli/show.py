"""`flashgauge show`: verdicts and key numbers in the terminal."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from flashgauge import report
from flashgauge.campaign import is_campaign
from flashgauge.finish import campaign_summary, summary
from flashgauge.report.campaign import build_campaign


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder, or a campaign's.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show a run's verdicts and key numbers, also of one that is under way or was cut off."""
    campaign = is_campaign(run)
    built = build_campaign(run) if campaign else report.build(run)
    if json:
        print(jsonlib.dumps(campaign_summary(run, built) if campaign else summary(run, built)))
    else:
        report.show(built)
