"""`make bench`: ratios measured side by side on this machine, one JSON line per run in bench/history.jsonl.

Figures of a shared machine drift by tens of percent within minutes; only the ratios of alternating runs mean
anything, and none of them is a gate.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

from flashgauge._core import Session
from flashgauge.steps import Stimulus, Stop

HISTORY = Path(__file__).parent / "history.jsonl"
FILE_BYTES = 256 << 20
SECONDS = 2.0
PAIRS = 5


def stimulus(read_percent: float, threads: int = 1, depth: int = 32) -> Stimulus:
    return Stimulus("random", ((4096, 1),), read_percent, threads, depth)


def timed(session: Session, step: Stimulus, stop: Stop) -> tuple[int, float]:
    """I/Os, and host seconds they took."""
    begin = time.perf_counter()
    session.start(step.to_json(), stop.to_json(), 1_000_000_000, True)
    while (raw := session.wait(1.0)) is None:
        pass
    return raw["read"]["window_ios"] + raw["write"]["window_ios"], time.perf_counter() - begin


def simulator() -> dict[str, float]:
    """Simulated 4 KiB I/Os per second of host time, after a sequential fill, on the full-size drive."""
    with closing(Session.simulated("sata-enterprise", "{}", 1, 4, 32)) as session:
        fill = Stimulus("sequential", ((128 * 1024, 1),), 0, 4, 32)
        timed(session, fill, Stop(bytes=session.range_bytes))
        rates = {}
        for read_percent in (0, 65, 100):
            ios, seconds = timed(session, stimulus(read_percent, 4), Stop(ios=5_000_000))
            rates[f"sim_4k_read{read_percent}_ios_per_s"] = ios / seconds
        return rates


def null_device() -> dict[str, float]:
    """Recorded I/Os per second of one thread on a device that costs nothing: the engine's own ceiling."""
    with closing(Session.null(1 << 40, 1, 1, 32)) as session:
        ios, seconds = timed(session, stimulus(65), Stop(ios=20_000_000))
        return {"null_ios_per_s": ios / seconds}


def fio_iops(path: Path) -> float:
    command = [
        "fio", "--name=b", f"--filename={path}", f"--size={FILE_BYTES}", "--rw=randread", "--bs=4k", "--iodepth=32",
        "--ioengine=io_uring", "--direct=1", "--norandommap", "--fixedbufs", "--registerfiles", "--time_based",
        f"--runtime={SECONDS:g}", "--output-format=json",
    ]  # fmt: skip
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return float(json.loads(out[out.index("{") :])["jobs"][0]["read"]["iops"])


def against_fio() -> dict[str, Any]:
    """4 KiB random reads, QD 32, one thread, on a file of this folder's filesystem, alternating with fio."""
    if shutil.which("fio") is None:
        return {"fio": "not installed"}
    with tempfile.NamedTemporaryFile(dir=Path(__file__).parent, prefix=".bench-") as file:
        path = Path(file.name)
        for _ in range(FILE_BYTES >> 20):
            file.write(bytes(1 << 20))
        file.flush()
        ours, theirs = [], []
        for _ in range(PAIRS):
            with closing(Session.block(str(path), FILE_BYTES, 1, 1, 32, 4096, False)) as session:
                ios, _ = timed(session, stimulus(100), Stop(seconds=SECONDS))
                ours.append(ios / SECONDS)
            theirs.append(fio_iops(path))
        ratios = [mine / other for mine, other in zip(ours, theirs, strict=True)]
        return {"iops": ours, "fio_iops": theirs, "iops_ratio_to_fio_median": median(ratios)}


def main() -> None:
    result = {"time": datetime.now(UTC).isoformat(timespec="seconds"), **simulator(), **null_device(), **against_fio()}
    with HISTORY.open("a") as file:
        file.write(json.dumps(result) + "\n")
    for name, value in result.items():
        print(f"{name:32} {value:,.3g}" if isinstance(value, float) else f"{name:32} {value}")


if __name__ == "__main__":
    main()
