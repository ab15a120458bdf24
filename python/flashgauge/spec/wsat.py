"""Write Saturation test (PTS 2.0.1 section 10): one workload from fresh out of the box until it has saturated.

Minute by minute, from the purge on, without any pre-conditioning, until 4 user capacities are written, 6 hours have
passed, or five rounds 30 minutes apart are steady: whichever is first. Then a histogram of 20 minutes.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flashgauge.measurement import Measurement
from flashgauge.spec.lat import FIVE_NINES, histogram_seconds, unresolved
from flashgauge.spec.parameters import SteadyStateParameters, parameter
from flashgauge.spec.rounds import Settled, answered, minute_step, minutes, until_steady
from flashgauge.spec.workloads import WORKLOADS, AccessPattern
from flashgauge.steps import Disclose, IoStep, Label, Measure, Purge, SetWriteCache, Step, Stimulus, Stop

StopReason = Literal["written", "time", "steady"]


@dataclass(frozen=True)
class WsatParameters(SteadyStateParameters):
    CLIENT: ClassVar[dict[str, Any]] = {
        "thread_count": 2,
        "queue_depth": 16,
        "write_cache_enabled": True,
        "active_range_percent": 75.0,
    }

    write_cache_enabled: bool = parameter(False, "10.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(100.0, "10.2", "share of the LBAs accessed", least=0.1, most=100)
    workload: str = parameter("write-intensive", "10.2 2.2.3", "workload", free=True, choices=tuple(WORKLOADS))
    thread_count: int = parameter(4, "10.2 2.1.3", "thread count", free=True, least=1, most=1024)
    sequential_thread_count: int = parameter(
        1, "10.2 2.1.3", "thread count of a sequential workload", free=True, least=1, most=1024
    )
    queue_depth: int = parameter(32, "10.2 2.1.2", "OIO per thread", free=True, least=1, most=8192)
    sequential_queue_depth: int = parameter(
        32, "10.2 2.1.2", "OIO per thread of a sequential workload", free=True, least=1, most=8192
    )
    max_capacities: float = parameter(
        4.0, "10.2 2.2", "user capacities written, then the test ends", free_upwards=True, least=0.001, most=1000
    )
    max_minutes: int = parameter(
        360, "10.2 2.2", "minutes, then the test ends", free_upwards=True, least=1, most=100_000
    )
    minute_s: float = parameter(60.0, "10.3.2", "seconds of a minute", least=0.01, most=3600)
    round_spacing_minutes: int = parameter(
        30, "10.3.2", "minutes from the begin of a round to that of the next", least=1, most=1440
    )
    histogram_s: float = parameter(
        1200.0, "10.2 2.4.1", "seconds of the histogram", free_upwards=True, least=0.01, most=1e7
    )
    nines: int = parameter(FIVE_NINES, "10.2 2.4.3", "nines the histogram is to resolve", free=True, least=1, most=9)
    nines_factor: float = parameter(
        1.5, "10.2 2.4.3", "I/Os in the histogram, times the least for the nines", free_upwards=True, least=1, most=100
    )

    @property
    def pattern(self) -> AccessPattern:
        return WORKLOADS[self.workload]

    @property
    def stimulus(self) -> Stimulus:
        pattern = self.pattern
        sequential = pattern.access == "sequential"
        return pattern.stimulus(
            self.sequential_thread_count if sequential else self.thread_count,
            self.sequential_queue_depth if sequential else self.queue_depth,
            active_range_percent=self.active_range_percent,
            entropy_percent=self.entropy_percent,
        )


@dataclass(frozen=True)
class WsatOutcome:
    """`stop`: which of the three ends came first. `minutes`: how many there were. `written_bytes`: from the purge to
    the last of them. `steady`: None when steady state was not what ended it: that is no departure."""

    stop: StopReason
    minutes: int
    written_bytes: int
    rounds: Settled
    histogram_s: float
    resolved: bool

    @property
    def steady(self) -> bool | None:
        return True if self.stop == "steady" else None


def wsat(parameters: WsatParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, WsatOutcome]:
    """The write saturation test as steps; `capacity_bytes` is the user capacity."""
    stimulus, pattern = parameters.stimulus, parameters.pattern
    enough_bytes = parameters.max_capacities * capacity_bytes
    done = {"minutes": 0, "bytes": 0}
    rates: list[float] = []

    def step(minute: int) -> IoStep:
        return minute_step("minute", stimulus, parameters.minute_s, minute)

    def go_on(minute: int, measurement: Measurement) -> bool:
        done["minutes"] = minute
        done["bytes"] += measurement.written_bytes
        rates.append(measurement.iops)
        return done["bytes"] < enough_bytes and minute < parameters.max_minutes

    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    one_round = minutes(step, f"IOPS of {pattern.title}", parameters.round_spacing_minutes, go_on)
    # No number of rounds ends the test: there is a round a minute at most.
    settled = yield from until_steady(parameters, one_round, max_rounds=parameters.max_minutes)
    stop: StopReason = "steady" if settled.steady else "written" if done["bytes"] >= enough_bytes else "time"
    seconds = histogram_seconds(parameters.histogram_s, parameters.nines, parameters.nines_factor, rates[-1])
    label = Label("histogram", None, pattern.read_percent, pattern.block_bytes)
    measurement = yield from answered(Measure(stimulus, Stop(seconds=seconds), label))
    resolved = measurement.ios >= 10**parameters.nines
    if not resolved:
        yield Disclose(unresolved("10.2 2.4.3", parameters.nines, parameters.nines_factor, measurement.ios))
    return WsatOutcome(stop, done["minutes"], done["bytes"], settled, seconds, resolved)
