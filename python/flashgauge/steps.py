"""The steps a test asks for: frozen values, no I/O, no clock.

A test of the standard (`flashgauge.spec`) is a generator that yields these and receives a
`Measurement` back for each `Precondition` and `Measure`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from flashgauge.disclosure import Disclosure
    from flashgauge.steadystate import Verdict

KIB = 1024


@dataclass(frozen=True)
class LbaGroup:
    """A part of the active range (percent of it) and the share of I/Os it receives."""

    start_percent: float
    end_percent: float
    probability_percent: float


@dataclass(frozen=True)
class Stimulus:
    """What I/O to issue, in the standard's terms.

    `block_sizes`: (bytes, weight) pairs, drawn per I/O. `read_percent`: share of reads, drawn per I/O.
    `active_range_percent`: ActiveRange(start:end), definition 2.1.1. `queue_depth`: OIO per thread.
    `alignment_bytes`: None aligns each I/O to its own size. `groups`: only for access "groups"; `sequential_percent`:
    only for access "mixed", the share of I/Os that go on in sequence, the rest being random.

    `rate_iops`: an open loop of so many I/Os per second over all threads, evenly spaced or as a Poisson process
    (`arrivals`). Each I/O has a time at which it is due, and its latency counts from then; `queue_depth` only limits
    how many are outstanding. None: a closed loop, which issues the next I/O when one completes.
    """

    access: Literal["random", "sequential", "groups", "mixed"]
    block_sizes: tuple[tuple[int, int], ...]
    read_percent: float
    thread_count: int
    queue_depth: int
    active_range_percent: tuple[float, float] = (0.0, 100.0)
    groups: tuple[LbaGroup, ...] = ()
    entropy_percent: int = 100
    alignment_bytes: int | None = None
    sequential_percent: float = 0.0
    rate_iops: float | None = None
    arrivals: Literal["fixed", "poisson"] = "fixed"

    def to_json(self) -> str:
        """The core's form of the stimulus (crates/core/src/workload.rs, `Stimulus`)."""
        access: dict[str, Any] = {"kind": self.access}
        if self.access == "groups":
            access["groups"] = [vars(group) for group in self.groups]
        if self.access == "mixed":
            access["sequential_percent"] = self.sequential_percent
        rate = {} if self.rate_iops is None else {"rate": {"ios_per_s": self.rate_iops, "arrivals": self.arrivals}}
        return json.dumps(
            {
                "access": access,
                "block_sizes": [{"bytes": size, "weight": weight} for size, weight in self.block_sizes],
                "read_percent": self.read_percent,
                "active_range": {
                    "start_percent": self.active_range_percent[0],
                    "end_percent": self.active_range_percent[1],
                },
                "thread_count": self.thread_count,
                "queue_depth": self.queue_depth,
                "entropy_percent": self.entropy_percent,
                "alignment_bytes": self.alignment_bytes,
                **rate,
            }
        )


@dataclass(frozen=True)
class Stop:
    """When a step ends: exactly one of a time, a number of bytes, a number of I/Os.

    `keep_loaded`: after its bytes, the step's I/O goes on uncounted until the next step is there, so that the device
    does not idle; without it the device has had exactly so many bytes when the step ends. A timed step always goes on,
    unless `then_idle`: nothing is sent after its time, because idling is what comes next (11.2).
    """

    seconds: float | None = None
    bytes: int | None = None
    ios: int | None = None
    keep_loaded: bool = False
    then_idle: bool = False

    def __post_init__(self) -> None:
        given = [value for value in (self.seconds, self.bytes, self.ios) if value is not None]
        if len(given) != 1 or given[0] <= 0:
            raise ValueError("a stop rule is one positive number of seconds, bytes or I/Os")
        if (self.then_idle and self.seconds is None) or (self.keep_loaded and self.bytes is None):
            raise ValueError("only a timed step is followed by idling, only one of bytes is kept loaded")

    def to_json(self) -> str:
        if self.seconds is not None:
            return json.dumps({"kind": "burst" if self.then_idle else "time", "ns": round(self.seconds * 1e9)})
        if self.bytes is not None:
            return json.dumps({"kind": "fill" if self.keep_loaded else "bytes", "bytes": self.bytes})
        return json.dumps({"kind": "ios", "ios": self.ios})


@dataclass(frozen=True)
class Label:
    """What a step is for. `purpose` is "wipc", "round" and the like; the rest is None where it does not apply.

    `number` counts from 1 within the purpose: minutes, accesses, or the like.
    """

    purpose: str
    round: int | None = None
    read_percent: int | None = None
    block_bytes: int | None = None
    number: int | None = None
    thread_count: int | None = None
    queue_depth: int | None = None

    def __str__(self) -> str:
        parts = [self.purpose if self.round is None else f"{self.purpose} {self.round}"]
        if self.number is not None:
            parts.append(f"no. {self.number}")
        if self.thread_count is not None:
            parts.append(f"T{self.thread_count}Q{self.queue_depth}")
        if self.read_percent is not None:
            parts.append(f"R/W {self.read_percent}/{100 - self.read_percent}")
        if self.block_bytes is not None:
            parts.append(f"{self.block_bytes / KIB:g} KiB")
        return ", ".join(parts)


@dataclass(frozen=True)
class Purge:
    """Return the device to a state as if never used (2.1.20, 3.2)."""


@dataclass(frozen=True)
class SetWriteCache:
    """Volatile write cache on (WCE) or off (WCD), section 3.7."""

    enabled: bool


@dataclass(frozen=True)
class Precondition:
    """Writing that prepares the device; measured, but not part of a result (2.1.18)."""

    stimulus: Stimulus
    stop: Stop
    label: Label


@dataclass(frozen=True)
class Measure:
    """One test point: a stimulus for a time, and its measurement."""

    stimulus: Stimulus
    stop: Stop
    label: Label


@dataclass(frozen=True)
class Idle:
    """The host sends nothing for this long."""

    seconds: float


@dataclass(frozen=True)
class RoundJudged:
    """End of a round, for observers only: each tracking variable's values so far in `unit`, and the verdict on its
    last five (none before round 5). `phase`: what the rounds are of, where a test has several series of them."""

    round: int
    values: dict[str, tuple[float, ...]]
    verdicts: dict[str, Verdict]
    phase: str = ""
    unit: str = "IOPS"


@dataclass(frozen=True)
class Disclose:
    """The test itself found a departure from the standard."""

    disclosure: Disclosure


IoStep = Precondition | Measure
Step = Purge | SetWriteCache | Precondition | Measure | Idle | RoundJudged | Disclose
