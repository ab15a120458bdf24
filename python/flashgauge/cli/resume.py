"""`flashgauge resume`: go on with a campaign that was cut off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from flashgauge.campaign import read_campaign
from flashgauge.cli.campaign import How, run_campaign
from flashgauge.cli.consent import CONSENT_SIGNATURES
from flashgauge.cli.signals import steadfast


def resume(
    folder: Annotated[Path, typer.Argument(metavar="CAMPAIGN", help="A campaign folder.")],
    consent: Annotated[
        str | None, typer.Option(metavar="SERIAL", help="Serial number of the drive whose data may be destroyed.")
    ] = None,
    consent_signatures: Annotated[bool, typer.Option("--consent-signatures", help=CONSENT_SIGNATURES)] = False,
    purge: Annotated[
        str | None, typer.Option(metavar="METHOD", help="How to purge from here on; default: as the campaign began.")
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, max=64, help="Tests at a time; more than one on a simulated drive only.")
    ] = 1,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line instead of a display.")] = False,
) -> None:
    """Run the tests of a campaign that are not complete.

    Complete tests are kept. A test that was cut off begins again from its purge: its steps must not be interrupted
    (clause 4). What it had measured stays beside, in TEST.ended-1.
    """
    campaign = read_campaign(folder)
    method = purge if purge is not None else campaign.request.purge
    consented = replace(campaign.request, consent=consent, consent_signatures=consent_signatures)
    campaign = replace(campaign, request=replace(consented, purge=method))
    with steadfast():
        run_campaign(campaign, folder, How(jobs, json), again=True)
