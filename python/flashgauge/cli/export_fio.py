"""`flashgauge export-fio`: the steps of a run or of a test as fio job files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from flashgauge.cli.run import settings_of
from flashgauge.execute import RequestError
from flashgauge.fioexport import export, write_parts
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS


def export_fio(
    what: Annotated[str, typer.Argument(metavar="RUN|TEST", help=f"A run folder, or a test: {', '.join(TESTS)}.")],
    target: Annotated[
        str | None,
        typer.Argument(help="Of a test: the target whose capacity counts; without it amounts are written as shares."),
    ] = None,
    device_class: Annotated[
        DeviceClass, typer.Option("--class", help="Of a test: enterprise or client.")
    ] = DeviceClass.ENTERPRISE,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Of a test: change a parameter.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder to make, for the files; without it the file is printed.")
    ] = None,
) -> None:
    """Write the equivalent fio job file for every step that a run had, or that a test will have.

    How many steps a test has depends on the drive: the file has those of one that is steady as soon as it may be.
    """
    name, parts = export(what, target, device_class, settings_of(setting or []))
    if out is not None:
        for path in write_parts(out, name, parts):
            print(path)
        return
    if len(parts) > 1:
        raise RequestError(
            f"{what}: {len(parts)} files, since fio takes a limited number of jobs in one: add --out FOLDER"
        )
    print(parts[0], end="")
