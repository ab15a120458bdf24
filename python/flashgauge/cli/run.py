"""`flashgauge run`: execute a test on a target."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from flashgauge.cli.progress import CliObserver, observer_for
from flashgauge.execute import RequestError, RunRequest, execute, prepare
from flashgauge.finish import summary, write_reports
from flashgauge.report import build
from flashgauge.spec.parameters import DeviceClass


def run(
    test: Annotated[str, typer.Argument(metavar="TEST", help="The test: iops.")],
    target: Annotated[
        str,
        typer.Argument(
            metavar="TARGET",
            help="sim:PRESET[?capacity=8GiB&seed=1], file:PATH?size=8GiB, or a block device. ITS DATA IS DESTROYED.",
        ),
    ],
    device_class: Annotated[
        DeviceClass, typer.Option("--class", help="enterprise: T4Q32, WCD, AR 100 %; client: T2Q16, WCE, AR 75 %.")
    ] = DeviceClass.ENTERPRISE,
    out: Annotated[Path | None, typer.Option(help="Run folder to make; default: runs/TEST-TARGET-TIME.")] = None,
    consent: Annotated[
        str | None, typer.Option(metavar="SERIAL", help="Serial number of the drive whose data may be destroyed.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="Change a parameter; it is disclosed.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**64 - 1, help="Seed of the random LBAs; stored in the run.")
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Test operator's name, for the report.")] = None,
    auditor: Annotated[str | None, typer.Option(help="Auditor's name, for the report.")] = None,
    sponsor: Annotated[str | None, typer.Option(help="Test sponsor, for the report.")] = None,
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="Go on after I/O errors; they are counted and disclosed.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line instead of a display.")] = False,
) -> None:
    """Run a test of the standard: purge, pre-condition, drive to steady state, measure, report."""
    request = RunRequest(
        test,
        target,
        device_class,
        out,
        consent,
        _settings(setting or []),
        seed,
        operator=operator,
        auditor=auditor,
        sponsor=sponsor,
        stop_on_error=not keep_going,
    )
    prepared = prepare(request)
    with observer_for(json) as observer:
        observer.folder(prepared.folder)
        try:
            execute(request, prepared, observer)
        except OSError:
            # The device failed: what was measured until then is worth a report.
            with contextlib.suppress(OSError, ValueError):
                _report(prepared.folder, observer)
            raise
        _report(prepared.folder, observer)


def _report(folder: Path, observer: CliObserver) -> None:
    built = build(folder)
    observer.reports(write_reports(folder, built), summary(folder, built))


def _settings(texts: list[str]) -> dict[str, str]:
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise RequestError(f"--set {text}: write NAME=VALUE")
        if name in settings:
            raise RequestError(f"--set {name} is given twice")
        settings[name] = value
    return settings
