"""What the host adds to every latency: the engine's time for an I/O less the block layer's.

Before its first step a run on a drive reads 4 KiB at queue depth 1 for half a second. The engine's time for an I/O is
from before it is handed to the kernel until its completion was taken; the block layer's is from when it made the
request until the device had completed it, by its own counters. What lies between is the host's, and no drive can make
it smaller. It holds for an otherwise idle host and the shallowest queue; when the CPUs are busy it is more.

The counters are in whole milliseconds: over some thousand I/Os, the mean is known to a fraction of a microsecond.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flashgauge._core import Session
from flashgauge.steps import Stimulus, Stop

SECONDS = 0.5
BLOCK_BYTES = 4096
_INTERVAL_NS = 1_000_000_000


@dataclass(frozen=True)
class BlockReads:
    """Reads that the block layer has completed on a device so far, and for how long they were under way."""

    ios: int
    ms: int


@dataclass(frozen=True)
class HostOverhead:
    """Mean ns per read, by the engine and by the block layer, over `ios` of them."""

    ios: int
    engine_ns: float
    block_layer_ns: float

    @property
    def ns(self) -> float:
        return self.engine_ns - self.block_layer_ns

    @property
    def error_ns(self) -> float:
        """What the counters' whole milliseconds leave open, at most."""
        return 1e6 / self.ios

    def __str__(self) -> str:
        return (
            f"{self.ns / 1e3:.1f} us of {self.engine_ns / 1e3:.1f} us (mean of {self.ios:,} reads of 4 KiB at T1Q1, "
            f"known to {self.error_ns / 1e3:.2f} us)"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(session: Session, block_reads: Callable[[], BlockReads | None]) -> HostOverhead | str:
    """Read from the device for half a second. Returns why it could not be measured where it could not."""
    before = block_reads()
    if before is None:
        return "the kernel does not count the device's I/Os one by one"
    # A burst: nothing is left in flight when its time is over.
    stimulus, stop = (
        Stimulus("random", ((BLOCK_BYTES, 1),), 100, 1, 1).to_json(),
        Stop(SECONDS, then_idle=True).to_json(),
    )
    try:
        session.check(stimulus, stop)
    except ValueError as error:
        return f"4 KiB cannot be read: {error}"
    session.start(stimulus, stop, _INTERVAL_NS, True)
    while (raw := session.wait(1.0)) is None:
        pass
    after = block_reads()
    if raw["errors"]:
        return "reads failed"
    ios: int = raw["read"]["ios"]
    if after is None or ios == 0 or after.ios - before.ios != ios:
        return "the device had other I/Os meanwhile"
    return HostOverhead(ios, raw["read"]["latency_sum_ns"] / ios, (after.ms - before.ms) * 1e6 / ios)
