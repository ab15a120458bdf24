"""`flashgauge verify`: read back what a run wrote, at any time after it."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import Progress

from flashgauge.readback import verifier_of
from flashgauge.verification import failed, read_back


def verify(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run made with --verify.")],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Read back all that a run wrote and check every sector: is it intact, where it belongs, and of this run?

    The device is only read. Exit code 1 when something is not as it was written.
    """
    verifier = verifier_of(run)
    with Progress(console=Console(stderr=True), transient=True, disable=json) as progress:
        task = progress.add_task("reading back", total=verifier.range_bytes)
        found = read_back(verifier, lambda done, _: progress.update(task, completed=done))
    if json:
        print(jsonlib.dumps({**found.to_json(), "bad": found.bad}))
    if found.bad:
        raise failed(found)
    if not json:
        print(found)
