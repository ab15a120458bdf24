"""The program inside the emulated machine: runs what it is asked to, and answers with exit code and output.

Started by the init script as `python guest.py`, with the host's root in place. One JSON object a line, through a port
of the virtio console:

    asked     {"id", "argv", "cwd", "seconds", "environment"}    run it; killed when `seconds` have passed
              {"id", "signal"}                                   send a signal to the running command of that id
    answered  {"id", "code", "out", "err"}                       code < 0: ended by that signal

`flashgauge` is run in a fork of this process, which has imported it: under emulation a new interpreter takes five
seconds to do that. With WITHOUT_REPORTS in the environment a run writes none. `python CODE` runs in a fork too.
Everything else, also a full path to flashgauge, is run as a program.
"""

from __future__ import annotations

import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import flashgauge.cli
import flashgauge.conduct

PORT_NAME = "flashgauge"
OUTPUT = Path("/run/output")
FORKED = ("flashgauge", "python")
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "LC_ALL": "C.UTF-8",
    "COLUMNS": "400",  # no message is cut by a line break
    "NO_COLOR": "1",
    "TERM": "dumb",
}


@dataclass
class Running:
    number: int
    process: int
    until_s: float
    files: tuple[Path, Path]


class Server:
    """One thread, so that a fork of it is whole."""

    def __init__(self, port: BinaryIO) -> None:
        self._port = port
        self._unread = b""
        self._running: dict[int, Running] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(port, selectors.EVENT_READ)

    def serve(self) -> None:
        self._answer({"id": 0, "code": 0, "out": Path("/proc/uptime").read_text().split()[0], "err": ""})
        while True:
            for key, _ in self._selector.select(timeout=1.0):
                if key.data is None:
                    self._receive()
                else:
                    self._ended(key.fd, key.data)
            for running in self._running.values():
                if time.monotonic() > running.until_s:
                    os.killpg(running.process, signal.SIGKILL)

    def _receive(self) -> None:
        data = os.read(self._port.fileno(), 65536)
        if not data:  # the host is not connected
            time.sleep(0.1)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            asked = json.loads(line)
            if "signal" in asked:
                running = self._running.get(asked["id"])
                if running is not None:
                    os.killpg(running.process, asked["signal"])
            else:
                self._start(asked)

    def _start(self, asked: dict[str, Any]) -> None:
        OUTPUT.mkdir(exist_ok=True)
        number = asked["id"]
        files = (OUTPUT / f"{number}.out", OUTPUT / f"{number}.err")
        process = _forked(asked, files) if asked["argv"][0] in FORKED else _spawned(asked, files)
        if process is None:
            self._answer({"id": number, "code": 127, "out": "", "err": f"{asked['argv'][0]}: not found"})
            return
        running = Running(number, process, time.monotonic() + asked["seconds"], files)
        self._running[number] = running
        self._selector.register(os.pidfd_open(process), selectors.EVENT_READ, running)

    def _ended(self, descriptor: int, running: Running) -> None:
        self._selector.unregister(descriptor)
        os.close(descriptor)
        _, status = os.waitpid(running.process, 0)
        del self._running[running.number]
        out, err = (file.read_text(errors="replace") for file in running.files)
        code = os.waitstatus_to_exitcode(status)
        self._answer({"id": running.number, "code": code, "out": out, "err": err})
        for file in running.files:
            file.unlink()

    def _answer(self, answer: dict[str, Any]) -> None:
        data = json.dumps(answer).encode() + b"\n"
        while data:
            data = data[os.write(self._port.fileno(), data) :]


def _spawned(asked: dict[str, Any], files: tuple[Path, Path]) -> int | None:
    """A program, whose pages need not be copied from here; None when there is none of that name."""
    environment = {**os.environ, **asked["environment"]}
    with files[0].open("wb") as out, files[1].open("wb") as err:
        output = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err}
        try:
            return subprocess.Popen(
                asked["argv"], cwd=asked["cwd"], env=environment, start_new_session=True, **output
            ).pid
        except FileNotFoundError:
            return None


def _forked(asked: dict[str, Any], files: tuple[Path, Path]) -> int:
    process = os.fork()
    if process:
        return process
    code = 1
    try:
        os.setsid()
        for target, source in enumerate((os.open("/dev/null", os.O_RDONLY), *map(_writable, files))):
            os.dup2(source, target)
        os.chdir(asked["cwd"])
        os.environ.update(asked["environment"])
        code = run(asked["argv"])
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _writable(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)


def run(argv: list[str]) -> int:
    """flashgauge, or some python code, in this process; returns its exit code."""
    if argv[0] == "python":
        try:
            exec(compile(argv[1], "asked", "exec"), {"__name__": "asked"})
        except SystemExit as end:
            return int(end.code or 0)
        return 0
    sys.argv = argv
    if "WITHOUT_REPORTS" in os.environ:
        flashgauge.conduct.write_reports = lambda *_: []
    try:
        flashgauge.cli.main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0


def port_path() -> Path:
    for name in Path("/sys/class/virtio-ports").glob("*/name"):
        if name.read_text().strip() == PORT_NAME:
            return Path("/dev") / name.parent.name
    raise FileNotFoundError(PORT_NAME)


def main() -> None:
    os.environ.clear()
    os.environ.update(ENVIRONMENT, MPLCONFIGDIR=str(Path(__file__).parents[2] / ".cache/machine/matplotlib"))
    # What the tests' drives need; a drive that is added later finds its driver loaded.
    drivers = ["nvme", "ahci", "sd_mod", "virtio_scsi", "ext4", "dm_mod"]
    subprocess.run(["modprobe", "--all", *drivers], check=True)
    gc.freeze()  # else the first collection in each fork would copy every page
    with port_path().open("r+b", buffering=0) as port:
        Server(port).serve()


if __name__ == "__main__":
    main()
