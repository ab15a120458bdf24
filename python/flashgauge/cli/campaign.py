"""Running a campaign's tests from the command line, first or again; shared by `run` and `resume`."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import typer
from rich.console import Console

from flashgauge.campaign import Campaign, request_for, unfinished
from flashgauge.cli.campaign_display import ParallelDisplay, forecast_table
from flashgauge.cli.jobs import run_parallel
from flashgauge.cli.json_lines import JsonObserver, print_line
from flashgauge.cli.live import TerminalObserver
from flashgauge.cli.progress import CliObserver, QuietOnFailure
from flashgauge.conduct import conduct
from flashgauge.execute import Prepared, RequestError, RunRequest, prepare
from flashgauge.finish import campaign_summary, write_campaign_reports
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


def consented(request: RunRequest) -> RunRequest:
    """A file that does not exist yet needs no consent for the first test, nor then for what that leaves to the next."""
    target = parse_target(request.target)
    if target.kind == "file" and request.consent is None and not os.path.exists(target.path):
        return replace(request, consent=os.path.basename(os.path.realpath(target.path)))
    return request


def run_campaign(campaign: Campaign, folder: Path, how: How, begin: Callable[[], None] = lambda: None) -> None:
    """Run what is not complete, then write the summary. `begin`: called when all has been checked.

    Raises what a test raises; typer.Exit when one has failed.
    """
    check_jobs(how.jobs, campaign.request.target)
    requests = {test: request_for(campaign, folder, test) for test in unfinished(campaign, folder)}
    # All of them, before the first one begins: a wrong setting must not show up after a day.
    prepared = {test: prepare(request) for test, request in requests.items()}
    forecasts = _forecasts(campaign, prepared)
    begin()
    if how.json:
        told = {test: {"least_s": least.seconds, "most_s": most.seconds} for test, (least, most) in forecasts.items()}
        print_line({"event": "campaign", "folder": str(folder), "tests": told})
    else:
        console = Console()
        console.print(f"[bold]{len(requests)} tests[/] on {campaign.request.target}, in {folder}", highlight=False)
        console.print(forecast_table(forecasts), highlight=False)
    failures: dict[str, tuple[str, int]] = {}
    try:
        if how.jobs > 1:
            failures = _parallel(_longest_first(requests, forecasts), how)
        else:
            _sequential(requests, prepared, how)
    except OSError:
        _finish(folder, how)
        raise
    _finish(folder, how)
    if failures:
        raise typer.Exit(max(code for _, code in failures.values()))


def _forecasts(campaign: Campaign, prepared: Mapping[str, Prepared]) -> dict[str, tuple[Remaining, Remaining]]:
    capacity = capacity_bytes(parse_target(campaign.request.target))
    return {test: bounds(partial(item.test.spec, item.parameters, capacity)) for test, item in prepared.items()}


def _longest_first(
    requests: Mapping[str, RunRequest], forecasts: Mapping[str, tuple[Remaining, Remaining]]
) -> dict[str, RunRequest]:
    """So that no long test is left for the end, when the other processes have nothing to do."""
    return {test: requests[test] for test in sorted(requests, key=lambda test: -forecasts[test][0].seconds)}


def _parallel(requests: Mapping[str, RunRequest], how: How) -> dict[str, tuple[str, int]]:
    if how.json:
        results = run_parallel(requests, how.jobs, _tagged)
    else:
        with ParallelDisplay(Console(), list(requests)) as display:
            results = run_parallel(requests, how.jobs, display.told)
    return {test: result for test, result in results.items() if result[1]}


def _sequential(requests: Mapping[str, RunRequest], prepared: Mapping[str, Prepared], how: How) -> None:
    for number, (test, request) in enumerate(requests.items(), 1):
        if not how.json:
            Console().rule(f"{number} of {len(requests)}: {test}", align="left")
        with observer_for(how.json, test) as observer:
            conduct(request, prepared[test], observer)


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
