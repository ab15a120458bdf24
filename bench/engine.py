"""`make bench-engine`: every figure of docs/engine.md, as least, median and most of several runs, beside fio's.

Runs alternate with fio's on the same device, so that only their ratio in one pair counts; none is a gate. The devices
are zram and loop devices of the program's own, in memory. Needs root, fio, losetup and tracefs; what the machine does
not have is left out, with the reason. All parts together are written into docs/engine.md; `engine.py PART...` runs
some of them and prints; `engine.py long MINUTES` is the long run.
"""

from __future__ import annotations

import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import gap as gaps
import pytest
from goals import goal_of

from blockdevices import MIB, BlockTrace, zram_of
from flashgauge import hostoverhead
from flashgauge._core import Session
from flashgauge.driver import _measurement
from flashgauge.measurement import Measurement
from flashgauge.rig.block import block_reads
from flashgauge.steps import Stimulus, Stop

HISTORY = Path(__file__).parent / "history.jsonl"
PAGE = Path(__file__).parent.parent / "docs/engine.md"
MARKS = ("<!-- figures -->", "<!-- end of figures -->")
PAIRS = 5
SECONDS = 2.0
DEVICE_BYTES = 256 * MIB
RATES = (1_000, 10_000, 100_000, 1_000_000)
HEAD = "| what | goal | least | median | most | met |\n|---|---|---|---|---|---|"

Rows = dict[str, list[float]]


def reads(depth: int = 32, **rest: Any) -> Stimulus:
    return Stimulus("random", ((4096, 1),), 100, 1, depth, **rest)


def measured(session: Session, stimulus: Stimulus, seconds: float) -> Measurement:
    session.start(stimulus.to_json(), Stop(seconds=seconds).to_json(), 1_000_000_000, True)
    while (raw := session.wait(1.0)) is None:
        pass
    return _measurement(raw)


def block(device: str, threads: int = 1, depth: int = 32, block_bytes: int = 4096) -> Session:
    return Session.block(device, DEVICE_BYTES, 1, threads, depth, block_bytes, True)


@contextmanager
def zram() -> Iterator[str]:
    """A zram device full of data that does not compress: reads of what was never written are no reads."""
    with zram_of(DEVICE_BYTES) as device:
        with open(device, "wb", buffering=0) as stream:
            for _ in range(DEVICE_BYTES // MIB):
                stream.write(os.urandom(MIB))
        yield device


@contextmanager
def loop() -> Iterator[str]:
    with gaps.traced_loop() as (_, device, _):
        yield device


def user_s() -> float:
    """Seconds in user mode of this process's engine threads."""
    ticks = 0
    for task in Path("/proc/self/task").iterdir():
        name, _, rest = (task / "stat").read_text().rpartition(") ")
        if "(flashgauge-" in name:
            ticks += int(rest.split()[11])
    return ticks / os.sysconf("SC_CLK_TCK")


def fio(device: str, depth: int, *options: str, seconds: float = SECONDS) -> dict[str, Any]:
    command = [
        "fio", "--name=b", f"--filename={device}", f"--size={DEVICE_BYTES}", "--rw=randread", "--bs=4k",
        f"--iodepth={depth}", "--ioengine=io_uring", "--direct=1", "--norandommap", "--randrepeat=0", "--fixedbufs",
        "--registerfiles", "--time_based", f"--runtime={seconds:g}", "--output-format=json", *options,
    ]  # fmt: skip
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    job: dict[str, Any] = json.loads(out[out.index("{") :])["jobs"][0]
    return job


def cost(device: str, name: str) -> Rows:
    """User CPU time per I/O, and IOPS, of both."""
    rows: Rows = {}
    for _ in range(PAIRS):
        with closing(block(device)) as session:
            measured(session, reads(), 0.2)
            before = user_s()
            ours = measured(session, reads(), SECONDS)
            own_ns = (user_s() - before) / ours.ios * 1e9
        job = fio(device, 32)
        fio_ns = job["usr_cpu"] / 100 * job["job_runtime"] / 1e3 / job["read"]["total_ios"] * 1e9
        for what, value in (
            (f"{name}: user ns per I/O", own_ns),
            (f"{name}: user ns per I/O, fio", fio_ns),
            (f"{name}: user time, ratio to fio", own_ns / fio_ns),
            (f"{name}: M IOPS", ours.iops / 1e6),
            (f"{name}: M IOPS, fio", job["read"]["iops"] / 1e6),
            (f"{name}: IOPS, ratio to fio", ours.iops / job["read"]["iops"]),
        ):
            rows.setdefault(what, []).append(value)
    return rows


def ring() -> Rows:
    """Recorded I/Os per second of one thread: no-ops through the ring, and a device that is none."""
    rows: Rows = {}
    for name, make in (("no-ops through the ring", Session.nop), ("null device", Session.null)):
        with closing(make(1 << 40, 1, 1, 32)) as session:
            rows[f"{name}: M I/Os per s"] = [measured(session, reads(), 1.0).iops / 1e6 for _ in range(PAIRS)]
    return rows


@contextmanager
def awake() -> Iterator[None]:
    """CPUs that do not sleep (PM quality of service): to wake one of a virtual machine takes longer than the I/O."""
    with open("/dev/cpu_dma_latency", "wb", buffering=0) as limit:
        limit.write((0).to_bytes(4, "little"))
        yield


def truth(device: str) -> Rows:
    """Ratios to fio of what both say of the same device, in turns."""
    with awake():
        return truth_of(device)


def truth_of(device: str) -> Rows:
    rows: Rows = {}
    for depth in (1, 32):
        for pair in range(PAIRS):
            ours_first = pair % 2 == 0
            # Both latencies run from before the I/O is handed over: lat, not clat.
            job = None if ours_first else fio(device, depth, "--lat_percentiles=1")
            with closing(block(device, depth=depth)) as session:
                ours = measured(session, reads(depth), SECONDS)
            job = job or fio(device, depth, "--lat_percentiles=1")
            latency = job["read"]["lat_ns"]["percentile"]
            for what, own, other in (
                ("IOPS", ours.iops, job["read"]["iops"]),
                ("ART", ours.art_ns, job["read"]["lat_ns"]["mean"]),
                ("p99", ours.histogram.quantile_ns(0.99), latency["99.000000"]),
                ("p99.9", ours.histogram.quantile_ns(0.999), latency["99.900000"]),
            ):
                rows.setdefault(f"loop, queue depth {depth}: {what}, ratio to fio", []).append(own / other)
    return rows


def overhead() -> Rows:
    """Latency less the kernel's time from issue to completion, at queue depth 1: of the means, and of the medians,
    which other load on the machine does not move. The kernel's times are whole microseconds."""
    rows: Rows = {}
    with awake(), gaps.traced_loop() as (_, device, tracefs):
        for _ in range(PAIRS):
            with BlockTrace(tracefs, device) as trace, closing(block(device, depth=1)) as session:
                ours = measured(session, reads(1), 0.5)
                mean_ns, median_ns = kernel_ns(trace)
            assert ours.art_ns is not None
            with closing(block(device, depth=1)) as session:
                counted = hostoverhead.measure(session, lambda: block_reads(Path("/sys/block") / Path(device).name))
            assert isinstance(counted, hostoverhead.HostOverhead), counted
            rows.setdefault("loop, queue depth 1: host overhead by counters, mean, us", []).append(counted.ns / 1e3)
            own = (ours.art_ns - mean_ns, ours.histogram.quantile_ns(0.5) - median_ns)
            with BlockTrace(tracefs, device) as trace:
                latency = fio(device, 1, "--lat_percentiles=1", seconds=0.5)["read"]["lat_ns"]
                mean_ns, median_ns = kernel_ns(trace)
            other = (latency["mean"] - mean_ns, latency["percentile"]["50.000000"] - median_ns)
            for program, values in (("", own), (", fio", other)):
                for kind, value in zip(("mean", "median"), values, strict=True):
                    name = f"loop, queue depth 1: host overhead, {kind}, us{program}"
                    rows.setdefault(name, []).append(value / 1e3)
    return rows


def kernel_ns(trace: BlockTrace) -> tuple[float, float]:
    """Mean and median ns from issue to completion of requests that were alone."""
    times, issued = [], None
    for at, change, _ in trace.requests(all_of_them=False):
        if change < 0 and issued is not None:
            times.append(at - issued)
        issued = at if change > 0 else None
    return sum(times) / len(times), median(times)


def open_loop(device: str) -> Rows:
    """How well the schedule is kept: on no-ops, and on a device, beside fio on that device at 10,000 IOPS."""
    rows: Rows = {}
    targets: list[tuple[str, Callable[[], Session], tuple[int, ...]]] = [
        ("no-ops", lambda: Session.nop(DEVICE_BYTES, 1, 1, 128), RATES),
        ("zram", lambda: block(device, depth=128), RATES[:-1]),
    ]
    for name, make, rates in targets:
        with closing(make()) as session:
            for rate, arrivals in itertools.product(rates, ("fixed", "poisson")):
                for _ in range(PAIRS):
                    m = measured(session, reads(128, rate_iops=rate, arrivals=arrivals), SECONDS)
                    for what, value in kept_schedule(m).items():
                        rows.setdefault(f"{name}, {arrivals}, {rate:,} IOPS: {what}", []).append(value)
    for arrivals, options in (("fixed", ()), ("poisson", ("--rate_process=poisson",))):
        name = f"zram, fio, {arrivals}, 10,000 IOPS: error of the rate, %"
        for _ in range(PAIRS):
            job = fio(device, 128, "--rate_iops=10000", *options)
            rows.setdefault(name, []).append((job["read"]["iops"] / 10_000 - 1) * 100)
    return rows


def kept_schedule(m: Measurement) -> dict[str, float]:
    """The error at the end: I/Os due in the window and not completed in it. A schedule that drifts is late by more and
    more: half of its I/Os by more than half of what the last one is."""
    late = m.lateness_histogram
    assert late is not None and m.intended_ios is not None
    completed = m.read.window_ios + m.write.window_ios
    median_late_ns = late.quantile_ns(0.5)
    return {
        "error at the end, %": abs(1 - completed / m.intended_ios) * 100,
        "drift, % of the time": 2 * median_late_ns / m.window_ns * 100,
        "lateness, median, us": median_late_ns / 1e3,
        "lateness, 99.9 %, us": late.quantile_ns(0.999) / 1e3,
        "lateness, most, us": late.quantile_ns(1.0) / 1e3,
    }


MEMORY = """
import sys, time
from flashgauge._core import Session, clock_ns
from flashgauge.steps import Stimulus, Stop
def mib():
    text = open("/proc/self/status").read()
    return (int(text.split("RssAnon:")[1].split()[0])) / 1024
def step(threads, depth, size):
    stimulus = Stimulus("random", ((size, 1),), 100, threads, depth)
    session.start(stimulus.to_json(), Stop(seconds=0.3).to_json(), 10**9, True)
    while (raw := session.wait(1)) is None:
        pass
    return raw
before, begin = mib(), time.perf_counter()
session = Session.block(sys.argv[1], int(sys.argv[2]), 1, 32, 32, 1 << 20, True)
opened = time.perf_counter() - begin
step(1, 1, 4096)
begin, begin_ns = time.perf_counter(), clock_ns()
raw = step(32, 1, 4096)
rest = time.perf_counter() - begin - 0.3
resized = (raw["start_ns"] - begin_ns) / 1e9
step(32, 32, 1 << 20)
print(opened * 1e3, resized * 1e3, rest * 1e3, mib() - before)
"""


def memory(device: str) -> Rows:
    """What a session for 32 threads, queue depth 32 and 1 MiB costs, before it has written anything."""
    rows: Rows = {}
    for _ in range(PAIRS):
        command = [sys.executable, "-c", MEMORY, device, str(DEVICE_BYTES)]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        names = ("open 32 threads, ms", "from 1 to 32 threads, ms", "a step of 32 threads, all but its window, ms")
        for name, value in zip((*names, "memory after 1 MiB reads at T32Q32, MiB"), out.split(), strict=True):
            rows.setdefault(name, []).append(float(value))
    return rows


def polling(device: str) -> Rows:
    """What a kernel thread that polls for submissions would bring: by fio, which can do both."""
    rows: Rows = {}
    for _ in range(PAIRS):
        plain, polled = fio(device, 32), fio(device, 32, "--sqthread_poll=1")
        rows.setdefault("zram, fio: IOPS with SQPOLL, ratio to without", []).append(
            polled["read"]["iops"] / plain["read"]["iops"]
        )
    return rows


def gap() -> Rows:
    with gaps.traced_loop() as (folder, device, tracefs):
        first, found = gaps.by_engine(folder, device, tracefs)
        return {
            f"gap over {gaps.STEPS} changes, us": [longest / 1e3 for longest, *_ in found],
            "gap over the first changes, us": [longest / 1e3 for longest, *_ in first],
            f"gap over {gaps.FIO_STEPS - 1} changes, us, fio": [each / 1e3 for each in gaps.by_fio(device, tracefs)],
        }


def on(devices: Callable[[], Any], part: Callable[..., Rows], *rest: str) -> Callable[[], Rows]:
    def run() -> Rows:
        with devices() as device:
            return part(device, *rest)

    return run


PARTS: dict[str, Callable[[], Rows]] = {
    "gap": gap,
    "cost": on(zram, cost, "zram"),
    "cost-loop": on(loop, cost, "loop"),
    "ring": ring,
    "truth": on(loop, truth),
    "overhead": overhead,
    "open-loop": on(zram, open_loop),
    "memory": on(zram, memory),
    "polling": on(zram, polling),
}


def long_run(minutes: int) -> None:
    """Full rate on a zram device, a step a minute: nothing is lost, nothing grows, and the clocks agree: the engine's,
    which the kernel steers by network time, and the machine's own, which nothing steers."""
    status = Path("/proc/self/status")

    def resident_kib() -> int:
        return int(status.read_text().split("VmRSS:")[1].split()[0])

    total, resident = 0, []
    with zram() as device, closing(block(device)) as session:
        stimulus = Stimulus("random", ((4096, 1),), 65, 1, 32)
        measured(session, stimulus, 1.0)
        begin_ns, first_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW), None
        for minute in range(1, minutes + 1):
            m = measured(session, stimulus, 60.0)
            first_ns = m.start_ns if first_ns is None else first_ns
            of_intervals = sum(m.intervals.read_ios) + sum(m.intervals.write_ios)
            assert of_intervals == m.read.window_ios + m.write.window_ios
            assert m.ios == m.histogram.count and m.ios + m.handover_ios + m.error_ios == m.submitted_ios
            assert len(m.intervals.read_ios) == 60 and m.window_ns == 60 * 10**9
            total += m.ios
            resident.append(resident_kib())
            passed_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW) - begin_ns
            drift_ms = (passed_ns - (m.end_ns - first_ns)) / 1e6
            # The kernel steers by 0.05 % at most; a busy machine tells late that a step has ended.
            assert abs(drift_ms) < 1000 + passed_ns / 1e6 * 0.0005, f"the clocks are {drift_ms:.1f} ms apart"
            print(f"minute {minute}: {m.iops:,.0f} IOPS, {resident[-1] / 1024:.1f} MiB, clocks {drift_ms:.1f} ms apart")
    assert resident[-1] - resident[0] < 4096, "the memory grows"
    grown = resident[-1] - resident[0]
    print(f"{minutes} minutes: {total:,} I/Os, each in the intervals and in a histogram; memory +{grown} KiB")


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["long"]:
        return long_run(int(arguments[1]))
    kept: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds"), "load": os.getloadavg()[0]}
    kernel = ".".join(platform.release().split(".")[:2])
    table = [f"Linux {kernel}, {os.cpu_count()} CPUs, load {kept['load']:.1f} at the start.\n", HEAD]
    print(*table, sep="\n")
    for name in arguments or PARTS:
        try:
            rows = PARTS[name]()
        except pytest.skip.Exception as skipped:
            table.append(f"| {name}: left out, {skipped} | | | | | |")
            print(table[-1])
            continue
        for what, values in rows.items():
            kept[what] = [min(values), median(values), max(values)]
            table.append(row(what, kept[what]))
            print(table[-1], flush=True)
    with HISTORY.open("a") as file:
        file.write(json.dumps(kept) + "\n")
    if not arguments:
        page = PAGE.read_text()
        before, after = page.split(MARKS[0])[0], page.split(MARKS[1])[1]
        PAGE.write_text(before + MARKS[0] + "\n" + "\n".join(table) + "\n" + MARKS[1] + after)
    return None


def row(what: str, values: list[float]) -> str:
    """Of least, median and most."""
    goal = goal_of(what)
    cells = [what, goal.text if goal else "", *(shown(value) for value in values)]
    cells.append("" if goal is None else "yes" if goal.met(*values) else "no")
    return f"| {' | '.join(cells)} |"


def shown(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


if __name__ == "__main__":
    main(sys.argv[1:])
