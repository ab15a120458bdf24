"""Measures what the plots of docs/simulated-drive.md show, and keeps it as small CSV files in docs/simulated-drive.

    .venv/bin/python docs/data.py [NAME...]      all, or those named; `make docs-data`

The first line of each file is the command that made it. Runs are those of `flashgauge run`, on drives of a twentieth
to a hundredth of the capacity, with minutes as much shorter: rates do not depend on the capacity, times do.
"""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from flashgauge import simulation
from flashgauge._core import Session, preset_description
from flashgauge.simulation import ssd
from flashgauge.steps import LbaGroup, Stimulus, Stop

FOLDER = Path(__file__).parent / "simulated-drive"
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
HIR_DRIVE = "sim:sata-enterprise?capacity=40GB&over_provisioning=0.07"
HIR = ("minute_s=12", "access_s=1", "waits_s=1, 2, 3, 5, 10", "wait_accesses=60", "baseline_accesses=120")
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


def disk_depth() -> None:
    rows: list[Iterable[object]] = []
    for policy in ("fifo", "elevator", "sptf"):
        for depth in (1, 2, 4, 8, 16, 32, 64):
            changes = {"queue_policy": policy, "queue_slots": 64, "queue_age_limit_ms": 0}
            session = Session.simulated("sas-hdd", json.dumps(changes), 1, 1, depth)
            iops = rate(session, Stimulus("random", ((4096, 1),), 100, 1, depth), Stop(ios=20_000))
            rows.append((policy, depth, f"{iops:.1f}"))
    keep("disk-depth", "docs/data.py disk-depth", ("policy", "queue_depth", "iops"), rows)


MEASURED: dict[str, Callable[[], None]] = {
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
