"""The tests by name: what the command line, the driver and the report need to know of each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from flashgauge.measurement import Measurement
from flashgauge.spec.cbw import CbwParameters, cbw
from flashgauge.spec.dirth import DirthParameters, dirth
from flashgauge.spec.hir import HirParameters, hir
from flashgauge.spec.iops import IopsParameters, iops
from flashgauge.spec.lat import LatParameters, lat
from flashgauge.spec.parameters import DeviceClass, TestParameters
from flashgauge.spec.tp import TpParameters, tp
from flashgauge.spec.wsat import WsatParameters, wsat
from flashgauge.spec.xsr import XsrParameters, xsr
from flashgauge.steps import Step

Spec = Generator[Step, Measurement | None, Any]


@dataclass(frozen=True)
class Test:
    """`spec(parameters, capacity_bytes)`: the steps, as a generator. Its outcome has `steady`: True or False where
    the test asks for steady state, else None."""

    __test__ = False  # not a pytest class

    name: str
    title: str
    section: str
    parameters_type: type[TestParameters]
    spec: Callable[[Any, int], Spec]

    def parameters(self, device_class: DeviceClass) -> TestParameters:
        """The standard's values."""
        return self.parameters_type.standard(device_class)


TESTS: dict[str, Test] = {
    test.name: test
    for test in (
        Test("iops", "IOPS", "7", IopsParameters, iops),
        Test("tp", "Throughput", "8", TpParameters, tp),
        Test("lat", "Latency", "9", LatParameters, lat),
        Test("wsat", "Write Saturation", "10", WsatParameters, wsat),
        Test("hir", "Host Idle Recovery", "11", HirParameters, hir),
        Test("xsr", "Cross Stimulus Recovery", "12", XsrParameters, xsr),
        Test("cbw", "Composite Block Size Workload", "13", CbwParameters, cbw),
        Test("dirth", "Demand Intensity / Response Time Histogram", "14", DirthParameters, dirth),
    )
}
