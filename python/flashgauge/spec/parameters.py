"""Parameters of a test: every duration, count and ratio of the standard by name, with its clause.

A test's parameters are a frozen dataclass whose fields are made by `parameter`. What differs from the
standard's value is found by comparing with the standard set, and each difference is a disclosure.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar

from flashgauge.disclosure import Disclosure, Kind


class DeviceClass(StrEnum):
    ENTERPRISE = "enterprise"
    CLIENT = "client"


class ParameterError(ValueError):
    """A parameter that does not exist, or a value it cannot take."""


def parameter(
    default: Any,
    clause: str,
    meaning: str,
    *,
    free: bool = False,
    free_upwards: bool = False,
    least: float = 0,
    most: float = 1e9,
) -> Any:
    """A dataclass field with its clause. `free`: the standard leaves the choice to the operator, so a change
    is shown as a parameter but is no departure; `free_upwards`: only a smaller value is one. `least`, `most`:
    the values allowed."""
    metadata = {"clause": clause, "meaning": meaning, "free": free, "free_upwards": free_upwards}
    return dataclasses.field(default=default, metadata={**metadata, "least": least, "most": most})


P = TypeVar("P")


def changed(standard: P, settings: Mapping[str, str]) -> P:
    """`standard` with `settings` (NAME=VALUE as text, values as JSON) applied. Raises ParameterError."""
    fields = {field.name: field for field in dataclasses.fields(standard)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in fields or not fields[name].metadata:
            known = ", ".join(sorted(n for n, f in fields.items() if f.metadata))
            raise ParameterError(f"no parameter {name!r}; there are: {known}")
        limits = fields[name].metadata["least"], fields[name].metadata["most"]
        values[name] = _parse(name, text, getattr(standard, name), *limits)
    return dataclasses.replace(standard, **values)  # type: ignore[type-var]


def _parse(name: str, text: str, example: Any, least: float, most: float) -> Any:
    if isinstance(example, bool):
        if text.lower() in {"true", "on", "1", "false", "off", "0"}:
            return text.lower() in {"true", "on", "1"}
        raise ParameterError(f"{name} is on or off, not {text!r}")
    try:
        value = json.loads(f"[{text}]") if isinstance(example, tuple) else json.loads(text)
    except json.JSONDecodeError:
        raise ParameterError(f"{name}={text}: not a number") from None
    items = value if isinstance(example, tuple) else [value]
    whole = isinstance(example[0] if isinstance(example, tuple) else example, int)
    for item in items:
        if isinstance(item, bool) or not isinstance(item, int if whole else (int, float)):
            raise ParameterError(f"{name}={text}: a {'whole ' if whole else ''}number is needed")
        if not isfinite(item):
            raise ParameterError(f"{name}={text}: a finite number is needed")
        if item < least:
            raise ParameterError(f"{name}={text}: the least allowed is {least:g}")
        if item > most:
            raise ParameterError(f"{name}={text}: the most allowed is {most:g}")
    if not items:
        raise ParameterError(f"{name} is empty")
    if isinstance(example, tuple):
        return tuple(items)
    return value if whole else float(value)


def departures(used: P, standard: P) -> list[Disclosure]:
    """One disclosure for each parameter that is not as the standard says."""
    found = []
    for field in dataclasses.fields(used):  # type: ignore[arg-type]
        value, wanted = getattr(used, field.name), getattr(standard, field.name)
        if not field.metadata or field.metadata["free"] or (field.metadata["free_upwards"] and value > wanted):
            continue
        if value != wanted:
            found.append(
                Disclosure(
                    Kind.PARAMETER_CHANGED,
                    field.metadata["clause"],
                    f"{field.name} ({field.metadata['meaning']}) is {_text(value)}; the standard says {_text(wanted)}",
                    f"run again without --set {field.name}",
                    invalidates=True,
                )
            )
    return found


def _text(value: Any) -> str:
    return ", ".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)


def table(parameters: Any) -> list[dict[str, Any]]:
    """Name, value, clause and meaning of every parameter, for run.json and the report."""
    return [
        {
            "name": field.name,
            "value": getattr(parameters, field.name),
            "clause": field.metadata["clause"],
            "meaning": field.metadata["meaning"],
        }
        for field in dataclasses.fields(parameters)
        if field.metadata
    ]
