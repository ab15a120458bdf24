"""Colours: the same for a R/W mix and for a block size in every figure.

Both are ordered quantities, so both get ramps that order by eye and by lightness, and that keep their order
under the common colour vision deficiencies: R/W mix from orange (writes) through grey to blue (reads), block
size along viridis without its light end. Markers differ as well, for print without colour.
"""

from __future__ import annotations

from itertools import pairwise
from math import log2

from flashgauge.steps import KIB

INK = "#1c2733"
MUTED = "#6b7a89"
GRID = "#dde3e9"
WINDOW = "#8fa3b8"
AVERAGE = "#1c2733"
FIT = "#c0392b"
BAND = "#2a9d8f"

_MIX = (
    (0.0, "#a63603"),
    (5.0, "#e6650d"),
    (35.0, "#e8a33d"),
    (50.0, "#7f7f7f"),
    (65.0, "#5fa8d3"),
    (95.0, "#2b7bba"),
    (100.0, "#0b3d91"),
)
_BLOCK = (
    (-1.0, "#440154"),
    (2.0, "#46327e"),
    (3.0, "#365c8d"),
    (4.0, "#277f8e"),
    (5.0, "#1fa187"),
    (6.0, "#4ab04f"),
    (7.0, "#8fb923"),
    (10.0, "#d0a70c"),
)


# Lines across a histogram, the later the rarer.
ART = INK
NINES = ("#e6650d", "#c0392b", "#8e1b3a")
MRT = "#440154"


def mix_color(read_percent: float) -> str:
    return _between(_MIX, read_percent)


def block_color(block_bytes: int) -> str:
    return _between(_BLOCK, log2(block_bytes / KIB))


def _between(stops: tuple[tuple[float, str], ...], position: float) -> str:
    """The stop's own colour at a stop, linear in RGB in between, the end's colour outside."""
    if position <= stops[0][0]:
        return stops[0][1]
    for (x0, low), (x1, high) in pairwise(stops):
        if position <= x1:
            share = (position - x0) / (x1 - x0)
            mixed = [round(a + share * (b - a)) for a, b in zip(rgb(low), rgb(high), strict=True)]
            return "#" + "".join(f"{part:02x}" for part in mixed)
    return stops[-1][1]


def rgb(color: str) -> tuple[int, int, int]:
    """0..255 each, of "#rrggbb"."""
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)
