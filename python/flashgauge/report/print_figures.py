"""Figures of the model for paper, drawn by matplotlib as SVG with text as outlines."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from math import isfinite, isnan
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LightSource, to_rgb
from matplotlib.container import BarContainer
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter, NullLocator

from flashgauge.report import palette
from flashgauge.report.figure_layout import (
    CALLOUT_ROOM,
    EVEN,
    FINE,
    MANY_POINTS,
    bar_width,
    bottom,
    has_steps,
    is_dense,
    outline,
    text_width,
)
from flashgauge.report.formats import plain, tick_step, value_text
from flashgauge.report.model import Bars, BarSeries, Columns3D, Figure, LineFigure, Series
from flashgauge.report.print_labels import LABEL, POINTS_PER_INCH, ROW, band_names, callouts, flags, levels, plot_size

MM_PER_INCH = 25.4
# Of what becomes an image inside the SVG: thousands of symbols.
RASTER_DPI = 300
MOST_SYMBOLS = 1500
# How many places across the plot are told apart in a line of many points: finer than print is.
THIN_PLACES = 1600
MOST_BAR_VALUES = 24
# A plot lower than this, in points, has ticks at decades only.
_LOW = 180.0
_WIDE = 1.5
_MARKERS = "osD^vXp*"
_DASHES: dict[str, Any] = {"dash": (0, (5, 3)), "dot": (0, (1, 1.6)), "dots": "none"}
_STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 7.5,
    "axes.edgecolor": palette.MUTED,
    "axes.labelcolor": palette.INK,
    "axes.linewidth": 0.6,
    "axes.axisbelow": True,
    "xtick.color": palette.INK,
    "ytick.color": palette.INK,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "grid.color": palette.GRID,
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "flashgauge",
}


def figure_svg(figure: Figure, width_mm: float, height_mm: float) -> bytes:
    """The figure at its size on paper, so that its text comes out in the size asked for."""
    return figures_svg((figure,), width_mm, height_mm)[0]


def figures_svg(figures: Sequence[Figure], width_mm: float, height_mm: float) -> list[bytes]:
    """Figures that stand under one another: each of this size, their axes' left and right ends in line."""
    with mpl.rc_context(_STYLE):
        # Lengths in points everywhere below.
        size = (width_mm / MM_PER_INCH, height_mm / MM_PER_INCH)
        canvases = [Canvas(figsize=size, dpi=POINTS_PER_INCH) for _ in figures]
        flat: list[tuple[Canvas, Axes, LineFigure | Bars]] = []
        for canvas, figure in zip(canvases, figures, strict=True):
            FigureCanvasSVG(canvas)
            if isinstance(figure, Columns3D):
                _columns(canvas, figure)
            else:
                canvas.set_layout_engine("constrained")
                axes = canvas.add_subplot()
                _line(canvas, axes, figure) if isinstance(figure, LineFigure) else _bars(canvas, axes, figure)
                flat.append((canvas, axes, figure))
        _share_title(flat)
        _align(flat)
        for _, axes, figure in flat:
            if isinstance(figure, LineFigure) and figure.callouts:
                callouts(axes, figure)
        return [_saved(canvas) for canvas in canvases]


def _saved(canvas: Canvas) -> bytes:
    out = BytesIO()
    # Without a date the same report gives the same file.
    canvas.savefig(out, format="svg", dpi=RASTER_DPI, metadata={"Date": None}, transparent=True)
    return out.getvalue()


def _share_title(flat: list[tuple[Canvas, Axes, LineFigure | Bars]]) -> None:
    """Under one another, the lowest says what the x axes are, when that is the same for all."""
    if len({figure.x_title for _, _, figure in flat}) == 1:
        for _, axes, _ in flat[:-1]:
            axes.set_xlabel("")


def _align(flat: list[tuple[Canvas, Axes, LineFigure | Bars]]) -> None:
    """Settle the layout; the widest tick labels of all give the left end."""
    places = []
    for canvas, axes, _ in flat:
        canvas.draw_without_rendering()
        places.append(axes.get_position())
    if len(flat) > 1:
        left, right = max(place.x0 for place in places), min(place.x1 for place in places)
        for (canvas, axes, _), place in zip(flat, places, strict=True):
            canvas.set_layout_engine("none")
            axes.set_position((left, place.y0, right - left, place.height))


def _thousands(value: float, _: Any = None) -> str:
    return plain(value)


def _frame(axes: Axes, x_title: str, y_title: str) -> None:
    axes.set_xlabel(x_title)
    axes.set_ylabel(y_title)
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.spines[["top", "right"]].set_visible(False)


# Lines


def _line(canvas: Canvas, axes: Axes, figure: LineFigure) -> None:
    for series in figure.series:
        _series(axes, figure, series)
    across = [band for band in figure.bands if band.axis == "x"]
    # One band is explained in the legend; several, as segments of a test, are named where they are.
    over = across if len(across) > 1 else []
    for band in figure.bands:
        span = axes.axvspan if band.axis == "x" else axes.axhspan
        label = None if band in over else band.label
        span(band.low, band.high, color=band.color, alpha=0.14, linewidth=0, label=label)
    for mark in figure.marks:
        draw = axes.axvline if mark.axis == "x" else axes.axhline
        draw(mark.at, color=mark.color, linewidth=0.9)
    _frame(axes, figure.x_title, figure.y_title)
    _scales(axes, figure)
    axes.grid(True)
    rows = band_names(axes, over)
    flags(axes, [mark for mark in figure.marks if mark.axis == "x"], rows)
    levels(axes, [mark for mark in figure.marks if mark.axis == "y"])
    entries = len(figure.series) + len(figure.bands) - len(over)
    # Below the plot: a legend inside would cover data, and beside it would narrow the plot.
    if entries > 1:
        canvas.legend(loc="outside lower center", ncols=min(entries, 3 if figure.bands else 8), fontsize=7)


def _series(axes: Axes, figure: LineFigure, series: Series) -> None:
    if series.style == "steps":
        x, y = outline(series, bottom(figure))
        axes.fill_between(x, y, bottom(figure), step="pre", color=series.color, alpha=0.22, linewidth=0)
        axes.plot(x, y, color=series.color, linewidth=0.8, drawstyle="steps-pre", label=series.name)
        return
    x, y = list(series.x), list(series.y)
    if series.style == "thin":
        x, y = thinned(x, y, THIN_PLACES, figure.x_log)
    symbols = series.style in ("points", "dots")
    crowded = len(x) > MOST_SYMBOLS
    axes.plot(
        x,
        y,
        color=series.color,
        linestyle=_DASHES.get(series.style, "-"),
        linewidth=1.1 if series.style != "thin" else 0.6 if len(x) > THIN_PLACES else 0.9,
        marker=_MARKERS[series.marker % len(_MARKERS)] if symbols else None,
        markersize=1.2 if crowded else 2 if len(x) > MANY_POINTS else 4,
        markeredgewidth=0 if len(x) > MANY_POINTS else None,
        rasterized=symbols and crowded,
        label=series.name,
    )


def thinned(x: list[float], y: list[float], places: int, log: bool) -> tuple[list[float], list[float]]:
    """The first, lowest, highest and last point at each of `places` across the plot: as many as print can show.

    Nothing that shows is lost: an outlier is the lowest or the highest of its place. Left alone when `x` does not
    rise throughout.
    """
    across = np.asarray(x, dtype=float)
    if log:
        across = np.log(np.where(across > 0, across, np.nan))
    if len(x) <= 2 * places or not np.all(np.diff(across) >= 0) or across[0] == across[-1]:
        return x, y
    place = ((across - across[0]) / (across[-1] - across[0]) * places).astype(int)
    starts = np.flatnonzero(np.diff(place, prepend=-1))
    kept: set[int] = set()
    for first, end in zip(starts, [*starts[1:], len(x)], strict=True):
        here = np.asarray(y[first:end], dtype=float)
        # A gap in the line stays one.
        gaps = np.flatnonzero(np.isnan(here))
        kept.update((int(first), int(end) - 1), (int(first) + int(i) for i in gaps[:1]))
        if len(gaps) < len(here):
            kept.update((int(first) + int(np.nanargmin(here)), int(first) + int(np.nanargmax(here))))
    chosen = sorted(kept)
    return [x[i] for i in chosen], [y[i] for i in chosen]


def _scales(axes: Axes, figure: LineFigure) -> None:
    if is_dense(figure):
        axes.margins(x=0.01)
    elif figure.callouts:
        axes.margins(x=CALLOUT_ROOM, y=0.1)
    if figure.x_log:
        axes.set_xscale("log", base=2 if figure.x_ticks else 10)
    if figure.x_ticks:
        axes.set_xticks([x for x, _ in figure.x_ticks], [text for _, text in figure.x_ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    elif figure.x_log:
        _decades(axes.xaxis, axes.get_xlim(), FINE)
    else:
        axes.xaxis.set_major_formatter(FuncFormatter(_thousands))
    if figure.y_log:
        axes.set_yscale("log")
        if has_steps(figure):
            axes.set_ylim(bottom=bottom(figure))
        _decades(axes.yaxis, axes.get_ylim(), FINE if plot_size(axes)[1] > _LOW else 1)
    elif not any(band.axis == "y" for band in figure.bands):
        # Room at the top: of a flat line the automatic margin is nothing.
        axes.set_ylim(0, max(axes.get_ylim()[1], 1.05 * axes.dataLim.y1) or 1)


def _decades(axis: Any, limits: tuple[float, float], fine: float) -> None:
    """Ticks at 1, 2 and 5 of each decade while there are few decades, else at the decades; within a decade, at every
    digit, and evenly when there are few of these as well."""
    low, high = limits
    span = np.log10(high / low)
    few = span <= fine
    subs = range(1, 10) if span < 1 else (1, 2, 5) if few else (1,)
    even = span < EVEN
    axis.set_major_locator(
        MultipleLocator(tick_step(low, high)) if even else LogLocator(base=10, subs=tuple(subs), numticks=30)
    )
    axis.set_major_formatter(FuncFormatter(_thousands))
    axis.set_minor_formatter(NullFormatter())
    axis.set_minor_locator(NullLocator() if few else LogLocator(base=10, subs=tuple(range(2, 10)), numticks=30))


# Bars


def _bars(canvas: Canvas, axes: Axes, figure: Bars) -> None:
    count = len(figure.series)
    width = bar_width(len(figure.categories), count) / max(count, 1)
    shown = [value for series in figure.series for value in series.values if value is not None and isfinite(value)]
    for number, series in enumerate(figure.series):
        heights = [value if value is not None else np.nan for value in series.values]
        x = [j + (number - (count - 1) / 2) * width for j in range(len(heights))]
        axes.bar(x, heights, 0.94 * width, color=series.color, label=series.name)
    _frame(axes, figure.x_title, figure.y_title)
    _category_names(axes, figure)
    if figure.y_log and any(value > 0 for value in shown):
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(value for value in shown if value > 0) / 2)
        _decades(axes.yaxis, axes.get_ylim(), FINE)
    axes.grid(True, axis="y")
    if 0 < len(shown) <= MOST_BAR_VALUES:
        _bar_values(axes, figure.series, figure.format, width)
    if count > 1:
        canvas.legend(loc="outside lower center", ncols=min(count, 8), fontsize=7)


def _category_names(axes: Axes, figure: Bars) -> None:
    room = plot_size(axes)[0] / max(len(figure.categories), 1)
    widest = max((text_width(name, 7.5) for name in figure.categories), default=0.0)
    axes.set_xticks(range(len(figure.categories)), figure.categories)
    axes.tick_params(axis="x", length=0, labelrotation=0 if widest < room else 90)
    axes.set_xlim(-0.6, len(figure.categories) - 0.4)


def _bar_values(axes: Axes, all_series: tuple[BarSeries, ...], spec: str, width: float) -> None:
    """The numbers over the bars; upright where they would not fit side by side."""
    texts = [[value_text(value, spec) if value is not None else "" for value in s.values] for s in all_series]
    widest = max(text_width(text, LABEL) for row in texts for text in row)
    low, high = axes.get_xlim()
    upright = widest > plot_size(axes)[0] * width / (high - low)
    # Room for them below the plot's upper end.
    axes.margins(y=0.05 + (widest if upright else ROW) / plot_size(axes)[1])
    axes.autoscale_view(scalex=False)
    for bars, row in zip(axes.containers, texts, strict=True):
        rotation = 90 if upright else 0
        assert isinstance(bars, BarContainer)
        axes.bar_label(bars, labels=row, padding=2, fontsize=LABEL, rotation=rotation, color=palette.INK)


# Columns


def _columns(canvas: Canvas, figure: Columns3D) -> None:
    """Low columns (large blocks, writes) stand in front; each row has the colour it has in every figure."""
    # Larger than the page area: a 3-D axes leaves wide margins around its box, but its names stand outside.
    wide = canvas.get_figwidth() > _WIDE * canvas.get_figheight()
    place = (0.0, -0.02, 1.0, 1.06) if wide else (-0.04, 0.0, 1.0, 1.0)
    axes: Any = canvas.add_axes(place, projection="3d")
    rows, columns = len(figure.rows), len(figure.columns)
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    heights = np.array([[0.0 if isnan(value) else value for value in row] for row in figure.values])
    colors = np.repeat([to_rgb(color) for color in figure.colors], columns, axis=0)
    width = 0.72
    axes.bar3d(
        x.ravel() - width / 2,
        y.ravel() - width / 2,
        np.zeros(rows * columns),
        width,
        width,
        heights.ravel(),
        color=colors,
        edgecolor=(1, 1, 1, 0.55),
        linewidth=0.25,
        shade=True,
        lightsource=LightSource(azdeg=162, altdeg=50),
    )
    axes.set_xticks(range(columns), figure.columns)
    axes.set_yticks(range(rows), figure.rows)
    axes.set_xlabel(figure.column_title, labelpad=6)
    axes.set_ylabel(figure.row_title, labelpad=8)
    axes.set_zlabel(figure.value_title, labelpad=12)
    axes.zaxis.set_major_formatter(FuncFormatter(_thousands))
    axes.tick_params(axis="z", pad=6)
    axes.view_init(elev=27, azim=-48)
    axes.set_box_aspect((1.5, 1.35, 0.85), zoom=1.12 if wide else 0.9)
    if not heights.any():
        axes.set_zlim(0, 1)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.965, 0.975, 0.985, 1.0))
