"""Time left of a run, least to most: most when steady state takes all rounds, least when it comes as soon as it can.

What is left is asked of the test itself (`spec.forecast`), again at each judged round. Rates are those seen so far: a
simulated drive's second takes the host less, or more, than a second.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flashgauge.measurement import NS_PER_S, Measurement
from flashgauge.spec.forecast import Remaining, bounds, stripped
from flashgauge.spec.registry import Spec
from flashgauge.steps import IoStep


@dataclass(frozen=True)
class TimeLeft:
    least_s: float
    most_s: float


@dataclass
class _Pace:
    """Host seconds that an amount of work took."""

    host_s: float = 0.0
    amount: float = 0.0

    def per_unit(self) -> float | None:
        return self.host_s / self.amount if self.amount > 0 else None


class Estimator:
    """Fed with what happens, on the host's clock (`now_s`, any monotonic time)."""

    def __init__(self, spec: Callable[[], Spec], virtual_time: bool) -> None:
        self._spec = spec
        self._virtual_time = virtual_time
        self._answers: list[Measurement] = []
        self._since_s: float | None = None
        self._fill_began_s = 0.0
        self._fill = _Pace()
        self._time = _Pace()
        self._fill_step_bytes = 0
        self._fill_done = 0.0
        self.least, self.most = bounds(spec)
        self._seconds_since = self._bytes_since = 0.0

    def started(self, step: IoStep, now_s: float) -> None:
        # The idle time before a step belongs to it, as `idle_ns` does: it runs from the end of the step before.
        if self._since_s is None:
            self._since_s = now_s
        self._fill_began_s = now_s
        self._fill_step_bytes = step.stop.bytes or 0

    def progress(self, ios: int, block_bytes: int) -> None:
        """I/Os done of the step under way; only a fill's matter."""
        if self._fill_step_bytes:
            self._fill_done = min(float(ios * block_bytes), float(self._fill_step_bytes))

    def done(self, step: IoStep, measurement: Measurement, now_s: float) -> None:
        self._answers.append(stripped(measurement))
        if step.stop.bytes:
            self._fill = _Pace(self._fill.host_s + now_s - self._fill_began_s, self._fill.amount + step.stop.bytes)
            self._bytes_since += step.stop.bytes
        else:
            seconds = (step.stop.seconds or 0.0) + measurement.idle_ns / NS_PER_S
            since_s = self._since_s if self._since_s is not None else now_s
            self._time = _Pace(self._time.host_s + now_s - since_s, self._time.amount + seconds)
            self._seconds_since += seconds
        self._since_s, self._fill_step_bytes, self._fill_done = now_s, 0, 0.0

    def judged(self) -> None:
        """A round is over: ask anew what is left."""
        self.least, self.most = bounds(self._spec, self._answers)
        self._seconds_since = self._bytes_since = 0.0

    def left(self, now_s: float) -> TimeLeft | None:
        """None while there is nothing to go by."""
        least, most = self._left(self.least, now_s), self._left(self.most, now_s)
        return None if least is None or most is None else TimeLeft(least, most)

    def _left(self, remaining: Remaining, now_s: float) -> float | None:
        seconds = max(0.0, remaining.seconds - self._seconds_since)
        fill_bytes = max(0.0, remaining.fill_bytes - self._bytes_since - self._fill_done)
        per_second = self._time.per_unit() if self._virtual_time else 1.0
        per_byte = self._fill.per_unit()
        if self._fill_step_bytes and self._fill_done:
            per_byte = (now_s - self._fill_began_s) / self._fill_done
        elif not self._fill_step_bytes and not self._virtual_time and self._since_s is not None:
            seconds = max(0.0, seconds - (now_s - self._since_s))
        if (fill_bytes > 0 and per_byte is None) or (seconds > 0 and per_second is None):
            return None
        return fill_bytes * (per_byte or 0.0) + seconds * (per_second or 0.0)
