"""The only loop that does things: step -> rig -> measurement -> back into the test.

A finished step's measurement goes to the test, the next step is started, and only then is the finished one told to
the observer, judged and journaled: after a step that must drain, the device waits for nothing else. A crash can
therefore lose one step, never the ones before it.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import Direction, Intervals, IoErrors, Measurement
from flashgauge.rig.base import Prepared, Rig
from flashgauge.runfolder import RunFolder, now_text
from flashgauge.spec.registry import Spec
from flashgauge.steps import Disclose, Idle, IoStep, Label, Measure, Precondition, Purge, RoundJudged, SetWriteCache

# A drive that fails or stalls all the time is known after so many disclosures of a kind; the journal has them all.
MOST_OF_A_KIND = 10
INTERVAL_NS = 1_000_000_000
PROGRESS_S = 0.1


class Observer(Protocol):
    """Told of progress; never able to change a run."""

    def preparing(self, what: str) -> None: ...
    def step_started(self, step: IoStep) -> None: ...
    def step_progress(self, step: IoStep, ios: int, elapsed_s: float) -> None: ...
    def step_done(self, step: IoStep, measurement: Measurement) -> None: ...
    def round_judged(self, judged: RoundJudged) -> None: ...
    def disclosed(self, disclosure: Disclosure) -> None: ...


class IoErrorStop(OSError):
    """The device failed I/Os and the run was stopped."""


@dataclass
class _Finished:
    """A measurement the test has seen and nobody else yet."""

    step: IoStep
    measurement: Measurement


class Driver:
    """Runs one test on one rig into one run folder."""

    def __init__(
        self,
        rig: Rig,
        folder: RunFolder,
        observer: Observer,
        *,
        gap_limit_ms: float,
        stop_on_error: bool = True,
    ) -> None:
        self.rig = rig
        self.folder = folder
        self.observer = observer
        self.gap_limit_ns = gap_limit_ms * 1e6
        self.stop_on_error = stop_on_error
        self._finished: _Finished | None = None
        self._judged: RoundJudged | None = None
        self._loaded = False
        self._idle_ns = 0
        self._ended_s = 0.0
        self._told: Counter[Kind] = Counter()

    def run(self, spec: Spec, begin: Callable[[], None] = lambda: None) -> Any:
        """Execute the test to its end; returns its outcome. `begin` is called first: it may be interrupted too.

        Whatever happens, all finished measurements are in the journal, and run.json says how the run ended.
        Raises KeyboardInterrupt, OSError (device, full disk) after having recorded it.
        """
        try:
            begin()
            outcome = self._run(spec)
            self._settle()
            self.folder.update(state="complete", finished=now_text())
            return outcome
        except KeyboardInterrupt:
            self._end("interrupted", "interrupted by the operator")
            raise
        except BaseException as error:
            self._end("failed", str(error))
            raise

    def _run(self, spec: Spec) -> Any:
        answer: Measurement | None = None
        while True:
            try:
                step = spec.send(answer) if answer is not None else next(spec)
            except StopIteration as stop:
                return stop.value
            answer = None
            match step:
                case Precondition() | Measure():
                    answer = self._measure(step)
                case Purge():
                    self._prepare("purge", "purge_method", self.rig.purge)
                case SetWriteCache(enabled=enabled):
                    asked = f"write cache {'on' if enabled else 'off'}"
                    self._prepare(asked, "write_cache", partial(self.rig.set_write_cache, enabled))
                case Idle(seconds=seconds):
                    self._idle(seconds)
                case RoundJudged():
                    self._judged = step
                case Disclose(disclosure=disclosure):
                    self._settle()
                    self._disclose(disclosure)

    def _prepare(self, what: str, field: str, act: Callable[[], Prepared]) -> None:
        if self._loaded:
            self.rig.session.idle(0.0)  # The step before may still be kept loaded.
            self._loaded = False
        self._settle()
        self.observer.preparing(what)
        prepared = act()
        self.folder.update(**{field: prepared.state})
        self._disclose(*prepared.disclosures)

    def _idle(self, seconds: float) -> None:
        """The host sends nothing. The time runs from the end of the step before: what is written to the journal
        meanwhile is part of it."""
        self._settle()
        session = self.rig.session
        passed_s = 0.0 if session.virtual_time else time.monotonic() - self._ended_s
        session.idle(max(0.0, seconds - passed_s) if self._loaded else seconds)
        self._idle_ns += round(seconds * 1e9)

    def _measure(self, step: IoStep) -> Measurement:
        session = self.rig.session
        session.start(step.stimulus.to_json(), step.stop.to_json(), INTERVAL_NS, self.stop_on_error)
        self._settle()
        self.rig.telemetry.begin()
        self.observer.step_started(step)
        while (raw := session.wait(PROGRESS_S)) is None:
            ios, elapsed_ns = session.progress()
            self.observer.step_progress(step, ios, elapsed_ns / 1e9)
        self._ended_s = time.monotonic()
        # The time of a purge is no gap between steps.
        gap_ns = raw["gap_ns"] if self._loaded else None
        measurement = _measurement({**raw, "gap_ns": gap_ns, "idle_ns": self._idle_ns})
        self._loaded, self._idle_ns = True, 0
        self._finished = _Finished(step, measurement)
        if measurement.stop_reason != "complete" or (measurement.errors and self.stop_on_error):
            self._settle()
        return measurement

    def _settle(self) -> None:
        """Journal the step that finished last, tell of it, and judge it."""
        if self._finished is not None:
            finished, self._finished = self._finished, None
            host = self.rig.telemetry.end(quiet=finished.step.stop.then_idle)
            step, measurement = finished.step, replace(finished.measurement, host=host)
            kind = "precondition" if isinstance(step, Precondition) else "measure"
            self.folder.append(kind, step.label, measurement)
            self.observer.step_done(step, measurement)
            self._judge_step(step, measurement)
        if self._judged is not None:
            judged, self._judged = self._judged, None
            self.observer.round_judged(judged)

    def _judge_step(self, step: IoStep, measurement: Measurement) -> None:
        gap_ns = measurement.excess_gap_ns
        if gap_ns is not None and gap_ns > self.gap_limit_ns:
            self._disclose(
                Disclosure(
                    Kind.GAP_OVER_LIMIT,
                    "6 item 9",
                    f"the device idled {gap_ns / 1e6:.2f} ms {'too long ' * bool(measurement.idle_ns)}"
                    f"before {step.label}; "
                    f"the limit is {self.gap_limit_ns / 1e6:g} ms",
                    "leave the host to the test alone, and look at its CPU load",
                )
            )
        if measurement.errors:
            self._disclose(_errors(step.label, measurement))
        if measurement.errors and self.stop_on_error:
            first = measurement.errors[0]
            raise IoErrorStop(
                first.errno,
                f"the device failed {measurement.error_ios} I/Os in {step.label}, "
                f"the first a {first.operation} at sector {first.first_lba}; see the kernel log",
            )

    def _disclose(self, *disclosures: Disclosure) -> None:
        for disclosure in disclosures:
            self._told[disclosure.kind] += 1
            if self._told[disclosure.kind] == MOST_OF_A_KIND:
                more = f"{disclosure.message}; further ones of this kind are in the journal only"
                disclosure = replace(disclosure, message=more)
            if self._told[disclosure.kind] <= MOST_OF_A_KIND:
                self.folder.disclose(disclosure)
                self.observer.disclosed(disclosure)

    def _end(self, state: str, message: str) -> None:
        """Record how the run ended. If even that fails, the journal on disk is whole all the same."""
        disclosure = Disclosure(
            Kind.INTERRUPTED,
            "4",
            f"the run did not finish: {message}",
            "run again from the purge: steps of a test must not be interrupted",
            invalidates=True,
        )
        try:
            self._settle()
        except IoErrorStop:
            pass  # Already the reason, or told as a disclosure.
        finally:
            disclosures = (*self.folder.run.disclosures, disclosure)
            self.folder.update(state=state, finished=now_text(), error=message, disclosures=disclosures)


def _measurement(raw: dict[str, Any]) -> Measurement:
    """The core's raw measurement as a `Measurement`."""
    return Measurement(
        **{
            **raw,
            "read": Direction.from_raw(raw["read"]),
            "write": Direction.from_raw(raw["write"]),
            "intervals": Intervals.from_json(raw["intervals"]),
            "size_ios": tuple(raw["size_ios"]),
            "group_ios": tuple(raw["group_ios"]),
            "errors": tuple(IoErrors(**error) for error in raw["errors"]),
        }
    )


def _errors(label: Label, measurement: Measurement) -> Disclosure:
    kinds = ", ".join(f"{error.ios} {error.operation}s (errno {error.errno})" for error in measurement.errors)
    return Disclosure(
        Kind.IO_ERRORS,
        "6",
        f"I/Os failed in {label}: {kinds}; failed I/Os are in no latency and no IOPS",
        "replace the drive or find the cause; then run again from the purge",
        invalidates=True,
    )
