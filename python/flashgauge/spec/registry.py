"""The tests by name: what the command line, the driver and the report need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from flashgauge.measurement import Measurement
from flashgauge.spec.iops import IopsParameters, iops
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import Step

Spec = Generator[Step, Measurement | None, Any]


@dataclass(frozen=True)
class Test:
    """`parameters(device_class)` gives the standard's parameters; `spec(parameters, capacity_bytes)` the steps."""

    __test__ = False  # not a pytest class

    name: str
    title: str
    section: str
    parameters: Callable[[DeviceClass], Any]
    parameters_type: type
    spec: Callable[[Any, int], Spec]


TESTS: dict[str, Test] = {
    "iops": Test("iops", "IOPS", "7", IopsParameters.standard, IopsParameters, iops),
}
