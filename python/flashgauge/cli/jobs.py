"""Several tests at a time, a process for each: for simulated drives, of which there are as many as one likes.

A child is told to stop by one SIGINT, from its parent or because that is gone; a terminal's Ctrl-C reaches it too, so
that it listens to the first one only. It reports what `json_lines` reports, then "end" with a message and a code.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Mapping
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

from flashgauge.cli.errors import FAILED, outcome_of
from flashgauge.cli.json_lines import JsonObserver
from flashgauge.cli.progress import QuietOnFailure
from flashgauge.conduct import conduct
from flashgauge.execute import RunRequest, prepare

Event = dict[str, Any]
Sink = Callable[[str, Event], None]
LOOK_S = 1.0
STOP_S = 30.0


def run_parallel(
    requests: Mapping[str, RunRequest], jobs: int, sink: Sink, before: Callable[[str], object]
) -> dict[str, tuple[str, int]]:
    """Run all tests, `jobs` at a time, in order; returns each one's message and exit code. Ctrl-C stops all.

    `before(test)` is called just before a test's process starts. A `sink` that fails is told no more.
    """
    context = get_context("spawn")
    tell = _quiet(sink)
    waiting = list(requests.items())
    running: dict[Connection, tuple[str, SpawnProcess]] = {}
    results: dict[str, tuple[str, int]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                test, request = waiting.pop(0)
                ours, theirs = context.Pipe(duplex=False)
                before(test)
                process = context.Process(target=_child, args=(request, theirs), name=f"flashgauge {test}")
                # A Ctrl-C waits, there and here, until the child can answer it.
                signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
                try:
                    process.start()
                finally:
                    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
                theirs.close()
                running[ours] = (test, process)
            for ready in wait(list(running), timeout=LOOK_S):
                assert isinstance(ready, Connection)
                test, process = running[ready]
                try:
                    event = ready.recv()
                except EOFError:
                    process.join()
                    del running[ready]
                    if test not in results:
                        results[test] = (f"{test}: the process ended without a word (code {process.exitcode})", FAILED)
                        tell(test, {"event": "end", "message": results[test][0], "code": FAILED})
                    continue
                if event["event"] == "end":
                    results[test] = (event["message"], event["code"])
                tell(test, event)
    finally:
        for _, process in running.values():
            if process.pid is not None and process.is_alive():
                os.kill(process.pid, signal.SIGINT)
        for _, process in running.values():
            process.join(STOP_S)
    return results


def _quiet(sink: Sink) -> Sink:
    """The sink until it fails once: a closed pipe must not end runs of hours."""
    working = True

    def tell(test: str, event: Event) -> None:
        nonlocal working
        if working:
            try:
                sink(test, event)
            except (OSError, SystemExit):
                working = False

    return tell


def _child(request: RunRequest, connection: Connection) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _first_only)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    observer = QuietOnFailure(JsonObserver(connection.send))
    try:
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
            with observer:
                conduct(request, prepare(request), observer)
            message, code = "", 0
        finally:
            _ignore_from_now_on()  # Here: one that comes just now is an interruption like any other.
    except BaseException as error:
        outcome = outcome_of(error)
        if outcome is None:
            connection.send({"event": "end", "message": repr(error), "code": FAILED})
            raise
        message, code = outcome
    with contextlib.suppress(OSError):  # The parent may be gone.
        connection.send({"event": "end", "message": message, "code": code})


def _first_only(_number: int, _frame: object) -> None:
    _ignore_from_now_on()
    raise KeyboardInterrupt


def _ignore_from_now_on() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGINT)
