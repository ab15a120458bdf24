"""Scripted measurements and rigs: a test of the standard without a device."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from flashgauge._core import Histogram
from flashgauge.disclosure import Disclosure
from flashgauge.measurement import Direction, Intervals, Measurement
from flashgauge.rig.base import NoTelemetry, Prepared, Telemetry, Tell
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.runfolder import DutInfo, HostInfo, Run, RunFolder, now_text
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import IoStep, RoundJudged

GB = 10**9


def direction(ios: int, latency_ns: int = 1000) -> Direction:
    histogram = Histogram()
    if ios:
        histogram.record(latency_ns, ios)
    return Direction(ios, ios * 4096, ios, ios * 4096, ios * latency_ns, latency_ns if ios else 0, histogram)


def measurement(iops: float, window_s: float = 60.0, gap_ns: int | None = 0, **changes: Any) -> Measurement:
    """A measurement of writes only with this IOPS (as near as whole I/Os allow)."""
    ios = round(iops * window_s)
    series = (ios,)
    facts: dict[str, Any] = {
        "start_ns": 0,
        "window_ns": round(window_s * 1e9),
        "read": direction(0),
        "write": direction(ios),
        "intervals": Intervals(10**9, (0,), series, (0,), (ios * 4096,), series, (0,), (0,)),
        "submitted_ios": ios,
        "handover_ios": 0,
        "late_ios": 0,
        "handover_ns": 0,
        "bridge_ios": 0,
        "gap_ns": gap_ns,
        "stop_reason": "complete",
    }
    return Measurement(**{**facts, **changes})


def raw(answer: Measurement) -> dict[str, Any]:
    """A measurement as the core's `Session.wait` gives it."""
    facts = {name: getattr(answer, name) for name in answer.__dataclass_fields__ if name != "host"}
    return {
        **facts,
        "read": {**answer.read.to_json(), "histogram": answer.read.histogram},
        "write": {**answer.write.to_json(), "histogram": answer.write.histogram},
        "intervals": {k: list(v) if isinstance(v, tuple) else v for k, v in vars(answer.intervals).items()},
        "size_ios": list(answer.size_ios),
        "group_ios": list(answer.group_ios),
        "errors": [vars(error) for error in answer.errors],
    }


class FakeSession:
    """Answers each step with `answer(number of the step)`; an exception is raised instead."""

    def __init__(self, answer: Callable[[int], Measurement | BaseException]) -> None:
        self.answer = answer
        self.started: list[str] = []
        self.idled_s: list[float] = []
        self.range_bytes = GB
        self.virtual_time = True

    def start(self, stimulus_json: str, stop_json: str, interval_ns: int, stop_on_error: bool) -> None:
        self.started.append(stimulus_json)

    def progress(self) -> tuple[int, int]:
        return 0, 0

    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        answer = self.answer(len(self.started) - 1)
        if isinstance(answer, BaseException):
            raise answer
        return raw(answer)

    def idle(self, seconds: float) -> None:
        self.idled_s.append(seconds)


class FakeRig:
    """A rig on a `FakeSession`; `prepared` answers purge and cache."""

    def __init__(self, session: FakeSession, prepared: Prepared | None = None) -> None:
        self.session: Any = session
        self.telemetry: Telemetry = NoTelemetry()
        self.dut = DutInfo("fake:", "simulated", capacity_bytes=GB)
        self.prepared = prepared or Prepared("done")
        self.calls: list[str] = []

    def description(self) -> dict[str, Any]:
        return {}

    def disclosures(self) -> list[Disclosure]:
        return []

    def software(self) -> dict[str, str]:
        return {}

    def purge(self, tell: Tell) -> Prepared:
        self.calls.append("purge")
        return self.prepared

    def set_write_cache(self, enabled: bool) -> Prepared:
        self.calls.append(f"cache {'on' if enabled else 'off'}")
        return self.prepared

    def after_run(self) -> tuple[Disclosure, ...]:
        return ()

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        return ()

    def block_reads(self) -> str:
        return "there is no device"

    def check(self) -> None:
        self.calls.append("check")

    def close(self) -> None:
        self.calls.append("close")


class FakeObserver:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.rounds: list[RoundJudged] = []
        self.steps: list[IoStep] = []
        self.disclosures: list[Disclosure] = []

    def begin(self, *_: Any) -> None: ...
    def preparing(self, what: str) -> None: ...
    def step_started(self, step: IoStep) -> None: ...
    def step_progress(self, step: IoStep, ios: int, elapsed_s: float) -> None: ...

    def step_done(self, step: IoStep, measurement: Measurement) -> None:
        self.steps.append(step)

    def round_judged(self, judged: RoundJudged) -> None:
        self.rounds.append(judged)

    def disclosed(self, disclosure: Disclosure) -> None:
        self.disclosures.append(disclosure)


def run_folder(path: Path) -> RunFolder:
    run = Run(
        test="iops",
        device_class=DeviceClass.ENTERPRISE,
        dut=DutInfo("fake:", "simulated", capacity_bytes=GB),
        host=HostInfo(),
        parameters={},
        parameter_table=[],
        seed=1,
        software={},
        started=now_text(),
    )
    return RunFolder(path, run)
