"""A run in the terminal: a live display; where output is no terminal, a line per round."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from flashgauge.cli.progress import Tracker
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.estimate import TimeLeft
from flashgauge.measurement import Measurement
from flashgauge.runfolder import Run
from flashgauge.spec.forecast import Remaining
from flashgauge.spec.registry import Spec
from flashgauge.steadystate import Verdict
from flashgauge.steps import IoStep, RoundJudged


class TerminalObserver(Tracker):
    """A live display; where output is no terminal, a line per round."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self.console = console
        self.live: Live | None = None
        self.now = "opening the device"
        self.step_iops: float | None = None
        self.last_point = self.last_iops = ""
        self.judged: RoundJudged | None = None

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None:
        super().begin(spec, virtual_time, run)
        dut = run.dut
        clock = ", virtual time" if virtual_time else ""
        self.console.print(
            f"[bold]{run.test.upper()}[/] test, PTS 2.0.1, {run.device_class}: {dut.model or dut.target}, "
            f"{dut.capacity_bytes / 1e9:,.1f} GB{clock}",
            highlight=False,
        )
        self.console.print(_forecast_text(*self.forecast, virtual_time), highlight=False)
        for check in run.host_checks:
            if check["advice"]:
                line = Text("host", style="yellow").append(f": {check['found']}; {check['advice']}", style="none")
                self.console.print(line, highlight=False, soft_wrap=True)

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
        self.last_point, self.last_iops = str(step.label), _result_text(measurement)
        self._draw()

    def round_judged(self, judged: RoundJudged) -> None:
        self._judged()
        self.judged = judged
        if self.live is None:
            self.console.print(f"{_round_text(judged)}: {_verdict_text(judged)}", highlight=False)
        self._draw()

    def disclosed(self, disclosure: Disclosure) -> None:
        if disclosure.kind is Kind.HOST_CONDITIONS:
            return  # told with its cure when the run began
        self.console.print(f"[yellow]disclosure[/] ({disclosure.clause}): {disclosure.message}", highlight=False)

    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None:
        self._stop()
        if facts["missing"]:
            self.console.print("[red]incomplete[/]: " + "; ".join(facts["missing"]), highlight=False)
        else:
            color = "yellow" if facts["steady"] is False else "green"
            self.console.print(Text(facts["status"], style=color), highlight=False)
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
        left = self.left()
        facts.add_row("time", f"{clock(self.elapsed_s)} elapsed", _left_text(left))
        if left is not None:
            most_s = self.elapsed_s + left.most_s
            facts.add_row("done", "at least", ProgressBar(total=max(1.0, most_s), completed=self.elapsed_s, width=30))
        self.live.update(Group(facts, *self._variables()))

    def _variables(self) -> list[Table | Text]:
        if self.judged is None:
            return []
        last = _round_text(self.judged)
        table = Table("tracking variable", last, "data excursion", "slope excursion", "", box=None, padding=(0, 2))
        for name, values in self.judged.values.items():
            verdict = self.judged.verdicts.get(name)
            judged = _excursions(verdict) if verdict else ("", "", Text("too few rounds to judge", style="dim"))
            table.add_row(name, f"{values[-1]:,.6g} {self.judged.unit}", *judged)
        return [table]


def _excursions(verdict: Verdict) -> tuple[str, str, Text]:
    data = 100 * verdict.data_excursion / verdict.average if verdict.average else float("nan")
    state = Text("steady", style="green") if verdict.steady else Text("not steady", style="yellow")
    limits = verdict.criteria
    return (
        f"{data:.1f} % ({100 * limits.data_excursion:g})",
        f"{verdict.slope_percent:.1f} % ({100 * limits.slope_excursion:g})",
        state,
    )


def _round_text(judged: RoundJudged) -> str:
    return f"{judged.phase + ', ' if judged.phase else ''}round {judged.round}"


def _forecast_text(least: Remaining, most: Remaining, virtual_time: bool) -> str:
    """Device time; a simulated drive's is not the host's."""
    times = [clock(least.seconds), clock(most.seconds)]
    gb = most.fill_bytes / 1e9
    fill = f", and writing {gb:,.1f} GB" if gb >= 1 else f", and writing {gb * 1e3:,.0f} MB" if gb else ""
    whose = "the simulated drive's" if virtual_time else "the drive's"
    return f"Duration: {' to '.join(dict.fromkeys(times))} of {whose} time{fill}"


def _verdict_text(judged: RoundJudged) -> str:
    if not judged.verdicts:
        return "too few rounds to judge"
    parts = (f"{name} {'steady' if verdict.steady else 'not steady'}" for name, verdict in judged.verdicts.items())
    return ", ".join(parts)


def _result_text(measurement: Measurement) -> str:
    host = measurement.host
    temperature = "" if host.temperature_c is None else f", {host.temperature_c:.0f} °C"
    power = "" if host.power_w is None else f", {host.power_w:.1f} W"
    return f"{measurement.iops:,.0f} IOPS{temperature}{power}"


def _describe(step: IoStep) -> str:
    if step.stop.bytes:
        return f"pre-conditioning, {step.stimulus.access}, {step.stop.bytes / 1e9:,.1f} GB"
    return str(step.label)


def clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}"


def _left_text(left: TimeLeft | None) -> str:
    return f"{clock(left.least_s)} .. {clock(left.most_s)} left" if left else ""
