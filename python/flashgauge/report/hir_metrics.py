"""The numbers of a HIR report: pre-conditioning, and the segments of wait states and returns to baseline.

A segment's IOPS are all its I/Os over all its windows: idle time belongs to no window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from flashgauge.report.metrics import host_mean
from flashgauge.report.replay import Replay
from flashgauge.report.series import (
    Point,
    largest_mrt_ms,
    of_purpose,
    points,
    pooled_art_ms,
    pooled_iops,
)
from flashgauge.spec.hir import HirParameters, baseline_purpose, wait_purpose
from flashgauge.steadystate import Verdict, judge


@dataclass(frozen=True)
class Segment:
    """Accesses of one kind. `expected`: how many the test asks for. Figures are of those that are there; None when
    there is none."""

    name: str
    accesses: tuple[Point, ...]
    expected: int

    @property
    def iops(self) -> float | None:
        return pooled_iops(self.accesses)

    @property
    def art_ms(self) -> float | None:
        return pooled_art_ms(self.accesses)

    @property
    def mrt_ms(self) -> float | None:
        return largest_mrt_ms(self.accesses)

    @property
    def lowest(self) -> float | None:
        return min((point.iops for point in self.accesses), default=None)

    @property
    def highest(self) -> float | None:
        return max((point.iops for point in self.accesses), default=None)

    @property
    def amplitude_percent(self) -> float | None:
        """Highest less lowest access, of the segment's IOPS."""
        if not self.iops or self.highest is None or self.lowest is None:
            return None
        return 100 * (self.highest - self.lowest) / self.iops

    @property
    def is_whole(self) -> bool:
        return len(self.accesses) == self.expected

    @property
    def title(self) -> str:
        """The name; of a part of a segment, with how much of it is there."""
        return self.name if self.is_whole else f"{self.name}: {len(self.accesses)} of {self.expected}"

    def host(self, metric: str) -> float | None:
        if not self.accesses:
            return None
        found = [point.measurement for point in self.accesses]
        return host_mean(found, lambda m: getattr(m.host, metric))


@dataclass(frozen=True)
class WaitState:
    """`wait_s`: idle time after each access. `bursts`: accesses A. `back`: accesses C, the return to baseline."""

    wait_s: float
    multiple: float
    bursts: Segment
    back: Segment

    @property
    def short_name(self) -> str:
        return f"WS {self.multiple:.3g}"

    @property
    def kept_s(self) -> tuple[float, ...]:
        """Idle times really kept, of accesses before which idle time was asked for."""
        found = (*self.bursts.accesses, *self.back.accesses[:1])
        return tuple((p.measurement.gap_ns or 0) / 1e9 for p in found if p.measurement.idle_ns)


@dataclass(frozen=True)
class HostIdle:
    """`minutes`: of the pre-conditioning. `rounds`: those that are tracking rounds. `window`: the numbers of those of
    the measurement window, or the last complete ones. `baseline`: the window's minutes, once they are steady."""

    parameters: HirParameters
    minutes: tuple[Point, ...]
    rounds: tuple[Point, ...]
    window: tuple[int, ...]
    steady: bool
    baseline: Segment
    states: tuple[WaitState, ...]

    @property
    def verdict(self) -> Verdict | None:
        """2.1.24 on the window's rounds; None with fewer than two."""
        values = [self.rounds[number - 1].iops for number in self.window]
        return judge(values, self.window[0], self.parameters.criteria) if len(values) > 1 else None

    @property
    def begun(self) -> tuple[WaitState, ...]:
        """The wait states of which there is at least one access."""
        return tuple(state for state in self.states if state.bursts.accesses)

    @property
    def segments(self) -> Iterator[Segment]:
        """All that have accesses, in the order of the test."""
        for state in self.begun:
            yield state.bursts
            if state.back.accesses:
                yield state.back


def arrange(replay: Replay) -> HostIdle:
    """The journal as pre-conditioning and segments."""
    parameters: HirParameters = replay.parameters
    every = points(replay.entries)
    minutes = of_purpose(every, "pre-conditioning")
    rounds = minutes[:: parameters.round_spacing_minutes][: len(replay.judged)]
    last = len(rounds)
    window = tuple(range(max(1, last - parameters.window_rounds + 1), last + 1))
    verdicts = replay.judged[-1].verdicts if replay.judged else {}
    steady = bool(verdicts) and all(verdict.steady for verdict in verdicts.values())
    found = tuple(rounds[number - 1] for number in window) if steady else ()
    return HostIdle(
        parameters=parameters,
        minutes=minutes,
        rounds=rounds,
        window=window,
        steady=steady,
        baseline=Segment("Baseline", found, parameters.window_rounds),
        states=tuple(_state(parameters, wait_s, every) for wait_s in parameters.waits_s),
    )


def _state(parameters: HirParameters, wait_s: float, every: Sequence[Point]) -> WaitState:
    multiple = wait_s / parameters.access_s
    name = f"WS {multiple:.3g} ({wait_s:g} s)"
    return WaitState(
        wait_s,
        multiple,
        Segment(name, of_purpose(every, wait_purpose(wait_s)), parameters.wait_accesses),
        Segment(f"Return after {name}", of_purpose(every, baseline_purpose(wait_s)), parameters.baseline_accesses),
    )


def gain_percent(value: float | None, base: float | None) -> float | None:
    """How far `value` is above `base`; None when one of them is not there."""
    return 100 * (value - base) / base if value is not None and base else None


@dataclass(frozen=True)
class Excess:
    """Idle time beyond what was asked for, in ms, over `count` idle times."""

    count: int
    least_ms: float
    median_ms: float
    most_ms: float


def excess(state: WaitState) -> Excess | None:
    """Idle times kept less those asked for; None when none was kept."""
    over = [1e3 * (kept - state.wait_s) for kept in state.kept_s]
    return Excess(len(over), min(over), median(over), max(over)) if over else None
