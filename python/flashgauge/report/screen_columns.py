"""Columns over a grid as a plotly.js figure: boxes made of triangles, on a linear or a logarithmic axis."""

from __future__ import annotations

from math import floor, isfinite, log10

from flashgauge.report import palette
from flashgauge.report.formats import decimals, plain
from flashgauge.report.model import Columns3D
from flashgauge.report.screen_axes import Json, buttons, layout

HEIGHT = 640
# Corner indices of the twelve triangles of a box whose corners are numbered by bits x, y, z.
_BOX = (
    *((0, 1, 3), (0, 3, 2), (4, 7, 5), (4, 6, 7), (0, 5, 1), (0, 4, 5)),
    *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
)
_HALF_WIDTH = 0.36


def columns_json(figure: Columns3D) -> Json:
    """A second, logarithmic set of boxes stands behind a button, for the low columns."""
    values = [value for row in figure.values for value in row if isfinite(value) and value > 0]
    floor_power = floor(log10(min(values))) if values else 0
    top_power = log10(max(values)) if values else 1.0
    # The logarithm is taken here, from the decade below the lowest column, so that boxes stand on the floor.
    linear = [_boxes(figure, i, [v if isfinite(v) else 0.0 for v in row], True) for i, row in enumerate(figure.values)]
    logs = [
        _boxes(figure, i, [log10(v) - floor_power if isfinite(v) and v > 0 else 0.0 for v in row], False)
        for i, row in enumerate(figure.values)
    ]
    powers = list(range(floor_power, floor(top_power) + 2))
    linear_axis: Json = {"title": {"text": figure.value_title}, "tickvals": None, "ticktext": None, "tickformat": ","}
    log_axis: Json = {
        "title": {"text": f"{figure.value_title}, logarithmic"},
        "tickvals": [power - floor_power for power in powers],
        "ticktext": [plain(10.0**power) for power in powers],
    }
    count = len(figure.rows)
    choices = [
        _scale_button("Linear", [True] * count + [False] * count, linear_axis),
        _scale_button("Logarithmic", [False] * count + [True] * count, log_axis),
    ]
    names = {"tickmode": "array", "backgroundcolor": "#f7f9fb", "gridcolor": palette.GRID, "showbackground": True}
    height: Json = {"tickmode": "auto", "title": {"text": figure.value_title}, "tickformat": ","}
    if not values:
        height["range"] = [0, 1]
    scene = {
        "xaxis": {**names, "title": {"text": figure.column_title}, **_ticks(figure.columns)},
        "yaxis": {**names, "title": {"text": figure.row_title}, **_ticks(figure.rows)},
        "zaxis": {**names, **height},
        "aspectmode": "manual",
        "aspectratio": {"x": 1.25, "y": 1.15, "z": 0.8},
        # From the side of large blocks and writes, where columns are low, so that no high one is in front.
        "camera": {"eye": {"x": 1.35, "y": -1.45, "z": 0.85}, "center": {"x": 0.05, "y": 0.02, "z": -0.16}},
    }
    legend = {"x": 1, "xanchor": "right", "y": 0.9, "title": {"text": figure.row_title}, "font": {"size": 12}}
    menus = [buttons(choices, y=1.0)]
    margin = {"l": 0, "r": 0, "t": 40, "b": 0}
    return {
        "data": linear + logs,
        "layout": layout(height=HEIGHT, margin=margin, legend=legend, updatemenus=menus, scene=scene),
    }


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
    places = decimals(value for values in figure.values for value in values)
    for column, height in enumerate(heights):
        base = len(x)
        for corner in range(8):
            x.append(column + (_HALF_WIDTH if corner & 1 else -_HALF_WIDTH))
            y.append(row + (_HALF_WIDTH if corner & 2 else -_HALF_WIDTH))
            z.append(height if corner & 4 else 0.0)
        value = figure.values[row][column]
        where = f"{figure.row_title}: {figure.rows[row]}<br>{figure.column_title}: {figure.columns[column]}"
        what = f"{value:,.{places}f}" if isfinite(value) else "no value"
        text += [f"{where}<br>{figure.value_title}: {what}"] * 8
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
