"""Throughput test (PTS 2.0.1 section 8): sequential reads and writes at 128 KiB, then at 1024 KiB, to steady state.

Each block size is a test of its own, with its own purge and pre-conditioning. The sequential position goes on from
step to step and from round to round (8.2 step 2.4.1.5): nothing here ever restarts it.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, ClassVar

from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import SteadyStateParameters, parameter
from flashgauge.spec.rounds import Settled, Tracked, answered, not_steady, until_steady, wipc_step
from flashgauge.steps import KIB, Disclose, Label, Measure, Purge, SetWriteCache, Step, Stimulus, Stop


def phase_name(kib: float) -> str:
    return f"SEQ {kib:g} KiB"


def variable_name(kib: float, read_percent: int) -> str:
    """The tracking variable of a block size and a R/W mix."""
    return f"SEQ {kib:g} KiB RW{read_percent}"


@dataclass(frozen=True)
class TpParameters(SteadyStateParameters):
    CLIENT: ClassVar[dict[str, Any]] = {"write_cache_enabled": True, "active_range_percent": 75.0}

    write_cache_enabled: bool = parameter(False, "8.2 2.1.1", "volatile write cache")
    active_range_percent: float = parameter(100.0, "8.2", "share of the LBAs accessed", least=0.1, most=100)
    max_rounds: int = parameter(
        25, "8.2 2.4", "rounds before giving up on steady state", free_upwards=True, least=2, most=10_000
    )
    thread_count: int = parameter(1, "8.2 2.1.2", "thread count", least=1, most=1024)
    queue_depth: int = parameter(32, "8.2 2.1.3", "OIO per thread", free=True, least=1, most=8192)
    block_sizes_kib: tuple[float, ...] = parameter(
        (128.0, 1024.0), "8.2", "block sizes, each a test of its own", least=0.5, most=65536
    )
    wipc_capacities: float = parameter(
        2.0, "8.2 2.2", "user capacities written before the rounds, in the same block size", least=0.001, most=1000
    )
    read_percents: tuple[int, ...] = parameter((100, 0), "8.2 2.4.1", "R/W mixes, in order", most=100)
    point_s: float = parameter(60.0, "8.2 2.4.1.1", "seconds per test point", least=0.01, most=1e6)

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(set(self.block_sizes_kib)) < len(self.block_sizes_kib):
            raise ValueError("a block size is listed twice")
        if len(set(self.read_percents)) < len(self.read_percents):
            raise ValueError("a R/W mix is listed twice")


@dataclass(frozen=True)
class TpOutcome:
    """`sizes`: block size in KiB -> how its rounds ended."""

    sizes: dict[float, Settled]

    @property
    def steady(self) -> bool:
        return all(settled.steady for settled in self.sizes.values())


def point_step(parameters: TpParameters, kib: float, round_number: int, read_percent: int) -> Measure:
    """8.2 step 2.4.1.1: one minute of sequential reads or writes."""
    stimulus = Stimulus(
        access="sequential",
        block_sizes=((int(kib * KIB), 1),),
        read_percent=read_percent,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
        active_range_percent=(0.0, parameters.active_range_percent),
        entropy_percent=parameters.entropy_percent,
    )
    label = Label("round", round_number, read_percent, int(kib * KIB))
    return Measure(stimulus, Stop(seconds=parameters.point_s), label)


def tp(parameters: TpParameters, capacity_bytes: int) -> Generator[Step, Measurement | None, TpOutcome]:
    """The throughput test as steps; `capacity_bytes` is the user capacity."""
    sizes: dict[float, Settled] = {}
    for kib in parameters.block_sizes_kib:
        sizes[kib] = yield from _one_size(parameters, kib, capacity_bytes)
        if not sizes[kib].steady:
            yield Disclose(not_steady("8.3", sizes[kib], phase_name(kib)))
    return TpOutcome(sizes)


def _one_size(
    parameters: TpParameters, kib: float, capacity_bytes: int
) -> Generator[Step, Measurement | None, Settled]:
    def one_round(number: int) -> Generator[Step, Measurement | None, Tracked]:
        tracked = {}
        for read_percent in parameters.read_percents:
            measurement = yield from answered(point_step(parameters, kib, number, read_percent))
            tracked[variable_name(kib, read_percent)] = measurement.mb_per_s
        return tracked

    yield Purge()
    yield SetWriteCache(parameters.write_cache_enabled)
    yield wipc_step(
        parameters,
        capacity_bytes,
        block_kib=kib,
        capacities=parameters.wipc_capacities,
        thread_count=parameters.thread_count,
        queue_depth=parameters.queue_depth,
    )
    return (
        yield from until_steady(
            parameters, one_round, max_rounds=parameters.max_rounds, phase=phase_name(kib), unit="MB/s"
        )
    )
