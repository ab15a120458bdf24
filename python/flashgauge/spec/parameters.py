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
from typing import Any, ClassVar, Self, TypeVar

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.steadystate import Criteria
from flashgauge.steps import KIB


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
    free_downwards: bool = False,
    least: float = 0,
    most: float = 1e9,
    choices: tuple[str, ...] = (),
) -> Any:
    """A dataclass field with its clause. `free`: the standard leaves the choice to the operator, so a change
    is shown as a parameter but is no departure; `free_upwards`: only a smaller value is one, `free_downwards`: only a
    larger. `least`, `most`: the values allowed of a number, `choices` those of a text."""
    metadata = {
        "clause": clause,
        "meaning": meaning,
        "free": free,
        "free_upwards": free_upwards,
        "free_downwards": free_downwards,
    }
    limits = {"least": least, "most": most, "choices": choices}
    return dataclasses.field(default=default, metadata={**metadata, **limits})


def block(default_kib: float, clause: str, meaning: str) -> Any:
    """A block size in KiB."""
    return parameter(default_kib, clause, meaning, least=0.5, most=65536)


@dataclasses.dataclass(frozen=True)
class TestParameters:
    """What every test has. A test names its own in a subclass; `CLIENT` are the values that PTS-C has instead."""

    __test__ = False  # not a pytest class
    CLIENT: ClassVar[dict[str, Any]] = {}

    device_class: DeviceClass
    write_cache_enabled: bool = parameter(False, "3.7", "volatile write cache")
    active_range_percent: float = parameter(
        100.0, "2.1.1", "share of the LBAs the test may access", least=0.1, most=100
    )
    entropy_percent: int = parameter(100, "3.5", "random share of the data pattern", most=100)
    gap_limit_ms: float = parameter(1.0, "6 item 9", "device idle allowed between steps, ms", free_downwards=True)

    def clause(self, text: str) -> str:
        """The clause that `text` names; a test that shares another's steps has them under numbers of its own."""
        return text

    @classmethod
    def standard(cls, device_class: DeviceClass) -> Self:
        """The standard's values for PTS-E or PTS-C."""
        changes = cls.CLIENT if device_class is DeviceClass.CLIENT else {}
        return cls(device_class, **changes)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            values = getattr(self, field.name)
            for kib in values if isinstance(values, tuple) else (values,):
                if "_kib" in field.name and kib * KIB % 512:
                    raise ValueError(f"{field.name}={kib:g}: block sizes are multiples of 0.5 KiB")


@dataclasses.dataclass(frozen=True)
class SteadyStateParameters(TestParameters):
    """What every test has that goes on until steady state."""

    window_rounds: int = parameter(5, "2.1.13", "rounds in the measurement window", least=2, most=1000)
    max_data_excursion_percent: float = parameter(
        20.0, "2.1.24 a", "largest less smallest value allowed in the window, of the average", most=1000
    )
    max_slope_excursion_percent: float = parameter(
        10.0, "2.1.24 b", "rise or fall of the best linear fit allowed over the window, of the average", most=1000
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("max_rounds", "pc_max_rounds"):
            if getattr(self, name, self.window_rounds) < self.window_rounds:
                raise ValueError(f"{name}: the least allowed is the window's {self.window_rounds} rounds")

    @property
    def criteria(self) -> Criteria:
        return Criteria(
            self.window_rounds, self.max_data_excursion_percent / 100, self.max_slope_excursion_percent / 100
        )


P = TypeVar("P", bound=TestParameters)


def changed(standard: P, settings: Mapping[str, str]) -> P:
    """`standard` with `settings` (NAME=VALUE as text, values as JSON) applied. Raises ParameterError."""
    fields = {field.name: field for field in dataclasses.fields(standard)}
    values: dict[str, Any] = {}
    for name, text in settings.items():
        if name not in fields or not fields[name].metadata:
            known = ", ".join(sorted(n for n, f in fields.items() if f.metadata))
            raise ParameterError(f"no parameter {name!r}; there are: {known}")
        metadata, example = fields[name].metadata, getattr(standard, name)
        if isinstance(example, str):
            values[name] = _chosen(name, text, metadata["choices"])
        else:
            values[name] = _parse(name, text, example, metadata["least"], metadata["most"])
    return dataclasses.replace(standard, **values)


def _chosen(name: str, text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ParameterError(f"{name}={text}: there are {', '.join(choices)}")
    return text


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
    for field in dataclasses.fields(used):
        value, wanted = getattr(used, field.name), getattr(standard, field.name)
        if not field.metadata or field.metadata["free"]:
            continue
        if (field.metadata["free_upwards"] and value > wanted) or (field.metadata["free_downwards"] and value < wanted):
            continue
        if value != wanted:
            found.append(
                Disclosure(
                    Kind.PARAMETER_CHANGED,
                    used.clause(field.metadata["clause"]),
                    f"{field.name} ({field.metadata['meaning']}) is {_text(value)}; the standard says {_text(wanted)}",
                    f"run again without --set {field.name}",
                    invalidates=True,
                )
            )
    return found


def _text(value: Any) -> str:
    return ", ".join(f"{item:g}" for item in value) if isinstance(value, tuple) else str(value)


def table(parameters: TestParameters) -> list[dict[str, Any]]:
    """Name, value, clause and meaning of every parameter, for run.json and the report."""
    return [
        {
            "name": field.name,
            "value": getattr(parameters, field.name),
            "clause": parameters.clause(field.metadata["clause"]),
            "meaning": field.metadata["meaning"],
        }
        for field in dataclasses.fields(parameters)
        if field.metadata
    ]
