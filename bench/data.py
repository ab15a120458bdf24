"""What unique data, verifiable data and the log of every I/O cost, in CPU time of an I/O.

    python bench/data.py [file|loop|zram]

The I/O that it is compared with is a write to a file beside this program, or to a loop device on one or a zram device
(as root); all are made for this, and no other can be named. Times are the process's, user and system; figures are
medians of runs in turns.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from blockdevices import filled, loop_on, zram_of
from flashgauge._core import Session
from flashgauge.iolog import IoLogWriter
from flashgauge.steps import Stimulus, Stop

FILE_BYTES = 256 << 20
TRIES = 5
SECONDS = 1.0
DEPTH = 32


def random_writes(block: int) -> Stimulus:
    return Stimulus("random", ((block, 1),), 0, 1, DEPTH)


def written(target: str, block: int) -> Session:
    """Held alone where it is a device."""
    return Session.block(target, FILE_BYTES, 1, 1, DEPTH, block, Path(target).is_block_device())


def cpu_ns_per_io(session: Session, block: int, stop: Stop) -> float:
    before = _cpu_s()
    session.start(random_writes(block).to_json(), stop.to_json(), 10**9, True)
    while (raw := session.wait(1.0)) is None:
        pass
    session.idle(0.0)
    ios: int = raw["submitted_ios"] + raw["bridge_ios"]
    return (_cpu_s() - before) / ios * 1e9


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measured(make: Callable[[], Session], block: int, stop: Stop) -> float:
    with closing(make()) as session:
        cpu_ns_per_io(session, block, stop)  # fills the buffers
        return cpu_ns_per_io(session, block, stop)


def cost_of_data(target: str) -> dict[str, float]:
    """For each block size: the data's CPU time, plain and verifiable, and its share of a whole write's."""
    result: dict[str, float] = {}
    for block in (4096, 16_384, 131_072, 1 << 20):
        rows = [_costs(target, block) for _ in range(TRIES)]
        plain, sealed, whole = (median(column) for column in zip(*rows, strict=True))
        name = f"write_{block // 1024}k"
        result |= {
            f"{name}_cpu_ns": whole,
            f"{name}_data_cpu_ns": plain,
            f"{name}_verifiable_data_cpu_ns": sealed,
            f"{name}_data_percent_of_io": 100 * plain / whole,
        }
    return result


def _costs(target: str, block: int) -> tuple[float, float, float]:
    """CPU ns of the data, of verifiable data, and of a whole write."""
    ios = Stop(ios=max(3000, min(1_000_000, (2 << 30) // block)))
    limits = (1, DEPTH, block)
    bare = measured(lambda: Session.null(1 << 40, 1, 1, DEPTH), block, ios)
    plain = measured(lambda: Session.null_with_data(1 << 40, 1, limits, False), block, ios)
    sealed = measured(lambda: Session.null_with_data(1 << 40, 1, limits, True), block, ios)
    on_target = Stop(seconds=SECONDS)
    whole = measured(lambda: written(target, block), block, on_target)
    return plain - bare, sealed - bare, whole


def cost_of_the_log() -> dict[str, float]:
    """CPU time of a null I/O with and without the log, and what share of the rows was dropped at full speed."""
    bare, logged, dropped = [], [], []
    for _ in range(TRIES):
        ios = 3_000_000
        with closing(Session.null(1 << 40, 1, 1, DEPTH)) as session:
            bare.append(cpu_ns_per_io(session, 4096, Stop(ios=ios)))
        with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".bench-") as folder:
            before = _cpu_s()
            with closing(Session.null(1 << 40, 1, 1, DEPTH)) as session:
                writer = IoLogWriter(session.log_ios(), Path(folder) / "io-log")
                cpu_ns_per_io(session, 4096, Stop(ios=ios))
            result = writer.finish()
            logged.append((_cpu_s() - before) / ios * 1e9)
            dropped.append(100 * result.dropped / ios)
    return {
        "io_log_cpu_ns_per_io": median(logged) - median(bare),
        "io_log_dropped_percent_at_null_speed": median(dropped),
    }


def cost_of_the_log_to_ios(target: str) -> dict[str, float]:
    """IOPS of 4 KiB writes with the log on, relative to those without."""
    ratios = []
    for _ in range(TRIES):
        rates = []
        for logging in (False, True):
            with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".bench-") as folder:
                with closing(written(target, 4096)) as session:
                    writer = IoLogWriter(session.log_ios(), Path(folder) / "io-log") if logging else None
                    session.start(random_writes(4096).to_json(), Stop(seconds=SECONDS).to_json(), 10**9, True)
                    while (raw := session.wait(1.0)) is None:
                        pass
                    rates.append(raw["write"]["window_ios"] / SECONDS)
                if writer is not None:
                    writer.finish()
        ratios.append(rates[1] / rates[0])
    return {"io_log_iops_ratio_on_4k_writes": median(ratios)}


@contextmanager
def own_file() -> Iterator[str]:
    with tempfile.TemporaryDirectory(dir=Path(__file__).parent, prefix=".bench-") as folder:
        yield str(filled(Path(folder) / "disk.img", FILE_BYTES))


@contextmanager
def own_loop() -> Iterator[str]:
    with own_file() as file, loop_on(Path(file)) as device:
        yield device


TARGETS: dict[str, Callable[[], AbstractContextManager[str]]] = {
    "file": own_file,
    "loop": own_loop,
    "zram": lambda: zram_of(FILE_BYTES),
}


def data(kind: str) -> dict[str, float]:
    with TARGETS[kind]() as target:
        return cost_of_data(target) | cost_of_the_log() | cost_of_the_log_to_ios(target)


def main(arguments: list[str]) -> None:
    kind = arguments[0] if arguments else "file"
    if kind not in TARGETS or len(arguments) > 1:
        raise SystemExit(f"one of {', '.join(TARGETS)}; the target is made for this, and none can be named")
    began = time.monotonic()
    for name, value in data(kind).items():
        print(f"{name:44} {value:,.3g}")
    print(f"in {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main(sys.argv[1:])
