"""The summary of a campaign: every test's outcome on one page, then its verdicts and key numbers, from its folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from flashgauge import __version__
from flashgauge.campaign import Campaign, read_campaign, states
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.report.build import build
from flashgauge.report.formats import when
from flashgauge.report.header import build_header, common_items
from flashgauge.report.model import Column, Field, Report, Section, Table, TestPart
from flashgauge.runfolder import Run, RunFolderError, now_text, read_run
from flashgauge.spec.registry import TESTS

TITLE = "PTS Test Set - Summary"


def build_campaign(folder: Path, report_time: str | None = None) -> Report:
    """The summary of a campaign folder, finished or not. Raises RunFolderError, ReplayError."""
    report_time = report_time or now_text()
    campaign = read_campaign(folder)
    state_of = dict(states(campaign, folder))
    begun = [test for test, state in state_of.items() if state != "waiting"]
    if not begun:
        raise RunFolderError(f"{folder}: none of its tests has begun")
    reports = {test: build(folder / test, report_time) for test in begun}
    runs = {test: read_run(folder / test) for test in begun}
    first = _common(list(runs.values()))
    mixed = _mixed(runs)
    complete = all(test in reports and reports[test].complete for test in campaign.tests)
    valid = complete and not mixed and all(report.valid for report in reports.values())
    tests = _tests_table(campaign, state_of, reports, runs)
    part = TestPart(
        title=TITLE,
        status=_status(campaign, reports),
        set_up=(("Class", str(campaign.request.device_class)), ("Tests", ", ".join(campaign.tests).upper())),
        test_parameters=_parameters(campaign),
        summary=(tests,),
        main=tests,
        sections=(),
    )
    return Report(
        folder=folder.resolve().name,
        test="campaign",
        target=first.dut.target,
        state="complete" if complete else "incomplete",
        steady=None,
        header=build_header(first, "PTS Test Set", part, folder.resolve().name, report_time),
        status=part.status,
        valid=valid,
        complete=complete,
        missing=_missing(state_of, reports),
        disclosures=(*mixed, *_disclosures(reports, len(campaign.tests))),
        summary=part.summary,
        main=part.main,
        sections=(
            *(_section(test, report) for test, report in reports.items()),
            Section("common", "Common Report Items", "", "5", (common_items(first, report_time),), layout="flow"),
        ),
        generator=f"flashgauge {__version__}",
    )


def _common(runs: Sequence[Run]) -> Run:
    """What the header is made of: the first run, without what is not the same in all."""
    first = min(runs, key=lambda run: run.started)
    differs: dict[str, Any] = {
        name: "differs: see each test"
        for name in ("write_cache", "purge_method")
        if len({getattr(run, name) for run in runs}) > 1
    }
    ends = [run.finished for run in runs]
    last = max((end for end in ends if end is not None), default=None) if None not in ends else None
    return replace(first, finished=last, **differs)


def _mixed(runs: dict[str, Run]) -> tuple[Disclosure, ...]:
    """The tests are of one device, or the campaign is none."""
    devices: dict[tuple[Any, ...], list[str]] = {}
    for test, run in runs.items():
        dut = run.dut
        devices.setdefault((dut.model, dut.serial, dut.firmware, dut.capacity_bytes), []).append(test)
    if len(devices) == 1:
        return ()
    found = "; ".join(f"{', '.join(tests)}: {' '.join(map(str, device))} B" for device, tests in devices.items())
    message = f"the tests are not of one device ({found})"
    return (Disclosure(Kind.MIXED_DEVICES, "5.4", message, "run all tests on one device", invalidates=True),)


def _status(campaign: Campaign, reports: dict[str, Report]) -> str:
    done = sum(report.complete for report in reports.values())
    valid = sum(report.valid for report in reports.values())
    return f"{done} of {len(campaign.tests)} tests complete, {valid} valid as PTS results"


def _parameters(campaign: Campaign) -> tuple[Field, ...]:
    settings = campaign.request.settings
    return tuple(settings.items()) or (("Settings", "all as the standard says"),)


def _tests_table(
    campaign: Campaign, state_of: dict[str, str], reports: dict[str, Report], runs: dict[str, Run]
) -> Table:
    rows = []
    for test in campaign.tests:
        report, run = reports.get(test), runs.get(test)
        rows.append(
            (
                test.upper(),
                TESTS[test].section,
                state_of[test],
                ("yes" if report.valid else "NO") if report else None,
                len(report.disclosures) if report else None,
                when(run.started) if run else None,
                report.status if report else "not begun",
            )
        )
    return Table(
        title="Tests",
        columns=(
            Column("Test", "test"),
            Column("Clause", "clause"),
            Column("State", "state"),
            Column("Valid", "valid_pts_result"),
            Column("Disclosed", "disclosures", ",d"),
            Column("Begun", "started"),
            Column("Outcome", "outcome"),
        ),
        rows=tuple(rows),
        name="tests",
        notes=("Each test began with its own purge and has its own run folder and report.",),
    )


def _missing(state_of: dict[str, str], reports: dict[str, Report]) -> tuple[str, ...]:
    found = []
    for test, state in state_of.items():
        if state == "waiting":
            found.append(f"{test}: not begun")
        found += [f"{test}: {text}" for text in (reports[test].missing if test in reports else ())]
    return tuple(found)


def _disclosures(reports: dict[str, Report], every: int) -> tuple[Disclosure, ...]:
    """Each once, with the tests it is of."""
    tests: dict[Disclosure, list[str]] = {}
    for test, report in reports.items():
        for disclosure in report.disclosures:
            tests.setdefault(disclosure, []).append(test)
    return tuple(
        Disclosure(
            item.kind,
            item.clause,
            f"{'all tests' if len(names) == every else ', '.join(names)}: {item.message}",
            item.advice,
            item.invalidates,
        )
        for item, names in tests.items()
    )


def _section(test: str, report: Report) -> Section:
    """A test's verdicts and key numbers, and where its own report is."""
    items = report.summary or ((report.main,) if report.main else ())
    links = (("report (HTML)", f"{test}/report.html"), ("report (PDF)", f"{test}/report.pdf"))
    notes = (report.status[0].upper() + report.status[1:] + ".",)
    return Section(f"test-{test}", report.header.title, "", TESTS[test].section, items, notes, "stack", None, links)
