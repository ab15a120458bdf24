"""Run folders of any test, made by its real generator and RunFolder with a made-up drive's answers.

What was put in stays with the test: every latency, so that a report's numbers can be computed a second way, with numpy
and without histograms. The journal's counters are read as plain JSON.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from flashgauge._core import Histogram
from flashgauge.disclosure import Disclosure
from flashgauge.measurement import Direction, HostUsage, Intervals, Measurement
from flashgauge.report.model import Report, Table
from flashgauge.runfolder import RunFolder
from flashgauge.spec import TESTS
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import Disclose, IoStep, Label, Measure, Precondition
from report_data import CAPACITY_BYTES, make_run
from scripted import parameters_of

Samples = tuple[tuple[int, int], ...]

# (share of the I/Os, latency as a multiple of the mean); what is left is slower than all of these.
_SHAPE = ((0.30, 0.55), (0.40, 0.85), (0.22, 1.4), (0.07, 2.2), (0.0095, 4.0), (0.0004, 9.0), (0.00008, 21.0))


@dataclass(frozen=True)
class Answer:
    """What the drive does in a step: (latency ns, count) of reads and of writes, all issued in the window; `late` of
    the slower kind are completed after it."""

    reads: Samples = ()
    writes: Samples = ()
    host: HostUsage = field(default_factory=HostUsage)
    late: int = 0

    @property
    def latencies_ns(self) -> np.ndarray:
        """Every single one, ascending."""
        pairs = [*self.reads, *self.writes]
        return np.sort(np.repeat([latency for latency, _ in pairs], [count for _, count in pairs]))


Drive = Callable[[IoStep], Answer]


@dataclass(frozen=True)
class Put:
    """One step with I/O and what was answered, in order."""

    label: Label
    answer: Answer
    measurement: Measurement


def spread(ios: int, mean_ns: float, source: random.Random) -> Samples:
    """So many latencies about `mean_ns`, with a tail."""
    left, found = ios, []
    for share, multiple in _SHAPE:
        count = min(left, round(ios * share))
        found.append((round(mean_ns * multiple * source.uniform(0.95, 1.05)), count))
        left -= count
    found.append((round(mean_ns * source.uniform(25, 35)), left))
    return tuple((latency, count) for latency, count in found if count)


def mixed(step: IoStep, iops: float, source: random.Random, host: HostUsage | None = None) -> Answer:
    """An answer of so many IOPS in the step's time, in its R/W mix; latencies as Little's law has them."""
    ios = round(iops * (step.stop.seconds or 1.0))
    reads = round(ios * step.stimulus.read_percent / 100)
    mean_ns = step.stimulus.thread_count * step.stimulus.queue_depth / iops * 1e9
    late = min(2, reads, ios - reads) if 0 < reads < ios else min(2, ios)
    return Answer(
        spread(reads, 0.8 * mean_ns, source), spread(ios - reads, 1.1 * mean_ns, source), host or HostUsage(), late
    )


def measured(step: IoStep, answer: Answer, start_ns: int, gap_ns: int | None) -> Measurement:
    """The answer as the core would give it."""
    seconds = step.stop.seconds or 1.0
    block = step.stimulus.block_sizes[0][0]
    of_writes = answer.late if answer.writes else 0
    read = _direction(answer.reads, answer.late - of_writes, block)
    write = _direction(answer.writes, of_writes, block)
    return Measurement(
        start_ns=start_ns,
        window_ns=round(seconds * 1e9),
        read=read,
        write=write,
        intervals=Intervals(
            round(seconds * 1e9),
            *((n,) for n in (read.ios, write.ios, read.bytes, write.bytes)),
            (read.ios + write.ios,),
            (read.latency_sum_ns + write.latency_sum_ns,),
            (max(read.latency_max_ns, write.latency_max_ns),),
        ),
        submitted_ios=read.ios + write.ios,
        handover_ios=0,
        late_ios=answer.late,
        handover_ns=0,
        bridge_ios=0,
        gap_ns=gap_ns,
        stop_reason="complete",
        written_bytes=write.bytes,
        host=answer.host,
    )


def _direction(samples: Samples, late: int, block: int) -> Direction:
    histogram = Histogram()
    for latency_ns, count in samples:
        histogram.record(latency_ns, count)
    ios = sum(count for _, count in samples)
    slowest_ns = max((latency for latency, _ in samples), default=0)
    total_ns = sum(latency * count for latency, count in samples)
    return Direction(ios, ios * block, ios - late, (ios - late) * block, total_ns, slowest_ns, histogram)


def make_folder(
    path: Path,
    test: str,
    drive: Drive,
    *,
    settings: dict[str, object] | None = None,
    device_class: DeviceClass = DeviceClass.ENTERPRISE,
    steps: int | None = None,
    disclosures: tuple[Disclosure, ...] = (),
    **changes: Any,
) -> list[Put]:
    """Write a run folder of `test`. `steps`: stop after so many steps with I/O, as an interrupted run does.
    `changes`: of run.json."""
    parameters = parameters_of(test, device_class, settings)
    spec = TESTS[test].spec(parameters, CAPACITY_BYTES)
    put: list[Put] = []
    now_ns = 0
    reply: Measurement | None = None
    with RunFolder(path, make_run(parameters, test=test, **changes)) as folder:
        while steps is None or len(put) < steps:
            try:
                step = spec.send(reply)
            except StopIteration:
                folder.update(state="complete", finished="2026-11-20T21:40:00+00:00")
                break
            reply = None
            if isinstance(step, Disclose):
                folder.disclose(step.disclosure)
            if isinstance(step, Precondition | Measure):
                answer = drive(step)
                reply = measured(step, answer, now_ns, 20_000 if put else None)
                now_ns += reply.window_ns + 20_000
                folder.append("precondition" if isinstance(step, Precondition) else "measure", step.label, reply)
                put.append(Put(step.label, answer, reply))
        else:
            folder.update(state="interrupted")
        folder.disclose(*disclosures)
    return put


# The second way


def journal(folder: Path) -> list[dict[str, Any]]:
    """The journal's lines as plain JSON."""
    return [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines()]


def labelled(lines: Iterable[dict[str, Any]], **label: object) -> list[dict[str, Any]]:
    """The measurements whose label has all these values, in order."""
    return [line["measurement"] for line in lines if label.items() <= line["label"].items()]


def rate(measurement: dict[str, Any], counter: str = "window_ios") -> float:
    """Per second of the window."""
    return (measurement["read"][counter] + measurement["write"][counter]) / (measurement["window_ns"] / 1e9)


def latencies_ns(put: Sequence[Put], **label: object) -> list[np.ndarray]:
    """Every latency of each step whose label has all these values."""
    return [p.answer.latencies_ns for p in put if label.items() <= vars(p.label).items()]


def percentile_ns(latencies: np.ndarray, nines: int) -> float:
    """The smallest latency that so many nines of all latencies do not exceed: by rank, in whole numbers."""
    rank = ceil(len(latencies) * (10**nines - 1) / 10**nines)
    return float(latencies[rank - 1])


def table_of(report: Report, section: str, name: str) -> Table:
    return next(t for t in report.section(section).items if isinstance(t, Table) and t.name == name)


def plots(report: Report) -> list[str]:
    """The plots' numbers, in the report's order."""
    return [section.plot for section in report.sections if section.plot]
