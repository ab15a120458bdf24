"""Figures of the model as plotly.js figures: plain JSON values, {"data": [...], "layout": {...}}."""

from __future__ import annotations

from math import isfinite, log10

from flashgauge.report import screen_labels
from flashgauge.report.figure_layout import (
    FINE,
    MANY_POINTS,
    bar_width,
    bottom,
    has_steps,
    is_dense,
    outline,
    text_width,
)
from flashgauge.report.formats import decimals, step_decimals, value_text
from flashgauge.report.model import Bars, Columns3D, Figure, LineFigure, Series
from flashgauge.report.screen_axes import Json, axis, buttons, finite, layout, log_axis, value_format
from flashgauge.report.screen_columns import columns_json

HEIGHT = 470
MOST_BAR_VALUES = 24
# Up to here a legend is a line above the plot, beyond it a column beside it.
MOST_ABOVE = 4
_BOTTOM = 54
_LEFT = 70
# Figures under one another: room for "1,000,000" and the title on all of them, so that their axes are in line.
_STACKED_LEFT = 104
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "pentagon", "star")
# Lines of more points than this are given with six digits: a screen shows no more, and the file is half as large.
_MANY = 1000


def figure_json(figure: Figure, height: int = HEIGHT, stacked: bool = False) -> Json:
    """`stacked`: one of several figures under one another. Columns have a height of their own."""
    match figure:
        case LineFigure():
            return _line(figure, height, stacked)
        case Bars():
            return _bars(figure, height, stacked)
        case Columns3D():
            return columns_json(figure)


def _line(figure: LineFigure, height: int, stacked: bool) -> Json:
    data = [_trace(figure, series, i == 0) for i, choice in enumerate(figure.choices) for series in choice.series]
    above = len(figure.series) <= MOST_ABOVE
    legend_row = len(figure.choices) > 1 or (above and len(figure.series) > 1)
    # The plot's height, without what stands above it; that is known only when the labels have their rows.
    seen = screen_labels.frame(figure, height - _BOTTOM - 64)
    names, rows = screen_labels.band_names(figure, seen)
    flag_lines, flag_names, rows = screen_labels.flags(figure, seen, rows)
    level_lines, level_names = screen_labels.levels(figure, seen)
    callouts = screen_labels.callouts(figure, seen)
    label_height = rows * screen_labels.ROW + 6 if rows else 0
    top = max(20, label_height + (34 if legend_row else 4))
    plot_height = height - _BOTTOM - top
    flag_lines = [{**line, "y1": 1 + (line["y1"] - 1) * seen.height / plot_height} for line in flag_lines]
    over = 1 + label_height / plot_height
    legend = {"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 12}}
    if above:
        legend = {**legend, "orientation": "h", "x": 1, "xanchor": "right", "y": over, "yanchor": "bottom"}
    right = max(20.0, screen_labels.flag_margin(figure, seen) if above else 0.0)
    made = layout(
        height=height,
        margin={"l": _STACKED_LEFT if stacked else _LEFT, "r": round(right), "t": round(top), "b": _BOTTOM},
        xaxis=_x_axis(figure),
        yaxis=axis(figure.y_title, **_value_axis(figure, height)),
        legend=legend,
        hovermode=_hover_mode(figure),
        shapes=[screen_labels.band_shape(band) for band in figure.bands] + flag_lines + level_lines,
        annotations=names + flag_names + level_names + callouts,
    )
    if len(figure.choices) > 1:
        made["updatemenus"] = [_selector(figure, over)]
    return {"data": data + screen_labels.rings(figure), "layout": made}


def _hover_mode(figure: LineFigure) -> str:
    """All values at one place of the x axis where the lines share their places; else the point nearest by."""
    if has_steps(figure):
        return "x"
    lines = [series for series in figure.series if len(series.x) > 2]
    if figure.x_log or any(series.style == "dots" for series in lines) or len({series.x for series in lines}) > 1:
        return "closest"
    return "x unified"


def _trace(figure: LineFigure, series: Series, visible: bool) -> Json:
    if series.style == "steps":
        return _steps(figure, series, visible)
    count = len(series.x)
    dash = series.style if series.style in ("dash", "dot") else "solid"
    values = f"%{{y:{value_format(series.y)}}}"
    if _hover_mode(figure) == "closest":
        values = f"{figure.x_title}: %{{x}}<br>{figure.y_title}: {values}"
    return {
        "type": "scatter",
        "name": series.name,
        "x": _numbers(series.x),
        "y": _numbers(series.y),
        "visible": visible,
        "mode": {"points": "lines+markers", "dots": "markers"}.get(series.style, "lines"),
        "line": {
            "color": series.color,
            "width": {"points": 2, "thin": 1 if count > _MANY else 1.4}.get(series.style, 1.8),
            "dash": dash,
        },
        "marker": {
            "symbol": _SYMBOLS[series.marker % len(_SYMBOLS)],
            "size": 8 if count <= MANY_POINTS else 4.5 if count <= _MANY else 2.5,
            "color": series.color,
        },
        "hovertemplate": values,
    }


def _numbers(values: tuple[float, ...]) -> list[float | None]:
    if len(values) > _MANY:
        values = tuple(float(f"{value:.6g}") for value in values)
    return [finite(value) for value in values]


def _steps(figure: LineFigure, series: Series, visible: bool) -> Json:
    """A histogram's outline; what it says at a bin is the bin's own range and count, also for an empty bin."""
    x, y = outline(series, bottom(figure))
    places, digits = decimals(series.y), decimals(series.x)
    text = [""]
    for low, high, value in zip(series.x, series.x[1:], series.y[1:], strict=False):
        text.append(f"{low:,.{digits}f}\N{EN DASH}{high:,.{digits}f}<br>{figure.y_title}: {value:,.{places}f}")
    return {
        "type": "scatter",
        "name": series.name,
        "x": x,
        "y": y,
        "visible": visible,
        "mode": "lines",
        "line": {"color": series.color, "width": 1.2, "shape": "vh"},
        "fill": "tozeroy",
        "fillcolor": f"{series.color}38",
        "customdata": [*text, text[-1]][: len(x)],
        "hovertemplate": f"{figure.x_title}: %{{customdata}}",
    }


def _x_axis(figure: LineFigure) -> Json:
    x = [v for choice in figure.choices for series in choice.series for v in series.x if isfinite(v)]
    made = axis(figure.x_title, tickformat=",")
    if figure.x_log:
        positive = [v for v in x if v > 0] or [1.0, 10.0]
        made |= {**log_axis(min(positive), max(positive), FINE), "hoverformat": ",.5~r"}
    else:
        places = max((step_decimals(s.x) for c in figure.choices for s in c.series if len(s.x) > 2), default=0)
        made["hoverformat"] = f",.{places}~f"
    if (is_dense(figure) or figure.callouts) and x:
        made["range"] = list(screen_labels.edges(figure))
    if figure.x_ticks:
        made |= {"tickvals": [x for x, _ in figure.x_ticks], "ticktext": [text for _, text in figure.x_ticks]}
        made.pop("dtick", None)
        made.pop("minor", None)
    return made


def _value_axis(figure: LineFigure, height: int) -> Json:
    if not figure.y_log:
        return {"tickformat": ",", "rangemode": "normal" if figure.bands and figure.bands[0].axis == "y" else "tozero"}
    y = [v for choice in figure.choices for series in choice.series for v in series.y if isfinite(v) and v > 0]
    low, high = min(y, default=1.0), max(y, default=10.0)
    made = log_axis(low, high, FINE if height >= HEIGHT else 1)
    if has_steps(figure):
        made["range"] = [log10(bottom(figure)), log10(high) + 0.04 * log10(high / bottom(figure))]
    return made


def _selector(figure: LineFigure, y: float) -> Json:
    choices = []
    for chosen in range(len(figure.choices)):
        visible = [i == chosen for i, choice in enumerate(figure.choices) for _ in choice.series]
        visible += [True for _ in screen_labels.rings(figure)]
        choices.append({"label": figure.choices[chosen].name, "method": "restyle", "args": [{"visible": visible}]})
    return buttons(choices, y=y)


def _bars(figure: Bars, height: int, stacked: bool) -> Json:
    """Categories are places 0, 1, ... with names: plotly would take names that look like numbers for numbers."""
    width = bar_width(len(figure.categories), len(figure.series))
    texts = [
        [value_text(value, figure.format) if value is not None else "" for value in series.values]
        for series in figure.series
    ]
    count = sum(text != "" for row in texts for text in row)
    labelled = 0 < count <= MOST_BAR_VALUES
    widest = max((text_width(text, screen_labels.LABEL) for row in texts for text in row), default=0.0)
    room = screen_labels.WIDTH * width / max(len(figure.categories) * len(figure.series), 1)
    upright = widest > room
    above = 44 if len(figure.series) > 1 else 20
    over = (widest if upright else screen_labels.ROW) + 6 if labelled else 0.0
    data = [
        {
            "type": "bar",
            "name": series.name,
            "x": list(range(len(series.values))),
            "y": [finite(value) if value is not None else None for value in series.values],
            "marker": {"color": series.color},
            "text": row,
            "textposition": "outside" if labelled else "none",
            "textangle": -90 if upright else 0,
            "constraintext": "none",
            "cliponaxis": False,
            "textfont": {"size": screen_labels.LABEL},
            "customdata": list(figure.categories),
            "hovertemplate": f"{figure.x_title}: %{{customdata}}<br>{figure.y_title}: %{{text}}",
        }
        for series, row in zip(figure.series, texts, strict=True)
    ]
    names = {"tickvals": list(range(len(figure.categories))), "ticktext": list(figure.categories), "ticks": ""}
    legend = {"orientation": "h", "x": 1, "xanchor": "right", "y": 1.02, "yanchor": "bottom", "font": {"size": 12}}
    made = layout(
        height=height,
        margin={"l": _STACKED_LEFT if stacked else _LEFT, "r": 20, "t": above, "b": _BOTTOM},
        barmode="group",
        bargap=round(1 - width, 4),
        bargroupgap=0.06,
        xaxis=axis(figure.x_title, **names, showgrid=False, range=[-0.6, len(figure.categories) - 0.4]),
        yaxis=axis(figure.y_title, **_bar_axis(figure, over / (height - above - _BOTTOM))),
        legend=legend,
        showlegend=len(figure.series) > 1,
        hovermode="closest",
    )
    return {"data": data, "layout": made}


def _bar_axis(figure: Bars, over: float) -> Json:
    """`over`: the share of the plot's height that the values over the bars take."""
    shown = [value for series in figure.series for value in series.values if value is not None and isfinite(value)]
    positive = [value for value in shown if value > 0]
    if not positive:
        return {"tickformat": ",", "rangemode": "tozero"}
    share = 1 - max(over, 0.04)
    if not figure.y_log:
        return {"tickformat": ",", "range": [0, max(positive) / share]}
    low = log10(min(positive) / 2)
    return {
        **log_axis(min(positive), max(positive), FINE),
        "range": [low, low + (log10(max(positive)) - low) / share],
    }
