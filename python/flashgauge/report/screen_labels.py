"""Labels in plotly.js figures: of bands and lines above or on the plot, and of single points.

Lengths are in pixels of a plot about `WIDTH` wide: the real width depends on the window and is often larger, which
moves labels apart, never together.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import isfinite, log10

from flashgauge.report import palette
from flashgauge.report.figure_layout import (
    CALLOUT_ROOM,
    Point,
    along,
    callout_spots,
    centred_rows,
    flag_rows,
    is_dense,
    level_labels,
    text_width,
)
from flashgauge.report.model import Band, LineFigure, Mark
from flashgauge.report.screen_axes import Json

WIDTH = 760.0
# Font size, and height of a row of labels.
LABEL = 12
ROW = 17
# Of what is written over data.
_PAPER = "rgba(255,255,255,0.75)"
_ANCHOR_X = {1: "left", 0: "center", -1: "right"}
_ANCHOR_Y = {1: "bottom", 0: "middle", -1: "top"}


@dataclass(frozen=True)
class Frame:
    """What the axes show, as plotly will choose it, nearly; logarithms where an axis is logarithmic."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float
    x_log: bool
    y_log: bool
    height: float

    def x(self, value: float) -> float:
        """A place as annotations have it: a logarithm on a logarithmic axis."""
        return log10(value) if self.x_log else value

    def y(self, value: float) -> float:
        return log10(value) if self.y_log else value

    def across(self, value: float) -> float:
        return (self.x(value) - self.x_low) / ((self.x_high - self.x_low) or 1.0) * WIDTH

    def up(self, value: float) -> float:
        return (self.y(value) - self.y_low) / ((self.y_high - self.y_low) or 1.0) * self.height

    def points(self, x: Iterable[float], y: Iterable[float]) -> list[Point]:
        pairs = zip(x, y, strict=True)
        return [(self.across(a), self.up(b)) for a, b in pairs if self._shown(a, b)]

    def _shown(self, x: float, y: float) -> bool:
        return isfinite(x) and isfinite(y) and (x > 0 or not self.x_log) and (y > 0 or not self.y_log)


def frame(figure: LineFigure, height: float) -> Frame:
    y = [v for choice in figure.choices for series in choice.series for v in series.y]
    y += [mark.at for mark in figure.marks if mark.axis == "y"] + [callout.y for callout in figure.callouts]
    x_low, x_high = edges(figure)
    y_low, y_high = _range(y, figure.y_log, 0.04)
    return Frame(x_low, x_high, y_low if figure.y_log else min(y_low, 0.0), y_high, figure.x_log, figure.y_log, height)


def edges(figure: LineFigure) -> tuple[float, float]:
    """The x axis' range, as plotly has it."""
    x = [v for choice in figure.choices for series in choice.series for v in series.x]
    x += [mark.at for mark in figure.marks if mark.axis == "x"] + [callout.x for callout in figure.callouts]
    x += [v for band in figure.bands if band.axis == "x" for v in (band.low, band.high)]
    # Dense plots run from border to border; callouts need room beside the outermost points.
    return _range(x, figure.x_log, 0.01 if is_dense(figure) else CALLOUT_ROOM if figure.callouts else 0.04)


def _range(values: list[float], log: bool, pad: float) -> tuple[float, float]:
    found = [log10(v) if log else v for v in values if isfinite(v) and (v > 0 or not log)] or [0.0, 1.0]
    room = pad * (max(found) - min(found)) or 0.5
    return min(found) - room, max(found) + room


def band_shape(band: Band) -> Json:
    ends = {"x0": 0, "x1": 1, "xref": "paper", "y0": band.low, "y1": band.high, "yref": "y"}
    if band.axis == "x":
        ends = {"x0": band.low, "x1": band.high, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "rect", **ends, "fillcolor": band.color, "opacity": 0.14, "line": {"width": 0}, "layer": "below"}


def band_names(figure: LineFigure, seen: Frame) -> tuple[list[Json], int]:
    """Names above the plot, and how many rows of labels they take."""
    across = [band for band in figure.bands if band.axis == "x"]
    levels = [band for band in figure.bands if band.axis == "y"]
    middles = [(seen.x(band.low) + seen.x(band.high)) / 2 for band in across]
    places = [(x - seen.x_low) / ((seen.x_high - seen.x_low) or 1.0) * WIDTH for x in middles]
    rows = centred_rows(places, [text_width(band.label, LABEL) for band in across])
    found = []
    for band, middle, row in zip(across, middles, rows, strict=True):
        found.append(_above(band.label, row, x=middle, xref="x", xanchor="center"))
    first = max(rows, default=-1) + 1
    for row, band in enumerate(levels, first):
        found.append(_above(band.label, row, x=0, xref="paper", xanchor="left"))
    return found, first + len(levels)


def _above(text: str, row: int, **place: object) -> Json:
    font = {"size": LABEL, "color": palette.MUTED}
    base: Json = {"y": 1, "yref": "paper", "yanchor": "bottom", "yshift": row * ROW, "showarrow": False, "font": font}
    return {"text": text, **base, **place}


def flags(figure: LineFigure, seen: Frame, first_row: int) -> tuple[list[Json], list[Json], int]:
    """Vertical lines that rise to their labels above the plot: shapes, annotations, and the first row left free."""
    marks = [mark for mark in figure.marks if mark.axis == "x"]
    widths = [text_width(mark.label, LABEL) + 6 for mark in marks]
    rows = [first_row + row for row in flag_rows([seen.across(mark.at) for mark in marks], widths)]
    shapes: list[Json] = []
    names: list[Json] = []
    for mark, row in zip(marks, rows, strict=True):
        place = {"x0": mark.at, "x1": mark.at, "xref": "x", "y0": 0, "y1": 1 + (row + 1) * ROW / seen.height}
        shapes.append({"type": "line", **place, "yref": "paper", "line": {"color": mark.color, "width": 1.4}})
        font = {"size": LABEL, "color": mark.color}
        names.append(_above(mark.label, row, x=seen.x(mark.at), xref="x", xanchor="left", xshift=2, font=font))
    return shapes, names, max(rows, default=first_row - 1) + 1


def flag_margin(figure: LineFigure, seen: Frame) -> float:
    """Room on the right for the label of a line near the plot's end."""
    marks = [mark for mark in figure.marks if mark.axis == "x"]
    return max((seen.across(mark.at) + text_width(mark.label, LABEL) + 6 - WIDTH for mark in marks), default=0.0)


def levels(figure: LineFigure, seen: Frame) -> tuple[list[Json], list[Json]]:
    """Horizontal lines with their labels at the right end: shapes and annotations."""
    marks = [mark for mark in figure.marks if mark.axis == "y"]
    widths = [text_width(mark.label, LABEL) + 10 for mark in marks]
    places = level_labels([seen.up(mark.at) for mark in marks], widths, ROW)
    names: list[Json] = []
    for mark, (above, shift) in zip(marks, places, strict=True):
        place = {"x": 1, "xref": "paper", "xanchor": "right", "xshift": -shift, "y": seen.y(mark.at), "yref": "y"}
        look = {"showarrow": False, "yanchor": "bottom" if above else "top", "borderpad": 1}
        names.append({"text": mark.label, **place, **look, "font": {"size": LABEL, "color": mark.color}})
    return [_level(mark) for mark in marks], names


def _level(mark: Mark) -> Json:
    place = {"x0": 0, "x1": 1, "xref": "paper", "y0": mark.at, "y1": mark.at, "yref": "y"}
    return {"type": "line", **place, "line": {"color": mark.color, "width": 1.4}}


def rings(figure: LineFigure) -> list[Json]:
    """Around the callouts' points. A trace: shapes of a size in pixels are off their place on logarithmic axes."""
    if not figure.callouts:
        return []
    line = {"color": [callout.color for callout in figure.callouts], "width": 1.6}
    x, y = [callout.x for callout in figure.callouts], [callout.y for callout in figure.callouts]
    marker = {"symbol": "circle-open", "size": 14, "line": line, "color": line["color"]}
    options = {"mode": "markers", "showlegend": False, "hoverinfo": "skip"}
    return [{"type": "scatter", "name": "", "x": x, "y": y, "marker": marker, **options}]


def callouts(figure: LineFigure, seen: Frame) -> list[Json]:
    """Labels of points."""
    points = [(seen.across(callout.x), seen.up(callout.y)) for callout in figure.callouts]
    lines = [point for series in figure.series for point in along(seen.points(series.x, series.y), 4)]
    labels = [callout.label for callout in figure.callouts]
    # Nothing is cut at the plot's right border, and texts are a little narrower than estimated.
    bounds = (0.0, 0.0, 1.04 * WIDTH, seen.height)
    spots = callout_spots(points, labels, size=LABEL, obstacles=lines, bounds=bounds)
    names: list[Json] = []
    for callout, spot in zip(figure.callouts, spots, strict=True):
        # An arrow without a head is the line to a far label; its tail is where the label stands.
        arrow = {"showarrow": True, "arrowhead": 0, "arrowwidth": 1, "standoff": 7, "ax": spot.dx, "ay": -spot.dy}
        line = {"arrowcolor": callout.color if spot.far else "rgba(0,0,0,0)"}
        place = {"x": seen.x(callout.x), "y": seen.y(callout.y)}
        anchors = {"xanchor": _ANCHOR_X[spot.side_x], "yanchor": _ANCHOR_Y[spot.side_y]}
        look = {"bgcolor": _PAPER, "borderpad": 1, "font": {"size": LABEL, "color": callout.color}}
        names.append({"text": f"<b>{callout.label}</b>", **place, **arrow, **line, **anchors, **look})
    return names
