"""One test from its checked request to its reports; what `flashgauge run` and a campaign both do."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any, Protocol

from flashgauge.execute import Prepared, RunObserver, RunRequest, execute
from flashgauge.finish import summary, write_reports
from flashgauge.report import build


class ConductObserver(RunObserver, Protocol):
    """An observer that is also told of the folder and of the reports."""

    def folder(self, path: Path) -> None: ...
    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None: ...


def conduct(request: RunRequest, prepared: Prepared, observer: ConductObserver) -> None:
    """Run the test and write its reports, also those of a run that a failing device cut short.

    Raises what `execute` raises.
    """
    observer.folder(prepared.folder)
    try:
        execute(request, prepared, observer)
    except OSError:
        # The device failed: what was measured until then is worth a report.
        with contextlib.suppress(OSError, ValueError):
            _report(prepared.folder, observer)
        raise
    _report(prepared.folder, observer)


def _report(folder: Path, observer: ConductObserver) -> None:
    built = build(folder)
    observer.reports(write_reports(folder, built), summary(folder, built))
