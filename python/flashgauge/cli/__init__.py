"""The command line: one file per command, no logic. Errors become one line and an exit code in `main`.

Exit codes: 0 done; 1 the device or the run failed; 2 wrong input; 130 interrupted by Ctrl-C.
"""

from __future__ import annotations

import sys

import typer

import flashgauge
from flashgauge._core import TargetError
from flashgauge.cli import report, run, show
from flashgauge.execute import RequestError
from flashgauge.report.replay import ReplayError
from flashgauge.runfolder import RunFolderError

INTERRUPTED = 130
INTERRUPTED_TEXT = "interrupted; what was measured is in the run folder (see: flashgauge show, flashgauge report)"

app = typer.Typer(
    name="flashgauge",
    help="Measure solid state storage by the SNIA Performance Test Specification, on a real or a simulated drive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("show")(show.show)


@app.callback(invoke_without_command=True)
def version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(f"flashgauge {flashgauge.__version__} (SNIA PTS {flashgauge.PTS_VERSION})")
        raise typer.Exit


def main() -> None:
    """The `flashgauge` program."""
    sys.exit(_guarded())


def _guarded() -> int:
    try:
        # typer turns Ctrl-C into the exit code 130, and returns the code of every early exit.
        if (code := app(standalone_mode=False)) == INTERRUPTED:
            return _say(INTERRUPTED_TEXT, INTERRUPTED)
        return code or 0
    except (RequestError, TargetError, RunFolderError, ReplayError) as error:
        return _say(str(error), 2)
    except typer.Exit as leave:
        return leave.exit_code
    except KeyboardInterrupt:
        return _say(
            "interrupted; what was measured is in the run folder (see: flashgauge show, flashgauge report)", 130
        )
    except OSError as error:
        return _say(error.strerror and f"{error.strerror}{f': {error.filename}' if error.filename else ''}", 1, error)
    except RuntimeError as error:
        return _say(str(error), 1)
    except Exception as error:
        if (shown := _usage_error(error)) is not None:
            # Without arguments there is no message: the help has been printed.
            return _say(shown, 2) if shown else 2
        raise


def _usage_error(error: Exception) -> str | None:
    """The message of a wrong command line (typer raises click's exceptions)."""
    message = getattr(error, "format_message", None)
    return (message() or "") if callable(message) else None


def _say(message: str | None, code: int, error: Exception | None = None) -> int:
    text = " ".join((message or str(error)).split())
    print(f"flashgauge: {text}", file=sys.stderr)
    return code
