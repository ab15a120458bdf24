"""Run folders of the tests that run by the minute (WSAT, HIR, XSR): a clock with hand-overs between windows, idle time,
bytes written between windows, and a series of seconds in each window."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console

from flashgauge.disclosure import Disclosure
from flashgauge.measurement import NS_PER_S, HostUsage, Intervals, Measurement
from flashgauge.report import Report, build, show, write_csv, write_html, write_pdf
from flashgauge.runfolder import RunFolder
from flashgauge.spec import TESTS
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import Disclose, Idle, IoStep, Label, Measure, Precondition
from report_data import make_run
from report_runs import Put, measured, mixed
from scripted import parameters_of

GB = 10**9
START_NS = 5_000_000_000
HANDOVER_NS = 7_000_000
IDLE_ERROR_NS = 400_000
BETWEEN_IOS = 37
REPORT_TIME = "2026-11-21T09:00:00+00:00"
Rate = Callable[[Label], float]
Weights = Callable[[Label, int], float]


def timed(step: IoStep, rate: float, now_ns: int, idle_s: float, source: random.Random, weights: Weights) -> Put:
    """A step that begins `HANDOVER_NS` after the one before has ended, or after its idle time and a little more."""
    host = HostUsage(source.uniform(1, 5), source.uniform(5, 9), source.uniform(2, 4), 40.0)
    answer = mixed(step, rate, source, host)
    idle_ns = round(idle_s * NS_PER_S)
    over_ns = source.randint(0, IDLE_ERROR_NS) if idle_ns else 0
    start_ns = now_ns + HANDOVER_NS + idle_ns + over_ns
    m = measured(step, answer, start_ns, idle_ns + over_ns if now_ns > START_NS else None)
    block = step.stimulus.block_sizes[0][0]
    pattern = step.stimulus
    total = m.read.ios + m.write.ios
    counted = [size for size, _ in pattern.block_sizes]
    m = replace(
        m,
        intervals=_seconds(m, lambda i: weights(step.label, i)),
        handover_ns=HANDOVER_NS,
        idle_ns=idle_ns,
        written_bytes=m.write.bytes + (BETWEEN_IOS * block if pattern.read_percent < 100 else 0),
        size_ios=tuple(total // len(counted) for _ in counted) if len(counted) > 1 else (),
        group_ios=tuple(total // len(pattern.groups) for _ in pattern.groups),
    )
    return Put(step.label, answer, m)


def _seconds(m: Measurement, weight: Callable[[int], float]) -> Intervals:
    """The window's completions, second by second; the last interval has what is left of the window."""
    whole, rest_ns = divmod(m.window_ns, NS_PER_S)
    shares = [weight(i) for i in range(whole)] + ([weight(whole) * rest_ns / NS_PER_S] if rest_ns else [])
    ends = [sum(shares[: i + 1]) / sum(shares) for i in range(len(shares))]

    def split(count: int) -> tuple[int, ...]:
        edges = [0, *(round(count * end) for end in ends)]
        return tuple(high - low for low, high in pairwise(edges))

    reads, writes = split(m.read.window_ios), split(m.write.window_ios)
    block = m.write.bytes // m.write.ios if m.write.ios else m.read.bytes // max(1, m.read.ios)
    ios = tuple(r + w for r, w in zip(reads, writes, strict=True))
    return Intervals(
        NS_PER_S,
        reads,
        writes,
        tuple(block * n for n in reads),
        tuple(block * n for n in writes),
        ios,
        tuple(n * (1000 + i) for i, n in enumerate(ios)),
        tuple(2000 + i if n else 0 for i, n in enumerate(ios)),
    )


def make_timed(
    path: Path,
    test: str,
    rate: Rate,
    *,
    settings: Mapping[str, object] | None = None,
    capacity_bytes: int = GB,
    steps: int | None = None,
    weights: Weights = lambda _label, _i: 1.0,
    host: bool = False,
    disclosures: tuple[Disclosure, ...] = (),
    device_class: DeviceClass = DeviceClass.ENTERPRISE,
) -> list[Put]:
    """Write a run folder. `rate`: IOPS of a step. `steps`: stop after so many steps with I/O. `weights`: the share of
    each second within a window. `host`: whether power and CPU were measured."""
    parameters = parameters_of(test, device_class, settings)
    spec = TESTS[test].spec(parameters, capacity_bytes)
    source = random.Random(11)
    put: list[Put] = []
    now_ns, idle_s = START_NS, 0.0
    reply: Measurement | None = None
    run = make_run(parameters, test=test)
    run = replace(run, dut=replace(run.dut, capacity_bytes=capacity_bytes))
    with RunFolder(path, run) as folder:
        while steps is None or len(put) < steps:
            try:
                step = spec.send(reply)
            except StopIteration:
                folder.update(state="complete", finished="2026-11-20T21:40:00+00:00")
                break
            reply = None
            if isinstance(step, Idle):
                idle_s += step.seconds
            if isinstance(step, Disclose):
                folder.disclose(step.disclosure)
            if isinstance(step, Precondition | Measure):
                done = timed(step, rate(step.label), now_ns, idle_s, source, weights)
                reply = done.measurement if host else replace(done.measurement, host=HostUsage())
                now_ns, idle_s = reply.end_ns, 0.0
                folder.append("precondition" if isinstance(step, Precondition) else "measure", step.label, reply)
                put.append(replace(done, measurement=reply))
        else:
            folder.update(state="interrupted")
        folder.disclose(*disclosures)
    return put


# The second way, from the journal's plain JSON


def ends_s(lines: Sequence[dict[str, Any]]) -> list[float]:
    """End of every step's window, since the first step began."""
    origin = lines[0]["measurement"]["start_ns"]
    return [(m["start_ns"] + m["window_ns"] - origin) / 1e9 for m in (line["measurement"] for line in lines)]


def rates(lines: Sequence[dict[str, Any]], counter: str = "window_ios") -> list[float]:
    return [
        (m["read"][counter] + m["write"][counter]) / (m["window_ns"] / 1e9)
        for m in (line["measurement"] for line in lines)
    ]


def of(lines: Sequence[dict[str, Any]], purpose: str) -> list[dict[str, Any]]:
    return [line for line in lines if line["label"]["purpose"] == purpose]


def pooled(lines: Sequence[dict[str, Any]]) -> dict[str, float]:
    """IOPS, MB/s, ART and MRT of several steps together."""
    ms = [line["measurement"] for line in lines]
    sides = [m[side] for m in ms for side in ("read", "write")]
    seconds = sum(m["window_ns"] for m in ms) / 1e9
    return {
        "iops": sum(side["window_ios"] for side in sides) / seconds,
        "mb_per_s": sum(side["window_bytes"] for side in sides) / seconds / 1e6,
        "art_ms": sum(side["latency_sum_ns"] for side in sides) / sum(side["ios"] for side in sides) / 1e6,
        "mrt_ms": max(side["latency_max_ns"] for side in sides) / 1e6,
    }


def rendered(folder: Path) -> tuple[Report, str]:
    """The report in every form; its text in a narrow terminal."""
    report = build(folder, REPORT_TIME)
    write_html(report, folder / "report.html")
    write_pdf(report, folder / "report.pdf")
    write_csv(report, folder / "csv")
    console = Console(width=80, record=True, file=(folder / "shown.txt").open("w"))
    show(report, console)
    return report, console.export_text()
