"""What is written when a run has ended, or later from its folder: reports and data files; and its summary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from flashgauge import report
from flashgauge.disclosure import is_valid_pts_result
from flashgauge.report.replay import replay
from flashgauge.runfolder import read_journal, read_run


@dataclass(frozen=True)
class Formats:
    html: bool = True
    pdf: bool = True
    csv: bool = True
    data: bool = True


def write_reports(folder: Path, formats: Formats = Formats()) -> list[Path]:
    """Write the reports; returns their paths. Raises RunFolderError, OSError."""
    built = report.build(folder)
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


def _whole(path: Path, write: Callable[[Path], None]) -> Path:
    """Write a file beside `path` and put it in its place when it is whole; a full disk leaves nothing behind."""
    new = path.with_name(f".{path.name}.new")
    try:
        write(new)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)
    return path


def summary(folder: Path) -> dict[str, Any]:
    """The run in a few machine-readable facts: state, verdicts, disclosures, what is missing."""
    run = read_run(folder)
    entries, torn = read_journal(folder)
    replayed = replay(run, entries, torn)
    disclosures = list(report.build(folder).disclosures)
    return {
        "folder": str(folder),
        "test": run.test,
        "state": run.state,
        "target": run.dut.target,
        "valid_pts_result": replayed.outcome is not None and is_valid_pts_result(disclosures),
        "missing": replayed.missing,
        "steady": replayed.outcome.steady if replayed.outcome is not None else None,
        "disclosures": [item.to_json() for item in disclosures],
    }
