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
from math import inf
from typing import Any, Protocol

from flashgauge import health, hostlimit
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.health import Health
from flashgauge.measurement import Direction, HostUsage, Intervals, IoErrors, Measurement
from flashgauge.rig.base import HealthReading, Prepared, Rig
from flashgauge.rig.samples import Window
from flashgauge.runfolder import RunFolder, now_text
from flashgauge.spec.registry import Spec
from flashgauge.steps import (
    Disclose,
    Idle,
    IoStep,
    Label,
    Measure,
    Precondition,
    Purge,
    RoundJudged,
    SetWriteCache,
    Stop,
)

# A drive that fails or stalls all the time is known after so many disclosures of a kind; the journal has them all.
MOST_OF_A_KIND = 10
INTERVAL_NS = 1_000_000_000
PROGRESS_S = 0.1
# How long it may be since the device was seen to be the one consented to, when a step begins; and how often it is
# looked at while a step runs. A look takes less than a millisecond, and the step before is still under way then.
CHECK_S = 1.0
READING_S = 1.0  # by which two readings of a drive's log, after one step and after the next, are more than it apart
LOOK_BEFORE_END_S = 0.1  # of an idle time


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
        # Of the host, with the test's stimuli; whoever has measured them gives them before the first step.
        self.ceilings: hostlimit.Ceilings | None = None
        self._limits = hostlimit.Tally()
        self._finished: _Finished | None = None
        self._judged: RoundJudged | None = None
        self._loaded = False
        self._idle_ns = 0
        self._ended_s = 0.0
        self._media_errors = 0
        self._checked_s = -inf
        self._told: Counter[Kind] = Counter()

    def run(self, spec: Spec, begin: Callable[[], None] = lambda: None) -> Any:
        """Execute the test to its end; returns its outcome. `begin` is called first: it may be interrupted too.

        Whatever happens, all finished measurements are in the journal, and run.json says how the run ended.
        Raises KeyboardInterrupt, OSError (device, full disk) after having recorded it.
        """
        try:
            begin()
            self._read_health("before")
            outcome = self._run(spec)
            self._ask_drive()
            self._settle()
            self._disclose(*self.rig.after_run())
            self._judge_run()
            self.folder.update(state="complete", finished=now_text())
            return outcome
        except KeyboardInterrupt:
            self._end("interrupted", "interrupted by the operator")
            raise
        except BaseException as error:
            self._end("failed", (isinstance(error, OSError) and error.strerror) or str(error))
            raise
        finally:
            self.rig.telemetry.close()

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
                    self._prepare("purge", "purge_method", partial(self.rig.purge, self._tell_purge))
                case SetWriteCache(enabled=enabled):
                    asked = f"write cache {'on' if enabled else 'off'}"
                    self._prepare(asked, "write_cache", partial(self.rig.set_write_cache, enabled))
                case Idle(seconds=seconds):
                    self._idle(seconds)
                case RoundJudged():
                    self._judged = step
                case Disclose(disclosure=disclosure):
                    self._ask_drive()
                    self._settle()
                    self._disclose(disclosure)

    def _prepare(self, what: str, field: str, act: Callable[[], Prepared]) -> None:
        if self._loaded:
            self._ask_drive()
            self.rig.session.idle(0.0)  # The step before may still be kept loaded.
            self._loaded = False
        self._settle()
        self._check()
        self.rig.telemetry.quiet()
        self.observer.preparing(what)
        prepared = act()
        self.folder.update(**{field: prepared.state})
        self._disclose(*prepared.disclosures)

    def _tell_purge(self, what: str) -> None:
        self.observer.preparing(f"purge: {what}")

    def _idle(self, seconds: float) -> None:
        """The host sends nothing. The time runs from the end of the step before: what is written to the journal
        meanwhile is part of it."""
        self._settle()
        self.rig.telemetry.quiet()
        session = self.rig.session
        passed_s = 0.0 if session.virtual_time else time.monotonic() - self._ended_s
        left_s = max(0.0, seconds - passed_s) if self._loaded else seconds
        if not session.virtual_time:
            # The next step's look at the device, before the idle time is over: it must not make that longer.
            until_s = time.monotonic() + left_s
            session.idle(max(0.0, left_s - LOOK_BEFORE_END_S))
            self._check()
            left_s = max(0.0, until_s - time.monotonic())
        session.idle(left_s)
        self._idle_ns += round(seconds * 1e9)

    def _measure(self, step: IoStep) -> Measurement:
        session = self.rig.session
        self._check_if_due()
        self._ask_drive()
        session.start(step.stimulus.to_json(), step.stop.to_json(), INTERVAL_NS, self.stop_on_error)
        self._settle()
        # No command to the drive may delay the I/Os whose latencies are kept.
        self.rig.telemetry.begin(quiet=step.stop.then_idle or isinstance(step, Measure))
        self.observer.step_started(step)
        raw, changed = self._wait(step)
        self._ended_s = time.monotonic()
        # The time of a purge is no gap between steps.
        gap_ns = raw["gap_ns"] if self._loaded else None
        measurement = _measurement({**raw, "gap_ns": gap_ns, "idle_ns": self._idle_ns})
        self._loaded, self._idle_ns = True, 0
        self._finished = _Finished(step, measurement)
        if changed is not None:
            self._settle()
            raise changed
        if measurement.stop_reason != "complete" or (measurement.errors and self.stop_on_error):
            self._settle()
        return measurement

    def _wait(self, step: IoStep) -> tuple[dict[str, Any], OSError | None]:
        """The step's raw measurement; and what was wrong with the device meanwhile, when the step ended all the same.

        Raises OSError when the device is no longer the one consented to.
        """
        session = self.rig.session
        while (raw := session.wait(PROGRESS_S)) is None:
            ios, elapsed_ns = session.progress()
            self.observer.step_progress(step, ios, elapsed_ns / 1e9)
            try:
                self._check_if_due()
            except OSError as error:
                # A drive that went away fails its I/Os as well, and those are to be counted.
                raw = session.wait(CHECK_S)
                if raw is None:
                    raise
                return raw, error
        return raw, None

    def _check_if_due(self) -> None:
        if time.monotonic() - self._checked_s > CHECK_S:
            self._check()

    def _check(self) -> None:
        """Raises DeviceError when the device is no longer the one consented to."""
        self.rig.check()
        self._checked_s = time.monotonic()

    def _settle(self) -> None:
        """Journal the step that finished last, tell of it, and judge it."""
        if self._finished is not None:
            finished, self._finished = self._finished, None
            step = finished.step
            measurement = self._with_host(step, finished.measurement)
            kind = "precondition" if isinstance(step, Precondition) else "measure"
            self.folder.append(kind, step.label, measurement)
            self.observer.step_done(step, measurement)
            self._judge_step(step, measurement)
        if self._judged is not None:
            judged, self._judged = self._judged, None
            self.observer.round_judged(judged)

    def _with_host(self, step: IoStep, measurement: Measurement) -> Measurement:
        """With what was seen of host and drive in the step's window."""
        interval_ns, threads = measurement.intervals.interval_ns, step.stimulus.thread_count
        host, series = self.rig.telemetry.end(Window(measurement.start_ns, measurement.end_ns, interval_ns, threads))
        host = measurement.host.over(host)
        if self.ceilings is not None:
            host = replace(host, ceiling_iops=self.ceilings.of(step.stimulus))
        return replace(measurement, host=host, host_series=series)

    def _ask_drive(self) -> None:
        """Between the window of the step that has just ended and what follows, while the device is kept loaded."""
        if self._finished is not None and _keeps_loaded(self._finished.step.stop):
            self.rig.telemetry.between()

    def _read_health(self, when: str) -> None:
        """The drive's own log into run.json, "before" the run or "after" it; not that of another drive."""
        try:
            if when == "after":
                self._check_if_due()
            reading = self.rig.telemetry.health()
        except OSError as error:
            reading = HealthReading(None, error.strerror or str(error))
        found = reading.health.to_json() if reading.health is not None else None
        reason = {"not_read": reading.reason} if found is None else {}
        self.folder.update(health={**self.folder.run.health, when: found, **reason})

    def _judge_run(self) -> None:
        """What only the whole run shows."""
        self._read_health("after")
        logs = (self.folder.run.health.get(when) for when in ("before", "after"))
        before, after = (Health.from_json(log) if log is not None else None for log in logs)
        self._disclose(*(health.unread(self._media_errors) if after is None else health.disclosures(before, after)))
        if (limited := self._limits.disclosure) is not None:
            self._disclose(limited)

    def _judge_step(self, step: IoStep, measurement: Measurement) -> None:
        if isinstance(step, Measure):
            self._limits.add(step.label, measurement)
        self._media_errors += measurement.host.media_errors or 0
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
        if measurement.host.throttled_s:
            self._disclose(_throttled(step.label, measurement))
        if measurement.errors:
            self._disclose(_errors(step.label, measurement))
        if measurement.errors and self.stop_on_error:
            first = measurement.errors[0]
            raise IoErrorStop(
                first.errno,
                f"the device failed {_count(measurement.error_ios)} in {step.label}, "
                f"the first a {first.operation} at sector {first.first_lba}; {self._why()}",
            )

    def _why(self) -> str:
        """What to say of I/Os that failed: whether the drive is there at all."""
        try:
            self._check()
        except OSError as error:
            return error.strerror or str(error)
        return "injected on purpose, see the disclosures" if self.rig.dut.kind == "simulated" else "see the kernel log"

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
        self._judge_run()


def _measurement(raw: dict[str, Any]) -> Measurement:
    """The core's raw measurement as a `Measurement`."""
    conditions = raw.pop("conditions", None)
    return Measurement(
        **{
            **raw,
            "host": HostUsage(**(conditions or {})),
            "read": Direction.from_raw(raw["read"]),
            "write": Direction.from_raw(raw["write"]),
            "intervals": Intervals.from_json(raw["intervals"]),
            "size_ios": tuple(raw["size_ios"]),
            "group_ios": tuple(raw["group_ios"]),
            "errors": tuple(IoErrors(**error) for error in raw["errors"]),
        }
    )


def _keeps_loaded(stop: Stop) -> bool:
    """Whether the device has I/Os after the step, until the next one begins."""
    return stop.keep_loaded or (stop.seconds is not None and not stop.then_idle)


def _count(ios: int) -> str:
    return "1 I/O" if ios == 1 else f"{ios} I/Os"


def _throttled(label: Label, measurement: Measurement) -> Disclosure:
    """A drive's log is not read after each step: what is new in it may be of those before."""
    host, window_s = measurement.host, measurement.window_ns / 1e9
    hottest = "" if host.temperature_max_c is None else f", at up to {host.temperature_max_c:.1f} C"
    if host.health_span_s is not None and host.health_span_s > window_s + READING_S:
        when = f"in the {host.health_span_s:.0f} s up to the end of {label}, since its log was read before"
    else:
        when = f"in {label}"
    return Disclosure(
        Kind.THERMAL_THROTTLING,
        "6",
        f"the drive throttled itself for {host.throttled_s:.2f} s {when}{hottest}",
        "cool the drive as it will be cooled in use, and run again",
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
