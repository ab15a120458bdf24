"""Measures what the plots and tables of docs/simulated-drive.md show, and keeps it as small CSV files beside it.

    .venv/bin/python docs/data.py [NAME...]      all, or those named; `make docs-data`

The first line of each file is the command that made it. Runs are those of `flashgauge run`, on drives of a twentieth
to a hundredth of the capacity, with minutes as much shorter: rates do not depend on the capacity, times do. What is
compared with published figures is measured by an example of the Rust core, on drives with blocks of full length.
The files published-*.csv hold what others have measured; nothing makes them again.
"""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flashgauge import simulation
from flashgauge._core import Session, preset_description
from flashgauge.simulation import ssd
from flashgauge.steps import LbaGroup, Stimulus, Stop

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "simulated-drive"
MOST_ROWS = 400
LOW_SPARE = "sim:sata-enterprise?capacity=4GB&over_provisioning=0.07"

# Name -> test, target, changed parameters, and the CSV of the run that is kept.
RUNS: dict[str, tuple[str, str, tuple[str, ...], str]] = {}
WSAT = ("minute_s=1.2", "round_spacing_minutes=100", "max_capacities=8")
RUNS["wsat-low-spare"] = ("wsat", LOW_SPARE, WSAT, "plot-10-3.csv")
RUNS["wsat"] = ("wsat", "sim:sata-enterprise?capacity=4GB", WSAT, "plot-10-3.csv")
XSR = ("minute_s=1.2", "group_1_minutes=60", "group_2_minutes=240", "group_3_minutes=120")
RUNS["xsr-two-frontiers"] = ("xsr", LOW_SPARE, XSR, "plot-12-2-mb_per_s.csv")
RUNS["xsr-one-frontier"] = ("xsr", f"{LOW_SPARE}&gc_frontiers=1", XSR, "plot-12-2-mb_per_s.csv")
# Settled: five rounds are twelve drive writes. Spare capacity for the standard's bursts of 5 s.
HIR_DRIVE = "sim:sata-enterprise?capacity=20GB&over_provisioning=0.07"
HIR = ("round_spacing_minutes=22", "wait_accesses=15", "baseline_accesses=20")
XSR_FINE = ("minute_s=0.25", "group_1_minutes=100", "group_2_minutes=400", "group_3_minutes=100")
RUNS["after-fill"] = (
    "xsr",
    "sim:sata-enterprise?capacity=4GB&over_provisioning=0.5",
    XSR_FINE,
    "plot-12-2-mb_per_s.csv",
)
IDLE = "idle_collect_after_ms=1&idle_collect_free_percent=90"
RUNS["hir-idle-collection"] = ("hir", f"{HIR_DRIVE}&{IDLE}", HIR, "plot-11-4-secondary.csv")
RUNS["hir-none"] = ("hir", HIR_DRIVE, HIR, "plot-11-4-secondary.csv")
DIRTH = (
    "minute_s=0.6",
    "round_spacing_minutes=20",
    "point_s=0.6",
    "prewrite_max_minutes=5",
    "final_prewrite_minutes=2",
    "histogram_s=1",
)
RUNS["dirth"] = ("dirth", "sim:sata-enterprise?capacity=2GB", DIRTH, "plot-14-8.csv")
LAT = ("point_s=2", "histogram_s=30")
LAT_DRIVE = "sim:sata-enterprise?capacity=4GB&over_provisioning=0.12"
RUNS["latency-paced"] = ("lat", LAT_DRIVE, LAT, "plot-9-4.csv")
RUNS["latency-line"] = ("lat", f"{LAT_DRIVE}&gc_pacing=line", LAT, "plot-9-4.csv")


def keep(name: str, command: str, head: Iterable[str], rows: list[Iterable[object]]) -> None:
    with (FOLDER / f"{name}.csv").open("w", newline="") as file:
        file.write(f"# {command}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(head)
        writer.writerows(rows)


def run(name: str) -> None:
    test, target, changes, kept = RUNS[name]
    options = [part for change in changes for part in ("--set", change)]
    arguments = ["run", test, target, *options]
    shown = " ".join(f"'{part}'" if any(sign in part for sign in "?& ") else part for part in arguments)
    with TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "flashgauge", *arguments, "--out", str(out)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        with (out / "csv" / kept).open() as file:
            head, *rows = csv.reader(file)
    step = -(-len(rows) // MOST_ROWS)
    keep(name, f"flashgauge {shown}: {kept}", head, [shorter(row) for row in rows[::step]])


def shorter(row: list[str]) -> list[str]:
    """Six digits are enough for a plot."""

    def cell(text: str) -> str:
        try:
            return f"{float(text):.6g}"
        except ValueError:
            return text

    return [cell(text) for text in row]


def rate(session: Session, stimulus: Stimulus, stop: Stop) -> float:
    session.start(stimulus.to_json(), stop.to_json(), 10**9, True)
    raw = session.wait(3600)
    assert raw is not None
    return float((raw["read"]["window_ios"] + raw["write"]["window_ios"]) * 1e9 / raw["window_ns"])


# Superblocks of 64 units, small enough to tell greedy from FIFO.
ONLY_PROGRAMS = {
    "capacity_bytes": 512_000_000,
    "dies": 4,
    "channels": 4,
    "planes": 1,
    "pages_per_block": 8,
    "read_us": 0.001,
    "erase_ms": 1e-6,
    "channel_mb_per_s": 1e9,
    "link_write_max_iops": 1e9,
    "link_write_mb_per_s": 1e9,
    "link_write_overhead_us": 0.0,
    "write_commands_per_map_page": 0,
    "controller_mb_per_s": 0.0,
    "controller_write_overhead_us": 0.0,
}


def amplified(changes: dict[str, Any], load: Stimulus) -> float:
    """Where programs are all that takes time, fresh rate / steady rate is the write amplification."""
    session = Session.simulated("sata-enterprise", json.dumps(changes), 1, 4, 32)
    units = session.range_bytes // 4096
    rate(session, load, Stop(ios=units // 16))  # The write buffer fills first; nothing is collected yet.
    fresh = rate(session, load, Stop(ios=units // 8))
    rate(session, Stimulus("sequential", ((1 << 17, 1),), 0, 1, 32), Stop(bytes=units // 32 * 32 * 4096))
    rate(session, load, Stop(ios=8 * units))
    return fresh / rate(session, load, Stop(ios=12 * units))


def amplification() -> None:
    rows: list[Iterable[object]] = []
    random = Stimulus("random", ((4096, 1),), 0, 4, 32)
    for policy in ("greedy", "fifo", "random", "d-choices"):
        for spare in (0.07, 0.12, 0.2, 0.28, 0.5):
            changes = {**ONLY_PROGRAMS, "gc_policy": policy, "gc_choices": 2, "over_provisioning": spare}
            measured = amplified(changes, random)
            limits = simulation.limits(json.loads(preset_description("sata-enterprise", json.dumps(changes))))
            alpha, theory = limits["effective_alpha"].value, limits["write_amplification"].value
            rows.append((policy, spare, f"{alpha:.5f}", f"{measured:.4f}", f"{theory:.4f}"))
    head = ("policy", "over_provisioning", "effective_alpha", "measured", "closed_form")
    keep("amplification", "docs/data.py amplification", head, rows)


def hot_cold() -> None:
    """A fifth of the units gets 80 % of the writes: mixed, and apart with different shares of the spare capacity."""
    rows: list[Iterable[object]] = []
    groups = (LbaGroup(0, 20, 80), LbaGroup(20, 100, 20))
    skewed = Stimulus("groups", ((4096, 1),), 0, 4, 32, groups=groups)
    for spare in (None, 20, 30, 40, 50, 60, 70, 80):
        apart = {} if spare is None else {"hot_percent": 20, "hot_spare_percent": spare}
        changes = {**ONLY_PROGRAMS, "gc_policy": "fifo", "over_provisioning": 0.07, **apart}
        measured = amplified(changes, skewed)
        closed = ""
        if spare is not None:
            parts = json.loads(preset_description("sata-enterprise", json.dumps(changes)))
            closed = f"{ssd.amplification_of_pools(parts['parameters'], parts['geometry'], 0.8)[0]:.4f}"
        rows.append((spare if spare is not None else "mixed", f"{measured:.4f}", closed))
    keep("hot-cold", "docs/data.py hot-cold", ("hot_spare_percent", "measured", "closed_form"), rows)


def slc() -> None:
    """Sequential writes, idle times of 2 and 8 s between them; a cache of as large a share as the preset's."""
    rows: list[Iterable[object]] = []
    for full in ("direct", "fold"):
        changes = {"capacity_bytes": 64_000_000_000, "slc_static_mib": 366, "slc_when_full": full}
        session = Session.simulated("nvme-client-slc", json.dumps(changes), 1, 1, 32)
        start_s = 0.0
        for gigabytes, idle_s in ((12, 2.0), (6, 8.0), (10, 0.0)):
            stimulus = Stimulus("sequential", ((1 << 17, 1),), 0, 1, 32)
            session.start(stimulus.to_json(), Stop(bytes=gigabytes * 10**9 // 131072 * 131072).to_json(), SLC_NS, True)
            raw = session.wait(600)
            assert raw is not None
            for number, written in enumerate(raw["intervals"]["write_bytes"][:-1]):
                rows.append((full, f"{start_s + (number + 0.5) * SLC_NS / 1e9:.3f}", f"{written / SLC_NS:.3f}"))
            start_s += raw["window_ns"] / 1e9 + idle_s
            session.idle(idle_s)
    keep("slc", "docs/data.py slc", ("when_full", "elapsed_s", "gb_per_s"), rows)


SLC_NS = 100_000_000


def passes() -> None:
    """Sequential passes over a drive in steady state of random writes: fresh rate / rate of each pass."""
    rows: list[Iterable[object]] = []
    for frontiers in (1, 2):
        changes = {**ONLY_PROGRAMS, "pages_per_block": 64, "over_provisioning": 0.07, "gc_frontiers": frontiers}
        session = Session.simulated("sata-enterprise", json.dumps(changes), 1, 4, 32)
        units = session.range_bytes // 4096
        over = Stimulus("sequential", ((1 << 17, 1),), 0, 1, 32), Stop(bytes=units // 32 * 32 * 4096)
        fresh = rate(session, *over)
        rate(session, Stimulus("random", ((4096, 1),), 0, 4, 32), Stop(ios=8 * units))
        rows += [(frontiers, number, f"{fresh / rate(session, *over):.3f}") for number in (1, 2, 3)]
    keep("passes", "docs/data.py passes", ("frontiers", "pass", "write_amplification"), rows)


def disk_depth() -> None:
    rows: list[Iterable[object]] = []
    for policy in ("fifo", "elevator", "sptf"):
        for depth in (1, 2, 4, 8, 16, 32, 64):
            changes = {"queue_policy": policy, "queue_slots": 64, "queue_age_limit_ms": 0}
            session = Session.simulated("sas-hdd", json.dumps(changes), 1, 1, depth)
            iops = rate(session, Stimulus("random", ((4096, 1),), 100, 1, depth), Stop(ios=20_000))
            rows.append((policy, depth, f"{iops:.1f}"))
    keep("disk-depth", "docs/data.py disk-depth", ("policy", "queue_depth", "iops"), rows)


# Threads and queue depth of the published rates, with caches off and on; and a plain disk in place of a hybrid one.
DISK_LOAD = (2, 16)
HYBRID = {"capacity_bytes": 500_107_862_016, "rpm": 7200.0, "seek_average_ms": 11.0, "seek_full_ms": 21.0}
HYBRID |= {"outer_sectors_per_track": 2000, "inner_sectors_per_track": 2000}
DISKS: dict[str, tuple[dict[str, Any], bool]] = {"disabled": ({}, False), "enabled": ({}, True)}
DISKS["7200 RPM"] = (HYBRID, False)


def disk_rates() -> None:
    rows: list[Iterable[object]] = []
    for name, (changes, cache) in DISKS.items():
        session = Session.simulated("sas-hdd", json.dumps(changes), 1, 2, 32)
        session.set_write_cache(cache)
        threads, depth = DISK_LOAD
        for metric, read in (("fob_rnd4k_w", 0), ("rnd4k_w", 0), ("rnd4k_rw65", 65), ("rnd4k_r", 100)):
            iops = rate(session, Stimulus("random", ((4096, 1),), read, threads, depth), Stop(ios=20_000))
            rows.append((name, metric, f"{iops:.1f}"))
        for metric, read in (("seq1024k_w_mbs", 0), ("seq1024k_r_mbs", 100)):
            iops = rate(session, Stimulus("sequential", ((1 << 20, 1),), read, 1, 32), Stop(ios=4_000))
            rows.append((name, metric, f"{iops * 1.048576:.1f}"))
        session.start(Stimulus("random", ((4096, 1),), 0, 1, 1).to_json(), Stop(ios=20_000).to_json(), 10**9, True)
        raw = session.wait(3600)
        assert raw is not None
        rows.append((name, "lat_rnd4k_w_avg_ms", f"{raw['write']['histogram'].mean_ns / 1e6:.3f}"))
    keep("sas-hdd-rates", "docs/data.py sas-hdd", ("drive", "metric", "value"), rows)


# Preset -> capacity, threads, queue depth, seconds for each figure, and whether the matrix of IOPS is measured.
CALIBRATED: dict[str, tuple[str, int, int, int, bool]] = {
    "sata-client": ("blocks", 2, 16, 20, False),
    "sata-client-512": ("blocks", 2, 16, 10, False),
    "sata-enterprise": ("200049647616", 32, 1, 10, True),
    "sata-enterprise-emlc": ("blocks", 4, 32, 5, False),
    "nvme-enterprise": ("48000000000", 8, 32, 5, True),
    "nvme-enterprise-700": ("blocks", 4, 32, 5, False),
    "pcie-card": ("blocks", 4, 32, 5, False),
}


def calibrated(preset: str) -> str:
    """What the example prints of it."""
    capacity, threads, depth, seconds, matrix = CALIBRATED[preset]
    options = [preset, capacity, str(threads), str(depth), str(seconds), *(["matrix"] if matrix else [])]
    command = ["cargo", "run", "--release", "--locked", "--quiet", "--example", "sim_calibrate", "--", *options]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return f"{' '.join(command)}\n{made.stdout}"


def compare(preset: str) -> None:
    """Rates and latencies; the matrix cell by cell beside what is published."""
    command, *lines = calibrated(preset).splitlines()
    head = next((i for i, line in enumerate(lines) if line.startswith("rw_mix")), len(lines))
    rates = [line.split(",") for line in lines[1:head]]
    keep(f"{preset}-rates", command, ("metric", "value"), rates)
    if head == len(lines):
        return
    with (FOLDER / "published-iops.csv").open() as file:
        file.readline()
        published = {(r["drive"], r["rw_mix"], r["block_kib"]): r["iops"] for r in csv.DictReader(file)}
    sizes = lines[head].split(",")[1:]
    rows: list[Iterable[object]] = []
    for line in lines[head + 1 :]:
        mix, *values = line.split(",")
        rows += [(mix, kib, v, published[preset, mix, kib]) for kib, v in zip(sizes, values, strict=True)]
    keep(f"{preset}-iops", command, ("rw_mix", "block_kib", "simulated_iops", "published_iops"), rows)


def theory() -> None:
    """Deviations from closed forms in the full matrix of cases; the tests print them. Takes many minutes."""
    command = ["cargo", "test", "--release", "--locked", "--quiet", "--test", "simdrive_theory", "--"]
    command += ["amplif", "--include-ignored", "--nocapture", "--test-threads", "1"]
    made = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    found = re.findall(r"^(\w+) d (\d+): (\d+) cases, median ([\d.]+), most ([-+][\d.]+)$", made.stdout, re.MULTILINE)
    rows = [
        (policy, d, cases, f"{100 * float(median):.3f}", f"{100 * float(most):+.3f}")
        for policy, d, cases, median, most in found
    ]
    keep("theory", " ".join(command), ("policy", "choices", "cases", "median_percent", "most_percent"), rows)


MEASURED: dict[str, Callable[[], None]] = {
    "passes": passes,
    "sas-hdd": disk_rates,
    **{preset: partial(compare, preset) for preset in CALIBRATED},
    "theory": theory,
    "amplification": amplification,
    "hot-cold": hot_cold,
    "slc": slc,
    "disk-depth": disk_depth,
}


def main() -> None:
    for name in sys.argv[1:] or [*RUNS, *MEASURED]:
        print(name, flush=True)
        if name in MEASURED:
            MEASURED[name]()
        else:
            run(name)


if __name__ == "__main__":
    main()
