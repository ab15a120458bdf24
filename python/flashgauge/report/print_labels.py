"""Labels in figures for paper: of bands and lines above or on the plot, and of single points. Lengths are in points."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes

from flashgauge.report import palette
from flashgauge.report.figure_layout import (
    along,
    callout_spots,
    centred_rows,
    flag_rows,
    level_labels,
    text_width,
)
from flashgauge.report.model import Band, LineFigure, Mark

POINTS_PER_INCH = 72.0
# Font size, and height of a row of labels.
LABEL = 6.5
ROW = 8.5
_ANCHOR_X = {1: "left", 0: "center", -1: "right"}
_ANCHOR_Y = {1: "bottom", 0: "center", -1: "top"}


def plot_size(axes: Axes) -> tuple[float, float]:
    """Width and height of the plot, roughly, before its layout is settled."""
    canvas: Any = axes.figure
    return 0.92 * canvas.get_figwidth() * POINTS_PER_INCH, 0.8 * canvas.get_figheight() * POINTS_PER_INCH


def _place(axes: Axes, x: float) -> float:
    """How far from the plot's left end, in points."""
    across = axes.transAxes.inverted().transform(axes.transData.transform((x, axes.get_ylim()[1])))
    return float(across[0]) * plot_size(axes)[0]


def _over(axes: Axes, text: str, x: float, row: int, **options: Any) -> None:
    axes.annotate(
        text,
        (x, 1),
        xycoords=("data", "axes fraction"),
        textcoords="offset points",
        annotation_clip=False,
        **{"xytext": (3, 2 + ROW * row), "fontsize": LABEL, "ha": "left", "va": "bottom", **options},
    )


def band_names(axes: Axes, bands: list[Band]) -> int:
    """Names above the bands; returns how many rows they take."""
    low, high = axes.get_xlim()
    axes.set_xlim(low, high)
    logarithmic = axes.get_xscale() == "log"
    centres = []
    for band in bands:
        # What is seen of the band: an axis may end within it.
        ends = max(band.low, low), min(band.high, high)
        centres.append((ends[0] * ends[1]) ** 0.5 if logarithmic else (ends[0] + ends[1]) / 2)
    places = [_place(axes, centre) for centre in centres]
    rows = centred_rows(places, [text_width(band.label, LABEL) for band in bands])
    for band, centre, row in zip(bands, centres, rows, strict=True):
        _over(axes, band.label, centre, row, xytext=(0, 2 + ROW * row), ha="center", color=palette.MUTED)
    return max(rows, default=-1) + 1


def flags(axes: Axes, marks: list[Mark], first_row: int) -> None:
    """Labels of vertical lines above the plot, each on its line's own continuation."""
    places = [_place(axes, mark.at) for mark in marks]
    rows = flag_rows(places, [text_width(mark.label, LABEL) + 6 for mark in marks])
    for mark, row in zip(marks, rows, strict=True):
        top = first_row + row
        _over(axes, mark.label, mark.at, top, color=mark.color)
        line = {"arrowstyle": "-", "color": mark.color, "linewidth": 0.9, "shrinkA": 0, "shrinkB": 0}
        _over(axes, "", mark.at, top, xytext=(0, ROW * (top + 1)), arrowprops=line)


def levels(axes: Axes, marks: list[Mark]) -> None:
    """Labels of horizontal lines, on the line at the right end."""
    heights = [float(axes.transData.transform((axes.get_xlim()[0], mark.at))[1]) for mark in marks]
    widths = [text_width(mark.label, LABEL) + 8 for mark in marks]
    places = level_labels(heights, widths, ROW)
    for mark, (above, shift) in zip(marks, places, strict=True):
        axes.annotate(
            mark.label,
            (1, mark.at),
            xycoords=("axes fraction", "data"),
            xytext=(-2 - shift, 1.5 if above else -2),
            textcoords="offset points",
            ha="right",
            va="bottom" if above else "top",
            fontsize=LABEL,
            color=mark.color,
            annotation_clip=False,
        )


def callouts(axes: Axes, figure: LineFigure) -> None:
    """After the layout is settled, since places depend on the plot's size in points."""
    seen = axes.transData.transform
    points = [tuple(seen((callout.x, callout.y))) for callout in figure.callouts]
    lines = [p for s in figure.series for p in along([tuple(seen(xy)) for xy in zip(s.x, s.y, strict=True)], 3)]
    box = axes.get_window_extent()
    spots = callout_spots(
        points,
        [callout.label for callout in figure.callouts],
        size=7,
        obstacles=lines,
        bounds=(box.x0 + 2, box.y0 + 2, box.x1, box.y1),
    )
    for callout, spot in zip(figure.callouts, spots, strict=True):
        axes.plot(
            callout.x,
            callout.y,
            "o",
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=callout.color,
            clip_on=False,
        )
        axes.annotate(
            callout.label,
            (callout.x, callout.y),
            xytext=(spot.dx, spot.dy),
            textcoords="offset points",
            ha=_ANCHOR_X[spot.side_x],
            va=_ANCHOR_Y[spot.side_y],
            fontsize=7,
            fontweight="bold",
            color=callout.color,
            arrowprops={"arrowstyle": "-", "color": callout.color, "linewidth": 0.6, "shrinkB": 3.5, "shrinkA": 0}
            if spot.far
            else None,
            bbox={"boxstyle": "square,pad=0.05", "facecolor": (1, 1, 1, 0.7), "linewidth": 0},
            zorder=5,
        )
