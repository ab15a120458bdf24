"""A test without a device: its steps, when every answer is made up. How long it takes, and what it will ask for.

The generator itself is asked, so that nothing can be forgotten when a test changes. What is made up is a drive that is
as fast as it may be and steady as soon as a round is judged, one that is as slow as it may be and never steady, and
one that is steady in the last round allowed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from flashgauge.measurement import NS_PER_S, Direction, Intervals, Measurement
from flashgauge.spec.registry import Spec
from flashgauge.steps import Idle, IoStep, Measure, Precondition, RoundJudged, Step, Stimulus, Stop

_NO_SERIES = Intervals(NS_PER_S, (), (), (), (), (), (), ())
_NOTHING = Direction(0, 0, 0, 0, 0, 0, "")


@dataclass(frozen=True)
class Rates:
    """What is supposed of steps like one that was measured, relative to the extremes seen so far; and of others."""

    iops: float
    bytes_per_s: float
    iops_factor: float
    bytes_factor: float
    pick: Callable[[Sequence[float]], float]


# A drive fresh out of the box may write fifty times as fast as it will in the end, so little follows from its begin.
_FAST = Rates(iops=1e7, bytes_per_s=1e12, iops_factor=1.25, bytes_factor=2.0, pick=max)
_SLOW = Rates(iops=100.0, bytes_per_s=1.0, iops_factor=1 / 1.25, bytes_factor=1 / 50, pick=min)


@dataclass(frozen=True)
class Remaining:
    """What is left to do: seconds of timed steps and of idling, bytes of steps that end by bytes, number of steps."""

    seconds: float
    fill_bytes: int
    steps: int


@dataclass
class Supposed:
    """A drive made up. `steady(judged)`: whether it is, in a round whose window holds made-up values."""

    rates: Rates
    steady: Callable[[RoundJudged], bool]
    last_rounds: dict[str, int] = field(default_factory=dict)
    _seen: dict[Stimulus, list[tuple[float, float]]] = field(default_factory=dict)

    def learn(self, step: IoStep, measurement: Measurement) -> None:
        if measurement.window_ns:
            seen = (measurement.iops, measurement.written_bytes / measurement.window_s)
            self._seen.setdefault(step.stimulus, []).append(seen)

    def judge(self, judged: RoundJudged) -> None:
        """Replace the verdicts, which the test looks at when it goes on."""
        allowed = inf if self.steady(judged) else -1.0
        for name, verdict in judged.verdicts.items():
            judged.verdicts[name] = replace(verdict, data_excursion_allowed=allowed, slope_excursion_allowed=inf)

    def answer(self, step: IoStep) -> Measurement:
        rates, seen = self.rates, self._seen.get(step.stimulus)
        window_s = step.stop.seconds if step.stop.seconds is not None else 1.0
        if seen:
            iops = rates.iops_factor * rates.pick([iops for iops, _ in seen])
            bytes_per_s = rates.bytes_factor * rates.pick([per_s for _, per_s in seen])
        else:
            # The slow drive has points between T1Q1 and the fastest, which get histograms of their own.
            total_oio = step.stimulus.thread_count * step.stimulus.queue_depth
            iops = rates.iops + (total_oio if rates.pick is min else 0)
            bytes_per_s = rates.bytes_per_s
        ios = round(iops * window_s) + 1
        done = Direction(ios, ios * 4096, ios, ios * 4096, ios * 1000, 1000, "")
        return Measurement(
            start_ns=0,
            window_ns=round(window_s * NS_PER_S),
            read=_NOTHING,
            write=done,
            intervals=_NO_SERIES,
            submitted_ios=ios,
            handover_ios=0,
            late_ios=0,
            handover_ns=0,
            bridge_ios=0,
            gap_ns=0,
            stop_reason="complete",
            written_bytes=round(bytes_per_s * window_s),
        )


def soonest() -> Supposed:
    return Supposed(_FAST, lambda _judged: True)


def never() -> Supposed:
    return Supposed(_SLOW, lambda _judged: False)


def at_last(last_rounds: dict[str, int]) -> Supposed:
    """Steady in the last round of each phase: longest for a test that ends where it is not steady (11.2)."""
    return Supposed(_SLOW, lambda judged: judged.round == last_rounds.get(judged.phase))


def stripped(measurement: Measurement) -> Measurement:
    """Without histograms and series: what a generator looks at, small enough to keep thousands of."""
    return replace(
        measurement,
        read=replace(measurement.read, counts=""),
        write=replace(measurement.write, counts=""),
        intervals=_NO_SERIES,
    )


def dry_run(spec: Spec, supposed: Supposed, answered: Sequence[Measurement] = ()) -> list[Step]:
    """The steps that follow those `answered` so far."""
    ahead: list[Step] = []
    used = 0
    answer: Measurement | None = None
    guessing = False
    while True:
        try:
            step = spec.send(answer)
        except StopIteration:
            return ahead
        answer = None
        if isinstance(step, RoundJudged):
            supposed.last_rounds[step.phase] = step.round
            if guessing:
                supposed.judge(step)
        if isinstance(step, Precondition | Measure) and used < len(answered):
            answer = answered[used]
            supposed.learn(step, answer)
            used += 1
            ahead.clear()
            continue
        ahead.append(step)
        if isinstance(step, Precondition | Measure):
            answer = supposed.answer(step)
            guessing = True


def remaining(steps: Sequence[Step]) -> Remaining:
    """The sum of what `steps` ask for."""
    io_steps = [step for step in steps if isinstance(step, Precondition | Measure)]
    idle_s = sum(step.seconds for step in steps if isinstance(step, Idle))
    return Remaining(
        seconds=idle_s + sum(step.stop.seconds or 0.0 for step in io_steps),
        fill_bytes=sum(step.stop.bytes or 0 for step in io_steps),
        steps=len(io_steps),
    )


def bounds(spec: Callable[[], Spec], answered: Sequence[Measurement] = ()) -> tuple[Remaining, Remaining]:
    """The least and the most that is left to do after the steps `answered` so far."""
    slow = never()
    found = [remaining(dry_run(spec(), slow, answered))]
    found += [remaining(dry_run(spec(), drive, answered)) for drive in (soonest(), at_last(slow.last_rounds))]
    return min(found, key=lambda left: left.seconds), max(found, key=lambda left: left.seconds)


def kinds_of_steps(spec: Callable[[], Spec]) -> list[IoStep]:
    """One step of each kind the test can ask for: no two have the same stimulus and stop rule."""
    found: dict[tuple[Stimulus, Stop], IoStep] = {}
    for drive in (soonest(), never()):
        for step in dry_run(spec(), drive):
            if isinstance(step, Precondition | Measure):
                found.setdefault((step.stimulus, step.stop), step)
    return list(found.values())
