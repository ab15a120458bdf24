"""The measurements for other tools: measurements.parquet, intervals.parquet and histograms.hlog.

One row per step, and one per interval of a step; units are the last word of the column names. The histogram
log holds one entry per step and direction, tagged with the step, for HdrHistogram's own tools.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl

from flashgauge import _core
from flashgauge.measurement import NS_PER_S, Direction, HostSeries, Measurement
from flashgauge.runfolder import Entry, read_journal
from flashgauge.steps import KIB

# Of a label: what does not apply is null.
_OPTIONAL = ("round", "read_percent", "block_bytes", "number", "thread_count", "queue_depth")
# Of the host's series: null where there was no source.
_HOST = tuple(HostSeries.__dataclass_fields__)
QUANTILES = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "p99_9": 0.999, "p99_99": 0.9999, "p99_999": 0.99999}


def write_data(folder: Path) -> list[Path]:
    """Write the three files into the run folder; returns them. Raises RunFolderError or OSError."""
    entries, _ = read_journal(folder)
    measurements, intervals = folder / "measurements.parquet", folder / "intervals.parquet"
    histograms = folder / "histograms.hlog"
    measurements_frame(entries).write_parquet(measurements)
    intervals_frame(entries).write_parquet(intervals)
    _core.write_histogram_log(str(histograms), list(_tagged(entries)))
    return [measurements, intervals, histograms]


def measurements_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """One row per step: label, counters, rates, latencies of reads and writes together and apart."""
    return pl.DataFrame([_measurement_row(entry) for entry in entries], infer_schema_length=None)


def intervals_frame(entries: Sequence[Entry]) -> pl.DataFrame:
    """One row per interval; `start_ns` is on the device's clock."""
    frames = []
    for entry in entries:
        m, series = entry.measurement, entry.measurement.intervals
        count = len(series.read_ios)
        frames.append(
            pl.DataFrame(
                {
                    **_label(entry, count),
                    "interval": range(count),
                    "start_ns": [m.start_ns + i * series.interval_ns for i in range(count)],
                    "interval_ns": [series.interval_ns] * count,
                    "read_ios": series.read_ios,
                    "write_ios": series.write_ios,
                    "read_bytes": series.read_bytes,
                    "write_bytes": series.write_bytes,
                    "latency_ios": series.latency_ios,
                    "latency_sum_ns": series.latency_sum_ns,
                    "latency_max_ns": series.latency_max_ns,
                    **{name: _whole(getattr(m.host_series, name), count) for name in _HOST},
                },
                schema_overrides=dict.fromkeys(_OPTIONAL, pl.Int64) | dict.fromkeys(_HOST, pl.Float64),
            )
        )
    return pl.concat(frames) if frames else pl.DataFrame()


def _whole(values: Sequence[float | None], count: int) -> list[float | None]:
    """One for each interval; the host's series may lack the last one, or all."""
    return [*values[:count], *[None] * (count - len(values))]


def _label(entry: Entry, count: int) -> dict[str, list[Any]]:
    label = entry.label
    return {
        "sequence": [entry.sequence] * count,
        "purpose": [label.purpose] * count,
        "round": [label.round] * count,
        "read_percent": [label.read_percent] * count,
        "block_bytes": [label.block_bytes] * count,
        "number": [label.number] * count,
        "thread_count": [label.thread_count] * count,
        "queue_depth": [label.queue_depth] * count,
    }


def _measurement_row(entry: Entry) -> dict[str, Any]:
    m = entry.measurement
    merged = m.read.histogram.copy()
    merged.add(m.write.histogram)
    return {
        **{name: values[0] for name, values in _label(entry, 1).items()},
        "kind": entry.kind,
        "stop_reason": m.stop_reason,
        "start_ns": m.start_ns,
        "window_ns": m.window_ns,
        "gap_ns": m.gap_ns,
        "iops": m.iops,
        "throughput_mb_per_s": m.mb_per_s,
        "latency_mean_ns": m.art_ns,
        **{f"latency_{name}_ns": merged.quantile_ns(q) if m.ios else None for name, q in QUANTILES.items()},
        "latency_max_ns": m.mrt_ns,
        **_direction_columns("read", m.read),
        **_direction_columns("write", m.write),
        "submitted_ios": m.submitted_ios,
        "handover_ios": m.handover_ios,
        "late_ios": m.late_ios,
        "handover_ns": m.handover_ns,
        "bridge_ios": m.bridge_ios,
        "written_bytes": m.written_bytes,
        "idle_ns": m.idle_ns,
        "error_ios": m.error_ios,
        "cpu_system_percent": m.host.cpu_system_percent,
        "cpu_iowait_percent": m.host.cpu_iowait_percent,
        "power_w": m.host.power_w,
        "temperature_c": m.host.temperature_c,
        "temperature_max_c": m.host.temperature_max_c,
        "energy_j": m.host.energy_j,
        "throttled_s": m.host.throttled_s,
        "throttle_transitions": m.host.throttle_transitions,
        "media_errors": m.host.media_errors,
        "cpu_busy_percent": m.host.cpu_busy_percent,
        "interrupts": m.host.interrupts,
        "engine_busy_percent": m.host.engine_busy_percent,
        "ceiling_iops": m.host.ceiling_iops,
    }


def _direction_columns(name: str, direction: Direction) -> dict[str, Any]:
    return {
        f"{name}_ios": direction.ios,
        f"{name}_window_ios": direction.window_ios,
        f"{name}_bytes": direction.bytes,
        f"{name}_window_bytes": direction.window_bytes,
        f"{name}_latency_mean_ns": direction.latency_sum_ns / direction.ios if direction.ios else None,
        f"{name}_latency_p99_ns": direction.histogram.quantile_ns(0.99) if direction.ios else None,
        f"{name}_latency_max_ns": direction.latency_max_ns if direction.ios else None,
    }


def _tagged(entries: Sequence[Entry]) -> list[tuple[str, float, float, _core.Histogram]]:
    tagged = []
    for entry in entries:
        m: Measurement = entry.measurement
        for name, direction in (("read", m.read), ("write", m.write)):
            if direction.ios:
                place = (_tag(entry, name), m.start_ns / NS_PER_S, m.window_s, direction.histogram)
                tagged.append(place)
    return tagged


def _tag(entry: Entry, direction: str) -> str:
    """No spaces or commas: the log is comma separated."""
    label = entry.label
    purpose = label.purpose.replace(" ", "-")
    parts = [purpose if label.round is None else f"{purpose}{label.round}"]
    if label.number is not None:
        parts.append(f"no{label.number}")
    if label.thread_count is not None:
        parts.append(f"T{label.thread_count}Q{label.queue_depth}")
    if label.read_percent is not None:
        parts.append(f"rw{label.read_percent}")
    if label.block_bytes is not None:
        parts.append(f"{label.block_bytes / KIB:g}KiB")
    return "-".join((*parts, direction))
