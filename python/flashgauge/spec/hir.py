"""Host Idle Recovery test (PTS 2.0.1 section 11): does idle time between bursts of RND 4 KiB writes help the drive?

From the purge, writes until steady state. Then, for each wait state, 360 bursts of 5 s (access A), each followed by
idle time in which the host sends nothing at all (access B), and a return to baseline: 360 accesses of 5 s, back to
back (access C).
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import SteadyStateParameters, block, parameter
from flashgauge.spec.rounds import Settled, answered, minute_step, minutes, not_steady, until_steady
from flashgauge.steps import (
    KIB,
    Disclose,
    Idle,
    IoStep,
    Label,
    Measure,
    Purge,
    SetWriteCache,
    Step,
    Stimulus,
    Stop,
)

TRACKING = "IOPS of RND 4 KiB RW0"


@dataclass(frozen=True)
class HirParameters(SteadyStateParameters):
    CLIENT: ClassVar[dict[str, Any]] = {
        "thread_count": 2,
        "queue_depth": 16,
        "write_cache_enabled": True,
        "active_range_percent": 75.0,
    }

    # 11.2 2.1 has the other state as an option.
    write_cache_enabled: bool = parameter(False, "11.2 2.1", "volatile write cache", free=True)
    active_range_percent: float = parameter(100.0, "11.2 3", "share of the LBAs accessed", least=0.1, most=100)
    max_rounds: int = parameter(25, "11.2 3.2", "rounds, then the test is stopped", least=2, most=10_000)
    thread_count: int = parameter(4, "11.2 2.3", "thread count", free=True, least=1, most=1024)
    queue_depth: int = parameter(32, "11.2 2.2", "OIO per thread", free=True, least=1, most=8192)
    block_kib: float = block(4.0, "11.2 3", "block size")
    minute_s: float = parameter(60.0, "11.2 3.1", "seconds of a minute", least=0.01, most=3600)
    round_spacing_minutes: int = parameter(
        30, "11.2 3.2", "minutes from the begin of a round to that of the next", least=1, most=1440
    )
    waits_s: tuple[float, ...] = parameter(
        (5.0, 10.0, 15.0, 25.0, 50.0), "11.2 4-8", "idle times of the wait states, in order", least=0.01, most=86_400
    )
    access_s: float = parameter(5.0, "11.2 4.1", "seconds of an access", least=0.01, most=86_400)
    wait_accesses: int = parameter(360, "11.2 4.1", "bursts of each wait state", least=1, most=100_000)
    baseline_accesses: int = parameter(360, "11.2 4.2", "accesses of each return to baseline", least=1, most=100_000)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.waits_s)) < len(self.waits_s):
            raise ValueError("a wait state is listed twice")

    @property
    def stimulus(self) -> Stimulus:
        return Stimulus(
            access="random",
            block_sizes=((int(self.block_kib * KIB), 1),),
            read_percent=0,
            thread_count=self.thread_count,
            queue_depth=self.queue_depth,
            active_range_percent=(0.0, self.active_range_percent),
            entropy_percent=self.entropy_percent,
        )


@dataclass(frozen=True)
class HirOutcome:
    """The wait states follow only if the pre-conditioning became steady (11.2 step 3.2)."""

    rounds: Settled

    @property
    def steady(self) -> bool:
        return self.rounds.steady


def wait_purpose(wait_s: float) -> str:
    """Label of access A of a wait state."""
    return f"wait {wait_s:g} s"


def baseline_purpose(wait_s: float) -> str:
    """Label of access C after a wait state."""
    return f"baseline after {wait_s:g} s"


def hir(parameters: HirParameters, _capacity_bytes: int) -> Generator[Step, Measurement | None, HirOutcome]:
    """The host idle recovery test as steps."""
    stimulus = parameters.stimulus

    def minute(number: int) -> IoStep:
        return minute_step("pre-conditioning", stimulus, parameters.minute_s, number, precondition=True)

    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    one_round = minutes(minute, TRACKING, parameters.round_spacing_minutes)
    settled = yield from until_steady(parameters, one_round, max_rounds=parameters.max_rounds)
    if not settled.steady:
        advice = "the standard ends the test here; see how the drive's IOPS move in the pre-conditioning plot"
        yield Disclose(not_steady("11.2 3.2", settled, "pre-conditioning", advice))
        return HirOutcome(settled)
    for wait_s in parameters.waits_s:
        for number in range(1, parameters.wait_accesses + 1):
            stop = Stop(seconds=parameters.access_s, then_idle=True)
            yield from answered(Measure(stimulus, stop, Label(wait_purpose(wait_s), number=number)))
            yield Idle(wait_s)
        for number in range(1, parameters.baseline_accesses + 1):
            label = Label(baseline_purpose(wait_s), number=number)
            yield from answered(Measure(stimulus, Stop(seconds=parameters.access_s), label))
    return HirOutcome(settled)
