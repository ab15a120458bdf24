"""Figures of the model as plotly.js figures: plain JSON values, {"data": [...], "layout": {...}}."""

from __future__ import annotations

from math import floor, log10
from typing import Any

from flashgauge.report import palette
from flashgauge.report.model import Columns3D, LineFigure, Series

Json = dict[str, Any]
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "triangle-down", "x", "pentagon", "star")
_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
# Corner indices of the twelve triangles of a box whose corners are numbered by bits x, y, z.
_BOX = (
    *((0, 1, 3), (0, 3, 2), (4, 7, 5), (4, 6, 7), (0, 5, 1), (0, 4, 5)),
    *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
)
_HALF_WIDTH = 0.36


def figure_json(figure: LineFigure | Columns3D) -> Json:
    return _line(figure) if isinstance(figure, LineFigure) else _columns(figure)


def _layout(**changes: Any) -> Json:
    return {
        "font": {"family": _FONT, "size": 13, "color": palette.INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "#ffffff",
        "hoverlabel": {"font": {"family": _FONT, "size": 12}},
        "separators": ".,",
        "modebar": {"bgcolor": "rgba(255,255,255,0)", "color": palette.WINDOW, "activecolor": palette.INK},
        **changes,
    }


def _axis(title: str, **changes: Any) -> Json:
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


def _trace(figure: LineFigure, series: Series, visible: bool) -> Json:
    points = series.style == "points"
    dash = "solid" if points else series.style
    return {
        "type": "scatter",
        "name": series.name,
        "x": series.x,
        "y": series.y,
        "visible": visible,
        "mode": "lines+markers" if points else "lines",
        "line": {"color": series.color, "width": 2 if points else 1.8, "dash": dash},
        "marker": {"symbol": _SYMBOLS[series.marker % len(_SYMBOLS)], "size": 8},
        "hovertemplate": f"{figure.x_title} %{{x}}: %{{y:,.1f}} {figure.y_title}",
    }


def _line(figure: LineFigure) -> Json:
    data = [_trace(figure, series, i == 0) for i, choice in enumerate(figure.choices) for series in choice.series]
    x_axis = _axis(figure.x_title)
    if figure.x_log:
        x_axis["type"] = "log"
    if figure.x_ticks:
        x_axis |= {"tickvals": [x for x, _ in figure.x_ticks], "ticktext": [text for _, text in figure.x_ticks]}
    layout = _layout(
        height=470,
        margin={"l": 70, "r": 20, "t": 64 if len(figure.choices) > 1 or figure.bands else 20, "b": 50},
        xaxis=x_axis,
        yaxis=_axis(figure.y_title, **_value_axis(figure)),
        legend={"orientation": "v", "x": 1.01, "y": 1, "font": {"size": 12}},
        hovermode="x unified" if not figure.x_log else "closest",
        shapes=[_band_shape(figure, i) for i in range(len(figure.bands))],
        annotations=[_band_label(figure, i) for i in range(len(figure.bands))],
    )
    if len(figure.choices) > 1:
        layout["updatemenus"] = [_selector(figure)]
    return {"data": data, "layout": layout}


def _value_axis(figure: LineFigure) -> Json:
    if figure.y_log:
        return {"type": "log", "tickformat": ",", "dtick": "D2", "exponentformat": "none"}
    return {"tickformat": ",", "rangemode": "normal" if figure.bands and figure.bands[0].axis == "y" else "tozero"}


def _band_shape(figure: LineFigure, index: int) -> Json:
    band = figure.bands[index]
    ends = {"x0": 0, "x1": 1, "xref": "paper", "y0": band.low, "y1": band.high, "yref": "y"}
    if band.axis == "x":
        ends = {"x0": band.low, "x1": band.high, "xref": "x", "y0": 0, "y1": 1, "yref": "paper"}
    return {"type": "rect", **ends, "fillcolor": band.color, "opacity": 0.14, "line": {"width": 0}, "layer": "below"}


def _band_label(figure: LineFigure, index: int) -> Json:
    band = figure.bands[index]
    place: Json = {"x": 0, "xref": "paper", "xanchor": "left", "y": 1, "yref": "paper", "yanchor": "bottom"}
    if band.axis == "x":
        place |= {"x": (band.low + band.high) / 2, "xref": "x", "xanchor": "center"}
    return {**place, "text": band.label, "showarrow": False, "font": {"size": 12, "color": palette.MUTED}}


def _selector(figure: LineFigure) -> Json:
    buttons = []
    for chosen in range(len(figure.choices)):
        visible = [i == chosen for i, choice in enumerate(figure.choices) for _ in choice.series]
        buttons.append({"label": figure.choices[chosen].name, "method": "restyle", "args": [{"visible": visible}]})
    return _buttons(buttons)


def _buttons(buttons: list[Json]) -> Json:
    return {
        "type": "buttons",
        "direction": "right",
        "buttons": buttons,
        "x": 0,
        "xanchor": "left",
        "y": 1.08,
        "yanchor": "bottom",
        "pad": {"b": 4},
        "bgcolor": "#ffffff",
        "bordercolor": palette.WINDOW,
        "font": {"size": 12},
    }


def _columns(figure: Columns3D) -> Json:
    """Boxes made of triangles; a second, logarithmic set behind a button, for the low columns."""
    values = [value for row in figure.values for value in row]
    floor_power = floor(log10(min(value for value in values if value > 0))) if any(values) else 0
    top_power = log10(max(values)) if any(values) else 1.0
    # The logarithm is taken here, from the decade below the lowest column, so that boxes stand on the floor.
    linear = [_boxes(figure, i, [float(v) for v in row], True) for i, row in enumerate(figure.values)]
    logs = [
        _boxes(figure, i, [log10(v) - floor_power if v > 0 else 0.0 for v in row], False)
        for i, row in enumerate(figure.values)
    ]
    powers = list(range(floor_power, int(top_power) + 2))
    linear_axis: Json = {"title": {"text": figure.value_title}, "tickvals": None, "ticktext": None, "tickformat": ","}
    log_axis: Json = {
        "title": {"text": f"{figure.value_title}, logarithmic"},
        "tickvals": [power - floor_power for power in powers],
        "ticktext": [f"{10**power:,}" if power >= 0 else f"{10.0**power:g}" for power in powers],
    }
    count = len(figure.rows)
    buttons = [
        _scale_button("Linear", [True] * count + [False] * count, linear_axis),
        _scale_button("Logarithmic", [False] * count + [True] * count, log_axis),
    ]
    names = {"tickmode": "array", "backgroundcolor": "#f7f9fb", "gridcolor": palette.GRID, "showbackground": True}
    layout = _layout(
        height=640,
        margin={"l": 0, "r": 0, "t": 40, "b": 0},
        legend={"x": 1, "xanchor": "right", "y": 0.9, "title": {"text": figure.row_title}, "font": {"size": 12}},
        updatemenus=[{**_buttons(buttons), "y": 1.0}],
        scene={
            "xaxis": {**names, "title": {"text": figure.column_title}, **_ticks(figure.columns)},
            "yaxis": {**names, "title": {"text": figure.row_title}, **_ticks(figure.rows)},
            "zaxis": {**names, "tickmode": "auto", "title": {"text": figure.value_title}, "tickformat": ","},
            "aspectmode": "manual",
            "aspectratio": {"x": 1.25, "y": 1.15, "z": 0.8},
            # From the side of large blocks and writes, where columns are low, so that no high one is in front.
            "camera": {"eye": {"x": 1.35, "y": -1.45, "z": 0.85}, "center": {"x": 0.05, "y": 0.02, "z": -0.16}},
        },
    )
    return {"data": linear + logs, "layout": layout}


def _scale_button(label: str, visible: list[bool], axis: Json) -> Json:
    changes = {f"scene.zaxis.{name}": value for name, value in axis.items()}
    changes["scene.zaxis.tickmode"] = "array" if axis["tickvals"] else "auto"
    return {"label": label, "method": "update", "args": [{"visible": visible}, changes]}


def _ticks(names: tuple[str, ...]) -> Json:
    return {"tickvals": list(range(len(names))), "ticktext": list(names), "range": [-0.6, len(names) - 0.4]}


def _boxes(figure: Columns3D, row: int, heights: list[float], visible: bool) -> Json:
    """All columns of one row as one mesh of eight corners and twelve triangles each."""
    x: list[float] = []
    y: list[float] = []
    z: list[float] = []
    text: list[str] = []
    triangles: list[tuple[int, int, int]] = []
    for column, height in enumerate(heights):
        base = len(x)
        for corner in range(8):
            x.append(column + (_HALF_WIDTH if corner & 1 else -_HALF_WIDTH))
            y.append(row + (_HALF_WIDTH if corner & 2 else -_HALF_WIDTH))
            z.append(height if corner & 4 else 0.0)
        where = f"{figure.row_title}: {figure.rows[row]}<br>{figure.column_title}: {figure.columns[column]}"
        text += [f"{where}<br>{figure.value_title}: {figure.values[row][column]:,.1f}"] * 8
        triangles += [(a + base, b + base, c + base) for a, b, c in _BOX]
    return {
        "type": "mesh3d",
        "name": figure.rows[row],
        "x": x,
        "y": y,
        "z": z,
        "i": [a for a, _, _ in triangles],
        "j": [b for _, b, _ in triangles],
        "k": [c for _, _, c in triangles],
        "color": figure.colors[row],
        "flatshading": True,
        "lighting": {"ambient": 0.68, "diffuse": 0.6, "specular": 0.05, "roughness": 0.9},
        "lightposition": {"x": 1000, "y": -3000, "z": 6000},
        "text": text,
        "hoverinfo": "text",
        "showlegend": True,
        "visible": visible,
    }
