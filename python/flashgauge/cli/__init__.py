"""The command line: one file per command, no logic. Errors become one line and an exit code in `main`.

Exit codes are in `errors`.
"""

from __future__ import annotations

import signal
import sys

import typer

import flashgauge
from flashgauge.cli import ceiling, clauses, devices, doctor, export_fio, report, resume, run, show, sim, verify
from flashgauge.cli.errors import INTERRUPTED, INTERRUPTED_TEXT, outcome_of

app = typer.Typer(
    name="flashgauge",
    help="Measure solid state storage by the SNIA Performance Test Specification, on a real or a simulated drive.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("run")(run.run)
app.command("report")(report.report)
app.command("resume")(resume.resume)
app.command("show")(show.show)
app.command("devices")(devices.devices)
app.command("doctor")(doctor.doctor)
app.command("ceiling")(ceiling.ceiling)
app.command("export-fio")(export_fio.export_fio)
app.command("verify")(verify.verify)
app.command("clauses")(clauses.clauses)
app.add_typer(sim.app, name="sim")


@app.callback(invoke_without_command=True)
def version(version: bool = typer.Option(False, "--version", help="Print the version and exit.")) -> None:
    if version:
        print(f"flashgauge {flashgauge.__version__} (SNIA PTS {flashgauge.PTS_VERSION})")
        raise typer.Exit


def main() -> None:
    """The `flashgauge` program."""
    sys.exit(_guarded())


def _guarded() -> int:
    # polars, imported by now, has what waits for a terminal or another program go on waiting after Ctrl-C.
    signal.siginterrupt(signal.SIGINT, True)
    try:
        # typer turns Ctrl-C into the exit code 130, and returns the code of every early exit.
        code: int | None = app(standalone_mode=False)
        return _say(INTERRUPTED_TEXT, INTERRUPTED) if code == INTERRUPTED else code or 0
    except BaseException as error:
        outcome = outcome_of(error)
        if outcome is None:
            raise
        return _say(*outcome)


def _say(message: str, code: int) -> int:
    if message:
        print(f"flashgauge: {message}", file=sys.stderr)
    return code
