"""Shortened runs in the emulated machine, and what must be true of every one that was cut off."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from conftest import run_cli, run_json
from flashgauge.runfolder import Entry, read_journal
from machine.channel import MachineError
from machine.qemu import Machine

# Every step of the IOPS test in little time under emulation: 3 x 3 test points, and rounds enough for a window.
POINTS, ROUNDS = 9, 5
COMMON = {
    "point_s": "0.02",
    "wipc_capacities": "0.1",
    "max_rounds": str(ROUNDS),
    "thread_count": "1",
    "queue_depth": "4",
    "block_sizes_kib": "1024,64,4",
    "read_percents": "100,65,0",
}


def settings(**values: str) -> tuple[str, ...]:
    return tuple(part for name, value in (COMMON | values).items() for part in ("--set", f"{name}={value}"))


SHORT = settings()


def wait_until(what: str, true: Callable[[], bool], seconds: float = 120) -> None:
    until_s = time.monotonic() + seconds
    while not true():
        if time.monotonic() > until_s:
            raise MachineError(f"{what}: not after {seconds:g} s")
        time.sleep(0.1)


def journal_lines(folder: Path) -> int:
    file = folder / "journal.jsonl"
    return file.read_bytes().count(b"\n") if file.exists() else 0


def cut_off(folder: Path, state: str, at_least: int) -> list[Entry]:
    """The journal of a run that did not finish: whole, with what was measured, and good for a report."""
    assert run_json(folder)["state"] == state
    entries, torn = read_journal(folder)
    assert not torn
    assert len(entries) >= at_least
    result = run_cli(folder.parent, "report", "--html", folder)
    assert result.returncode == 0, result.stderr
    shown = run_cli(folder.parent, "show", folder)
    assert shown.returncode == 0, shown.stderr
    assert "INVALID AS A PTS RESULT" in shown.stdout
    return entries


def writes(machine: Machine) -> dict[str, tuple[int, int]]:
    """KiB written to each disk, and how often it was discarded: Documentation/admin-guide/iostats.rst, fields 7, 12."""
    lines = [line.split() for line in machine.sh("sync; grep . /sys/block/*/stat").splitlines()]
    return {fields[0].split("/")[3]: (int(fields[7]) // 2, int(fields[12])) for fields in lines}


_TYPED = """
import os, pty, sys
child, terminal = pty.fork()
if child == 0:
    code = 1
    try:
        code = sys.modules["__main__"].run(ARGUMENTS)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
text = b""
def more():
    global text
    try:
        data = os.read(terminal, 65536)
    except OSError:  # the program has ended
        data = b""
    text += data
    return data
while b"anything else to leave: " not in text and more():
    pass
os.write(terminal, ANSWER.encode() + b"\\n")
while more():
    pass
print(text.decode(errors="replace"))
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def typed(machine: Machine, answer: str, *arguments: str) -> tuple[int, str]:
    """Exit code of a run at a terminal of its own, at which `answer` is typed to the question, and all it showed."""
    constants = f"ARGUMENTS, ANSWER = {['flashgauge', *arguments]!r}, {answer!r}"
    started = machine.start("python", f"{constants}\n{_TYPED}", environment={"WITHOUT_REPORTS": "1"})
    result = started.wait()
    return result.returncode, result.stdout.replace("\r\n", "\n") + result.stderr
