"""Scripted drives: what a test is answered, as a table of numbers instead of a device, and the record of such a run.

An answer holds what a test's generator looks at: IOPS, bytes, latency sums, shares; no histograms and no series.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from flashgauge.disclosure import Disclosure
from flashgauge.measurement import NS_PER_S, Direction, Intervals, Measurement
from flashgauge.spec.parameters import DeviceClass, TestParameters, changed
from flashgauge.spec.registry import TESTS, Spec
from flashgauge.steps import Disclose, Idle, IoStep, Label, Measure, Precondition, RoundJudged, Step, Stimulus

TB = 10**12
MINUTE_S = 60.0
_NO_SERIES = Intervals(NS_PER_S, (), (), (), (), (), (), ())


@dataclass(frozen=True)
class Reply:
    """What the drive does in a step. `art_ms`: None is what Little's law gives. The rest: None is what the stimulus
    asks for."""

    iops: float
    art_ms: float | None = None
    written_bytes: int | None = None
    size_ios: tuple[int, ...] | None = None
    group_ios: tuple[int, ...] | None = None


# The table: a step -> its IOPS, or all there is to say of it.
Script = Callable[[IoStep], "float | Reply"]


@cache
def block_bytes(stimulus: Stimulus) -> float:
    """Mean size of an I/O."""
    weights = sum(weight for _, weight in stimulus.block_sizes)
    return sum(size * weight for size, weight in stimulus.block_sizes) / weights


def answer(step: IoStep, said: float | Reply, idle_s: float = 0.0) -> Measurement:
    """The measurement of a step in which the drive did what was `said`."""
    reply = said if isinstance(said, Reply) else Reply(float(said))
    stimulus, size = step.stimulus, block_bytes(step.stimulus)
    if step.stop.bytes is not None:
        ios = round(step.stop.bytes / size)
        seconds = ios / reply.iops
    else:
        seconds = step.stop.seconds or 0.0
        ios = round(reply.iops * seconds)
    reads = round(ios * stimulus.read_percent / 100)
    in_flight = stimulus.thread_count * stimulus.queue_depth
    art_ns = reply.art_ms * 1e6 if reply.art_ms is not None else in_flight / reply.iops * 1e9 if reply.iops else 0.0
    written = step.stop.bytes if step.stop.bytes is not None else round((ios - reads) * size)
    return Measurement(
        start_ns=0,
        window_ns=round(seconds * NS_PER_S),
        read=_direction(reads, size, art_ns),
        write=_direction(ios - reads, size, art_ns),
        intervals=_NO_SERIES,
        submitted_ios=ios,
        handover_ios=0,
        late_ios=0,
        handover_ns=0,
        bridge_ios=0,
        gap_ns=round(idle_s * NS_PER_S),
        stop_reason="complete",
        written_bytes=written if reply.written_bytes is None else reply.written_bytes,
        size_ios=_counts(reply.size_ios, ios, [weight for _, weight in stimulus.block_sizes]),
        group_ios=_counts(reply.group_ios, ios, [group.probability_percent for group in stimulus.groups]),
        idle_ns=round(idle_s * NS_PER_S),
    )


def _direction(ios: int, size: float, art_ns: float) -> Direction:
    in_bytes = round(ios * size)
    return Direction(ios, in_bytes, ios, in_bytes, round(ios * art_ns), round(art_ns) if ios else 0, "")


def _counts(said: tuple[int, ...] | None, ios: int, weights: list[Any]) -> tuple[int, ...]:
    """Exact shares; empty where there is but one, as the core has it."""
    if said is not None:
        return said
    if len(weights) < 2:
        return ()
    total = sum(weights)
    return tuple(round(ios * weight / total) for weight in weights)


@dataclass(frozen=True)
class Played:
    """A whole run: all steps in order, those with I/O and their answers, and what the test returned."""

    parameters: Any
    steps: list[Step]
    asked: list[IoStep]
    answers: list[Measurement]
    outcome: Any

    def judged(self, phase: str | None = None) -> list[RoundJudged]:
        found = [step for step in self.steps if isinstance(step, RoundJudged)]
        return [step for step in found if phase is None or step.phase == phase]

    def disclosures(self) -> list[Disclosure]:
        return [step.disclosure for step in self.steps if isinstance(step, Disclose)]

    def of(self, purpose: str) -> list[IoStep]:
        """The steps with I/O of one purpose."""
        return [step for step in self.asked if step.label.purpose == purpose]

    def answers_of(self, purpose: str) -> list[Measurement]:
        return [m for step, m in zip(self.asked, self.answers, strict=True) if step.label.purpose == purpose]


def parameters_of(
    test: str, device_class: DeviceClass = DeviceClass.ENTERPRISE, settings: Mapping[str, object] | None = None
) -> Any:
    """The standard's parameters with `settings` applied as the command line does."""
    texts = {name: str(value) for name, value in (settings or {}).items()}
    return changed(TESTS[test].parameters(device_class), texts)


def play(
    test: str,
    script: Script,
    settings: Mapping[str, object] | None = None,
    *,
    device_class: DeviceClass = DeviceClass.ENTERPRISE,
    capacity_bytes: int = 4 * TB,
) -> Played:
    """The test from its first step to its last, answered by the script."""
    parameters = parameters_of(test, device_class, settings)
    return play_spec(TESTS[test].spec(parameters, capacity_bytes), script, parameters)


def play_spec(spec: Spec, script: Script, parameters: TestParameters | None = None) -> Played:
    played = Played(parameters, [], [], [], None)
    idle_s, reply = 0.0, None
    while True:
        try:
            step = spec.send(reply)
        except StopIteration as stop:
            return replace(played, outcome=stop.value)
        played.steps.append(step)
        reply = None
        if isinstance(step, Idle):
            idle_s += step.seconds
        if isinstance(step, Precondition | Measure):
            reply = answer(step, script(step), idle_s)
            idle_s = 0.0
            played.asked.append(step)
            played.answers.append(reply)


# Scripts


def steady(iops: float = 10_000.0) -> Script:
    """The same in every step."""
    return lambda step: iops


def round_of(label: Label, spacing: int = 30) -> int | None:
    """The round whose tracking variable a step may give: a loop's, or that of a minute that counts; else None."""
    if label.round is not None and label.purpose != "pre-write":
        return label.round
    if label.number is not None and label.purpose in {"minute", "pre-conditioning"}:
        return 1 + (label.number - 1) // spacing if (label.number - 1) % spacing == 0 else None
    return None


def restless(round_number: int, settles: int | None) -> float:
    """A factor that keeps rounds from being steady until the window that ends with round `settles`; None: for ever."""
    if settles is not None and round_number > settles - 5:
        return 1.0
    first_steady = 1 if settles is None else settles - 4
    return 3.0 if (first_steady - round_number) % 2 else 1.0


def settling(settles: int | None, base: Script, spacing: int = 30) -> Script:
    """`base`, with IOPS that become steady in round `settles` of every phase; its ART is 1/IOPS of the factor."""

    def script(step: IoStep) -> Reply:
        said = base(step)
        reply = said if isinstance(said, Reply) else Reply(said)
        number = round_of(step.label, spacing)
        factor = 1.0 if number is None else restless(number, settles)
        art_ms = None if reply.art_ms is None else reply.art_ms / factor
        return replace(reply, iops=reply.iops * factor, art_ms=art_ms)

    return script


def saturating(step: IoStep) -> Reply:
    """4000 IOPS per outstanding I/O, 100 000 at most: MaxIOPS is at 32 OIO (ART 0.32 ms), 1024 OIO have 10.24 ms."""
    total = step.stimulus.thread_count * step.stimulus.queue_depth
    return Reply(min(100_000.0, 4000.0 * total), art_ms=total / min(100_000.0, 4000.0 * total) * 1e3)
