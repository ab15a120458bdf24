"""What the operator sees of a run: a live display in a terminal, plain lines elsewhere, or JSON lines."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Protocol, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flashgauge.disclosure import Disclosure
from flashgauge.estimate import Estimator, TimeLeft
from flashgauge.execute import RunObserver
from flashgauge.measurement import Measurement
from flashgauge.runfolder import Run
from flashgauge.spec.registry import Extent
from flashgauge.steadystate import Verdict
from flashgauge.steps import IoStep, Precondition, RoundJudged

JSON_PROGRESS_S = 1.0


class CliObserver(RunObserver, Protocol):
    """A run's observer that also opens and closes the display."""

    def folder(self, path: Path) -> None: ...
    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *_: object) -> None: ...


def observer_for(json_lines: bool) -> CliObserver:
    return QuietOnFailure(JsonObserver() if json_lines else TerminalObserver(Console()))


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

    def begin(self, extent: Extent, virtual_time: bool, run: Run) -> None:
        self._tell("begin", extent, virtual_time, run)

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


class _Common:
    """State that both displays need."""

    def __init__(self) -> None:
        self.path = Path()
        self.estimator: Estimator | None = None
        self.began_s = time.monotonic()

    def folder(self, path: Path) -> None:
        self.path = path

    def begin(self, extent: Extent, virtual_time: bool, run: Run) -> None:
        self.run = run
        self.extent = extent
        self.began_s = time.monotonic()
        self.estimator = Estimator(extent, virtual_time)

    @property
    def elapsed_s(self) -> float:
        return time.monotonic() - self.began_s

    def left(self) -> TimeLeft | None:
        return self.estimator.left(time.monotonic()) if self.estimator else None

    def _started(self, step: IoStep) -> None:
        if self.estimator:
            self.estimator.started(step, time.monotonic())

    def _progress(self, step: IoStep, ios: int) -> None:
        if self.estimator and isinstance(step, Precondition):
            self.estimator.precondition_progress(ios * step.stimulus.block_sizes[0][0])

    def _done(self, step: IoStep, measurement: Measurement) -> None:
        if self.estimator:
            self.estimator.done(step, measurement, time.monotonic())

    def _judged(self, judged: RoundJudged) -> None:
        if self.estimator:
            self.estimator.judged(judged)


class JsonObserver(_Common):
    """One JSON object per line on standard output; `event` says which kind."""

    def __init__(self) -> None:
        super().__init__()
        self._last_s = 0.0

    def _say(self, event: str, **facts: Any) -> None:
        line = {"event": event, "elapsed_s": round(self.elapsed_s, 3), **facts}
        print(json.dumps(line, allow_nan=False), flush=True)

    def begin(self, extent: Extent, virtual_time: bool, run: Run) -> None:
        super().begin(extent, virtual_time, run)
        self._say("begin", folder=str(self.path), test=run.test, target=run.dut.target, seed=run.seed)

    def preparing(self, what: str) -> None:
        self._say("preparing", what=what)

    def step_started(self, step: IoStep) -> None:
        self._started(step)

    def step_progress(self, step: IoStep, ios: int, elapsed_s: float) -> None:
        self._progress(step, ios)
        if time.monotonic() - self._last_s < JSON_PROGRESS_S:
            return
        self._last_s = time.monotonic()
        iops = ios / elapsed_s if elapsed_s else None
        self._say("progress", **_label(step), ios=ios, step_elapsed_s=elapsed_s, iops=iops, **_left(self.left()))

    def step_done(self, step: IoStep, measurement: Measurement) -> None:
        self._done(step, measurement)
        self._say(
            "step",
            **_label(step),
            iops=measurement.iops,
            mb_per_s=measurement.mb_per_s,
            art_ns=measurement.art_ns,
            ios=measurement.ios,
            gap_ns=measurement.gap_ns,
            **_left(self.left()),
        )

    def round_judged(self, judged: RoundJudged) -> None:
        self._judged(judged)
        verdicts = {
            name: {
                "steady": verdict.steady,
                "average_iops": verdict.average,
                "slope_percent": verdict.slope_percent if verdict.average else None,
            }
            for name, verdict in judged.verdicts.items()
        }
        last = {name: values[-1] for name, values in judged.values.items()}
        self._say("round", round=judged.round, iops=last, verdicts=verdicts, **_left(self.left()))

    def disclosed(self, disclosure: Disclosure) -> None:
        self._say("disclosure", **disclosure.to_json())

    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None:
        self._say("result", **facts, reports=[str(path) for path in paths])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class TerminalObserver(_Common):
    """A live display; where output is no terminal, a line per round."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.live: Live | None = None
        self.now = "opening the device"
        self.point = 0
        self.step_iops: float | None = None
        self.last_point = self.last_iops = ""
        self.judged: RoundJudged | None = None

    def begin(self, extent: Extent, virtual_time: bool, run: Run) -> None:
        super().begin(extent, virtual_time, run)
        dut = run.dut
        clock = ", virtual time" if virtual_time else ""
        self.console.print(
            f"[bold]{run.test.upper()}[/] test, PTS 2.0.1, {run.device_class}: {dut.model or dut.target}, "
            f"{dut.capacity_bytes / 1e9:,.1f} GB{clock}",
            highlight=False,
        )
        if not virtual_time:
            least, most = (
                rounds * extent.points_per_round * extent.point_s / 3600
                for rounds in (extent.least_rounds, extent.most_rounds)
            )
            self.console.print(
                f"Test loop: {least:.1f} to {most:.1f} h, after writing {extent.precondition_bytes / 1e9:,.1f} GB",
                highlight=False,
            )

    def preparing(self, what: str) -> None:
        self.now = what
        self._draw()

    def step_started(self, step: IoStep) -> None:
        self._started(step)
        self.now, self.step_iops = _describe(step), None
        self._draw()

    def step_progress(self, step: IoStep, ios: int, elapsed_s: float) -> None:
        self._progress(step, ios)
        self.step_iops = ios / elapsed_s if elapsed_s else None
        self._draw()

    def step_done(self, step: IoStep, measurement: Measurement) -> None:
        self._done(step, measurement)
        if not isinstance(step, Precondition):
            self.point += 1
            self.last_point, self.last_iops = str(step.label), f"{measurement.iops:,.0f} IOPS"
        self._draw()

    def round_judged(self, judged: RoundJudged) -> None:
        self._judged(judged)
        self.judged = judged
        if self.live is None:
            self.console.print(f"round {judged.round}: {_verdict_text(judged)}", highlight=False)
        self._draw()

    def disclosed(self, disclosure: Disclosure) -> None:
        self.console.print(f"[yellow]disclosure[/] ({disclosure.clause}): {disclosure.message}", highlight=False)

    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None:
        self._stop()
        if facts["missing"]:
            self.console.print("[red]incomplete[/]: " + "; ".join(facts["missing"]), highlight=False)
        elif facts["steady"]:
            self.console.print("[green]steady state reached[/]", highlight=False)
        else:
            self.console.print("[yellow]steady state not reached[/]; the last five rounds are reported")
        self.console.print(f"{'run folder':<12}{self.path}", highlight=False, soft_wrap=True)
        for path in paths:
            if path.suffix in {".html", ".pdf"}:
                self.console.print(f"{path.suffix[1:]:<12}{path}", highlight=False, soft_wrap=True)

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=8, transient=True)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def _draw(self) -> None:
        if self.live is None or self.estimator is None:
            return
        facts = Table.grid(padding=(0, 2))
        facts.add_row("now", f"{self.now}", f"{self.step_iops:,.0f} IOPS" if self.step_iops else "")
        facts.add_row("before", self.last_point, self.last_iops)
        rounds = self.judged.round if self.judged else 0
        in_round = self.point - rounds * self.extent.points_per_round
        bar = ProgressBar(total=self.extent.points_per_round, completed=in_round, width=30)
        facts.add_row("round", f"{rounds + 1} of at most {self.extent.most_rounds}", bar)
        facts.add_row("time", f"{_clock(self.elapsed_s)} elapsed", _left_text(self.left()))
        self.live.update(Group(facts, *self._variables()))

    def _variables(self) -> list[Table | Text]:
        if self.judged is None:
            return [Text("steady state is judged from round 5 on", style="dim")]
        table = Table(
            "tracking variable", "last round", "data excursion", "slope excursion", "", box=None, padding=(0, 2)
        )
        for name, values in self.judged.values.items():
            verdict = self.judged.verdicts.get(name)
            judged = _excursions(verdict) if verdict else ("", "", Text("judged from round 5 on", style="dim"))
            table.add_row(name, f"{values[-1]:,.0f} IOPS", *judged)
        return [table]


def _excursions(verdict: Verdict) -> tuple[str, str, Text]:
    data = 100 * verdict.data_excursion / verdict.average if verdict.average else float("nan")
    state = Text("steady", style="green") if verdict.steady else Text("not steady", style="yellow")
    return f"{data:.1f} % (20)", f"{verdict.slope_percent:.1f} % (10)", state


def _verdict_text(judged: RoundJudged) -> str:
    if not judged.verdicts:
        return "steady state is judged from round 5 on"
    parts = (f"{name} {'steady' if verdict.steady else 'not steady'}" for name, verdict in judged.verdicts.items())
    return ", ".join(parts)


def _describe(step: IoStep) -> str:
    if isinstance(step, Precondition):
        total = step.stop.bytes or 0
        return f"pre-conditioning, {step.stimulus.access}, {total / 1e9:,.1f} GB"
    return str(step.label)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _left_text(left: TimeLeft | None) -> str:
    return f"{_clock(left.least_s)} .. {_clock(left.most_s)} left" if left else ""


def _left(left: TimeLeft | None) -> dict[str, float | None]:
    return {"left_least_s": left.least_s if left else None, "left_most_s": left.most_s if left else None}


def _label(step: IoStep) -> dict[str, Any]:
    return {"label": vars(step.label)}
