"""Counters of the host, sampled on the clock of the I/O, and what they say of a window.

Every counter only grows. Between two samples it is taken to grow evenly, so that a window that begins and ends between
samples gets its share, and the intervals of a window are those of the engine's series. Pure functions.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from flashgauge.measurement import HostSeries, HostUsage

NS_PER_S = 1e9


@dataclass(frozen=True)
class Sample:
    """Counters at one moment, `at_ns` on the clock of real devices' measurements; None without a source.

    Ticks are of all CPUs together (proc(5)). `engine_ns`: time that the engine's threads ran or waited for a CPU.
    """

    at_ns: int
    total_ticks: int | None = None
    system_ticks: int | None = None
    iowait_ticks: int | None = None
    idle_ticks: int | None = None
    interrupts: int | None = None
    engine_ns: int | None = None
    energy_j: float | None = None


@dataclass(frozen=True)
class Window:
    """A step's window, on the same clock, and its engine's intervals."""

    start_ns: int
    end_ns: int
    interval_ns: int
    thread_count: int


Counter = Callable[[Sample], "float | None"]


class Curve:
    """One counter over time; before its first sample and after its last it stands still."""

    def __init__(self, samples: Iterable[Sample], counter: Counter) -> None:
        known = [(sample.at_ns, value) for sample in samples if (value := counter(sample)) is not None]
        self._at_ns = [at_ns for at_ns, _ in known]
        self._values = [value for _, value in known]

    def at(self, at_ns: float) -> float:
        after = bisect_right(self._at_ns, at_ns)
        if after in {0, len(self._at_ns)}:
            return self._values[max(after - 1, 0)]
        (from_ns, to_ns), (before, then) = self._at_ns[after - 1 : after + 1], self._values[after - 1 : after + 1]
        return before + (then - before) * (at_ns - from_ns) / (to_ns - from_ns)

    def grown(self, from_ns: float, to_ns: float) -> float | None:
        """By how much, between two moments; None without two samples to tell."""
        if len(self._values) < 2:
            return None
        # iowait may run backwards (proc(5)); a negative share would be nonsense.
        return max(0.0, self.at(to_ns) - self.at(from_ns))


def _unused(sample: Sample) -> int | None:
    return None if sample.idle_ticks is None else sample.idle_ticks + (sample.iowait_ticks or 0)


def usage(samples: Sequence[Sample], window: Window) -> HostUsage:
    """Of the whole window, as far as the samples cover it."""
    covered = _covered(samples, window.start_ns, window.end_ns)
    if covered is None:
        return HostUsage()
    from_ns, to_ns = covered
    seconds = (to_ns - from_ns) / NS_PER_S

    def grown(counter: Counter) -> float | None:
        return Curve(samples, counter).grown(from_ns, to_ns)

    def percent(counter: Counter) -> float | None:
        share, total = grown(counter), grown(lambda s: s.total_ticks)
        return 100 * share / total if total and share is not None else None

    unused = percent(_unused)
    engine_ns, energy_j = grown(lambda s: s.engine_ns), grown(lambda s: s.energy_j)
    interrupts = grown(lambda s: s.interrupts)
    window_s = (window.end_ns - window.start_ns) / NS_PER_S
    return HostUsage(
        cpu_system_percent=percent(lambda s: s.system_ticks),
        cpu_iowait_percent=percent(lambda s: s.iowait_ticks),
        cpu_busy_percent=None if unused is None else 100 - unused,
        interrupts=None if interrupts is None else round(interrupts * window_s / seconds),
        engine_busy_percent=(
            None if engine_ns is None else min(100.0, engine_ns / (to_ns - from_ns) / window.thread_count * 100)
        ),
        power_w=None if energy_j is None else energy_j / seconds,
        energy_j=None if energy_j is None else energy_j / seconds * window_s,
    )


def series(samples: Sequence[Sample], window: Window, temperatures: Sequence[tuple[int, float]] = ()) -> HostSeries:
    """One value for each interval; the last may be shorter. Empty where an interval has no value. `temperatures`: when
    and what was read."""
    edges = [*range(window.start_ns, window.end_ns, window.interval_ns), window.end_ns]
    spans = list(pairwise(edges))
    first, last = (samples[0].at_ns, samples[-1].at_ns) if samples else (0, 0)
    if len(spans) < 2 or first > spans[0][1] or last < spans[-1][0]:
        return HostSeries()  # one interval says no more than the whole window

    def each(counter: Counter) -> list[float] | None:
        curve = Curve(samples, counter)
        found = [curve.grown(*span) for span in spans]
        return None if None in found else [value or 0.0 for value in found]

    def percent(counter: Counter) -> tuple[float, ...]:
        parts = each(counter)
        if parts is None or totals is None or not all(totals):
            return ()
        return tuple(round(100 * part / total, 2) for part, total in zip(parts, totals, strict=True))

    totals = each(lambda s: s.total_ticks)
    interrupts, joules = each(lambda s: s.interrupts), each(lambda s: s.energy_j)
    return HostSeries(
        cpu_system_percent=percent(lambda s: s.system_ticks),
        cpu_iowait_percent=percent(lambda s: s.iowait_ticks),
        interrupts=tuple(round(value) for value in interrupts or ()),
        power_w=tuple(
            round(value * NS_PER_S / (end - begin), 4) for value, (begin, end) in zip(joules or (), spans, strict=False)
        ),
        temperature_c=_placed(temperatures, spans),
    )


def _placed(temperatures: Sequence[tuple[int, float]], spans: Sequence[tuple[int, int]]) -> tuple[float | None, ...]:
    """Each reading in the interval that it was made in."""
    begins = [begin for begin, _ in spans]
    places = [(bisect_right(begins, at_ns) - 1, value) for at_ns, value in temperatures if at_ns < spans[-1][1]]
    found = {place: value for place, value in places if place >= 0}
    return tuple(found.get(i) for i in range(len(spans))) if found else ()


def _covered(samples: Sequence[Sample], start_ns: int, end_ns: int) -> tuple[int, int] | None:
    """The part of the window for which there are samples on both sides; None when that is nothing."""
    if len(samples) < 2:
        return None
    from_ns, to_ns = max(start_ns, samples[0].at_ns), min(end_ns, samples[-1].at_ns)
    return (from_ns, to_ns) if to_ns > from_ns else None
