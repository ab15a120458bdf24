"""The host's end of the command channel: commands to the program in `guest`, and their answers."""

from __future__ import annotations

import itertools
import json
import socket
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Completed = subprocess.CompletedProcess[str]


class MachineError(RuntimeError):
    """The emulated machine did not do what it was asked in the time it had."""


def connect(path: Path, until_s: float) -> socket.socket:
    """A connection to the socket that QEMU makes at `path`; `until_s`: on time.monotonic()."""
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
            if time.monotonic() > until_s:
                raise MachineError(f"nothing listens at {path}") from None
            time.sleep(0.02)


class Lines:
    """JSON objects, one a line, over a socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._unread = b""

    def send(self, data: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(data).encode() + b"\n")

    def receive(self, until_s: float) -> dict[str, Any]:
        while b"\n" not in self._unread:
            self._socket.settimeout(max(until_s - time.monotonic(), 0.001))
            try:
                data = self._socket.recv(65536)
            except ConnectionError:
                data = b""
            except TimeoutError:
                raise MachineError("the emulated machine did not answer in time") from None
            if not data:
                raise MachineError("the emulated machine ended")
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def close(self) -> None:
        self._socket.close()


class Process:
    """A command that runs in the machine."""

    def __init__(self, channel: Channel, number: int, argv: list[str], seconds: float) -> None:
        self._channel = channel
        self._number = number
        self._argv = argv
        self._seconds = seconds

    def wait(self, seconds: float | None = None) -> Completed:
        """Its exit code and output. Raises MachineError when it has not ended in `seconds`."""
        answer = self._channel.answer(self._number, self._seconds if seconds is None else seconds)
        return Completed(self._argv, answer["code"], answer["out"], answer["err"])

    def signal(self, number: int) -> None:
        """Send a signal to it and to what it started."""
        self._channel.signal(self._number, number)


class Channel:
    def __init__(self, connection: socket.socket) -> None:
        self._lines = Lines(connection)
        self._numbers = itertools.count(1)
        self._answers: dict[int, dict[str, Any]] = {}

    def start(self, argv: list[str], cwd: str, seconds: float, environment: Mapping[str, str]) -> Process:
        number = next(self._numbers)
        asked = {"id": number, "argv": argv, "cwd": cwd, "seconds": seconds, "environment": dict(environment)}
        self._lines.send(asked)
        return Process(self, number, argv, seconds + 5)  # the machine ends it after `seconds`, and answers

    def signal(self, number: int, signal: int) -> None:
        self._lines.send({"id": number, "signal": signal})

    def answer(self, number: int, seconds: float) -> dict[str, Any]:
        """The answer to the command of this number; 0: the greeting when the machine is up."""
        until_s = time.monotonic() + seconds
        while number not in self._answers:
            answer = self._lines.receive(until_s)
            self._answers[answer["id"]] = answer
        return self._answers.pop(number)

    def close(self) -> None:
        self._lines.close()
