"""Running a campaign's tests from the command line, first or again; shared by `run` and `resume`."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from flashgauge.campaign import Campaign, check_same, create, locked, put_aside, request_for, states, unfinished
from flashgauge.cli.campaign_display import ParallelDisplay, forecast_table
from flashgauge.cli.consent import asked_consent
from flashgauge.cli.errors import outcome_of
from flashgauge.cli.jobs import run_parallel
from flashgauge.cli.json_lines import JsonObserver, print_line
from flashgauge.cli.live import TerminalObserver
from flashgauge.cli.progress import CliObserver, QuietOnFailure
from flashgauge.conduct import conduct
from flashgauge.execute import Prepared, RequestError, RunRequest, check_folder, prepare, survey
from flashgauge.finish import campaign_summary, write_campaign_reports, write_reports
from flashgauge.report.build import build
from flashgauge.report.campaign import build_campaign
from flashgauge.rig.open import capacity_bytes
from flashgauge.rig.target import parse_target
from flashgauge.spec.forecast import Remaining, bounds


@dataclass(frozen=True)
class How:
    """`jobs`: tests at a time. `json`: JSON lines instead of a display."""

    jobs: int
    json: bool


def observer_for(json_lines: bool, test: str | None = None) -> CliObserver:
    """The display of one run; `test` is named in each JSON line of a campaign."""
    if json_lines:
        return QuietOnFailure(JsonObserver(print_line if test is None else partial(_tagged, test)))
    return QuietOnFailure(TerminalObserver(Console()))


def _tagged(test: str, event: dict[str, Any]) -> None:
    print_line({"test": test, **event})


def check_jobs(jobs: int, target: str) -> None:
    """Raises RequestError."""
    if jobs > 1 and parse_target(target).kind != "sim":
        raise RequestError(
            f"--jobs {jobs}: {target} is one device, and tests at the same time would disturb each other"
        )


def run_campaign(campaign: Campaign, folder: Path, how: How, *, again: bool = False) -> None:
    """Run what is not complete, then write the summary. `again`: the folder is there already.

    Raises what a test raises; typer.Exit when one has failed.
    """
    check_jobs(how.jobs, campaign.request.target)
    with ExitStack() as stack:
        if again:
            stack.enter_context(locked(folder))
        else:
            check_folder(folder)
        requests = {test: request_for(campaign, folder, test) for test in unfinished(campaign, folder)}
        # All of it, before the first test begins: what is wrong must not show up after a day.
        prepared = {test: prepare(request, fresh=not again) for test, request in requests.items()}
        if prepared:
            request = asked_consent(campaign.request, how.json, tests=len(campaign.tests))
            dut, identity = survey(list(prepared.values()), request)
            check_same(campaign, folder, dut, identity)
            # Each test opens the device anew: it has to be the one that was consented to and looked at now.
            requests = {test: replace(one, consent=request.consent, seen=identity) for test, one in requests.items()}
        forecasts = _forecasts(campaign, prepared)
        if not again:
            create(folder, campaign)
            stack.enter_context(locked(folder))
        _announce(campaign, folder, forecasts, how)
        _complete_reports(campaign, folder)
        failures: dict[str, tuple[str, int]] = {}
        try:
            if how.jobs > 1:
                failures = _parallel(_longest_first(requests, forecasts), folder, how)
            else:
                failures = _sequential(requests, prepared, folder, how)
        except OSError:
            with contextlib.suppress(OSError, ValueError):
                _finish(folder, how)
            raise
        _finish(folder, how)
    if failures:
        raise typer.Exit(max(code for _, code in failures.values()))


def _announce(campaign: Campaign, folder: Path, forecasts: Mapping[str, tuple[Remaining, Remaining]], how: How) -> None:
    if how.json:
        told = {test: {"least_s": least.seconds, "most_s": most.seconds} for test, (least, most) in forecasts.items()}
        print_line({"event": "campaign", "folder": str(folder), "tests": told})
        return
    console = Console()
    console.print(f"[bold]{len(forecasts)} tests[/] on {campaign.request.target}, in {folder}", highlight=False)
    if forecasts:
        console.print(forecast_table(forecasts), highlight=False)


def _complete_reports(campaign: Campaign, folder: Path) -> None:
    """A test that was cut off while its reports were written is complete all the same; they are not."""
    for test, state in states(campaign, folder):
        if state == "complete" and not (folder / test / "histograms.hlog").exists():
            write_reports(folder / test, build(folder / test))


def _forecasts(campaign: Campaign, prepared: Mapping[str, Prepared]) -> dict[str, tuple[Remaining, Remaining]]:
    capacity = capacity_bytes(parse_target(campaign.request.target))
    return {test: bounds(partial(item.test.spec, item.parameters, capacity)) for test, item in prepared.items()}


def _longest_first(
    requests: Mapping[str, RunRequest], forecasts: Mapping[str, tuple[Remaining, Remaining]]
) -> dict[str, RunRequest]:
    """So that no long test is left for the end, when the other processes have nothing to do."""
    return {test: requests[test] for test in sorted(requests, key=lambda test: -forecasts[test][0].seconds)}


def _parallel(requests: Mapping[str, RunRequest], folder: Path, how: How) -> dict[str, tuple[str, int]]:
    before = partial(put_aside, folder)
    if how.json:
        results = run_parallel(requests, how.jobs, _tagged, before)
    else:
        with ParallelDisplay(Console(), list(requests)) as display:
            results = run_parallel(requests, how.jobs, display.told, before)
    return {test: result for test, result in results.items() if result[1]}


def _sequential(
    requests: Mapping[str, RunRequest], prepared: Mapping[str, Prepared], folder: Path, how: How
) -> dict[str, tuple[str, int]]:
    failures = {}
    for number, (test, request) in enumerate(requests.items(), 1):
        if not how.json:
            Console().rule(f"{number} of {len(requests)}: {test}", align="left")
        put_aside(folder, test)
        with observer_for(how.json, test) as observer:
            try:
                conduct(request, prepared[test], observer)
            except ValueError as error:
                # This test cannot begin, or its report not be made: that says nothing of the next.
                outcome = outcome_of(error)
                if outcome is None:
                    raise
                print(f"flashgauge: {test}: {outcome[0]}", file=sys.stderr)
                failures[test] = outcome
    return failures


def _finish(folder: Path, how: How) -> None:
    built = build_campaign(folder)
    paths = write_campaign_reports(folder, built)
    facts = campaign_summary(folder, built)
    if how.json:
        print_line({"event": "campaign_result", **facts, "reports": [str(path) for path in paths]})
        return
    console = Console()
    console.print(built.status)
    for path in (folder, *paths):
        console.print(str(path), highlight=False, soft_wrap=True)
