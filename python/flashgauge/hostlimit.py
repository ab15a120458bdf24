"""Whether a result is the drive's or the host's: what the host can do at most, and how busy it was.

A test point is the host's when one of three things is so:

    ceiling    it has 90 % or more of the IOPS that the engine reaches with the same stimulus and no device at all
    threads    the engine's threads ran, or were ready and waited for a CPU, for 95 % or more of the window: they were
               never waiting for the drive, so that a faster drive would have been no faster here
    CPUs       all CPUs of the host together were busy for 95 % or more of the window, half of that or more in the
               kernel: its work for a device is not all done by the engine's threads. Other programs' load alone does
               not count; where it keeps the engine waiting, `threads` has it.

The ceiling is an upper bound: no-op requests enter the kernel by the same rings as I/Os, but no block layer and no
driver, and carry no data, so that real I/Os cost more; `threads` and `CPUs` are what tells before that. Another source
of ceilings needs only the two methods of `CeilingSource`. Not seen: a limit that keeps no CPU busy, such as an adapter,
an expander or a PCIe link that is slower than the drive (`flashgauge doctor` looks at the link). Threads that poll for
completions would always be busy.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from flashgauge._core import Session
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import HostUsage, Measurement
from flashgauge.steps import KIB, Label, Stimulus, Stop

# The tolerances: a ceiling of a fraction of a second is known to some percent, CPU time to about one.
CEILING_SHARE = 0.90
BUSY_PERCENT = 95.0
KERNEL_SHARE = 0.5
# Of one stimulus's measurement, and of all of them together.
LONGEST_S, SHORTEST_S, MOST_S = 0.2, 0.01, 10.0
# All of them together take so much of the test's own time, so that a shortened test is not mostly this.
SHARE_OF_TEST = 0.01
_RANGE_BYTES = 1 << 40
_INTERVAL_NS = 1_000_000_000


class CeilingSource(Protocol):
    """Something that completes I/Os at the host's own cost. `name`: for the report."""

    name: str

    def iops(self, stimulus: Stimulus, seconds: float) -> float:
        """I/Os per second in so many seconds."""

    def close(self) -> None: ...


class EngineCeiling:
    """The engine on a device that does nothing: streams, queues, clock and recording are as in a test."""

    def __init__(self, name: str, session: Session) -> None:
        self.name = name
        self._session = session

    def iops(self, stimulus: Stimulus, seconds: float) -> float:
        # A burst: no thread goes on when its time is over, and takes the CPU from those that are still in theirs.
        stop = Stop(seconds=seconds, then_idle=True)
        self._session.start(stimulus.to_json(), stop.to_json(), _INTERVAL_NS, True)
        while (raw := self._session.wait(1.0)) is None:
            pass
        completed = raw["read"]["window_ios"] + raw["write"]["window_ios"]
        return float(completed * 1e9 / raw["window_ns"]) if raw["window_ns"] else 0.0

    def close(self) -> None:
        self._session.close()


def engine_ceiling(max_queue_depth: int, seed: int = 1) -> EngineCeiling:
    """No-op requests through io_uring; without that, the null device."""
    try:
        return EngineCeiling("no-op requests", Session.nop(_RANGE_BYTES, seed, cpus(), max_queue_depth))
    except (OSError, ValueError):
        return EngineCeiling("null device", Session.null(_RANGE_BYTES, seed, cpus(), max_queue_depth))


@dataclass(frozen=True)
class Ceilings:
    """IOPS of each stimulus. `source`: the name of what they were measured with."""

    source: str
    iops: Mapping[Stimulus, float]

    def of(self, stimulus: Stimulus) -> float | None:
        """None where nothing was measured: a host busy with something else may not have had the time."""
        return self.iops.get(_key(stimulus)) or None

    def to_json(self) -> list[dict[str, Any]]:
        return [
            {"stimulus": stimulus_text(key), "source": self.source, "iops": round(iops)}
            for key, iops in self.iops.items()
        ]


def cpus() -> int:
    """CPUs that this process may use."""
    return len(os.sched_getaffinity(0))


def _key(stimulus: Stimulus) -> Stimulus:
    """What the host's ceiling depends on. Where on the device the I/Os go costs it nothing; and more threads than CPUs
    do no more than these, but take turns, so that their windows would not be of one time."""
    threads = min(stimulus.thread_count, cpus())
    return replace(stimulus, active_range_percent=(0.0, 100.0), thread_count=threads)


def stimulus_text(stimulus: Stimulus) -> str:
    sizes = ", ".join(f"{size / KIB:g}" for size, _ in stimulus.block_sizes)
    access = {"random": "RND", "sequential": "SEQ"}.get(stimulus.access, stimulus.access)
    mix = f"R/W {stimulus.read_percent:g}/{100 - stimulus.read_percent:g}"
    return f"{access} {sizes} KiB, {mix}, T{stimulus.thread_count}Q{stimulus.queue_depth}"


def measure(stimuli: Iterable[Stimulus], source: CeilingSource, test_s: float) -> Ceilings:
    """Each stimulus once. `test_s`: how long the test itself takes at least."""
    keys = list(dict.fromkeys(map(_key, stimuli)))
    each_s = min(MOST_S, SHARE_OF_TEST * test_s) / max(1, len(keys))
    each_s = min(LONGEST_S, max(SHORTEST_S, each_s))
    return Ceilings(source.name, {key: source.iops(key, each_s) for key in keys})


def limits(host: HostUsage, iops: float) -> tuple[str, ...]:
    """Which of "ceiling", "threads", "CPUs" were reached; empty: the result is the drive's, as far as is known."""
    in_kernel = (host.cpu_system_percent or 0.0) >= KERNEL_SHARE * (host.cpu_busy_percent or 0.0)
    busy = {"threads": host.engine_busy_percent, "CPUs": host.cpu_busy_percent if in_kernel else None}
    at_ceiling = host.ceiling_iops is not None and iops >= CEILING_SHARE * host.ceiling_iops > 0
    return (
        *(["ceiling"] if at_ceiling else []),
        *(name for name, percent in busy.items() if percent is not None and percent >= BUSY_PERCENT),
    )


_MEANINGS = {
    "ceiling": f"at {100 * CEILING_SHARE:g} % or more of what the engine reaches without a device",
    "threads": f"the engine's threads busy for {BUSY_PERCENT:g} % of the time or more, not waiting for the device",
    "CPUs": f"all CPUs busy for {BUSY_PERCENT:g} % of the time or more, mostly in the kernel",
}


@dataclass
class Tally:
    """Counts measured steps and those that the host limited."""

    steps: int = 0
    limited: int = 0
    first: str = ""
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, label: Label, measurement: Measurement) -> None:
        self.steps += 1
        if found := limits(measurement.host, measurement.iops):
            self.limited += 1
            self.first = self.first or str(label)
            self.reasons.update(found)

    @property
    def disclosure(self) -> Disclosure | None:
        if not self.limited:
            return None
        why = "; ".join(f"{_MEANINGS[name]} ({count})" for name, count in self.reasons.most_common())
        return Disclosure(
            Kind.HOST_LIMITED,
            "5.2",
            f"the host, not the drive, limited {self.limited} of {self.steps} measured steps, first {self.first}: "
            f"{why}",
            "use a host with more or faster CPUs, stop what else runs on it, or look at these points as lower bounds",
        )
