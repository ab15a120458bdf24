"""What a report shows, as plain values: header, disclosures, and sections of figures and tables.

Built once from a run folder; the renderers (html, pdf, csv, text) read it and compute nothing. Numbers are
unrounded; how many digits to show is a format beside them. Axis titles carry their unit. Capacities are
base 10 and transfer sizes base 2 (2.4.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashgauge.disclosure import Disclosure
from flashgauge.steadystate import Verdict

Value = str | int | float | bool | None
Field = tuple[str, str]
Layout = Literal["stack", "side", "grid", "flow"]
Style = Literal["points", "solid", "dash", "dot", "thin", "dots", "steps"]
INVALID_BANNER = "INVALID AS A PTS RESULT"


@dataclass(frozen=True)
class Series:
    """One line. `x` and `y` have the same length. `marker`: index of the symbol, for styles "points" (line and symbols)
    and "dots" (symbols alone). "thin" is a line for many points; "steps" is a histogram's outline, filled down to the
    axis: `y[i]` holds from `x[i - 1]` to `x[i]`."""

    name: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    color: str
    style: Style = "points"
    marker: int = 0


@dataclass(frozen=True)
class Band:
    """A shaded range of one axis."""

    axis: Literal["x", "y"]
    low: float
    high: float
    label: str
    color: str


@dataclass(frozen=True)
class Mark:
    """A labelled line across the plot, at a place on one axis."""

    axis: Literal["x", "y"]
    at: float
    label: str
    color: str


@dataclass(frozen=True)
class Callout:
    """A labelled point."""

    x: float
    y: float
    label: str
    color: str


@dataclass(frozen=True)
class Choice:
    """One of several sets of series that share the axes; print shows the first, a screen lets the reader choose."""

    name: str
    series: tuple[Series, ...]


@dataclass(frozen=True)
class LineFigure:
    """`x_name`, `y_name`: column names for CSV, units last. `x_ticks`: (position, text), empty for automatic; a
    logarithmic axis then shows decades."""

    title: str
    x_title: str
    y_title: str
    x_name: str
    y_name: str
    choices: tuple[Choice, ...]
    bands: tuple[Band, ...] = ()
    x_ticks: tuple[tuple[float, str], ...] = ()
    x_log: bool = False
    y_log: bool = False
    name: str = ""
    marks: tuple[Mark, ...] = ()
    callouts: tuple[Callout, ...] = ()

    @property
    def series(self) -> tuple[Series, ...]:
        return self.choices[0].series


@dataclass(frozen=True)
class Columns3D:
    """Columns over a grid: `values[i][j]` stands at row `rows[i]`, column `columns[j]`; one colour per row."""

    title: str
    row_title: str
    column_title: str
    value_title: str
    value_name: str
    rows: tuple[str, ...]
    columns: tuple[str, ...]
    values: tuple[tuple[float, ...], ...]
    colors: tuple[str, ...]
    name: str = ""


@dataclass(frozen=True)
class BarSeries:
    """One bar in each group: `values[j]` belongs to category j; None: no bar."""

    name: str
    values: tuple[float | None, ...]
    color: str


@dataclass(frozen=True)
class Bars:
    """Groups of bars over named categories, in their order; the value stands over each bar while there is room."""

    title: str
    x_title: str
    y_title: str
    x_name: str
    y_name: str
    categories: tuple[str, ...]
    series: tuple[BarSeries, ...]
    y_log: bool = False
    format: str = ",.1f"
    name: str = ""


@dataclass(frozen=True)
class Column:
    """`format`: a Python format specification for numbers; "" is text, aligned left. `name`: for CSV."""

    title: str
    name: str
    format: str = ""


@dataclass(frozen=True)
class Table:
    """`rows[i][j]` belongs to `columns[j]`. `group`: heading over all columns but the first.
    `formats`: one for each row, instead of the columns'. `marks`: (row, column) of cells with an asterisk."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[Value, ...], ...]
    group: str = ""
    formats: tuple[str, ...] = ()
    marks: frozenset[tuple[int, int]] = frozenset()
    notes: tuple[str, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        assert all(len(row) == len(self.columns) for row in self.rows), f"{self.title}: ragged rows"
        assert not self.formats or len(self.formats) == len(self.rows), f"{self.title}: one format per row"


Figure = LineFigure | Bars | Columns3D
Item = Figure | Table


@dataclass(frozen=True)
class Section:
    """`plot`: the plot's number in the standard, "" for none. `layout` is a hint for paged output: items under
    one another, in two columns side by side, in a grid of small tables, or flowing in two columns. `links`: (text,
    path from the report's folder) of files that say more."""

    id: str
    title: str
    plot: str
    clause: str
    items: tuple[Item, ...]
    notes: tuple[str, ...] = ()
    layout: Layout = "stack"
    verdict: Verdict | None = None
    links: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Block:
    title: str
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Header:
    """The page header of Annex A."""

    test_run_date: str
    report_run_date: str
    test_name: str
    specification: str
    title: str
    revision: str
    vendor: str
    model: str
    sponsor: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class TestPart:
    """What one test adds to a report. `status`: the outcome in a few words. `main`: the table to show first."""

    __test__ = False  # not a pytest class

    title: str
    status: str
    set_up: tuple[Field, ...]
    test_parameters: tuple[Field, ...]
    summary: tuple[Table, ...]
    main: Table | None
    sections: tuple[Section, ...]
    not_measured: tuple[str, ...] = ()


@dataclass(frozen=True)
class Report:
    """Everything a report shows.

    `state`: of the run. `steady`: None while that is not known. `missing`: what the folder lacks, in sentences.
    `valid`: complete, and no disclosure invalidates it.
    """

    folder: str
    test: str
    target: str
    state: str
    steady: bool | None
    header: Header
    status: str
    valid: bool
    complete: bool
    missing: tuple[str, ...]
    disclosures: tuple[Disclosure, ...]
    summary: tuple[Table, ...]
    main: Table | None
    sections: tuple[Section, ...]
    generator: str

    @property
    def banner(self) -> str | None:
        """For the header of every page; None when the result may be called a PTS result."""
        if self.valid:
            return None
        invalidating = sum(item.invalidates for item in self.disclosures)
        reasons = [] if self.complete else ["the run is incomplete"]
        if invalidating:
            reasons.append(f"{invalidating} invalidating disclosure{'s' if invalidating > 1 else ''} (see Summary)")
        return f"{INVALID_BANNER}: {'; '.join(reasons)}"

    def section(self, identifier: str) -> Section:
        return next(section for section in self.sections if section.id == identifier)
