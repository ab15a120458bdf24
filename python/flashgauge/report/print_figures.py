"""Figures of the model for paper, drawn by matplotlib as SVG with text as outlines."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.colors import LightSource, to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from flashgauge.report import palette
from flashgauge.report.model import Columns3D, LineFigure

MM_PER_INCH = 25.4
_MARKERS = "osD^vXp*"
_DASHES = {"points": "-", "solid": "-", "dash": (0, (5, 3)), "dot": (0, (1, 1.6))}
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


def figure_svg(figure: LineFigure | Columns3D, width_mm: float, height_mm: float) -> bytes:
    """The figure at its size on paper, so that its text comes out in the size asked for."""
    with mpl.rc_context(_STYLE):
        canvas = Figure(figsize=(width_mm / MM_PER_INCH, height_mm / MM_PER_INCH))
        FigureCanvasSVG(canvas)
        if isinstance(figure, LineFigure):
            _line(canvas, figure)
        else:
            _columns(canvas, figure)
        out = BytesIO()
        # Without a date the same report gives the same file.
        canvas.savefig(out, format="svg", metadata={"Date": None}, transparent=True)
        return out.getvalue()


def _thousands(value: float, _: Any = None) -> str:
    return f"{value:,.10g}"


def _line(canvas: Figure, figure: LineFigure) -> None:
    canvas.set_layout_engine("constrained")
    axes = canvas.add_subplot()
    for series in figure.series:
        axes.plot(
            series.x,
            series.y,
            color=series.color,
            linestyle=_DASHES[series.style],
            linewidth=1.1,
            marker=_MARKERS[series.marker % len(_MARKERS)] if series.style == "points" else None,
            markersize=4,
            label=series.name,
        )
    for band in figure.bands:
        span = axes.axvspan if band.axis == "x" else axes.axhspan
        span(band.low, band.high, color=band.color, alpha=0.14, linewidth=0, label=band.label)
    _scales(axes, figure)
    axes.set_xlabel(figure.x_title)
    axes.set_ylabel(figure.y_title)
    axes.grid(True)
    axes.spines[["top", "right"]].set_visible(False)
    entries = len(figure.series) + len(figure.bands)
    # Below the plot: a legend inside would cover data, and beside it would narrow the plot.
    canvas.legend(loc="outside lower center", ncols=min(entries, 3 if figure.bands else 8), fontsize=7)


def _scales(axes: Axes, figure: LineFigure) -> None:
    if figure.x_log:
        axes.set_xscale("log", base=2)
    if figure.x_ticks:
        axes.set_xticks([x for x, _ in figure.x_ticks], [text for _, text in figure.x_ticks])
        axes.xaxis.set_minor_locator(NullLocator())
    if figure.y_log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1, 2, 5), numticks=30))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_locator(NullLocator())
    elif not any(band.axis == "y" for band in figure.bands):
        axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(FuncFormatter(_thousands))


def _columns(canvas: Figure, figure: Columns3D) -> None:
    """Low columns (large blocks, writes) stand in front; each row has the colour it has in every figure."""
    # Larger than the page area: a 3-D axes leaves wide margins around its box.
    axes: Any = canvas.add_axes((0.0, -0.02, 1.0, 1.06), projection="3d")
    rows, columns = len(figure.rows), len(figure.columns)
    x, y = np.meshgrid(np.arange(columns), np.arange(rows))
    heights = np.array(figure.values)
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
    axes.set_box_aspect((1.5, 1.35, 0.85), zoom=1.12)
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.965, 0.975, 0.985, 1.0))
