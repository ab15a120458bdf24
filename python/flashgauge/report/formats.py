"""Numbers as text: base 10 for capacities and rates, base 2 for transfer sizes (2.4.1), thousands separated."""

from __future__ import annotations

from datetime import datetime

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
