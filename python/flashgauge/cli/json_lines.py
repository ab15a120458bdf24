"""A run as events for other programs: JSON lines, or messages to a parent process."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from flashgauge.cli.progress import Tracker
from flashgauge.disclosure import Disclosure
from flashgauge.estimate import TimeLeft
from flashgauge.hostlimit import limits
from flashgauge.measurement import Measurement
from flashgauge.runfolder import Run
from flashgauge.spec.registry import Spec
from flashgauge.steps import IoStep, RoundJudged

JSON_PROGRESS_S = 1.0


def print_line(event: dict[str, Any]) -> None:
    """One JSON object on a line of standard output."""
    print(json.dumps(event, allow_nan=False), flush=True)


class JsonObserver(Tracker):
    """One fact sheet per event, given to `sink`; `event` says which kind."""

    def __init__(self, sink: Callable[[dict[str, Any]], None]) -> None:
        super().__init__()
        self._sink = sink
        self._last_s = 0.0

    def _say(self, event: str, **facts: Any) -> None:
        self._sink({"event": event, "elapsed_s": round(self.elapsed_s, 3), **facts})

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None:
        super().begin(spec, virtual_time, run)
        least, most = self.forecast
        self._say(
            "begin",
            folder=str(self.path),
            test=run.test,
            target=run.dut.target,
            seed=run.seed,
            virtual_time=virtual_time,
            device_least_s=least.seconds,
            device_most_s=most.seconds,
            fill_bytes=most.fill_bytes,
            host_checks=list(run.host_checks),
        )

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
        self._say(
            "progress",
            where=str(step.label),
            **_label(step),
            ios=ios,
            step_elapsed_s=elapsed_s,
            iops=iops,
            **_left(self.left()),
        )

    def step_done(self, step: IoStep, measurement: Measurement) -> None:
        self._done(step, measurement)
        self._say(
            "step",
            where=str(step.label),
            **_label(step),
            iops=measurement.iops,
            mb_per_s=measurement.mb_per_s,
            art_ns=measurement.art_ns,
            ios=measurement.ios,
            gap_ns=measurement.gap_ns,
            temperature_c=measurement.host.temperature_c,
            power_w=measurement.host.power_w,
            host_limited=list(limits(measurement.host, measurement.iops)),
            **_left(self.left()),
        )

    def round_judged(self, judged: RoundJudged) -> None:
        self._judged()
        verdicts = {
            name: {
                "steady": verdict.steady,
                "average": verdict.average,
                "slope_percent": verdict.slope_percent if verdict.average else None,
            }
            for name, verdict in judged.verdicts.items()
        }
        last = {name: values[-1] for name, values in judged.values.items()}
        facts = {"phase": judged.phase, "round": judged.round, "unit": judged.unit}
        self._say("round", **facts, values=last, verdicts=verdicts, **_left(self.left()))

    def disclosed(self, disclosure: Disclosure) -> None:
        self._say("disclosure", **disclosure.to_json())

    def reports(self, paths: list[Path], facts: dict[str, Any]) -> None:
        self._say("result", **facts, reports=[str(path) for path in paths])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def _left(left: TimeLeft | None) -> dict[str, float | None]:
    return {"left_least_s": left.least_s if left else None, "left_most_s": left.most_s if left else None}


def _label(step: IoStep) -> dict[str, Any]:
    return {"label": vars(step.label)}
