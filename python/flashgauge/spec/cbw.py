"""Composite Block Size Workload test (PTS 2.0.1 section 13): `demand` with the pattern of Tables 13-1 and 13-2."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import ClassVar

from flashgauge.measurement import Measurement
from flashgauge.spec.demand import DemandOutcome, DemandParameters, demand
from flashgauge.spec.parameters import parameter
from flashgauge.spec.workloads import COMPOSITE, AccessPattern
from flashgauge.steps import Step


@dataclass(frozen=True)
class CbwParameters(DemandParameters):
    SHARES_CLAUSE: ClassVar[str] = "13.2 2.1"

    read_percent: int = parameter(40, "13.2 2.1.2", "reads of the access pattern", most=100)

    @property
    def pattern(self) -> AccessPattern:
        return replace(COMPOSITE, read_percent=self.read_percent)

    def clause(self, text: str) -> str:
        """13.2 has the steps of 14.2, each one number higher, since its second describes the access pattern."""
        section, _, step = text.partition(" ")
        if not section.startswith("14."):
            return text
        first, dot, rest = step.partition(".")
        return f"13.{section[3:]}" + (f" {int(first) + 1}{dot}{rest}" if step else "")


def cbw(parameters: CbwParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, DemandOutcome]:
    """The composite block size workload test as steps; `capacity_bytes` is the user capacity."""
    return demand(parameters, capacity_bytes)
