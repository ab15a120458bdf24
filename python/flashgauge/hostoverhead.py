"""What the host adds to a latency outside the block layer: the engine's time for an I/O less the block layer's.

Before its first step a run on a drive reads 4 KiB at queue depth 1 for half a second. The engine's time for an I/O is
from before it is handed to the kernel until its completion was taken; the block layer's is from when it made the
request until it had the drive's answer, by its own counters. What lies between is the host's, and no drive can make it
smaller; the driver's and the interrupt's part is not in it. It holds for an otherwise idle host and the shallowest
queue; when the CPUs are busy it is more.

The counters are in whole milliseconds: over some thousand I/Os, the mean is known to a fraction of a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from flashgauge._core import Session
from flashgauge.steps import Stimulus, Stop

SECONDS = 0.5
BLOCK_BYTES = 4096
TRIES = 3
# The last I/O may be counted a moment after it has returned.
COUNTED_S = 0.01
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
        own = f"{self.ns / 1e3:.1f} us" if self.ns > self.error_ns else f"less than {2 * self.error_ns / 1e3:.2g} us"
        return (
            f"{own} of {self.engine_ns / 1e3:.1f} us (mean of {self.ios:,} reads of 4 KiB at T1Q1, known to "
            f"{self.error_ns / 1e3:.2f} us)"
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(session: Session, block_reads: Callable[[], BlockReads | str]) -> HostOverhead | str:
    """Read from the device for half a second. Returns why it could not be measured where it could not. `block_reads`:
    or why there are none."""
    stimulus = Stimulus("random", ((BLOCK_BYTES, 1),), 100, 1, 1).to_json()
    stop = Stop(SECONDS, then_idle=True).to_json()  # nothing is left in flight
    try:
        session.check(stimulus, stop)
    except ValueError as error:
        return f"4 KiB cannot be read: {error}"
    for _ in range(TRIES):
        if isinstance(before := block_reads(), str):
            return before
        session.start(stimulus, stop, _INTERVAL_NS, True)
        while (raw := session.wait(1.0)) is None:
            pass
        if raw["errors"]:
            first = raw["errors"][0]
            return f"a {first['operation']} at sector {first['first_lba']} failed (errno {first['errno']})"
        time.sleep(COUNTED_S)
        if isinstance(after := block_reads(), str):
            return after
        ios: int = raw["read"]["ios"]
        if after.ios - before.ios == ios > 0:
            return HostOverhead(ios, raw["read"]["latency_sum_ns"] / ios, (after.ms - before.ms) * 1e6 / ios)
    return "the device had other I/Os meanwhile"
