"""`flashgauge ceiling`: what this host does at most with a test's stimuli, on request."""

from __future__ import annotations

import json as jsonlib
from functools import partial
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from flashgauge.execute import ANY_CAPACITY_BYTES, RequestError, host_ceilings
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS


def ceiling(
    test: Annotated[str, typer.Argument(metavar="TEST", help=f"{', '.join(TESTS)}.")],
    device_class: Annotated[DeviceClass, typer.Option("--class", help="enterprise or client.")] = (
        DeviceClass.ENTERPRISE
    ),
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Measure what this host does at most with each stimulus of a test, without a device; ten seconds at most.

    The same is measured before each run on a real device: a test point near it is the host's, not the drive's.
    """
    if test not in TESTS:
        raise RequestError(f"no test {test!r}; there are: {', '.join(TESTS)}")
    spec = partial(TESTS[test].spec, TESTS[test].parameters(device_class), ANY_CAPACITY_BYTES)
    found = host_ceilings(spec)
    if json:
        print(jsonlib.dumps({"test": test, "source": found.source, "ceilings": found.to_json()}))
        return
    table = Table("stimulus", "IOPS", box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.columns[1].justify = "right"
    for row in found.to_json():
        table.add_row(row["stimulus"], f"{row['iops']:,}")
    console = Console(markup=False, highlight=False)
    console.print(table)
    console.print(f"measured with: {found.source}, which move no data; of more threads than CPUs, as many as CPUs")
