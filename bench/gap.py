"""Device idle between steps, by the kernel's block tracepoints on a loop device; fio with stonewall beside it.

Changes of thread count, queue depth, block size and R/W mix, run by the driver, which journals each step with an
fsync. Around each change the longest time without a request in flight is the gap; at queue depth 1 the time between one
I/O and the next is in it too. Needs root, losetup and tracefs. The loop device's file is in memory (/dev/shm), so that
the device is fast and a pause of it is the engine's.
"""

from __future__ import annotations

import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from blockdevices import MIB, BlockTrace, filled, loop_on, queue_setting, tracefs_at
from flashgauge._core import clock_ns
from flashgauge.driver import Driver
from flashgauge.execute import giving_way
from flashgauge.measurement import Measurement
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.open import open_rig
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import HostInfo, Run, RunFolder, read_journal
from flashgauge.steps import Label, Measure, Step, Stimulus, Stop

STEPS, STEP_S = 200, 0.02
# Changes before those: meanwhile the buffers are used for the first time, and made ready for it.
FIRST_STEPS = 20
FIO_STEPS, FIO_STEP_S = 20, 0.1
DEVICE_BYTES = 256 * MIB
EDGE_NS = 1_000_000

Span = tuple[int, int]
# Longest idle in ns, what the threads waited for CPUs in the step, step before, step after.
Change = tuple[int, int, Measure, Measure]


@contextmanager
def traced_loop() -> Iterator[tuple[Path, str, Path]]:
    """A folder, a loop device on a file in memory, and tracefs."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="flashgauge-bench-") as name:
        folder = Path(name)
        with (
            loop_on(filled(folder / "disk.img", DEVICE_BYTES), "--sector-size=4096") as device,
            queue_setting(device, "scheduler", "none"),
            tracefs_at(folder / "tracing") as tracefs,
        ):
            yield folder, device, tracefs


def changing(count: int) -> list[Measure]:
    """Steps each of which differs from the one before in thread count, queue depth, block size and R/W mix."""
    draw = random.Random(1)
    steps: list[Measure] = []
    last = (0, 0, 0, -1)
    while len(steps) < count:
        new = (
            draw.choice((1, 2, 4)),
            draw.choice((1, 4, 16, 32)),
            draw.choice((4096, 16384, 65536, 131072, MIB)),
            draw.choice((0, 35, 65, 100)),
        )
        if all(old != value for old, value in zip(last, new, strict=True)):
            threads, depth, block, read = last = new
            stimulus = Stimulus("random", ((block, 1),), read, threads, depth)
            label = Label("round", 1, read, block, len(steps) + 1, threads, depth)
            steps.append(Measure(stimulus, Stop(seconds=STEP_S), label))
    return steps


def idle_spans(requests: list[tuple[int, int, int]]) -> list[Span]:
    """(begin, end) in ns of every time nothing was in flight between the first request and the last."""
    spans, in_flight, idle_since = [], 0, None
    for at, change, _ in requests:
        if change > 0 and in_flight == 0 and idle_since is not None:
            spans.append((idle_since, at))
        in_flight += change
        idle_since = at if in_flight == 0 else None
    return spans


def cpu_delays_ns() -> int:
    """How long this process's threads, all together, were ready to run and had no CPU (proc(5), schedstat)."""
    found = 0
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):  # It may have ended meanwhile.
            found += int((task / "schedstat").read_text().split()[1])
    return found


class Timed:
    """A session that remembers when each step was published, and what was waited for CPUs until then."""

    def __init__(self, session: Any) -> None:
        self._session = session
        self.starts: list[int] = []
        self.delays: list[int] = []

    def start(self, *arguments: Any) -> None:
        self.delays.append(cpu_delays_ns())
        self.starts.append(time.monotonic_ns())
        self._session.start(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


class Quiet:
    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


def by_engine(folder: Path, device: str, tracefs: Path) -> tuple[list[Change], list[Change]]:
    """Of the first changes, and of the others."""
    steps = changing(FIRST_STEPS + STEPS + 1)

    def spec() -> Generator[Step, Measurement | None, None]:
        for step in steps:  # noqa: UP028 - the driver sends; a list's iterator takes nothing
            yield step

    rig = open_rig(parse_target(device), SessionNeeds(4, 32, MIB, 5), Path(device).name)
    time.sleep(0.3)  # A purge takes longer, and buffers are made ready meanwhile.
    timed = Timed(rig.session)
    rig.session = timed  # type: ignore[assignment]
    run = Run("iops", "enterprise", rig.dut, HostInfo(), {}, [], 5, {}, "2026-01-01T00:00:00+00:00")
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".bench-") as runs:
        with BlockTrace(tracefs, device) as trace:
            try:
                with RunFolder(Path(runs) / "run", run) as opened, giving_way():
                    Driver(rig, opened, Quiet(), gap_limit_ms=1.0).run(spec())
                timed.delays.append(cpu_delays_ns())
            finally:
                rig.close()
            requests = trace.requests()
        measured = [entry.measurement for entry in read_journal(Path(runs) / "run")[0]]
    spans = idle_spans(requests)
    # The engine's clock is CLOCK_MONOTONIC, as the trace's, from a zero of its own.
    zero_ns = time.monotonic_ns() - clock_ns()
    found = []
    for number in range(1, len(steps)):
        # The change begins where the window before ends.
        begin = measured[number - 1].end_ns + zero_ns
        end = timed.starts[number] + measured[number].handover_ns + EDGE_NS
        longest = max((stop - start for start, stop in spans if stop > begin and start < end), default=0)
        waited = timed.delays[number + 1] - timed.delays[number]
        found.append((longest, waited, steps[number - 1], steps[number]))
    return found[:FIRST_STEPS], found[FIRST_STEPS:]


def fio_command(device: str) -> list[str]:
    command = ["fio", f"--filename={device}", "--ioengine=io_uring", "--direct=1", "--fixedbufs", "--registerfiles"]
    command += ["--norandommap", "--time_based", f"--runtime={FIO_STEP_S * 1000:g}ms", "--rw=randread"]
    for number in range(FIO_STEPS):
        command += [f"--name=step{number}", "--stonewall", "--bs=" + ("4k" if number % 2 else "64k"), "--iodepth=32"]
    return command


def by_fio(device: str, tracefs: Path) -> list[int]:
    """The longest idle times, one for each of its changes of job."""
    with BlockTrace(tracefs, device) as trace:
        subprocess.run(fio_command(device), check=True, capture_output=True, text=True)
        requests = trace.requests()
    return sorted((end - begin for begin, end in idle_spans(requests)), reverse=True)[: FIO_STEPS - 1]


def main() -> None:
    with traced_loop() as (folder, device, tracefs):
        first, found = by_engine(folder, device, tracefs)
        theirs = sorted(by_fio(device, tracefs))
    gaps = sorted(gap for gap, *_ in found)
    for what, values in (
        ("flashgauge", gaps),
        ("flashgauge, first use of buffers", sorted(gap for gap, *_ in first)),
        ("fio, stonewall", theirs),
    ):
        middle = values[len(values) // 2]
        print(
            f"gap, {what}: least {values[0] / 1e3:.0f} us, median {middle / 1e3:.0f} us, most {values[-1] / 1e3:.0f} us"
        )
    for gap, waited, before, after in sorted(found, key=lambda item: -item[0])[:8]:
        print(f"  {gap / 1e3:7.0f} us, threads without a CPU {waited / 1e3:.0f} us: {before.label} -> {after.label}")


if __name__ == "__main__":
    main()
