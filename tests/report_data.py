"""A finished, synthetic IOPS run folder: the real generator and RunFolder, with a made-up drive's answers.

The drive's IOPS come from a formula, its latencies from a table of shapes; both are kept beside the folder so
that a test can compute every reported number a second way.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np

from flashgauge._core import Histogram
from flashgauge.disclosure import Disclosure
from flashgauge.measurement import Direction, HostUsage, Intervals, Measurement
from flashgauge.report.model import LineFigure, Report, Table
from flashgauge.runfolder import DutInfo, HostInfo, Run, RunFolder
from flashgauge.spec.iops import IopsParameters, iops
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.parameters import table as parameter_table
from flashgauge.steps import Label, Measure, Precondition

CAPACITY_BYTES = 480_103_981_056
Samples = list[tuple[int, int]]

# (share of the I/Os, latency as a multiple of the mean)
_SHAPE = ((0.30, 0.55), (0.40, 0.85), (0.22, 1.4), (0.07, 2.2), (0.0095, 4.0), (0.0004, 9.0), (0.00008, 21.0))


@dataclass
class Truth:
    """What was put in: IOPS and (latency ns, count) by (round, read percent, block bytes), in order of issue."""

    parameters: IopsParameters
    iops: dict[tuple[int, int, int], float] = field(default_factory=dict)
    latencies: dict[tuple[int, int, int], Samples] = field(default_factory=dict)
    host: dict[tuple[int, int, int], HostUsage] = field(default_factory=dict)
    gaps_ns: list[int] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)


class Drive:
    """Answers steps. Writes start `fresh` times faster and settle with time constant `settle_rounds`."""

    def __init__(self, truth: Truth, settle_rounds: float, fresh: float = 2.8, host: bool = True) -> None:
        self.truth, self.settle_rounds, self.fresh, self.host = truth, settle_rounds, fresh, host
        self.random = random.Random(7)
        self.now_ns = 0
        self.samples: Samples = []

    def rate(self, round_number: int, read_percent: int, block_bytes: int) -> float:
        reads = min(498_000.0, 1.62e9 / block_bytes)
        writes = min(47_000.0 if block_bytes < 4096 else 62_000.0, 0.26e9 / block_bytes)
        share = 1 - read_percent / 100
        settling = 1 + (self.fresh - 1) * share * math.exp(-(round_number - 1) / self.settle_rounds)
        steady = 1 / ((1 - share) / reads + share / writes)
        return steady * settling * self.random.uniform(0.99, 1.01)

    def answer(self, step: Precondition | Measure) -> Measurement:
        label = step.label
        self.truth.labels.append(label)
        first = self.now_ns == 0
        if label.round is None or label.read_percent is None or label.block_bytes is None:
            return self._measurement(step, 3_900.0, 1_800.0, HostUsage(), first)
        key = (label.round, label.read_percent, label.block_bytes)
        host = HostUsage()
        if self.host:
            host = HostUsage(self.random.uniform(2, 5), self.random.uniform(5, 9), self.random.uniform(5.0, 9.0), 41.0)
        window_s = step.stop.seconds or 0.0
        m = self._measurement(step, self.rate(*key), window_s, host, first)
        self.truth.iops[key] = m.iops
        self.truth.latencies[key] = self.samples
        self.truth.host[key] = host
        return m

    def _measurement(
        self, step: Precondition | Measure, rate: float, window_s: float, host: HostUsage, first: bool
    ) -> Measurement:
        ios = round(rate * window_s)
        total_oio = step.stimulus.thread_count * step.stimulus.queue_depth
        late = min(ios, total_oio)
        block = step.stimulus.block_sizes[0][0]
        mean_ns = total_oio / rate * 1e9
        reads = round(ios * step.stimulus.read_percent / 100)
        late_reads = round(late * step.stimulus.read_percent / 100)
        self.samples = []
        read = self._direction(reads, late_reads, block, 0.8 * mean_ns)
        write = self._direction(ios - reads, late - late_reads, block, 1.1 * mean_ns)
        gap = None if first else self.random.randint(1_000, 90_000)
        if gap is not None:
            self.truth.gaps_ns.append(gap)
        start = self.now_ns
        self.now_ns += round(window_s * 1e9) + (gap or 0)
        series = tuple(ios // 4 for _ in range(4))
        return Measurement(
            start_ns=start,
            window_ns=round(window_s * 1e9),
            read=read,
            write=write,
            intervals=Intervals(
                round(window_s * 1e9 / 4), series, series, series, series, series, (1, 2, 3, 4), (5, 6, 7, 8)
            ),
            submitted_ios=ios,
            handover_ios=0,
            late_ios=late,
            handover_ns=0,
            bridge_ios=3,
            gap_ns=gap,
            stop_reason="complete",
            host=host,
        )

    def _direction(self, ios: int, late: int, block: int, mean_ns: float) -> Direction:
        left = ios
        samples: Samples = []
        for share, multiple in _SHAPE:
            count = min(left, round(ios * share))
            samples.append((round(mean_ns * multiple * self.random.uniform(0.95, 1.05)), count))
            left -= count
        samples.append((round(mean_ns * 30), left))
        histogram = Histogram()
        for latency_ns, count in samples:
            if count:
                histogram.record(latency_ns, count)
        self.samples += [sample for sample in samples if sample[1]]
        total_ns = sum(latency_ns * count for latency_ns, count in samples)
        slowest_ns = max((latency_ns for latency_ns, count in samples if count), default=0)
        return Direction(ios, ios * block, ios - late, (ios - late) * block, total_ns, slowest_ns, histogram)


def make_run(parameters: IopsParameters, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "test": "iops",
        "device_class": parameters.device_class.value,
        "dut": DutInfo(
            target="/dev/nvme1n1",
            kind="block",
            manufacturer="Example Storage",
            model="EX-480 <b>&#x</b> $x$ #let",
            serial="S4EXNX0R1234567",
            firmware="EDA7602Q",
            capacity_bytes=CAPACITY_BYTES,
            interface="NVMe 1.4, PCIe 4.0 x4",
            form_factor=None,
            media=None,
        ),
        "host": HostInfo(
            system="Example R750",
            cpu="Intel(R) Xeon(R) Gold 6342 CPU @ 2.80GHz, 2 sockets, 96 threads",
            memory_bytes=270_000_000_000,
            operating_system="Debian GNU/Linux 12 (bookworm)",
            kernel="6.1.0-28-amd64",
        ),
        "parameters": asdict(parameters),
        "parameter_table": parameter_table(parameters),
        "seed": 1234567890123,
        "software": {"flashgauge": "0.1.0", "python": "3.11.7", "core": "0.1.0"},
        "started": "2026-11-20T08:15:00+00:00",
        "operator": "A. Operator",
        "purge_method": "NVMe Format, user data erase",
        "write_cache": "disabled",
        "device_description": {"vendor": {"nsid": 1, "lba_format": 0}, "namespaces": [1]},
    }
    return Run(**{**values, **changes})


def make_folder(
    path: Path,
    *,
    rounds: float | None = None,
    max_rounds: int = 25,
    settle_rounds: float = 1.5,
    host: bool = True,
    disclosures: tuple[Disclosure, ...] = (),
    **changes: Any,
) -> Truth:
    """Write a run folder. `rounds`: stop there, as an interrupted run does (2.5: half way through round 3)."""
    parameters = IopsParameters(DeviceClass.ENTERPRISE, max_rounds=max_rounds)
    truth = Truth(parameters)
    drive = Drive(truth, settle_rounds, host=host)
    limit = None if rounds is None else 1 + round(rounds * len(parameters.points))
    with RunFolder(path, make_run(parameters, **changes)) as folder:
        for kind, label, measurement in _driven(parameters, drive, limit):
            folder.append(kind, label, measurement)
        if limit is None:
            folder.update(state="complete", finished="2026-11-20T21:40:00+00:00")
        else:
            folder.update(state="interrupted")
        folder.disclose(*disclosures)
    return truth


def _driven(parameters: IopsParameters, drive: Drive, limit: int | None) -> Iterator[tuple[str, Label, Measurement]]:
    spec = iops(parameters, CAPACITY_BYTES)
    answer: Measurement | None = None
    done = 0
    while limit is None or done < limit:
        try:
            step = spec.send(answer)
        except StopIteration:
            return
        answer = None
        if isinstance(step, Precondition | Measure):
            answer = drive.answer(step)
            yield "precondition" if isinstance(step, Precondition) else "measure", step.label, answer
            done += 1


# What the tests ask of a report


def figure(report: Report, section: str, index: int = 0) -> LineFigure:
    item = report.section(section).items[index]
    assert isinstance(item, LineFigure)
    return item


def table(report: Report, section: str, name: str) -> Table:
    return next(t for t in report.section(section).items if isinstance(t, Table) and t.name == name)


def cells(found: Table) -> dict[str, tuple[object, ...]]:
    return {str(row[0]): row[1:] for row in found.rows}


def window_of(truth: Truth, point: tuple[int, int]) -> np.ndarray:
    last = max(number for number, _, _ in truth.iops)
    return np.array([truth.iops[(number, *point)] for number in range(last - 4, last + 1)])


class Loads(HTMLParser):
    """Every attribute that makes a browser fetch something, outside of script text."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in {"src", "href", "srcset", "data", "action"} and value and not value.startswith("#"):
                self.found.append(f"{tag} {name}={value}")
            if name == "id" and value:
                self.ids.add(value)
