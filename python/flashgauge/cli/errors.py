"""Errors as one line and an exit code: 0 done; 1 the device or the run failed; 2 wrong input; 130 Ctrl-C."""

from __future__ import annotations

import typer

from flashgauge._core import TargetError
from flashgauge.execute import RequestError
from flashgauge.report.replay import ReplayError
from flashgauge.runfolder import RunFolderError

FAILED = 1
WRONG_INPUT = 2
INTERRUPTED = 130
INTERRUPTED_TEXT = "interrupted; anything measured is in the run folder (see: flashgauge show, flashgauge report)"


def outcome_of(error: BaseException) -> tuple[str, int] | None:
    """The message and the exit code of an error that is to be expected; None for a bug. An empty message: nothing
    more is to be said."""
    match error:
        case RequestError() | TargetError() | RunFolderError() | ReplayError():
            return _line(str(error)), WRONG_INPUT
        case typer.Exit():
            return "", error.exit_code
        case KeyboardInterrupt():
            return INTERRUPTED_TEXT, INTERRUPTED
        case OSError():
            known = error.strerror and f"{error.strerror}{f': {error.filename}' if error.filename else ''}"
            return _line(known or str(error)), FAILED
        case RuntimeError():
            return _line(str(error)), FAILED
    # A wrong command line: typer raises click's exceptions; without arguments it has printed the help already.
    message = getattr(error, "format_message", None)
    return (_line(message() or ""), WRONG_INPUT) if callable(message) else None


def _line(text: str) -> str:
    return " ".join(text.split())
