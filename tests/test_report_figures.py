"""Each kind of figure in each renderer: what plotly is given, what is drawn on paper, what CSV holds."""

from __future__ import annotations

import csv
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pypdf
import pytest

from flashgauge.report import palette, write_csv, write_html, write_pdf
from flashgauge.report.csv import section_rows
from flashgauge.report.figure_layout import bar_width, callout_spots, centred_rows, flag_rows, level_labels, outline
from flashgauge.report.formats import decimals, plain, step_decimals, tick_step
from flashgauge.report.html import short_names
from flashgauge.report.model import (
    Band,
    Bars,
    BarSeries,
    Block,
    Callout,
    Choice,
    Column,
    Columns3D,
    Figure,
    Header,
    Item,
    Layout,
    LineFigure,
    Mark,
    Report,
    Section,
    Series,
    Style,
    Table,
)
from flashgauge.report.pdf import _size
from flashgauge.report.print_figures import THIN_PLACES, figure_svg, figures_svg, thinned
from flashgauge.report.screen_figures import figure_json

SIZE_MM = (272.0, 128.0)
RED, BLUE = "#c0392b", "#0b3d91"


def line(x: Any, y: Any, style: Style = "points", **changes: Any) -> LineFigure:
    series = Series("measured", tuple(float(v) for v in x), tuple(float(v) for v in y), BLUE, style)
    values: dict[str, Any] = {
        "title": "A figure",
        "x_title": "Time (s)",
        "y_title": "ART (ms)",
        "x_name": "time_s",
        "y_name": "art_ms",
        "choices": (Choice("", (series,)),),
    }
    return LineFigure(**{**values, **changes})


def histogram(**changes: Any) -> LineFigure:
    """Bins of 0.03 ms and up; some empty, some with one I/O."""
    edges = np.geomspace(0.03, 30, 61)
    counts = [0, *(float(round(9e4 * math.exp(-((i - 15) ** 2) / 18))) for i in range(59)), 1]
    marks = tuple(Mark("x", at, f"{name} {at:g} ms", RED) for name, at in MARKS.items())
    axes = {"x_title": "Response time (ms)", "y_title": "I/Os", "x_name": "response_ms", "y_name": "ios"}
    return line(edges, counts, "steps", **{"marks": marks, "x_log": True, "y_log": True, **axes, **changes})


MARKS = {"ART": 0.15, "99.9 %": 0.41, "99.99 %": 0.42, "99.999 %": 0.43, "MRT": 29.0}


def demand() -> LineFigure:
    """ART over IOPS: seven lines that share no places on the x axis."""
    lines = []
    for marker, threads in enumerate((1, 2, 4, 6, 8, 16, 32)):
        oio = threads * np.array([1, 2, 4, 6, 8, 16, 32])
        iops = 480_000 * oio / (oio + 40 + 2 * threads)
        color = palette.block_color(threads * 1024)
        lines.append(
            Series(f"T{threads}", tuple(iops.tolist()), tuple((oio / iops * 1e3).tolist()), color, marker=marker)
        )
    points = {"MinIOPS T1Q1": (0, 0), "MaxIOPS T32Q32": (6, 6), "MidIOPS T4Q16": (2, 5)}
    callouts = tuple(Callout(lines[i].x[j], lines[i].y[j], name, RED) for name, (i, j) in points.items())
    axes = {"x_title": "IOPS", "x_name": "iops"}
    return line((), (), choices=(Choice("", tuple(lines)),), callouts=callouts, **axes)


_BARS: dict[str, Any] = {
    "title": "Bars",
    "x_title": "Total OIO",
    "y_title": "IOPS",
    "x_name": "total_oio",
    "y_name": "iops",
    "format": ",.1f",
}


def bars(categories: int = 3, series: int = 2, **changes: Any) -> Bars:
    every = tuple(
        BarSeries(f"bar {k}", tuple(1000.0 * (k + 1) + j for j in range(categories)), (BLUE, RED)[k % 2])
        for k in range(series)
    )
    names = tuple(str(2**j) for j in range(categories))
    return Bars(**{**_BARS, "categories": names, "series": every, **changes})


def cpu(values: Any = None) -> Columns3D:
    names = tuple(str(n) for n in (1, 2, 4, 6, 8, 16, 32))
    found = values or tuple(tuple(min(100.0, 0.02 * (i + 1) * (j + 1) ** 3) for j in range(7)) for i in range(7))
    colors = tuple(palette.block_color(int(name) * 1024) for name in names)
    return Columns3D("CPU", "Threads", "Queue depth", "CPU use (%)", "cpu_percent", names, names, found, colors)


SECONDS = np.arange(21_600)
SERIES = np.where(SECONDS < 3600, 98_000.0, 31_000.0) + np.random.default_rng(1).normal(0, 500, 21_600)
EVERY: dict[str, Figure] = {
    "points": line(range(1, 26), range(25, 0, -1)),
    "thin": line(SECONDS / 60, SERIES, "thin", y_log=True),
    "dots": line(SECONDS / 60, SERIES, "dots"),
    "gap": line((1, 2, 3, 4), (1.0, math.nan, math.inf, 4.0)),
    "steps": histogram(),
    "steps, linear": histogram(y_log=False, x_log=False),
    "demand": demand(),
    "levels": line((1, 2), (1, 9), marks=(Mark("y", 5.0, "limit 5", RED), Mark("y", 5.1, "limit 5.1", BLUE))),
    "bars": bars(),
    "bars, logarithmic": bars(y_log=True),
    "many bars": bars(27, 1),
    "bars, one missing": replace(bars(2), series=(BarSeries("", (3.0, None), BLUE),)),
    "no bars": replace(bars(2), series=(BarSeries("", (None, None), BLUE),)),
    "columns": cpu(),
    "columns, all zero": cpu(((0.0,) * 7,) * 7),
    "columns, one missing": cpu((((math.nan, *(50.0,) * 6)),) * 7),
}


# Both renderers


@pytest.mark.parametrize("name", EVERY)
def test_json_has_no_nan(name: str) -> None:
    figure = EVERY[name]
    json.dumps(figure_json(figure), allow_nan=False)
    json.dumps(figure_json(figure, 310, stacked=True), allow_nan=False)


@pytest.mark.parametrize("name", EVERY)
def test_svg_is_the_same_each_time(name: str) -> None:
    figure = EVERY[name]
    first = figure_svg(figure, *SIZE_MM)
    assert first == figure_svg(figure, *SIZE_MM)
    assert texts(first)
    if not isinstance(figure, Columns3D):
        assert {figure.x_title, figure.y_title} <= texts(first)


def texts(svg: bytes) -> set[str]:
    """What is written in a figure: matplotlib names each text, drawn as outlines, in a comment."""
    return {text.strip().replace("&gt;", ">") for text in re.findall(r"<!--(.*?)-->", svg.decode(), re.DOTALL)}


def test_positional_arguments_of_older_reports() -> None:
    ticks = ((1.0, "one"),)
    figure = LineFigure("t", "x", "y", "x", "y", (Choice("", ()),), (), ticks, True, False, "name")
    assert (figure.x_ticks, figure.x_log, figure.name) == (ticks, True, "name")


# Lines of many points


def test_a_line_of_many_points_on_screen() -> None:
    figure = EVERY["thin"]
    assert isinstance(figure, LineFigure)
    (trace,) = figure_json(figure)["data"]
    assert (trace["type"], trace["mode"]) == ("scatter", "lines")
    assert len(trace["x"]) == len(SECONDS)
    assert trace["y"] == pytest.approx(SERIES.tolist(), rel=1e-5)
    layout = figure_json(figure)["layout"]
    assert layout["hovermode"] == "x unified"
    assert layout["xaxis"]["hoverformat"] == ",.2~f", "a second is 0.017 minutes"
    assert layout["xaxis"]["range"] == pytest.approx([-3.6, 363.6], abs=0.1)


def test_a_line_of_many_points_on_paper() -> None:
    y = SERIES.copy()
    y[12_345] = 3.0
    x, drawn = thinned(SECONDS.tolist(), y.tolist(), THIN_PLACES, False)
    assert len(x) <= 4 * (THIN_PLACES + 1)
    assert (x[0], x[-1]) == (0, 21_599)
    assert 3.0 in drawn
    assert (max(drawn), min(drawn)) == (y.max(), y.min())
    for low in range(0, 21_600, 1_000):
        inside = [b for a, b in zip(x, drawn, strict=True) if low <= a < low + 1_000]
        assert (max(inside), min(inside)) == pytest.approx((max(y[low : low + 1_000]), min(y[low : low + 1_000])))
    assert len(figure_svg(line(SECONDS, y, "thin"), *SIZE_MM)) < 250_000
    again = np.linspace(0, 1, 30_000)
    assert len(figure_svg(line(again, np.sin(again * 5e4), "thin"), *SIZE_MM)) < 300_000


def test_a_gap_stays_a_gap() -> None:
    y = SERIES.copy()
    y[5_000:6_000] = math.nan
    x, drawn = thinned(SECONDS.tolist(), y.tolist(), THIN_PLACES, False)
    assert any(math.isnan(value) for value in drawn)
    assert not [a for a, b in zip(x, drawn, strict=True) if 5_000 <= a < 6_000 and not math.isnan(b)]
    assert figure_json(EVERY["gap"])["data"][0]["y"] == [1.0, None, None, 4.0]


def test_what_does_not_rise_is_not_thinned() -> None:
    x = [*range(10_000), *range(10_000)]
    assert thinned(x, x, THIN_PLACES, False) == (x, x)


def test_dots() -> None:
    (trace,) = figure_json(EVERY["dots"])["data"]
    assert trace["mode"] == "markers"
    assert trace["marker"]["size"] < 3
    svg = figure_svg(EVERY["dots"], *SIZE_MM)
    assert svg.count(b"<image") == 1, "thousands of symbols are one image"
    few = figure_svg(line(range(50), range(50), "dots"), *SIZE_MM)
    assert few.count(b"<image") == 0
    assert figure_json(EVERY["dots"])["layout"]["hovermode"] == "closest"


# Histograms


def test_outline_goes_from_the_axis_and_back() -> None:
    series = Series("", (1.0, 2.0, 4.0, 8.0), (9.0, 5.0, 0.0, 1.0), BLUE, "steps")
    assert outline(series, 0.5) == ([1, 2, 4, 8, 8], [0.5, 5, 0.5, 1, 0.5])
    assert outline(Series("", (), (), BLUE, "steps"), 0.5) == ([], [])


def test_histogram_on_screen() -> None:
    figure = histogram()
    made = figure_json(figure)
    (trace,) = made["data"]
    assert (trace["line"]["shape"], trace["fill"]) == ("vh", "tozeroy")
    low, high = made["layout"]["yaxis"]["range"]
    assert 10**low == 0.5, "a count of 1 stands above the axis"
    assert min(trace["y"]) == 0.5
    assert 10**high > 9e4
    text = trace["customdata"]
    assert len(text) == len(trace["x"])
    assert text[60].endswith("I/Os: 1")
    assert text[59].endswith("I/Os: 0"), "an empty bin is drawn on the axis, and says 0"
    assert text[1].startswith("0.0300\N{EN DASH}0.0337<br>")
    x = made["layout"]["xaxis"]
    assert (x["type"], x["dtick"], x["tickformat"]) == ("log", "D2", ",")
    assert 10 ** x["range"][0] == pytest.approx(0.03, rel=0.1)


def test_marks_on_screen() -> None:
    layout = figure_json(histogram())["layout"]
    lines = [shape for shape in layout["shapes"] if shape["type"] == "line"]
    assert [shape["x0"] for shape in lines] == list(MARKS.values())
    names = {name["text"]: name for name in layout["annotations"]}
    assert set(names) == {f"{name} {at:g} ms" for name, at in MARKS.items()}
    assert names["ART 0.15 ms"]["x"] == pytest.approx(math.log10(0.15)), "annotations take logarithms"
    close = [names[f"{name} {MARKS[name]:g} ms"]["yshift"] for name in ("99.9 %", "99.99 %", "99.999 %")]
    assert close == sorted(close, reverse=True)
    assert len(set(close)) == 3, "labels of close lines stand in rows of their own"
    assert layout["margin"]["t"] >= 3 * 17
    assert layout["margin"]["r"] > 60, "room for the label of a line at the border"


def test_histogram_on_paper() -> None:
    svg = figure_svg(histogram(), *SIZE_MM)
    assert {f"{name} {at:g} ms" for name, at in MARKS.items()} <= texts(svg)
    assert {"0.05", "0.1", "1", "10"} <= texts(svg)
    assert {"1", "100", "10,000"} <= texts(svg)
    assert svg.count(b"opacity: 0.22") == 1, "filled down to the axis"


def test_levels() -> None:
    found = level_labels([100.0, 104.0, 200.0], [60.0, 60.0, 60.0], 10.0)
    assert found == [(False, 0.0), (True, 0.0), (True, 0.0)], "close lines: one label below, the other above"
    shifts = [shift for _, shift in level_labels([100.0, 101.0, 102.0], [60.0] * 3, 10.0)]
    assert sorted(shifts) == [0.0, 0.0, 60.0], "a third close line's label stands to the left"
    layout = figure_json(EVERY["levels"])["layout"]
    assert [name["yanchor"] for name in layout["annotations"]] == ["top", "bottom"]
    assert {"limit 5", "limit 5.1"} <= texts(figure_svg(EVERY["levels"], *SIZE_MM))


# Where labels go


def test_flags_are_crossed_by_nothing() -> None:
    generator = np.random.default_rng(5)
    for _ in range(200):
        count = int(generator.integers(1, 9))
        at, widths = generator.uniform(0, 300, count), generator.uniform(20, 120, count)
        rows = flag_rows(at.tolist(), widths.tolist())
        for i in range(count):
            for j in range(count):
                if i != j and at[i] < at[j] < at[i] + widths[i]:
                    assert rows[i] > rows[j]


def test_centred_labels_do_not_overlap() -> None:
    generator = np.random.default_rng(6)
    for _ in range(200):
        count = int(generator.integers(1, 9))
        at, widths = generator.uniform(0, 300, count), generator.uniform(20, 120, count)
        rows = centred_rows(at.tolist(), widths.tolist())
        for i in range(count):
            for j in range(i):
                if rows[i] == rows[j]:
                    assert abs(at[i] - at[j]) >= (widths[i] + widths[j]) / 2 - 1e-9


def test_callouts_stay_inside_and_apart() -> None:
    points = [(5.0, 5.0), (395.0, 295.0), (395.0, 5.0), (200.0, 150.0), (202.0, 150.0)]
    names = ["MaxIOPS T8Q32"] * 5
    spots = callout_spots(points, names, size=7, obstacles=[], bounds=(0, 0, 400, 300))
    assert spots[0].side_x == 1
    assert spots[1].side_x == -1
    assert spots[2].side_x == -1
    assert (spots[3].side_x, spots[3].side_y) != (spots[4].side_x, spots[4].side_y)
    around = [(200 + dx, 150 + dy) for dx in range(-110, 111, 3) for dy in range(-4, 5, 3)]
    (spot,) = callout_spots([(200.0, 150.0)], ["over a line"], size=7, obstacles=around, bounds=(0, 0, 400, 300))
    assert spot.side_y != 0, "the text is not on the line through its point"


def test_demand_intensity() -> None:
    figure = demand()
    made = figure_json(figure)
    assert made["layout"]["hovermode"] == "closest", "each line has places of its own"
    assert len(made["data"]) == 7 + 1
    rings = made["data"][-1]
    assert rings["marker"]["symbol"] == "circle-open"
    assert (rings["showlegend"], rings["hoverinfo"]) == (False, "skip")
    names = {name["text"] for name in made["layout"]["annotations"]}
    assert names == {f"<b>{callout.label}</b>" for callout in figure.callouts}
    svg = figure_svg(figure, *SIZE_MM)
    assert {callout.label for callout in figure.callouts} <= texts(svg)
    assert {f"T{n}" for n in (1, 2, 4, 6, 8, 16, 32)} <= texts(svg)


def test_rings_stay_when_a_choice_is_made() -> None:
    figure = demand()
    two = replace(figure, choices=(replace(figure.choices[0], name="a"), replace(figure.choices[0], name="b")))
    for button in figure_json(two)["layout"]["updatemenus"][0]["buttons"]:
        assert len(button["args"][0]["visible"]) == len(figure_json(two)["data"])
        assert button["args"][0]["visible"][-1] is True


def test_segments_are_named_over_their_bands() -> None:
    bands = tuple(Band("x", 100.0 * i, 100.0 * (i + 1), f"Segment {i} RND 8 KiB W", BLUE) for i in range(8))
    figure = line(range(800), range(800), "thin", bands=bands)
    names = [name for name in figure_json(figure)["layout"]["annotations"] if name["text"].startswith("Segment")]
    assert len(names) == 8
    assert {name["yshift"] for name in names} != {0}, "narrow bands: names in several rows"
    assert {band.label for band in bands} <= texts(figure_svg(figure, *SIZE_MM))


# Numbers


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ((0.033, 0.05, 1.5), 4),
        ((3.25, 17.5), 2),
        ((498_123.4, 1_200.7), 1),
        ((1.0, 20.0), 0),
        ((), 0),
        ((math.nan, 0.5), 3),
        ((1e-12, *(100.5,) * 30), 1),
    ],
)
def test_decimals(values: tuple[float, ...], expected: int) -> None:
    assert decimals(values) == expected


def test_other_numbers() -> None:
    assert [plain(v) for v in (0, 0.01, 0.1, 1, 1000, 1e6, 2.5, 1e-6)] == [
        *("0", "0.01", "0.1", "1", "1,000", "1,000,000", "2.5", "0.000001")
    ]
    assert step_decimals([i / 60 for i in range(600)]) == 2
    assert step_decimals([1.0, 2.0]) == 0
    assert step_decimals([0.5, 0.5]) == 3
    assert tick_step(0.03, 0.042) == pytest.approx(0.002)


def test_hover_has_the_digits_of_latencies() -> None:
    trace = figure_json(line((1, 2, 3), (0.0331, 0.0345, 0.12)))["data"][0]
    assert "%{y:,.4f}" in trace["hovertemplate"]
    trace = figure_json(line((1, 2, 3), (1_000_000, 2_000_000, 3_000_000)))["data"][0]
    assert "%{y:,.0f}" in trace["hovertemplate"]
    small = cpu(((0.0041,) * 7,) * 7)
    assert "0.00410" in figure_json(small)["data"][0]["text"][0]


def test_logarithmic_axes() -> None:
    wide = figure_json(line((0.001, 1, 1e6), (1, 2, 3), x_log=True))["layout"]["xaxis"]
    assert wide["dtick"] == 1
    assert {"0.01", "0.1", "1", "10", "100,000"} <= texts(
        figure_svg(line((0.001, 1, 1e6), (1, 2, 3), x_log=True), *SIZE_MM)
    )
    assert figure_json(line((1, 5), (30, 90), y_log=True))["layout"]["yaxis"]["dtick"] == "D1"
    narrow = line((1, 5), (0.03, 0.042), y_log=True)
    assert figure_json(narrow)["layout"]["yaxis"]["dtick"] == "L0.002"
    assert {"0.034", "0.04"} <= texts(figure_svg(narrow, *SIZE_MM))


# Bars


def test_bars_on_screen() -> None:
    figure = bars()
    made = figure_json(figure)
    assert [trace["type"] for trace in made["data"]] == ["bar", "bar"]
    assert [trace["y"] for trace in made["data"]] == [list(series.values) for series in figure.series]
    assert made["data"][0]["text"] == ["1,000.0", "1,001.0", "1,002.0"]
    assert made["data"][0]["textposition"] == "outside"
    assert made["layout"]["xaxis"]["ticktext"] == ["1", "2", "4"]
    assert made["layout"]["barmode"] == "group"
    crowd = figure_json(bars(27, 1))
    assert crowd["data"][0]["textposition"] == "none"
    assert figure_json(bars(12, 2))["data"][0]["textangle"] == -90
    top = figure_json(bars(12, 2))["layout"]["yaxis"]["range"][1]
    assert top > 1.1 * 2011, "room for upright values"
    assert figure_json(EVERY["bars, one missing"])["data"][0]["y"] == [3.0, None]
    assert 10 ** figure_json(bars(y_log=True))["layout"]["yaxis"]["range"][0] == pytest.approx(500)


def test_bars_on_paper() -> None:
    found = texts(figure_svg(bars(), *SIZE_MM))
    assert {"1,000.0", "2,002.0", "bar 0", "bar 1", "4"} <= found
    found = texts(figure_svg(bars(27, 1), *SIZE_MM))
    assert str(2**26) in found
    assert "1,026.0" not in found
    assert (bar_width(2, 1), bar_width(27, 1)) == (0.24, 0.8), "two bars do not fill the page"


# Columns


def test_columns_of_percent() -> None:
    figure = cpu()
    made = figure_json(figure)
    assert len(made["data"]) == 2 * 7
    assert max(max(trace["z"]) for trace in made["data"][:7]) == max(max(row) for row in figure.values)
    assert all(min(trace["z"]) >= 0 for trace in made["data"])
    button = made["layout"]["updatemenus"][0]["buttons"][1]["args"][1]
    assert button["scene.zaxis.ticktext"] == ["0.01", "0.1", "1", "10", "100"]
    assert "no value" in figure_json(EVERY["columns, one missing"])["data"][0]["text"][0]
    for size in (SIZE_MM, (135.0, 120.0)):
        assert {"CPU use (%)", "Threads", "Queue depth", "32"} <= texts(figure_svg(figure, *size))


# Sections and whole reports

TABLE = Table("Metrics", (Column("Metric", "metric"), Column("ms", "ms", ",.3f")), (("ART", 0.1),) * 5, name="metrics")


def section(items: tuple[Item, ...], layout: Layout = "stack", **changes: Any) -> Section:
    values: dict[str, Any] = {"id": "plot-9-1", "title": "WSAT plot", "plot": "9-1", "clause": "9.3.1"}
    return Section(**{**values, "items": items, "layout": layout, **changes})


def report(*sections: Section) -> Report:
    fields = (("Model", "EX-480"),) * 10
    blocks = tuple(Block(title, fields) for title in ("Test Platform", "Device", "Set Up", "Test"))
    header = Header("now", "now", "WSAT", "PTS 2.0.1", "Write Saturation", "PTS-E 2.0.1", "E", "EX-480", "me", blocks)
    made: dict[str, Any] = {
        "folder": "run",
        "test": "wsat",
        "target": "null",
        "state": "complete",
        "steady": True,
        "header": header,
        "status": "complete",
        "valid": False,
        "complete": False,
        "missing": (),
        "disclosures": (),
        "main": None,
        "summary": (TABLE,),
        "sections": sections,
        "generator": "flashgauge",
    }
    return Report(**made)


def stack(count: int) -> tuple[LineFigure, ...]:
    return tuple(line(range(400), range(400), "thin", name=f"series-{i}") for i in range(count))


def test_figures_under_one_another_share_their_ends() -> None:
    wide = line(range(9), [1e9 * i for i in range(9)], y_title="IOPS")
    first, second = figures_svg((wide, line(range(9), range(9))), 272.0, 60.0)
    assert "Time (s)" not in texts(first), "the lowest names the axis they share"
    assert "Time (s)" in texts(second)
    ends = [
        re.search(r'<g id="patch_2">\s*<path d="M ([\d.]+) [\d.]+ \n?L ([\d.]+)', svg.decode())
        for svg in (first, second)
    ]
    assert ends[0] is not None
    assert ends[1] is not None
    assert ends[0].groups() == ends[1].groups()
    lefts = {figure_json(figure, 310, stacked=True)["layout"]["margin"]["l"] for figure in (wide, *stack(2))}
    assert len(lefts) == 1


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("notes", [0, 3])
def test_a_stack_fits_on_one_page(tmp_path: Path, count: int, notes: int) -> None:
    shown = section(stack(count), notes=("A note about what is shown here. " * 8,) * notes)
    write_pdf(report(shown), tmp_path / "r.pdf")
    assert len(pypdf.PdfReader(tmp_path / "r.pdf").pages) == 2


def test_a_small_table_fits_under_its_figure(tmp_path: Path) -> None:
    write_pdf(report(section((histogram(), TABLE))), tmp_path / "r.pdf")
    assert len(pypdf.PdfReader(tmp_path / "r.pdf").pages) == 2


def test_sizes_on_paper() -> None:
    def height(*items: Figure | Table, layout: Layout = "stack") -> float:
        return _size(section(items, layout), [item for item in items if not isinstance(item, Table)])[1]

    assert height(histogram()) == 128
    assert height(*stack(2)) > height(*stack(3)) > 36
    assert height(*stack(4)) == height(*stack(2)), "four: two on a page"
    assert height(*stack(5)) == height(*stack(3))
    assert height(cpu(), cpu()) == 128, "columns need the page"
    assert _size(section((cpu(), cpu()), "side"), [cpu(), cpu()]) == (135.0, 120.0)
    assert height(histogram(), replace(TABLE, rows=(("ART", 0.1),) * 40)) == 128, "a long table has its own page"


def test_many_sections(tmp_path: Path) -> None:
    many = tuple(
        section((TABLE,), id=f"plot-9-{i}", plot=f"9-{i}", title=f"WSAT Steady State Measurement Window - number {i}")
        for i in range(24)
    )
    details = section((), id="run-details", plot="", title="Run details")
    made = report(*many, details)
    names = short_names(made)
    assert names[3] == "3", "what all have in common is left out"
    assert names[-1] == "Run details"
    write_pdf(made, tmp_path / "r.pdf")
    reader = pypdf.PdfReader(tmp_path / "r.pdf")
    assert len(reader.outline) == 1 + 25, "each section is a bookmark"
    first = " ".join(reader.pages[0].extract_text().split())
    assert "Contents" in first
    assert "WSAT Steady State Measurement Window - number 23" in first
    write_html(made, tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    assert page.count('<span class="name">') >= 25
    assert 'title="WSAT Steady State Measurement Window - number 7"' in page


def test_short_names() -> None:
    titles = ("IOPS Steady State Measurement Window - RND 4 KiB W", "IOPS Measurement Plot - 2D")
    two = tuple(section((), id=str(i), plot=str(i), title=title) for i, title in enumerate(titles))
    assert short_names(report(*two)) == ["SS Window - RND 4 KiB W", "Measurement Plot - 2D"]
    assert short_names(report(section((), title="Write Saturation"))) == ["Saturation"]


def test_csv(tmp_path: Path) -> None:
    figures = (histogram(name="histogram"), replace(demand(), name="demand"))
    shown = section((*figures, bars(2, 2, name="bars"), EVERY["gap"]))
    files = {name: (head, rows) for name, head, rows in section_rows(shown)}
    assert list(files) == [
        *("plot-9-1-histogram", "plot-9-1-demand", "plot-9-1-bars", "plot-9-1"),
        *("plot-9-1-histogram-marks", "plot-9-1-demand-marks"),
    ]
    assert files["plot-9-1-bars"] == (
        ("series", "total_oio", "iops"),
        [("bar 0", "1", 1000.0), ("bar 0", "2", 1001.0), ("bar 1", "1", 2000.0), ("bar 1", "2", 2001.0)],
    )
    assert files["plot-9-1-histogram-marks"][0] == ("label", "response_ms", "ios")
    assert files["plot-9-1-histogram-marks"][1][0] == ("ART 0.15 ms", 0.15, None)
    assert len(files["plot-9-1-demand-marks"][1]) == 3
    assert [row[2] for row in files["plot-9-1"][1]] == [1.0, None, None, 4.0]
    written = write_csv(report(shown), tmp_path)
    with (tmp_path / "plot-9-1-histogram.csv").open(newline="") as file:
        assert len(list(csv.DictReader(file))) == 61
    assert len(written) == 6


def test_csv_overwrites_nothing(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"two plots would be plot-9-1\.csv"):
        write_csv(report(section((bars(), bars()))), tmp_path)
