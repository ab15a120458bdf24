"""External programs: where they are, which version, and one way to run them.

Found on PATH, then in the folders for system programs, which a user's PATH often lacks. Never run through a shell;
always in the C locale, so that their words can be read, and always with a limit on their time. They run in a session
of their own: a Ctrl-C in the terminal is for the run, which decides what becomes of a command under way.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO

from flashgauge._core import DeviceError

SYSTEM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")

# Tool -> the package it comes in, under the name most distributions give it.
PACKAGES = {
    "nvme": "nvme-cli",
    "hdparm": "hdparm",
    "sg_format": "sg3-utils",
    "sg_modes": "sg3-utils",
    "sg_opcodes": "sg3-utils",
    "sg_requests": "sg3-utils",
    "sg_sanitize": "sg3-utils",
    "sg_wr_mode": "sg3-utils",
    "smartctl": "smartmontools",
}
_VERSION_OPTION = {"nvme": "version", "smartctl": "--version"}  # the others take -V

QUERY_S = 30.0  # a question to a drive; the kernel's own limit for most commands is as long
_GIVE_UP_S = 2.0  # a killed program that waits for a drive does not end before the drive answers
_LOOK_S = 0.05


@dataclass(frozen=True)
class Output:
    """How a program ended. `code`: its exit status, negative for a signal. `raw`: its standard output."""

    code: int
    raw: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.raw.decode(errors="replace")

    @property
    def complaint(self) -> str:
        """What it said of a failure, in one line: the beginning of standard error, else the end of standard output."""
        errors = [line.strip() for line in self.errors.splitlines() if line.strip()]
        said = [line.strip() for line in self.text.splitlines() if line.strip()]
        return "; ".join(errors[:2]) if errors else said[-1] if said else f"exit status {self.code}"


def find(tool: str) -> str | None:
    """The program's path; None when it is not installed."""
    return shutil.which(tool, path=os.pathsep.join((os.environ.get("PATH", os.defpath), *SYSTEM_FOLDERS)))


def missing(*tools: str) -> str | None:
    """Which of `tools` is not installed, with the package to install; None when all are there."""
    absent = [tool for tool in tools if find(tool) is None]
    return f"{absent[0]} is not installed: install the package {PACKAGES[absent[0]]}" if absent else None


def version(tool: str) -> str | None:
    """The version the program gives itself; None when it is not installed or says none."""
    if find(tool) is None:
        return None
    output = run(tool, _VERSION_OPTION.get(tool, "-V"))
    found = re.search(r"\d+(?:\.\d+)+", output.text + output.errors)
    return found[0] if found else None


class Command:
    """A program under way. It goes on when its run ends: a drive does not stop either."""

    def __init__(self, tool: str, *arguments: str, keep: int | None = None) -> None:
        """`keep`: a descriptor that the program keeps open to its end: whoever waits for that sees when it has ended.
        Raises DeviceError when the program is missing or cannot be started."""
        self._name = tool
        path = find(tool)
        if path is None:
            raise DeviceError(errno.ENOENT, missing(tool))
        # Files and not pipes: a program that outlives us must not fail because nobody reads what it says.
        self._out: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `_output`
        self._err: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        try:
            self._process = subprocess.Popen(
                [path, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=self._out,
                stderr=self._err,
                env={**os.environ, "LC_ALL": "C"},
                start_new_session=True,
                pass_fds=() if keep is None else (keep,),
            )
        except OSError as error:
            raise DeviceError(error.errno, f"{tool} cannot be run: {error.strerror}") from error

    def wait(self, limit_s: float, tick: Callable[[float], None] = lambda elapsed_s: None) -> Output:
        """Wait for its end; `tick` is told the elapsed seconds, about once a second.

        Raises DeviceError after `limit_s`; the program is then still under way (see `stop`).
        """
        began_s = told_s = time.monotonic()
        while True:
            try:
                self._process.wait(_LOOK_S)
                return self._output()
            except subprocess.TimeoutExpired:
                pass
            now_s = time.monotonic()
            if now_s - told_s >= 1.0:
                told_s = now_s
                tick(now_s - began_s)
            if now_s - began_s > limit_s:
                raise DeviceError(
                    errno.ETIMEDOUT,
                    f"{self._name}: no answer within {limit_s:g} s; see the kernel log, and power-cycle the drive",
                )

    def stop(self) -> None:
        """Kill it. What it has asked of the drive the drive does all the same."""
        self._process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_GIVE_UP_S)

    def _output(self) -> Output:
        texts = []
        for file in (self._out, self._err):
            file.seek(0)
            texts.append(file.read())
            file.close()
        return Output(self._process.returncode, texts[0], texts[1].decode(errors="replace"))


def run(tool: str, *arguments: str, limit_s: float = QUERY_S, keep: int | None = None) -> Output:
    """Run a program to its end. `keep`: as of `Command`. Raises DeviceError when it is missing or takes longer than
    `limit_s`."""
    command = Command(tool, *arguments, keep=keep)
    try:
        return command.wait(limit_s)
    except BaseException:
        command.stop()
        raise


def done(output: Output, context: str) -> Output:
    """The output of a program that succeeded. Raises DeviceError with `context` and its complaint otherwise."""
    if output.code != 0:
        raise DeviceError(errno.EIO, f"{context}: {output.complaint}")
    return output
