"""What the figures for paper and for the screen have in common: where labels go, and what a histogram's outline is.

Pure arithmetic. Lengths are in any one unit (points on paper, pixels on a screen); y grows upwards. Widths of texts
are estimated from their number of characters, on the wide side: a label that is given too much room is still readable.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil, hypot, inf, isfinite

from flashgauge.report.model import LineFigure, Series

Point = tuple[float, float]
# Of the font size, for each character; digits of the sans serif fonts used are this wide.
_CHARACTER = 0.62
_BOLD_CHARACTER = 0.7
_LINE = 1.25
# Right, left, then the corners: text beside a point reads as belonging to it, text over it less so.
_DIRECTIONS = ((1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1), (0, 1), (0, -1))
_DISTANCES = (1.0, 2.0, 3.5, 5.0, 7.0)
_MOST_SAMPLES = 20_000
# Of the plot's width.
_WIDEST_BAR = 0.12
MANY_POINTS = 100
# Left and right of the outermost points, as a share of the axis, when points have callouts beside them.
CALLOUT_ROOM = 0.14
# Up to so many decades a logarithmic axis has ticks at 2 and 5 as well; below the other number, at even distances.
FINE = 4.0
EVEN = 0.4


def text_width(text: str, size: float, bold: bool = False) -> float:
    return (_BOLD_CHARACTER if bold else _CHARACTER) * size * len(text)


def flag_rows(positions: Sequence[float], widths: Sequence[float]) -> list[int]:
    """Rows, 0 the lowest, for labels above a plot, each starting at its own vertical line and running to the right.

    A line rises to its label's row. A label therefore stands higher than the labels of all lines it passes over, and
    no label is crossed by a line or covers another.
    """
    rows = [0] * len(positions)
    order = sorted(range(len(positions)), key=lambda i: positions[i])
    for rank in reversed(range(len(order))):
        i = order[rank]
        passed = [rows[j] for j in order[rank + 1 :] if positions[j] < positions[i] + widths[i]]
        rows[i] = max(passed, default=-1) + 1
    return rows


def centred_rows(centres: Sequence[float], widths: Sequence[float]) -> list[int]:
    """Rows, 0 the lowest, for labels centred at `centres`, so that none covers another."""
    ends: list[float] = []
    rows = [0] * len(centres)
    for i in sorted(range(len(centres)), key=lambda i: centres[i]):
        left, right = centres[i] - widths[i] / 2, centres[i] + widths[i] / 2
        rows[i] = next((row for row, end in enumerate(ends) if end <= left), len(ends))
        ends[rows[i] : rows[i] + 1] = [right]
    return rows


def level_labels(heights: Sequence[float], widths: Sequence[float], row: float) -> list[tuple[bool, float]]:
    """For labels of horizontal lines, at the lines' right ends: whether each stands above its line, and how far from
    the border it ends. A label stands below its line when another line is close above, and labels that would still
    cover each other stand side by side."""
    taken: list[tuple[float, float]] = []
    found: list[tuple[bool, float]] = []
    for height, width in zip(heights, widths, strict=True):
        close_above = any(0 < other - height < row for other in heights)
        close_below = any(0 < height - other < row for other in heights)
        above = close_below or not close_above
        middle = height + (row / 2 if above else -row / 2)
        shift = max((end for other, end in taken if abs(other - middle) < row), default=0.0)
        found.append((above, shift))
        taken.append((middle, shift + width))
    return found


@dataclass(frozen=True)
class Spot:
    """Where a callout's text goes: the side of its point (-1, 0 or 1 in x and in y), and the distance of the text's
    nearest edge. `far`: so far that a line should join them."""

    side_x: int
    side_y: int
    dx: float
    dy: float
    far: bool


def callout_spots(
    points: Sequence[Point],
    texts: Sequence[str],
    *,
    size: float,
    obstacles: Sequence[Point],
    bounds: tuple[float, float, float, float],
) -> list[Spot]:
    """A place for each callout's text, of font size `size`: inside `bounds` (x low, y low, x high, y high), over as few
    `obstacles` as can be, and over no text placed before."""
    placed: list[tuple[float, float, float, float]] = []
    spots: list[Spot] = []
    for point, text in zip(points, texts, strict=True):
        width, height = text_width(text, size, bold=True), _LINE * size
        best, best_cost = Spot(1, 0, size, 0.0, False), inf
        best_box = (0.0, 0.0, 0.0, 0.0)
        for distance in _DISTANCES:
            for side_x, side_y in _DIRECTIONS:
                reach = distance * size * (0.75 if side_x and side_y else 1.0)
                spot = Spot(side_x, side_y, side_x * reach, side_y * reach, distance > _DISTANCES[0])
                box = _box(point, spot, width, height)
                cost = 1000.0 * _outside(box, bounds) + 50.0 * sum(_overlaps(box, other) for other in placed)
                cost += 20.0 * sum(_inside(other, box) for other in points if other != point)
                # A farther place has to be worth its line.
                cost += sum(_inside(obstacle, box) for obstacle in obstacles) + 1.5 * distance
                if cost < best_cost:
                    best, best_cost, best_box = spot, cost, box
        spots.append(best)
        placed.append(best_box)
    return spots


def _box(point: Point, spot: Spot, width: float, height: float) -> tuple[float, float, float, float]:
    left = point[0] + spot.dx - width * (1 - spot.side_x) / 2
    low = point[1] + spot.dy - height * (1 - spot.side_y) / 2
    return left, low, left + width, low + height


def _outside(box: tuple[float, float, float, float], bounds: tuple[float, float, float, float]) -> bool:
    return box[0] < bounds[0] or box[1] < bounds[1] or box[2] > bounds[2] or box[3] > bounds[3]


def _overlaps(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def _inside(point: Point, box: tuple[float, float, float, float]) -> bool:
    return box[0] <= point[0] <= box[2] and box[1] <= point[1] <= box[3]


def along(points: Sequence[Point], step: float) -> list[Point]:
    """The line through `points`, sampled every `step`."""
    found: list[Point] = []
    stride = max(1, len(points) // _MOST_SAMPLES)
    kept = [point for point in points[::stride] if isfinite(point[0]) and isfinite(point[1])]
    for a, b in pairwise(kept):
        pieces = max(1, ceil(hypot(b[0] - a[0], b[1] - a[1]) / step))
        found += [(a[0] + (b[0] - a[0]) * i / pieces, a[1] + (b[1] - a[1]) * i / pieces) for i in range(pieces)]
    return found + kept[-1:]


def bottom(figure: LineFigure) -> float:
    """The value axis' lower limit under a histogram: below a count of 1 on a logarithmic axis, so that it shows."""
    if not figure.y_log:
        return 0.0
    found = [y for choice in figure.choices for series in choice.series for y in series.y if 0 < y < inf]
    return min(found, default=1.0) / 2


def has_steps(figure: LineFigure) -> bool:
    return any(series.style == "steps" for choice in figure.choices for series in choice.series)


def is_dense(figure: LineFigure) -> bool:
    """Whether the plot runs from border to border: so many points that none is looked at alone."""
    every = [series for choice in figure.choices for series in choice.series]
    return any(series.style in ("thin", "steps") or len(series.x) > MANY_POINTS for series in every)


def bar_width(categories: int, bars: int) -> float:
    """Of a group of bars, as a share of its category's width: a few bars do not fill the page."""
    return min(0.8, _WIDEST_BAR * categories * bars)


def outline(series: Series, floor: float) -> tuple[list[float], list[float]]:
    """A histogram's outline from the axis up and back down to it, for drawing in steps before each point.

    `y[0]` belongs to no bin and is not drawn; bins that are empty lie on the axis.
    """
    heights = [max(y, floor) if isfinite(y) else floor for y in series.y]
    return [*series.x, *series.x[-1:]], [*([floor] if heights else []), *heights[1:], *([floor] if heights else [])]
