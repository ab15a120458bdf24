"""`flashgauge show`: verdicts and key numbers in the terminal."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer

from flashgauge import report
from flashgauge.finish import summary


def show(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Show a run's verdicts and key numbers, also of one that is under way or was cut off."""
    built = report.build(run)
    if json:
        print(jsonlib.dumps(summary(run, built)))
    else:
        report.show(built)
