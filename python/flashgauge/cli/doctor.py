"""`flashgauge doctor`: what of this host may disturb a test on a target."""

from __future__ import annotations

import json as jsonlib
import os
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashgauge.rig import hostchecks, identify, uses
from flashgauge.rig.file import device_below
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.rig.identify import Roots
from flashgauge.rig.open import capacity_bytes
from flashgauge.rig.target import Target, parse_target
from flashgauge.spec.forecast import bounds
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS

FOUND = 1  # exit code


def doctor(
    target: Annotated[str, typer.Argument(metavar="TARGET", help="A block device, file:PATH or sim:PRESET.")],
    out: Annotated[Path, typer.Option(help="Where the results are to go: is there room for all eight tests?")] = Path(
        "runs"
    ),
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Look for what may disturb a test, and say what cures it. Changes nothing, and sends the drive nothing.

    The same is looked at before each run. Exit code: 0 nothing to do, 1 something was found.
    """
    checks = _checks(parse_target(target), out)
    found = [check for check in checks if check.advice]
    if json:
        print(jsonlib.dumps({"target": target, "checks": [check.to_json() for check in checks], "found": len(found)}))
    else:
        _show(checks)
    if found:
        raise typer.Exit(FOUND)


def _checks(target: Target, out: Path) -> tuple[HostCheck, ...]:
    """Raises TargetError when there is no such target."""
    room = hostchecks.free_space(out, _all_tests_bytes(capacity_bytes(target)))
    roots = Roots()
    if target.kind == "sim":
        return (room,)
    if target.kind == "block":
        return (*hostchecks.check_host(identify.find_block(target.path), roots), room)
    # A file that is yet to be made will be where its folder is.
    path = os.path.realpath(target.path)
    path = path if os.path.exists(path) else os.path.dirname(path)
    device = device_below(path, uses.mount_of(path, uses.all_mounts(roots)), roots)
    return (*hostchecks.check_host(device, roots), room)


def _all_tests_bytes(device_bytes: int) -> int:
    most = [
        bounds(partial(test.spec, test.parameters(DeviceClass.ENTERPRISE), device_bytes))[1] for test in TESTS.values()
    ]
    return sum(hostchecks.results_bytes(one.steps, one.seconds) for one in most)


def _show(checks: tuple[HostCheck, ...]) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for check in checks:
        mark = Text("do", style="yellow") if check.advice else Text("ok", style="green")
        table.add_row(mark if check.seen else Text("?", style="dim"), check.name, check.found)
        if check.advice:
            table.add_row("", "", Text(check.advice, style="bold"))
    Console(markup=False, highlight=False).print(table)
