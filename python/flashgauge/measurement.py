"""What came back from one step: counters, histograms, interval series; immutable and raw.

Times are nanoseconds of the device's clock (virtual for a simulated drive). An I/O belongs to the step
that issued it; the window is the time the step was asked to run.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from flashgauge._core import Histogram

NS_PER_S = 1_000_000_000


@dataclass(frozen=True)
class Direction:
    """Reads or writes of one step.

    `ios` were issued in the window: the histogram and the latency sum hold them all; `latency_max_ns` is exact, where
    the histogram rounds to three digits. `window_ios` were completed in the window: IOPS counts them. The two differ
    at both ends: I/Os issued in the hand-over before the window complete in it, and the last ones issued complete
    after it.
    """

    ios: int
    bytes: int
    window_ios: int
    window_bytes: int
    latency_sum_ns: int
    latency_max_ns: int
    counts: Histogram | str

    @classmethod
    def from_raw(cls, data: dict[str, Any]) -> Direction:
        """From the core's or the journal's fields, in which the histogram (or its encoding) is "histogram"."""
        return cls(counts=data["histogram"], **{name: value for name, value in data.items() if name != "histogram"})

    def to_json(self) -> dict[str, Any]:
        numbers = {name: value for name, value in vars(self).items() if name != "counts"}
        return {**numbers, "histogram": self.counts if isinstance(self.counts, str) else self.counts.encode()}

    @property
    def histogram(self) -> Histogram:
        """Read from the journal, it is decoded anew each time: the histograms of a long run, all decoded and kept,
        would fill the memory."""
        return Histogram.decode(self.counts) if isinstance(self.counts, str) else self.counts


@dataclass(frozen=True)
class Intervals:
    """Series over the window, one value per interval of `interval_ns` (the last may be shorter). The latencies are
    of `latency_ios` I/Os: all completed in the interval but those of the hand-over."""

    interval_ns: int
    read_ios: tuple[int, ...]
    write_ios: tuple[int, ...]
    read_bytes: tuple[int, ...]
    write_bytes: tuple[int, ...]
    latency_ios: tuple[int, ...]
    latency_sum_ns: tuple[int, ...]
    latency_max_ns: tuple[int, ...]

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Intervals:
        series: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in data.items()}
        return cls(**series)

    def to_json(self) -> dict[str, Any]:
        return {name: list(v) if isinstance(v, tuple) else v for name, v in vars(self).items()}


@dataclass(frozen=True)
class IoErrors:
    """Failed I/Os of one kind: operation, errno, how many, and the first LBA (512-byte sectors)."""

    operation: str
    errno: int
    ios: int
    first_lba: int


@dataclass(frozen=True)
class HostUsage:
    """Host and drive conditions during the step; None where there was no source (`NotMeasured`).

    The host's are of the window: `cpu_system_percent`, `cpu_iowait_percent` and `cpu_busy_percent` (all but idle and
    iowait) of all CPUs together; `interrupts` of the device's; `engine_busy_percent` is the share of the window that
    the engine's threads, on average, ran or waited for a CPU, so that they did not wait for the device.
    `ceiling_iops`: what the host reaches with the same stimulus and no device (`hostlimit`).

    `power_w`, `energy_j`: of the window where a meter measures, and from the step's first I/O until its last came back
    where a simulated drive knows. `temperature_c`: mean over that time of a drive that keeps record, else as read when
    the step ended. From the drive's health log, since it was read before (`health_span_s` earlier, which may be several
    steps): `throttled_s`, how long the drive slowed itself down because it was hot, `throttle_transitions`, how often
    it began to, and new `media_errors`.
    """

    cpu_system_percent: float | None = None
    cpu_iowait_percent: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None
    temperature_max_c: float | None = None
    energy_j: float | None = None
    throttled_s: float | None = None
    cpu_busy_percent: float | None = None
    interrupts: float | None = None
    engine_busy_percent: float | None = None
    ceiling_iops: float | None = None
    throttle_transitions: int | None = None
    media_errors: int | None = None
    health_span_s: float | None = None

    def over(self, other: HostUsage) -> HostUsage:
        """What is known here, and for the rest what `other` knows."""
        known = {name: value for name, value in vars(self).items() if value is not None}
        return replace(other, **known)


@dataclass(frozen=True)
class HostSeries:
    """Host and drive over the intervals of the window, one value for each of `Intervals`; empty where there was no
    source. `interrupts`: of the device, in the interval. `temperature_c`: None where it was not read, which is in most
    intervals: a reading is a command to the drive."""

    cpu_system_percent: tuple[float, ...] = ()
    cpu_iowait_percent: tuple[float, ...] = ()
    interrupts: tuple[float, ...] = ()
    power_w: tuple[float, ...] = ()
    temperature_c: tuple[float | None, ...] = ()

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> HostSeries:
        return cls(**{name: tuple(values) for name, values in data.items()})

    def to_json(self) -> dict[str, Any]:
        return {name: list(values) for name, values in vars(self).items() if values}


@dataclass(frozen=True)
class Measurement:
    """One step's result.

    `gap_ns`: time the device had nothing outstanding before this step's first I/O; None for the first step.
    `handover_ns`: from the step's begin until the last I/O of the step before had come back; the window begins then.
    `handover_ios`: I/Os issued until then; their latency is owed to both steps and is in no histogram.
    `late_ios`: I/Os issued in the window that completed after it; they are in the histogram, not in IOPS.
    `bridge_ios`: I/Os issued between the window of the step before and this step to keep the device loaded while
    the next step was being prepared; they are in no result.
    `stop_reason`: "complete", "io_error" or "interrupted".
    `written_bytes`: all that was written to the device since the step before ended, in and between the windows.
    `size_ios`, `group_ios`: I/Os of each block size and LBA group of the stimulus; empty where there is but one.
    `idle_ns`: idle time that was asked for before the step; `gap_ns` includes it.
    `intended_ios`: open loop: how many I/Os were due in the step; those over `submitted_ios` were still waiting for a
    slot of the queue when it ended. `lateness`: how long after its time each was issued, see `lateness_histogram`.
    """

    start_ns: int
    window_ns: int
    read: Direction
    write: Direction
    intervals: Intervals
    submitted_ios: int
    handover_ios: int
    late_ios: int
    handover_ns: int
    bridge_ios: int
    gap_ns: int | None
    stop_reason: str
    written_bytes: int = 0
    size_ios: tuple[int, ...] = ()
    group_ios: tuple[int, ...] = ()
    idle_ns: int = 0
    intended_ios: int | None = None
    lateness: Histogram | str | None = None
    errors: tuple[IoErrors, ...] = ()
    host: HostUsage = field(default_factory=HostUsage)
    host_series: HostSeries = field(default_factory=HostSeries)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Measurement:
        return cls(
            **{
                **data,
                "read": Direction.from_raw(data["read"]),
                "write": Direction.from_raw(data["write"]),
                "intervals": Intervals.from_json(data["intervals"]),
                "size_ios": tuple(data.get("size_ios", ())),
                "group_ios": tuple(data.get("group_ios", ())),
                "errors": tuple(IoErrors(**error) for error in data["errors"]),
                "host": HostUsage(**data.get("host", {})),
                "host_series": HostSeries.from_json(data.get("host_series", {})),
            }
        )

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in self.__dataclass_fields__},
            "read": self.read.to_json(),
            "write": self.write.to_json(),
            "intervals": self.intervals.to_json(),
            "size_ios": list(self.size_ios),
            "group_ios": list(self.group_ios),
            "errors": [vars(error) for error in self.errors],
            "host": vars(self.host),
            "host_series": self.host_series.to_json(),
            "lateness": self.lateness
            if self.lateness is None or isinstance(self.lateness, str)
            else self.lateness.encode(),
        }

    @property
    def window_s(self) -> float:
        return self.window_ns / NS_PER_S

    @property
    def end_ns(self) -> int:
        """End of the window, on the device's clock."""
        return self.start_ns + self.window_ns

    @property
    def excess_gap_ns(self) -> int | None:
        """Idle time before the step that was not asked for; None for a first step."""
        return None if self.gap_ns is None else max(0, self.gap_ns - self.idle_ns)

    @property
    def ios(self) -> int:
        return self.read.ios + self.write.ios

    @property
    def error_ios(self) -> int:
        return sum(error.ios for error in self.errors)

    @property
    def iops(self) -> float:
        """Completions inside the window / window length, reads and writes together; 0 for an empty window."""
        return (self.read.window_ios + self.write.window_ios) / self.window_s if self.window_ns else 0.0

    @property
    def mb_per_s(self) -> float:
        """Throughput in MB/s (10^6 bytes, 2.4.1)."""
        return (self.read.window_bytes + self.write.window_bytes) / self.window_s / 1e6 if self.window_ns else 0.0

    @property
    def art_ns(self) -> float | None:
        """Average response time of all the step's I/Os; None when there was none."""
        return (self.read.latency_sum_ns + self.write.latency_sum_ns) / self.ios if self.ios else None

    @property
    def mrt_ns(self) -> int | None:
        """Maximum response time, exact; None when there was no I/O."""
        return max(self.read.latency_max_ns, self.write.latency_max_ns) if self.ios else None

    @property
    def lateness_histogram(self) -> Histogram | None:
        """How long after its time each I/O of an open loop was issued; None for a closed loop."""
        return Histogram.decode(self.lateness) if isinstance(self.lateness, str) else self.lateness

    @property
    def histogram(self) -> Histogram:
        """Reads and writes merged, anew each time."""
        merged = self.read.histogram.copy()
        merged.add(self.write.histogram)
        return merged
