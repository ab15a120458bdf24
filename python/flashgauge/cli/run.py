"""`flashgauge run`: execute one or more tests on a target."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flashgauge.campaign import ALL, Campaign, named_tests, request_for
from flashgauge.cli.campaign import How, check_jobs, observer_for, run_campaign
from flashgauge.cli.consent import CONSENT_SIGNATURES, asked_consent
from flashgauge.cli.signals import steadfast
from flashgauge.conduct import conduct
from flashgauge.execute import RequestError, RunRequest, default_folder, prepare
from flashgauge.rig.power import NONE
from flashgauge.rig.purge import AUTO, NAMES
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import now_text
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS

DEVICE_CLASS = Annotated[DeviceClass, typer.Option("--class", help="enterprise: WCD, AR 100 %; client: WCE, AR 75 %.")]
KEEP_GOING = Annotated[
    bool, typer.Option("--keep-going", help="Go on after I/O errors; they are counted and disclosed.")
]
VERIFY = Annotated[
    bool, typer.Option("--verify", help="Read back at the end all that was written, and check every sector.")
]
IO_LOG = Annotated[
    bool, typer.Option("--io-log", help="Log every I/O, as Parquet files in io-log/: 20 bytes or so for each.")
]
POWER = "Power meter: none, hwmon:NAME, hwmon:NAME/CHANNEL, or quarch:ADDRESS."


def run(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="TEST... TARGET",
            help=f"TEST: {', '.join(TESTS)}; or all. TARGET: sim:PRESET[?capacity=8GiB&seed=1], file:PATH?size=8GiB, "
            "or a block device. ITS DATA IS DESTROYED.",
        ),
    ],
    device_class: DEVICE_CLASS = DeviceClass.ENTERPRISE,
    out: Annotated[
        Path | None, typer.Option(help="Folder to make, of the run or of the campaign; default: runs/TEST-TARGET-TIME.")
    ] = None,
    consent: Annotated[
        str | None, typer.Option(metavar="SERIAL", help="Serial number of the drive whose data may be destroyed.")
    ] = None,
    consent_signatures: Annotated[bool, typer.Option("--consent-signatures", help=CONSENT_SIGNATURES)] = False,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="[TEST.]NAME=VALUE", help="Change a parameter; it is disclosed."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, max=2**64 - 1, help="Seed of the random LBAs; stored in the run.")
    ] = None,
    operator: Annotated[str | None, typer.Option(help="Test operator's name, for the report.")] = None,
    auditor: Annotated[str | None, typer.Option(help="Auditor's name, for the report.")] = None,
    sponsor: Annotated[str | None, typer.Option(help="Test sponsor, for the report.")] = None,
    keep_going: KEEP_GOING = False,
    purge: Annotated[str, typer.Option(metavar="METHOD", help=f"How to purge: {', '.join(NAMES)}.")] = AUTO,
    verify: VERIFY = False,
    io_log: IO_LOG = False,
    power: Annotated[str, typer.Option(metavar="SOURCE", help=POWER)] = NONE,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Tests at a time; more than one on a simulated drive only.")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line instead of a display.")] = False,
) -> None:
    """Run tests of the standard: purge, pre-condition, drive to steady state, measure, report.

    One test makes a run folder. Several, or all, make a campaign: a folder with a run folder for each test and a
    summary.
    """
    *tests, target = arguments
    if not tests:
        raise RequestError(f"{target}: both TEST and TARGET are needed, as in: flashgauge run iops sim:sata-enterprise")
    names = named_tests(tests)
    check_jobs(jobs, target)
    request = RunRequest(
        "",
        target,
        device_class,
        None,
        consent,
        consent_signatures,
        settings_of(setting or []),
        seed,
        operator=operator,
        auditor=auditor,
        sponsor=sponsor,
        stop_on_error=not keep_going,
        purge=purge,
        verify=verify,
        io_log=io_log,
        power=power,
    )
    campaign = Campaign(names, request, now_text())
    if len(names) == 1 and ALL not in tests:
        one = replace(request_for(campaign, Path(), names[0]), out=out)
        prepared = prepare(one)
        one = asked_consent(one, json)
        with steadfast(), observer_for(json) as observer:
            conduct(one, prepared, observer)
        return
    folder = out or default_folder("campaign", parse_target(target))
    with steadfast():
        run_campaign(campaign, folder, How(jobs, json))


def settings_of(texts: list[str]) -> dict[str, str]:
    """NAME=VALUE pairs of the command line. Raises RequestError."""
    settings = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise RequestError(f"--set {text}: write NAME=VALUE")
        if name in settings:
            raise RequestError(f"--set {name} is given twice")
        settings[name] = value
    return settings
