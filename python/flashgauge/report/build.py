"""From a run folder to a `Report`. A test's own part is made by `report/<test>.py`, function `<test>_part`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import cast

from flashgauge import __version__, hostlimit
from flashgauge.disclosure import Disclosure, Kind, is_valid_pts_result
from flashgauge.report.compliance import compliance_section
from flashgauge.report.conditions import conditions_section
from flashgauge.report.details import details_section
from flashgauge.report.header import build_header
from flashgauge.report.model import Report, TestPart
from flashgauge.report.replay import Replay, replay
from flashgauge.runfolder import Run, now_text, read_journal, read_run


def part_of(test: str) -> Callable[[Run, Replay], TestPart]:
    """The function that makes the test's part of a report; imported when it is needed."""
    return cast(Callable[[Run, Replay], TestPart], getattr(import_module(f"flashgauge.report.{test}"), f"{test}_part"))


def build(folder: Path, report_time: str | None = None) -> Report:
    """The report of a run folder, finished or not. `report_time`: ISO 8601, now by default.

    Raises RunFolderError (unreadable) or ReplayError (the journal is not of the test that run.json names).
    """
    report_time = report_time or now_text()
    run = read_run(folder)
    entries, torn = read_journal(folder)
    replayed = replay(run, entries, torn)
    part = part_of(run.test)(run, replayed)
    disclosures = (*run.disclosures, *_found(run, replayed, torn))
    complete = replayed.outcome is not None and run.state == "complete"
    return Report(
        folder=folder.resolve().name,
        test=run.test,
        target=run.dut.target,
        state=run.state,
        steady=None if replayed.outcome is None else replayed.outcome.steady,
        header=build_header(run, f"{replayed.test.title} Test", part, folder.resolve().name, report_time),
        status=part.status,
        valid=complete and is_valid_pts_result(disclosures),
        complete=complete,
        missing=replayed.missing,
        disclosures=disclosures,
        summary=part.summary,
        main=part.main,
        sections=(
            *part.sections,
            conditions_section(run, replayed),
            compliance_section(run, replayed, disclosures),
            details_section(run, replayed, part, report_time),
        ),
        generator=f"flashgauge {__version__}",
    )


def _found(run: Run, replayed: Replay, torn: bool) -> list[Disclosure]:
    """Departures the folder shows but a run that died could not write down itself."""
    told = {disclosure.kind for disclosure in run.disclosures}
    found = [disclosure for disclosure in replayed.disclosed if disclosure not in run.disclosures]
    again = f"run again: flashgauge run {run.test} {run.dut.target}"
    if replayed.outcome is None and Kind.INTERRUPTED not in told:
        found.append(Disclosure(Kind.INTERRUPTED, "4", replayed.missing[0], again, invalidates=True))
    if replayed.outcome is not None and run.state != "complete":
        message = f"every step is in the journal, but run.json says {run.state!r}: the checks at the end may be missing"
        found.append(Disclosure(Kind.DATA_MISSING, "5", message, again, invalidates=True))
    if Kind.HOST_LIMITED not in told and run.state != "complete":
        tally = hostlimit.Tally()
        for entry in replayed.entries:
            if entry.kind == "measure":
                tally.add(entry.label, entry.measurement)
        found += [tally.disclosure] if tally.disclosure is not None else []
    if torn and Kind.DATA_MISSING not in told:
        message = "the journal's last line was torn; the step it held is not used"
        found.append(Disclosure(Kind.DATA_MISSING, "5", message, "nothing to do: all earlier steps are whole"))
    return found
