"""Demand Intensity / Response Time Histogram test (PTS 2.0.1 section 14): `demand` with one access pattern.

The standard leaves the pattern to the operator (14.2: R/W mix RW1, block size BS1, random), and allows the optional
workloads of WSAT. Unless told otherwise it is the one of the sample report, RND 8 KiB RW65.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass

from flashgauge.measurement import Measurement
from flashgauge.spec.demand import DemandOutcome, DemandParameters, demand
from flashgauge.spec.parameters import parameter
from flashgauge.spec.workloads import WORKLOADS, AccessPattern
from flashgauge.steps import KIB, Step

CUSTOM = "custom"


@dataclass(frozen=True)
class DirthParameters(DemandParameters):
    workload: str = parameter("mixed", "14.1", "access pattern", free=True, choices=(*WORKLOADS, CUSTOM))
    custom_block_kib: float = parameter(
        8.0, "14.2", "block size BS1 of the custom pattern", free=True, least=0.5, most=65536
    )
    custom_read_percent: int = parameter(65, "14.2", "reads RW1 of the custom pattern", free=True, most=100)
    custom_sequential_percent: float = parameter(
        0.0, "6 item 7", "sequential share of the custom pattern, the rest random", free=True, most=100
    )

    @property
    def pattern(self) -> AccessPattern:
        if self.workload != CUSTOM:
            return WORKLOADS[self.workload]
        blocks = ((int(self.custom_block_kib * KIB), 1),)
        suffix = f"{self.custom_block_kib:g} KiB RW{self.custom_read_percent}"
        if not self.custom_sequential_percent:
            return AccessPattern(f"RND {suffix}", "random", blocks, self.custom_read_percent)
        mixed = self.custom_sequential_percent
        title = f"SEQ/RND {mixed:g}/{100 - mixed:g} {suffix}"
        return AccessPattern(title, "mixed", blocks, self.custom_read_percent, sequential_percent=mixed)


def dirth(parameters: DirthParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, DemandOutcome]:
    """The demand intensity test as steps; `capacity_bytes` is the user capacity."""
    return demand(parameters, capacity_bytes)
