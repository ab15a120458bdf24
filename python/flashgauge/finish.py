"""What is written when a run has ended, or later from its folder: reports and data files; and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from flashgauge import report
from flashgauge.campaign import read_campaign, states


@dataclass(frozen=True)
class Formats:
    html: bool = True
    pdf: bool = True
    csv: bool = True
    data: bool = True


def write_reports(
    folder: Path,
    built: report.Report,
    formats: Formats = Formats(),
) -> list[Path]:
    """Write the reports of the run in `folder`; returns their paths. Raises RunFolderError, OSError."""
    written: list[Path] = []
    if formats.html:
        written.append(_whole(folder / "report.html", partial(report.write_html, built)))
    if formats.pdf:
        written.append(_whole(folder / "report.pdf", partial(report.write_pdf, built)))
    if formats.csv:
        report.write_csv(built, folder / "csv")
        written.append(folder / "csv")
    if formats.data:
        written.extend(report.write_data(folder))
    return written


def write_campaign_reports(folder: Path, built: report.Report, formats: Formats = Formats()) -> list[Path]:
    """Write the summary of the campaign in `folder`; the data files are in its run folders. Raises OSError."""
    return write_reports(folder, built, replace(formats, data=False))


def campaign_summary(folder: Path, built: report.Report) -> dict[str, Any]:
    """The campaign in a few machine-readable facts, with those of each test that has begun."""
    facts = summary(folder, built)
    campaign = read_campaign(folder)
    tests = {
        test: summary(folder / test, report.build(folder / test))
        for test, state in states(campaign, folder)
        if state != "waiting"
    }
    return {**facts, "test": list(campaign.tests), "tests": tests}


def _whole(path: Path, write: Callable[[Path], None]) -> Path:
    """Write a file beside `path` and put it in its place when it is whole; a full disk leaves nothing behind."""
    new = path.with_name(f".{path.name}.new")
    try:
        write(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path


def summary(folder: Path, built: report.Report) -> dict[str, Any]:
    """The run in a few machine-readable facts: state, verdicts, disclosures, what is missing."""
    return {
        "folder": str(folder),
        "test": built.test,
        "state": built.state,
        "target": built.target,
        "valid_pts_result": built.valid,
        "missing": built.missing,
        "steady": built.steady,
        "status": built.status,
        "disclosures": [item.to_json() for item in built.disclosures],
    }
