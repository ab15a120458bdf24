"""What displays of a run have in common; `live` is for people, `json_lines` for programs."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, Self

from flashgauge.disclosure import Disclosure
from flashgauge.estimate import Estimator, TimeLeft
from flashgauge.execute import RunObserver
from flashgauge.measurement import Measurement
from flashgauge.runfolder import Run
from flashgauge.spec.forecast import Remaining
from flashgauge.spec.registry import Spec
from flashgauge.steps import IoStep, RoundJudged


class CliObserver(RunObserver, Protocol):
    """A run's observer that also opens and closes the display."""

    def folder(self, path: Path) -> None: ...
    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


class QuietOnFailure:
    """Passes everything on until that fails once, then falls silent: a closed pipe must not end a run of hours."""

    def __init__(self, inner: CliObserver) -> None:
        self._inner: CliObserver | None = inner

    def _tell(self, name: str, *arguments: Any) -> None:
        if self._inner is None:
            return
        try:
            getattr(self._inner, name)(*arguments)
        except (OSError, SystemExit):  # rich answers a broken pipe by leaving the program
            self._inner = None
            # What is left in the buffers cannot be written either: without this, Python complains when it ends.
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    def folder(self, path: Path) -> None:
        self._tell("folder", path)

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None:
        self._tell("begin", spec, virtual_time, run)

    def preparing(self, what: str) -> None:
        self._tell("preparing", what)

    def step_started(self, step: IoStep) -> None:
        self._tell("step_started", step)

    def step_progress(self, step: IoStep, ios: int, elapsed_s: float) -> None:
        self._tell("step_progress", step, ios, elapsed_s)

    def step_done(self, step: IoStep, measurement: Measurement) -> None:
        self._tell("step_done", step, measurement)

    def round_judged(self, judged: RoundJudged) -> None:
        self._tell("round_judged", judged)

    def disclosed(self, disclosure: Disclosure) -> None:
        self._tell("disclosed", disclosure)

    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None:
        self._tell("reports", paths, facts)

    def __enter__(self) -> Self:
        self._tell("__enter__")
        return self

    def __exit__(self, *error: object) -> None:
        self._tell("__exit__", *error)


class Tracker:
    """What every display needs: where the run is, and what is left of it."""

    def __init__(self) -> None:
        self.path = Path()
        self.estimator: Estimator | None = None
        self.began_s = time.monotonic()

    def folder(self, path: Path) -> None:
        self.path = path

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None:
        self.run = run
        self.began_s = time.monotonic()
        self.estimator = Estimator(spec, virtual_time)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def left(self) -> TimeLeft | None:
        return self.estimator.left(time.monotonic()) if self.estimator else None

    def _started(self, step: IoStep) -> None:
        if self.estimator:
            self.estimator.started(step, time.monotonic())

    def _progress(self, step: IoStep, ios: int) -> None:
        if self.estimator:
            self.estimator.progress(ios, step.stimulus.block_sizes[0][0])

    def _done(self, step: IoStep, measurement: Measurement) -> None:
        if self.estimator:
            self.estimator.done(step, measurement, time.monotonic())

    def _judged(self) -> None:
        if self.estimator:
            self.estimator.judged()

    @property
    def forecast(self) -> tuple[Remaining, Remaining]:
        """The least and the most there is to do."""
        assert self.estimator is not None, "begin has made it"
        return self.estimator.least, self.estimator.most
