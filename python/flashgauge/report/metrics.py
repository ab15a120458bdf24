"""Figures of one test point over several measurements: the rounds of a measurement window, or one histogram.

Percentiles come from merged histograms, average response times from summed latencies and counts; only IOPS and MB/s
are averaged, because the standard says so (7.3.6.1, 8.3.7.1, 9.3.6.1).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flashgauge._core import Histogram
from flashgauge.hostlimit import limits
from flashgauge.measurement import Measurement

FIVE_NINES = 0.99999
# Below this many I/Os the 99.999 % point is the slowest I/O itself.
FIVE_NINES_IOS = round(1 / (1 - FIVE_NINES))


@dataclass(frozen=True)
class PointMetrics:
    """One test point over the window. `ios`: I/Os behind the latencies. None: not measured in every round.
    `host_limited`: in a round or more the host, not the drive, was the limit (`hostlimit`)."""

    iops: float
    mb_per_s: float
    ios: int
    art_ms: float | None
    p99999_ms: float | None
    mrt_ms: float | None
    power_mw: float | None
    iops_per_w: float | None
    cpu_system_percent: float | None
    cpu_iowait_percent: float | None
    host_limited: bool = False


def point_metrics(measurements: Sequence[Measurement]) -> PointMetrics:
    """7.3.6.1 and 7.3.6.4 for one test point. At least one measurement."""
    ios = sum(m.ios for m in measurements)
    latency_sum_ns = sum(m.read.latency_sum_ns + m.write.latency_sum_ns for m in measurements)
    merged = Histogram()
    for measurement in measurements:
        merged.add(measurement.histogram)
    mrt_ns = max((m.mrt_ns for m in measurements if m.mrt_ns is not None), default=None)
    iops = mean([m.iops for m in measurements])
    power_w = host_mean(measurements, lambda m: m.host.power_w)
    return PointMetrics(
        iops=iops,
        mb_per_s=mean([m.mb_per_s for m in measurements]),
        ios=ios,
        art_ms=latency_sum_ns / ios / 1e6 if ios else None,
        # A histogram knows three digits: its value may lie a little above the slowest I/O.
        p99999_ms=None if mrt_ns is None else min(merged.quantile_ns(FIVE_NINES), mrt_ns) / 1e6,
        mrt_ms=None if mrt_ns is None else mrt_ns / 1e6,
        power_mw=None if power_w is None else power_w * 1e3,
        iops_per_w=iops / power_w if power_w else None,
        cpu_system_percent=host_mean(measurements, lambda m: m.host.cpu_system_percent),
        cpu_iowait_percent=host_mean(measurements, lambda m: m.host.cpu_iowait_percent),
        host_limited=any(limits(m.host, m.iops) for m in measurements),
    )


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def host_mean(measurements: Sequence[Measurement], get: Callable[[Measurement], float | None]) -> float | None:
    """Average over the rounds (equally long); None unless every round has a value."""
    values = [value for m in measurements if (value := get(m)) is not None]
    return mean(values) if len(values) == len(measurements) else None
