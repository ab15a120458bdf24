"""Numbers as text: base 10 for capacities and rates, base 2 for transfer sizes (2.4.1), thousands separated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from math import ceil, floor, isfinite, log10

from flashgauge.report.model import Column, Table, Value
from flashgauge.steps import KIB

NOT_KNOWN = "not known"
NO_VALUE = "\N{EN DASH}"


def known(value: str | None) -> str:
    return value or NOT_KNOWN


def kib(size_bytes: int) -> str:
    return f"{size_bytes / KIB:g} KiB"


def gb(size_bytes: int | None) -> str:
    """Gigabytes of 10^9 bytes; "not known" for none."""
    if not size_bytes:
        return NOT_KNOWN
    return f"{size_bytes / 1e9:,.2f}".rstrip("0").rstrip(".") + " GB"


def when(iso: str | None) -> str:
    """An ISO 8601 time as a date and a time to the minute."""
    if not iso:
        return NOT_KNOWN
    moment = datetime.fromisoformat(iso)
    return moment.strftime("%Y-%m-%d %H:%M ") + (moment.tzname() or "")


def mix(read_percent: int) -> str:
    return f"{read_percent}/{100 - read_percent}"


def decimals(values: Iterable[float]) -> int:
    """How many decimals show the smaller ones of `values` with three digits; 0 when all are whole numbers."""
    found = [value for value in values if isfinite(value)]
    if all(value == round(value) for value in found):
        return 0
    # Not the very smallest, which may be a single odd one; 0.033 ms asks for 4.
    sizes = sorted(abs(value) for value in found if value)
    return min(max(2 - floor(log10(sizes[len(sizes) // 10])), 1), 6)


def step_decimals(values: Sequence[float]) -> int:
    """How many decimals tell neighbours of evenly spaced `values` apart."""
    found = [value for value in values if isfinite(value)]
    if all(value == round(value) for value in found):
        return 0
    step = (max(found) - min(found)) / max(len(found) - 1, 1)
    return min(max(ceil(-log10(step)), 1), 6) if step > 0 else decimals(found)


def tick_step(low: float, high: float) -> float:
    """1, 2 or 5 times a power of ten: for about six ticks from `low` to `high`."""
    raw = (high - low) / 8
    power = 10.0 ** floor(log10(raw))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= raw)


def plain(value: float) -> str:
    """A tick's text: all its digits, no exponent, thousands separated."""
    return f"{value:,.10f}".rstrip("0").rstrip(".") if abs(value) < 1 else f"{value:,.10g}"


def value_text(value: Value, spec: str) -> str:
    match value:
        case None:
            return NO_VALUE
        case bool():
            return "on" if value else "off"
        case str():
            return value
        case _ if spec:
            return format(value, spec)
        case _:
            return f"{value:,g}" if isinstance(value, float) else f"{value:,}"


def cell_text(table: Table, row: int, column: int) -> str:
    """The cell as shown, with its mark."""
    spec = table.columns[column].format
    if spec and table.formats:
        spec = table.formats[row]
    return value_text(table.rows[row][column], spec) + ("*" if (row, column) in table.marks else "")


def is_number(column: Column) -> bool:
    """Whether the column is aligned right."""
    return bool(column.format)
