"""The engine against fio on the same target, in turns: 4 KiB random reads at queue depth 32.

The two agree when the median of each lies within the spread of the other's runs. The spread is the range from the
smallest to the largest run, widened at both ends by a share of the mean. The share is for a machine of few shared
cores, where a few runs do not show all that other load does to the next; a fault worth finding (a queue half used,
latency taken at the wrong place, I/Os counted twice) is far beyond it. When they do not agree after the first pairs
of runs more pairs are made, and all are judged together: load that came and went gets no vote of its own. When they
do not agree even then, and other programs took the CPUs meanwhile, the comparison is void: the test says so and skips.
"""

from __future__ import annotations

import json
import os
import resource
import shutil
import statistics
import subprocess
import time
from collections.abc import Generator
from pathlib import Path

import pytest

from blockdevices import MIB, filled, loop_on
from flashgauge.driver import Driver
from flashgauge.measurement import Measurement
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.open import open_rig
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import HostInfo, Run, RunFolder
from flashgauge.steps import Label, Measure, Step, Stimulus, Stop

BLOCK_BYTES, DEPTH, SECONDS = 4096, 32, 1.5
PAIRS, MOST_PAIRS = 3, 6
WIDENED_BY = 0.20
BUSY_CPUS = 0.3  # of other programs; both tools need one of the CPUs whole

Result = tuple[float, float]  # IOPS, mean latency in ns


def by_fio(device: str) -> Result:
    command = [
        "fio",
        "--name=read",
        f"--filename={device}",
        "--ioengine=io_uring",
        "--direct=1",
        "--rw=randread",
        f"--bs={BLOCK_BYTES}",
        f"--iodepth={DEPTH}",
        "--norandommap",
        "--fixedbufs",
        "--registerfiles",
        "--time_based",
        f"--runtime={SECONDS}",
        "--output-format=json",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    # Notes may stand before the JSON.
    (job,) = json.loads(done.stdout[done.stdout.index("{") :])["jobs"]
    return job["read"]["iops"], job["read"]["lat_ns"]["mean"]


def by_us(device: str, folder: Path, seed: int) -> Result:
    stimulus = Stimulus("random", ((BLOCK_BYTES, 1),), 100, 1, DEPTH)
    results: list[Measurement] = []

    class Keep:
        def step_done(self, _: Step, measurement: Measurement) -> None:
            results.append(measurement)

        def __getattr__(self, name: str) -> object:
            return lambda *_: None

    def spec() -> Generator[Step, Measurement | None, None]:
        yield Measure(stimulus, Stop(seconds=SECONDS), Label("round", 1, 100, BLOCK_BYTES))

    rig = open_rig(parse_target(device), SessionNeeds(1, DEPTH, BLOCK_BYTES, seed), Path(device).name)
    run = Run("iops", "enterprise", rig.dut, HostInfo(), {}, [], seed, {}, "2026-01-01T00:00:00+00:00")
    try:
        with RunFolder(folder, run) as opened:
            Driver(rig, opened, Keep(), gap_limit_ms=1.0).run(spec())
    finally:
        rig.close()
    (measurement,) = results
    assert measurement.art_ns is not None
    assert measurement.histogram.mean_ns == pytest.approx(measurement.art_ns, rel=0.002)  # the histogram's own error
    return measurement.iops, measurement.art_ns


def others_user_s() -> float:
    """CPU seconds of all programs but this one and its children, in user mode: what the kernel does, it does for us."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    ticks = sum(int(fields[field]) for field in (1, 2, 8))  # user, nice, steal
    own = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return ticks / os.sysconf("SC_CLK_TCK") - own


def spread(values: list[float]) -> tuple[float, float]:
    share = WIDENED_BY * statistics.mean(values)
    return min(values) - share, max(values) + share


def agree(first: list[float], second: list[float]) -> bool:
    (low, high), (other_low, other_high) = spread(first), spread(second)
    return low <= statistics.median(second) <= high and other_low <= statistics.median(first) <= other_high


def columns(results: list[Result]) -> tuple[list[float], list[float]]:
    return [iops for iops, _ in results], [latency_ns / 1e3 for _, latency_ns in results]


@pytest.mark.clause("5")
def test_iops_and_mean_latency_agree_with_fio(tmp_path: Path) -> None:
    if shutil.which("fio") is None:
        pytest.skip("fio is not installed: apt-get install fio")
    fio: list[Result] = []
    ours: list[Result] = []
    agreed = False
    # Past the page cache, so that the disk below sets the pace and not what either program costs.
    with loop_on(filled(tmp_path / "disk.img", 128 * MIB), "--direct-io=on") as device:
        try:
            by_fio(device)  # warms up the disk's own caches for both
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this fio has no io_uring: {error.stderr.strip().splitlines()[-1]}")
        began_s, others_s = time.monotonic(), others_user_s()
        while len(ours) < PAIRS or (not agreed and len(ours) < MOST_PAIRS):
            # In turns, and in turns which comes first: a drift of the machine meets both alike.
            ours_first = len(ours) % 2 == 1
            if ours_first:
                ours.append(by_us(device, tmp_path / f"{len(ours)}", len(ours)))
            fio.append(by_fio(device))
            if not ours_first:
                ours.append(by_us(device, tmp_path / f"{len(ours)}", len(ours)))
            agreed = all(agree(*pair) for pair in zip(columns(fio), columns(ours), strict=True))
    for what, theirs, own in zip(("IOPS", "mean latency, us"), columns(fio), columns(ours), strict=True):
        print(f"{what}: fio {', '.join(f'{v:.1f}' for v in theirs)}; flashgauge {', '.join(f'{v:.1f}' for v in own)}")
    busy = (others_user_s() - others_s) / (time.monotonic() - began_s)
    print(f"other programs used {busy:.2f} CPUs meanwhile")
    if not agreed and busy > BUSY_CPUS:
        pytest.skip(f"the two disagree, but other programs used {busy:.2f} CPUs: run again on a quiet machine")
    assert agreed
    for iops, latency_ns in ours:
        # Little's law, an answer neither program gave: what is outstanding is rate x time.
        assert iops * latency_ns / 1e9 == pytest.approx(DEPTH, rel=0.05)
