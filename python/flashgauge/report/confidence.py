"""Response time histogram and confidence levels of one measurement: Plots 9-4 and 10-4, histograms of CBW and DIRTH.

A confidence level is the share of I/Os that take no longer than a response time. Reads and writes are merged. The
histogram knows three digits, so the bucket of the slowest I/Os may reach beyond the exact maximum: values end there.
"""

from __future__ import annotations

from collections import Counter
from math import floor, log10

from flashgauge._core import Histogram
from flashgauge.measurement import Measurement
from flashgauge.report import palette
from flashgauge.report.common import section
from flashgauge.report.formats import decimals
from flashgauge.report.model import Choice, Column, LineFigure, Mark, Section, Series, Table, Value

BINS_PER_DECADE = 30
# As many nines are always shown: the standard asks for five, and plots commonly show three and four as well.
LEAST_NINES = 5
_FIRST_MARKED = 3
# The more nines, the darker.
_LEVEL_COLORS = ("#2a9d8f", "#277f8e", "#365c8d", "#46327e", "#440154")


def share_of(nines: int) -> float:
    """The confidence level of so many nines, as the double nearest to it."""
    return float("0." + "9" * nines)


def level_name(nines: int) -> str:
    """90 %, 99 %, 99.9 % ..."""
    return f"{100 * share_of(nines):.{max(0, nines - 2)}f} %"


def is_few(nines: int, ios: int) -> bool:
    """Whether the level's value is the slowest I/O itself, for want of I/Os: fewer than 1 / (1 - level)."""
    return 0 < ios < 10.0**nines


def level_ns(measurement: Measurement, histogram: Histogram, nines: int) -> int:
    """The response time that so many nines of the I/Os do not exceed; `histogram` is the measurement's, merged."""
    value = histogram.quantile_ns(share_of(nines))
    return value if measurement.mrt_ns is None else min(value, measurement.mrt_ns)


def slower_ios(buckets: list[tuple[int, int]], value_ns: float) -> int:
    """I/Os known to be slower: those in buckets above the one that `value_ns` falls in."""
    own = Histogram()
    own.record(max(1, round(value_ns)))
    top = own.buckets()[0][0]
    return sum(count for highest, count in buckets if highest > top)


def confidence_figure(title: str, measurement: Measurement, *, nines: int = LEAST_NINES, name: str = "") -> LineFigure:
    """How many I/Os took how long, both axes logarithmic, with ART, the levels from 99.9 % on, and MRT. The measurement
    has at least one I/O."""
    art_ns, mrt_ns = measurement.art_ns, measurement.mrt_ns
    assert art_ns is not None and mrt_ns is not None, "a histogram of no I/Os"
    histogram = measurement.histogram
    levels = range(_FIRST_MARKED, max(nines, LEAST_NINES) + 1)
    marks = [_mark("ART", art_ns, palette.AVERAGE)]
    for i, count in enumerate(levels):
        few = "*" if is_few(count, measurement.ios) else ""
        color = _LEVEL_COLORS[min(i, len(_LEVEL_COLORS) - 1)]
        marks.append(_mark(level_name(count) + few, level_ns(measurement, histogram, count), color))
    marks.append(_mark("MRT", mrt_ns, palette.FIT))
    x, y = rebinned(histogram.buckets(), mrt_ns)
    color = palette.mix_color(round(100 * measurement.read.ios / measurement.ios))
    return LineFigure(
        title=title,
        x_title="Response time, ms",
        y_title=f"I/Os, {BINS_PER_DECADE} bins per decade",
        x_name="response_time_ms",
        y_name="ios",
        choices=(Choice("", (Series("I/Os", x, y, color, "steps"),)),),
        x_log=True,
        y_log=True,
        name=name,
        marks=tuple(marks),
    )


def _mark(name: str, value_ns: float, color: str) -> Mark:
    value_ms = value_ns / 1e6
    return Mark("x", value_ms, f"{name}  {value_ms:,.{decimals([value_ms])}f} ms", color)


def rebinned(buckets: list[tuple[int, int]], mrt_ns: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Edges in ms and counts, as a series of style "steps" has them: the first count belongs to no bin. Empty bins
    between the fastest and the slowest I/O are there, with 0."""
    bins: Counter[int] = Counter()
    for highest_ns, count in buckets:
        bins[floor(BINS_PER_DECADE * log10(max(1, min(highest_ns, mrt_ns))) + 1e-9)] += count
    first, last = min(bins), max(bins)
    edges = tuple(10 ** (i / BINS_PER_DECADE) / 1e6 for i in range(first, last + 2))
    return edges, (0.0, *(float(bins[i]) for i in range(first, last + 1)))


def confidence_levels(measurement: Measurement, *, nines: int = LEAST_NINES) -> Table:
    """IOPS, and each level's response time with the I/Os slower than it. The measurement has at least one I/O."""
    art_ns, mrt_ns = measurement.art_ns, measurement.mrt_ns
    assert art_ns is not None and mrt_ns is not None, "a histogram of no I/Os"
    histogram = measurement.histogram
    buckets = histogram.buckets()
    counts = range(1, max(nines, LEAST_NINES) + 1)
    levels = [(level_name(count), float(level_ns(measurement, histogram, count))) for count in counts]
    times = [("ART", art_ns), *levels, ("MRT", float(mrt_ns))]
    rows: list[tuple[Value, ...]] = [("IOPS", measurement.iops, "", "")]
    rows += [(name, "", value_ns / 1e6, slower_ios(buckets, value_ns)) for name, value_ns in times]
    few = frozenset((1 + count, 2) for count in counts if is_few(count, measurement.ios))
    notes = [f"I/Os in the histogram: {measurement.ios:,}, in {measurement.window_s:,g} s."]
    if few:
        notes.append("* fewer I/Os than 1/(1 \N{MINUS SIGN} level): this value is the slowest I/O itself.")
    return Table(
        title="Confidence levels",
        columns=(
            Column("Level", "level"),
            Column("IOPS", "iops", ",.1f"),
            Column("Response time, ms", "response_time_ms", ",.4f"),
            Column("I/Os slower", "slower_ios", ",d"),
        ),
        rows=tuple(rows),
        marks=few,
        notes=tuple(notes),
        name="confidence",
    )


def confidence_section(
    plot: str,
    title: str,
    clause: str,
    measurement: Measurement,
    *,
    nines: int = LEAST_NINES,
    notes: tuple[str, ...] = (),
) -> Section:
    """Figure and table; of a measurement without I/Os, a sentence that says so."""
    if not measurement.ios:
        return section(plot, title, clause, (), notes=(*notes, "No I/O was completed: there is no histogram."))
    figure = confidence_figure("Response time histogram", measurement, nines=nines)
    items = (figure, confidence_levels(measurement, nines=nines))
    return section(plot, title, clause, items, notes=notes, layout="side")
