"""`make bench`: ratios measured side by side on this machine, one JSON line per run in bench/history.jsonl.

Figures of a shared machine drift by tens of percent within minutes; only the ratios of alternating runs mean
anything, and none of them is a gate. Simulated cases count the processor's time, of one core.
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
TRIES = 5
GIB = 1 << 30
# Drive writes of random writes at OP 7 % until their rate changes no more: ln(40 / 0.07).
TO_STEADY = 7
SEQUENTIAL = Stimulus("sequential", ((1 << 20, 1),), 0, 1, 32)

# I/Os per second of MQSim, the academic reference, measured on a machine of this kind: 4 GiB, OP 28 %, greedy.
MQSIM_WRITES = 57_000
MQSIM_READS = 147_000


def stimulus(read_percent: float, threads: int = 1, depth: int = 32) -> Stimulus:
    return Stimulus("random", ((4096, 1),), read_percent, threads, depth)


def timed(session: Session, step: Stimulus, stop: Stop) -> tuple[int, float]:
    """I/Os, and seconds they took: in virtual time the processor's, which no other work on the machine stretches."""
    clock = time.process_time if session.virtual_time else time.perf_counter
    begin = clock()
    session.start(step.to_json(), stop.to_json(), 1_000_000_000, True)
    while (raw := session.wait(1.0)) is None:
        pass
    return raw["read"]["window_ios"] + raw["write"]["window_ios"], clock() - begin


def simulated(preset: str = "sata-enterprise", **overrides: float) -> Session:
    return Session.simulated(preset, json.dumps(overrides), 1, 4, 32)


def fill(session: Session, random_drive_writes: int = 0) -> None:
    timed(session, SEQUENTIAL, Stop(bytes=session.range_bytes // 512 * 512))
    if random_drive_writes > 0:
        timed(session, stimulus(0, 4), Stop(ios=random_drive_writes * session.range_bytes // 4096))


def rate(session: Session, step: Stimulus, ios: int) -> float:
    """I/Os per second, the median of several tries."""
    tries = (timed(session, step, Stop(ios=ios)) for _ in range(TRIES))
    return median(count / seconds for count, seconds in tries)


def simulator() -> dict[str, float]:
    """On the full-size drive: I/Os per second, and bytes written in sequence."""
    with closing(simulated()) as session:
        fill(session)
        result = {f"sim_4k_read{read}_ios_per_s": rate(session, stimulus(read, 4), 2_000_000) for read in (100, 65)}
    with closing(simulated()) as session:
        fill(session)
        result["sim_seq_write_bytes_per_s"] = rate(session, SEQUENTIAL, 200_000) * (1 << 20)
    return result


def steady_writes() -> dict[str, float]:
    """4 KiB random writes in steady state at OP 7 %, also on a small and a large drive; reads there."""
    result = {}
    with closing(simulated(capacity_bytes=64 * GIB, over_provisioning=0.07)) as session:
        fill(session, TO_STEADY)
        result["sim_steady_64gib_op7_ios_per_s"] = rate(session, stimulus(0, 4), 4_000_000)
        result["sim_64gib_op7_read_ios_per_s"] = rate(session, stimulus(100, 4), 4_000_000)
        result["sim_seq_write_after_random_bytes_per_s"] = rate(session, SEQUENTIAL, 4_000) * (1 << 20)
    before = resident_bytes()
    with (
        closing(simulated(capacity_bytes=256 * GIB, over_provisioning=0.07)) as large,
        closing(simulated(capacity_bytes=8 * GIB, over_provisioning=0.07)) as small,
    ):
        result["sim_bytes_per_4k_page"] = (resident_bytes() - before) / (264 * GIB / 4096)
        fill(large, TO_STEADY)
        fill(small, TO_STEADY)
        pairs = [[rate(session, stimulus(0, 4), 1_000_000) for session in (small, large)] for _ in range(TRIES)]
        result["sim_cost_256gib_to_8gib"] = median(of_small / of_large for of_small, of_large in pairs)
    return result


def against_mqsim() -> dict[str, float]:
    """The cases that MQSim was timed with: 4 GiB, OP 28 %, greedy."""
    with closing(simulated(capacity_bytes=4 * GIB, over_provisioning=0.28)) as session:
        fill(session, 4)
        writes, reads = (rate(session, stimulus(read, 4), 4_000_000) for read in (0, 100))
    return {
        "sim_4gib_op28_write_ios_per_s": writes,
        "sim_4gib_op28_read_ios_per_s": reads,
        "sim_write_ratio_to_mqsim": writes / MQSIM_WRITES,
        "sim_read_ratio_to_mqsim": reads / MQSIM_READS,
    }


def resident_bytes() -> int:
    text = Path("/proc/self/status").read_text()
    return 1024 * int(text.split("VmRSS:")[1].split()[0])


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
    result: dict[str, Any] = {"time": datetime.now(UTC).isoformat(timespec="seconds")}
    for part in (simulator, steady_writes, against_mqsim, null_device, against_fio):
        result |= part()
    with HISTORY.open("a") as file:
        file.write(json.dumps(result) + "\n")
    for name, value in result.items():
        print(f"{name:40} {value:,.3g}" if isinstance(value, float) else f"{name:40} {value}")


if __name__ == "__main__":
    main()
