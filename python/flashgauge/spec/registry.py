"""The tests by name: what the command line, the driver and the report need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from flashgauge.measurement import Measurement
from flashgauge.spec.iops import IopsParameters, iops, samples
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steadystate import WINDOW_ROUNDS
from flashgauge.steps import IoStep, Step

Spec = Generator[Step, Measurement | None, Any]


@dataclass(frozen=True)
class Extent:
    """How much a test is to do: what a time estimate is made of."""

    precondition_bytes: int
    points_per_round: int
    point_s: float
    least_rounds: int
    most_rounds: int


@dataclass(frozen=True)
class Test:
    """`parameters(device_class)` gives the standard's parameters, `spec(parameters, capacity_bytes)` the steps,
    `extent(parameters, capacity_bytes)` their number, `samples(parameters, capacity_bytes)` one of each kind."""

    __test__ = False  # not a pytest class

    name: str
    title: str
    section: str
    parameters: Callable[[DeviceClass], Any]
    parameters_type: type
    spec: Callable[[Any, int], Spec]
    extent: Callable[[Any, int], Extent]
    samples: Callable[[Any, int], list[IoStep]]


def _iops_extent(parameters: IopsParameters, capacity_bytes: int) -> Extent:
    return Extent(
        precondition_bytes=int(parameters.wipc_capacities * capacity_bytes),
        points_per_round=len(parameters.points),
        point_s=parameters.point_s,
        least_rounds=WINDOW_ROUNDS,
        most_rounds=parameters.max_rounds,
    )


TESTS: dict[str, Test] = {
    "iops": Test("iops", "IOPS", "7", IopsParameters.standard, IopsParameters, iops, _iops_extent, samples),
}
