"""Parts of plotly.js figures that every kind of figure has: layout, axes, buttons, formats. Plain JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from math import isfinite, log10
from typing import Any

from flashgauge.report import palette
from flashgauge.report.figure_layout import EVEN
from flashgauge.report.formats import decimals, tick_step

Json = dict[str, Any]
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def layout(**changes: Any) -> Json:
    return {
        "font": {"family": FONT, "size": 13, "color": palette.INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "hoverlabel": {"font": {"family": FONT, "size": 12}, "namelength": -1},
        "separators": ".,",
        "modebar": {"bgcolor": "rgba(255,255,255,0)", "color": palette.WINDOW, "activecolor": palette.INK},
        **changes,
    }


def axis(title: str, **changes: Any) -> Json:
    return {
        "title": {"text": title, "standoff": 10},
        "gridcolor": palette.GRID,
        "linecolor": palette.MUTED,
        "ticks": "outside",
        "tickcolor": palette.MUTED,
        "zeroline": False,
        "automargin": True,
        **changes,
    }


def log_axis(low: float, high: float, fine: float) -> Json:
    """Ticks at 1, 2 and 5 of each decade while there are at most `fine` decades from `low` to `high`; within a decade,
    at every digit, and evenly when there are few of these as well."""
    span = log10(high / low)
    few = span <= fine
    ticks: Json = {"type": "log", "tickformat": ",", "exponentformat": "none"}
    if 0 < span < EVEN:
        ticks["dtick"] = f"L{tick_step(low, high):g}"
    else:
        ticks["dtick"] = "D1" if span < 0.9 else "D2" if few else 1
    return ticks if few else {**ticks, "minor": {"ticks": "outside", "ticklen": 3, "dtick": "D1"}}


def buttons(choices: list[Json], **changes: Any) -> Json:
    return {
        "type": "buttons",
        "direction": "right",
        "buttons": choices,
        "x": 0,
        "xanchor": "left",
        "yanchor": "bottom",
        "pad": {"b": 4},
        "bgcolor": "#ffffff",
        "bordercolor": palette.WINDOW,
        "font": {"size": 12},
        **changes,
    }


def value_format(values: Iterable[float]) -> str:
    """Of d3, for reading values off: as many decimals as the smaller ones need."""
    return f",.{decimals(values)}f"


def finite(value: float) -> float | None:
    """JSON has no NaN and no infinity; plotly leaves a gap where there is no value."""
    return value if isfinite(value) else None
