"""Journal entries as points over time: each measured step at the end of its window, and every second within it.

Time runs on the device's clock from the begin of the first step, hand-overs and idle times included. Bytes written are
all that were written, in the windows and between them. Pure functions; rates are per second, MB are 10^6 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, nan
from typing import TypeVar

from flashgauge.measurement import NS_PER_S, Measurement
from flashgauge.report import palette
from flashgauge.report.metrics import FIVE_NINES
from flashgauge.report.model import Choice, LineFigure, Series, Style
from flashgauge.runfolder import Entry
from flashgauge.steps import Label

_MINUTE_S, _HOUR_S = 60.0, 3600.0
# Beyond so many of the smaller unit, the axis counts in the next one.
_MOST_SECONDS = 5 * _MINUTE_S
_MOST_MINUTES = 3 * _HOUR_S
# More points than this are a line without symbols.
_MOST_SYMBOLS = 60
ART_COLOR = palette.INK
FIVE_NINES_COLOR = "#365c8d"
MRT_COLOR = palette.FIT
SECONDS_COLOR = "#a9b8c6"


@dataclass(frozen=True)
class Point:
    """One measured step: a minute, an access, or the like.

    `start_s`, `end_s`: of its window, since the first step began. `written_bytes`: from the first step to its end.
    """

    label: Label
    start_s: float
    end_s: float
    written_bytes: int
    measurement: Measurement

    @property
    def iops(self) -> float:
        return self.measurement.iops

    @property
    def mb_per_s(self) -> float:
        return self.measurement.mb_per_s

    @property
    def art_ms(self) -> float | None:
        return None if self.measurement.art_ns is None else self.measurement.art_ns / 1e6

    @cached_property
    def p99999_ms(self) -> float | None:
        """Five nines."""
        mrt_ns = self.measurement.mrt_ns
        # A histogram knows three digits: its value may lie a little above the slowest I/O.
        return None if mrt_ns is None else min(self.measurement.histogram.quantile_ns(FIVE_NINES), mrt_ns) / 1e6

    @property
    def mrt_ms(self) -> float | None:
        return None if self.measurement.mrt_ns is None else self.measurement.mrt_ns / 1e6


@dataclass(frozen=True)
class Second:
    """One interval of a window, at its end. Latencies are None when none was measured in it."""

    end_s: float
    written_bytes: int
    iops: float
    mb_per_s: float
    art_ms: float | None
    mrt_ms: float | None


AnyPoint = Point | Second
P = TypeVar("P", Point, Second)


@dataclass(frozen=True)
class Axis:
    """An x axis: `value(point)` in the unit that `title` and `name` give."""

    title: str
    name: str
    value: Callable[[AnyPoint], float]


def points(entries: Iterable[Entry]) -> tuple[Point, ...]:
    """Every entry as a point. Give all entries of a run and choose among the points afterwards: time and bytes count
    from the first entry given."""
    found: list[Point] = []
    written = 0
    origin_ns: int | None = None
    for entry in entries:
        m = entry.measurement
        origin_ns = m.start_ns if origin_ns is None else origin_ns
        written += m.written_bytes
        start_s, end_s = (m.start_ns - origin_ns) / NS_PER_S, (m.end_ns - origin_ns) / NS_PER_S
        found.append(Point(entry.label, start_s, end_s, written, m))
    return tuple(found)


def of_purpose(found: Iterable[Point], purpose: str) -> tuple[Point, ...]:
    return tuple(point for point in found if point.label.purpose == purpose)


def seconds(found: Iterable[Point]) -> tuple[Second, ...]:
    """The intervals of each point's window, in order. The last of a window is left out when it is not a whole one: its
    rate would be too low."""
    series: list[Second] = []
    for point in found:
        m = point.measurement
        all_of = m.intervals
        length_s = all_of.interval_ns / NS_PER_S
        # Counted backwards from what was written by the end of the window: what was written before it is not in the
        # intervals.
        after = [0]
        for count in reversed(all_of.write_bytes):
            after.append(after[-1] + count)
        for i in range(min(len(all_of.write_ios), m.window_ns // all_of.interval_ns)):
            timed = all_of.latency_ios[i]
            series.append(
                Second(
                    end_s=point.start_s + (i + 1) * length_s,
                    written_bytes=point.written_bytes - after[len(all_of.write_bytes) - 1 - i],
                    iops=(all_of.read_ios[i] + all_of.write_ios[i]) / length_s,
                    mb_per_s=(all_of.read_bytes[i] + all_of.write_bytes[i]) / length_s / 1e6,
                    art_ms=all_of.latency_sum_ns[i] / timed / 1e6 if timed else None,
                    mrt_ms=all_of.latency_max_ns[i] / 1e6 if timed else None,
                )
            )
    return tuple(series)


def time_axis(span_s: float) -> Axis:
    """Elapsed time in seconds, minutes or hours, for a plot that spans so many seconds."""
    return _time_axis(span_s, 0.0, "Elapsed time", "elapsed")


def shifted_axis(span_s: float, zero_s: float, title: str, name: str) -> Axis:
    """The same with its zero at `zero_s`."""
    return _time_axis(span_s, zero_s, title, name)


def _time_axis(span_s: float, zero_s: float, title: str, name: str) -> Axis:
    units = (("s", "s", 1.0, _MOST_SECONDS), ("minutes", "min", _MINUTE_S, _MOST_MINUTES), ("hours", "h", _HOUR_S, inf))
    unit, short, unit_s = next((unit, short, unit_s) for unit, short, unit_s, most_s in units if span_s <= most_s)
    return Axis(f"{title}, {unit}", f"{name}_{short}", lambda point: (point.end_s - zero_s) / unit_s)


def time_value(axis: Axis, elapsed_s: float) -> float:
    """A time on a time axis."""
    return axis.value(Second(elapsed_s, 0, 0.0, 0.0, None, None))


def written_axis() -> Axis:
    """Total GB written (TGBW), base 10."""
    return Axis("Total GB written (TGBW)", "written_gb", lambda point: point.written_bytes / 1e9)


def fills_axis(capacity_bytes: int) -> Axis:
    """Total drive writes: bytes written / user capacity."""
    return Axis(
        "Drive fills (bytes written / user capacity)",
        "drive_fills",
        lambda point: point.written_bytes / capacity_bytes,
    )


def style_of(count: int) -> Style:
    """Of a line of so many points."""
    return "points" if count <= _MOST_SYMBOLS else "thin"


def line(
    name: str,
    found: Sequence[P],
    axis: Axis,
    value: Callable[[P], float | None],
    color: str,
    style: Style | None = None,
    marker: int = 0,
) -> Series:
    """A series of `value` over `axis`; where there is no value, the line has a gap. `style`: by default, as fits the
    number of points."""
    style = style or style_of(len(found))
    y = tuple(nan if (at := value(point)) is None else at for point in found)
    return Series(name, tuple(axis.value(point) for point in found), y, color, style, marker)


def duration(value_s: float) -> str:
    """A time for a sentence or a cell: "36 s", "12.5 minutes", "6 hours"."""
    for unit_s, name in ((_HOUR_S, "hour"), (_MINUTE_S, "minute")):
        if value_s >= 2 * unit_s or value_s == unit_s:
            text = f"{value_s / unit_s:,.2f}".rstrip("0").rstrip(".")
            return f"{text} {name}{'' if text == '1' else 's'}"
    return f"{value_s:,.3g} s"


def pooled_iops(found: Sequence[Point]) -> float | None:
    """All I/Os completed in the windows / all windows; None when these are empty."""
    ios = sum(point.measurement.read.window_ios + point.measurement.write.window_ios for point in found)
    window_s = sum(point.measurement.window_ns for point in found) / NS_PER_S
    return ios / window_s if window_s else None


def pooled_mb_per_s(found: Sequence[Point]) -> float | None:
    """All bytes completed in the windows / all windows, in MB/s; None when these are empty."""
    count = sum(point.measurement.read.window_bytes + point.measurement.write.window_bytes for point in found)
    window_s = sum(point.measurement.window_ns for point in found) / NS_PER_S
    return count / window_s / 1e6 if window_s else None


def pooled_art_ms(found: Sequence[Point]) -> float | None:
    """Average response time of all I/Os of the points; None when there was none."""
    ios = sum(point.measurement.ios for point in found)
    sum_ns = sum(p.measurement.read.latency_sum_ns + p.measurement.write.latency_sum_ns for p in found)
    return sum_ns / ios / 1e6 if ios else None


def largest_mrt_ms(found: Sequence[Point]) -> float | None:
    """Maximum response time of all I/Os of the points; None when there was none."""
    return max((value for point in found if (value := point.mrt_ms) is not None), default=None)


# As in Table 7-6: what the host and the drive did meanwhile.
HOST_METRICS: tuple[tuple[str, Callable[[Point], float | None]], ...] = (
    ("Average power", lambda point: None if (w := point.measurement.host.power_w) is None else 1e3 * w),
    ("CPU System Usage", lambda point: point.measurement.host.cpu_system_percent),
    ("CPU IO Wait", lambda point: point.measurement.host.cpu_iowait_percent),
)


def unmeasured(found: Sequence[Point]) -> tuple[str, ...]:
    """Names of the host metrics that had no source in any of the points."""
    return tuple(name for name, value in HOST_METRICS if all(value(point) is None for point in found))


def unmeasured_note(found: Sequence[Point]) -> tuple[str, ...]:
    absent = unmeasured(found)
    return (f"Not measured (no source): {', '.join(absent)}.",) if absent else ()


def host_figures(found: Sequence[Point], axis: Axis) -> tuple[LineFigure, ...]:
    """CPU usage, and power, of each point over `axis`; what had no source is left out."""
    absent = unmeasured(found)
    power, *cpu = HOST_METRICS
    figures: list[LineFigure] = []
    lines = tuple(
        line(name, found, axis, value, color, marker=i)
        for i, ((name, value), color) in enumerate(zip(cpu, (ART_COLOR, FIVE_NINES_COLOR), strict=True))
        if name not in absent
    )
    if lines:
        choices = (Choice("", lines),)
        figures.append(LineFigure("CPU usage", axis.title, "%", axis.name, "cpu_percent", choices, name="cpu"))
    if power[0] not in absent:
        choices = (Choice("", (line(power[0], found, axis, power[1], MRT_COLOR),)),)
        figures.append(
            LineFigure("Average power", axis.title, "mW", axis.name, "average_power_mw", choices, name="power")
        )
    return tuple(figures)
