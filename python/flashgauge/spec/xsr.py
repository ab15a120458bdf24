"""Cross Stimulus Recovery test (PTS 2.0.1 section 12): sequential writes, random writes, sequential writes again.

Three access groups of hours each follow one another without a pause, logged minute by minute; the sequential position
of the first group goes on in the third. There is no steady state to reach.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import TestParameters, block, parameter
from flashgauge.spec.rounds import answered, minute_step
from flashgauge.steps import KIB, Purge, SetWriteCache, Step, Stimulus


@dataclass(frozen=True)
class XsrParameters(TestParameters):
    CLIENT: ClassVar[dict[str, Any]] = {
        "random_thread_count": 2,
        "random_queue_depth": 16,
        "write_cache_enabled": True,
        "active_range_percent": 75.0,
    }

    # The header line of 12.2 sets the cache by class. That it be disabled for groups 2 and 3 (3.1.1, 4.1.1) cannot be
    # meant for PTS-C: switching it would interrupt the very transition that is observed.
    write_cache_enabled: bool = parameter(False, "12.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(100.0, "12.2", "share of the LBAs accessed", least=0.1, most=100)
    sequential_block_kib: float = block(1024.0, "12.2 2", "block size of the sequential writes")
    sequential_thread_count: int = parameter(1, "12.2 2.1.3", "thread count, sequential", free=True, least=1, most=1024)
    sequential_queue_depth: int = parameter(
        32, "12.2 2.1.2", "OIO per thread, sequential", free=True, least=1, most=8192
    )
    random_block_kib: float = block(8.0, "12.2 3", "block size of the random writes")
    random_thread_count: int = parameter(4, "12.2 3.1.3", "thread count, random", free=True, least=1, most=1024)
    random_queue_depth: int = parameter(32, "12.2 3.1.2", "OIO per thread, random", free=True, least=1, most=8192)
    group_1_minutes: int = parameter(
        480, "12.2 2.2", "minutes of the first sequential writes", free_upwards=True, least=1, most=100_000
    )
    group_2_minutes: int = parameter(
        360, "12.2 3.2", "minutes of the random writes", free_upwards=True, least=1, most=100_000
    )
    group_3_minutes: int = parameter(
        480, "12.2 4.2", "minutes of the last sequential writes", free_upwards=True, least=1, most=100_000
    )
    minute_s: float = parameter(60.0, "12.2 2.2", "seconds of a minute", least=0.01, most=3600)

    def stimulus(self, access: Literal["random", "sequential"]) -> Stimulus:
        sequential = access == "sequential"
        return Stimulus(
            access=access,
            block_sizes=((int((self.sequential_block_kib if sequential else self.random_block_kib) * KIB), 1),),
            read_percent=0,
            thread_count=self.sequential_thread_count if sequential else self.random_thread_count,
            queue_depth=self.sequential_queue_depth if sequential else self.random_queue_depth,
            active_range_percent=(0.0, self.active_range_percent),
            entropy_percent=self.entropy_percent,
        )

    @property
    def groups(self) -> tuple[tuple[Literal["random", "sequential"], int], ...]:
        """Access and minutes of each access group, in order."""
        return (
            ("sequential", self.group_1_minutes),
            ("random", self.group_2_minutes),
            ("sequential", self.group_3_minutes),
        )


@dataclass(frozen=True)
class XsrOutcome:
    """All three groups are done. `steady`: None, since the test asks for no steady state."""

    steady: None = None


def group_purpose(group: int) -> str:
    """Label of the minutes of access group 1, 2 or 3."""
    return f"access group {group}"


def xsr(parameters: XsrParameters, _capacity_bytes: int) -> Generator[Step, Measurement | None, XsrOutcome]:
    """The cross stimulus recovery test as steps."""
    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    for group, (access, minutes) in enumerate(parameters.groups, 1):
        stimulus = parameters.stimulus(access)
        for minute in range(1, minutes + 1):
            yield from answered(minute_step(group_purpose(group), stimulus, parameters.minute_s, minute))
    return XsrOutcome()
