"""Binding to the Rust core: sessions on a device under test, and latency histograms."""

from typing import Any, final

__all__ = [
    "DeviceError",
    "Histogram",
    "IoLogReader",
    "Session",
    "TargetError",
    "Verifier",
    "clock_ns",
    "preset_description",
    "preset_names",
    "preset_text",
    "write_histogram_log",
]

class TargetError(ValueError):
    """The target cannot be used as asked; the message names the cure."""

class DeviceError(OSError):
    """The device or the kernel interface failed while in use; `errno` is set."""

@final
class Histogram:
    """HDR histogram of latencies in nanoseconds, three significant digits (relative error <= 0.1 %)."""

    def __init__(self) -> None: ...
    def record(self, latency_ns: int, count: int = 1) -> None: ...
    def add(self, other: Histogram) -> None:
        """Merge `other` into this histogram, exactly."""

    def copy(self) -> Histogram: ...
    @property
    def count(self) -> int: ...
    @property
    def mean_ns(self) -> float: ...
    def quantile_ns(self, quantile: float) -> int:
        """Smallest recorded latency such that at least `quantile` (0..1) of all latencies are at or below it."""

    def buckets(self) -> list[tuple[int, int]]:
        """(highest equivalent latency in ns, count) of every non-empty bucket, ascending."""

    def encode(self) -> str:
        """Base64 of the HdrHistogram V2 deflate encoding."""

    @staticmethod
    def decode(text: str) -> Histogram: ...

@final
class Session:
    """Live threads (or a simulator) holding one device under test; steps run on it back to back."""

    @staticmethod
    def simulated(preset: str, overrides_json: str, seed: int, max_threads: int, max_queue_depth: int) -> Session:
        """Simulated drive in virtual time. `overrides_json`: JSON object of drive parameters to change.

        Raises TargetError for an unknown preset or a parameter out of range.
        """

    @staticmethod
    def block(
        path: str,
        range_bytes: int,
        seed: int,
        max_threads: int,
        max_queue_depth: int,
        max_block_bytes: int,
        exclusive: bool,
        verifiable: bool = False,
    ) -> Session:
        """Block device or regular file, opened O_DIRECT (O_EXCL when `exclusive`), driven through io_uring.
        `verifiable`: every sector written carries a stamp, which `verifier` or a `Verifier` can check.

        Raises TargetError (no O_DIRECT, no io_uring, too little locked memory) or DeviceError.
        """

    @staticmethod
    def null(range_bytes: int, seed: int, max_threads: int, max_queue_depth: int) -> Session:
        """A device that completes at once: measures the engine's own cost."""

    @staticmethod
    def null_with_data(range_bytes: int, seed: int, limits: tuple[int, int, int], verifiable: bool) -> Session:
        """The null device, with the data of writes made as for a real one: what that costs. `limits`: threads, queue
        depth, block bytes."""

    @staticmethod
    def nop(range_bytes: int, seed: int, max_threads: int, max_queue_depth: int) -> Session:
        """An io_uring whose requests do nothing: the most that this host's kernel and the engine issue together.

        Raises TargetError where there is no io_uring.
        """

    @property
    def range_bytes(self) -> int: ...
    @property
    def virtual_time(self) -> bool: ...
    @property
    def seed(self) -> int: ...
    def describe(self) -> str:
        """JSON object: what the device is (parameters of a simulated drive)."""

    def check(self, stimulus_json: str, stop_json: str) -> None:
        """Whether a step could run on this device. Raises ValueError (which TargetError is) with the reason."""

    def start(self, stimulus_json: str, stop_json: str, interval_ns: int, stop_on_error: bool) -> None:
        """Publish the next step; the threads go over to it without a pause. Returns at once."""

    def progress(self) -> tuple[int, int]:
        """(completed I/Os, elapsed ns on the device's clock) of the step under way."""

    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        """The step's raw measurement (fields of `flashgauge.measurement.Measurement`, histograms as `Histogram`),
        or None when `timeout_s` passed first. `conditions`: fields of `HostUsage` that the drive itself knows, or None.

        Releases the GIL. Raises KeyboardInterrupt on Ctrl-C and DeviceError when the device failed.
        """

    def idle(self, seconds: float) -> None:
        """Drain, then send the device nothing for `seconds` of its own clock."""

    def purge(self) -> None:
        """Simulated drive: return to fresh-out-of-the-box. Raises TargetError elsewhere."""

    def set_write_cache(self, enabled: bool) -> None:
        """Simulated drive: switch the volatile write cache. Raises TargetError elsewhere."""

    def trim(self, lba: int, range_bytes: int) -> None:
        """Simulated drive: the host needs the range from sector `lba` on no longer; its whole 4 KiB units are unmapped.

        Raises TargetError for a range beyond the end, and elsewhere.
        """

    def power_loss(self) -> None:
        """Simulated drive opened with track_data: after a drain, power is lost and comes back; what a volatile cache
        held is lost. Raises TargetError elsewhere."""

    def forget_written(self) -> None:
        """The device was purged: what was written before is not expected to be there any more."""

    def verifier(self) -> Verifier:
        """Reads back what this session, opened as verifiable, has written, and knows of each sector which write it
        must have (ranges up to 64 GiB; of larger ones not). Drains first. Raises TargetError and DeviceError."""

    def log_ios(self) -> IoLogReader:
        """From now on log every I/O; to be asked once, between steps, and the reader to be read. On a real device rows
        that find no room are dropped and counted; in virtual time the session waits for the reader."""

    def close(self) -> None:
        """Stop and drain all threads. Safe to call twice."""

@final
class IoLogReader:
    """Every I/O of a session, in batches; those of a thread are in order of completion."""

    @property
    def dropped(self) -> int:
        """Rows that found no room."""

    def take(self, timeout_s: float) -> dict[str, Any] | None:
        """The next batch, or None if there was none in `timeout_s`: `rows`, their number, and columns as little-endian
        bytes (`flashgauge.iolog.COLUMNS`). Releases the GIL. Raises EOFError after the last row of a closed session."""

@final
class Verifier:
    """Reads a device or file, past the page cache, and judges each sector by its stamp."""

    def __new__(cls, path: str, range_bytes: int, seed: int) -> Verifier:
        """Of a run that is over; nothing is written. Raises DeviceError."""

    @property
    def range_bytes(self) -> int: ...
    def verify(self, start_bytes: int, length_bytes: int) -> dict[str, int | None]:
        """Fields of `flashgauge.verification.Findings` for this part, as far as it lies in the range. Releases the GIL.
        Raises DeviceError when it cannot be read."""

def clock_ns() -> int:
    """Now, on the clock of real devices' measurements (`start_ns`)."""

def preset_description(name: str, overrides_json: str) -> str:
    """JSON object: `parameters` of the preset with `overrides_json` applied, and the flash `geometry` they give.

    Nothing is simulated and no memory taken. Raises TargetError for an unknown preset or a parameter out of range.
    """

def preset_names() -> list[str]: ...
def preset_text(name: str) -> str:
    """The preset's TOML text, with the source of each number. Raises TargetError when unknown."""

def write_histogram_log(path: str, entries: list[tuple[str, float, float, Histogram]]) -> None:
    """HdrHistogram V2 interval log: (tag, start seconds, duration seconds, histogram) per entry."""
