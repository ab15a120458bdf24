"""The log of every I/O (`run --io-log`): Parquet files in the run folder's io-log/, written while the run goes.

Each file is whole when it gets its name, so that a run that is killed leaves all but its last second. In memory are at
most the batches that wait (48 MiB) and the file being made. `read_io_log` reads them all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic
from typing import Any

import polars as pl

from flashgauge._core import IoLogReader, Session
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.runfolder import RunFolder, sync_folder

FOLDER = "io-log"
# `step`: number of the journal's line, from 1; 0: the I/O belongs to no step, it kept the device loaded between two.
# `thread`: from 0. `lba`: of 512 bytes. Times are of the device's clock; `intended_ns` is `submitted_ns` in a closed
# loop. `errno`: 0 for an I/O that succeeded.
COLUMNS: dict[str, type[pl.DataType]] = {
    "step": pl.UInt32,
    "thread": pl.UInt16,
    "write": pl.UInt8,
    "lba": pl.UInt64,
    "bytes": pl.UInt32,
    "intended_ns": pl.UInt64,
    "submitted_ns": pl.UInt64,
    "completed_ns": pl.UInt64,
    "errno": pl.UInt16,
}
ROWS_PER_FILE = 1_000_000
SECONDS_PER_FILE = 1.0
_TAKE_S = 0.1


@dataclass(frozen=True)
class IoLogResult:
    """For run.json. `dropped`: rows that are missing, because they came faster than they could be written."""

    rows: int
    files: int
    dropped: int
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class IoLogWriter:
    """Takes rows from a session until that is closed, on a thread of its own."""

    def __init__(self, reader: IoLogReader, folder: Path) -> None:
        """Makes `folder`. Raises OSError."""
        folder.mkdir()
        self._reader = reader
        self._folder = folder
        self._waiting: list[dict[str, Any]] = []
        self._rows = self._files = self._lost = 0
        self._error: str | None = None
        self._thread = threading.Thread(target=self._run, name="io-log", daemon=True)
        self._thread.start()

    def finish(self) -> IoLogResult:
        """Wait until the last row is on disk. The session must be closed."""
        self._thread.join()
        return IoLogResult(self._rows, self._files, self._reader.dropped + self._lost, self._error)

    def _run(self) -> None:
        began = monotonic()
        while True:
            try:
                batch = self._reader.take(_TAKE_S)
            except EOFError:
                self._write()
                return
            except MemoryError as error:  # The batch is gone, nobody knows how long it was.
                self._error = _told(error)
                continue
            if batch is not None:
                if not self._waiting:
                    began = monotonic()
                self._waiting.append(batch)
            rows = sum(batch["rows"] for batch in self._waiting)
            if rows >= ROWS_PER_FILE or (rows and monotonic() - began > SECONDS_PER_FILE):
                self._write()

    def _write(self) -> None:
        """One file of all that waits. After an error of any kind rows are taken and counted on: a simulated drive waits
        for room, and would for ever."""
        waiting, self._waiting = self._waiting, []
        rows = sum(batch["rows"] for batch in waiting)
        if not rows:
            return
        if self._error is None:
            try:
                self._write_file(pl.concat([_frame(batch) for batch in waiting]))
            except (Exception, pl.exceptions.PanicException) as error:
                self._error = _told(error)
        if self._error is not None:
            self._lost += rows
            return
        self._rows += rows
        self._files += 1

    def _write_file(self, frame: pl.DataFrame) -> None:
        path = self._folder / f"{self._files + 1:06d}.parquet"
        new = path.with_suffix(".new")
        try:
            with new.open("wb") as file:
                frame.write_parquet(file, compression="lz4")
                file.flush()
                os.fsync(file.fileno())
            new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        sync_folder(self._folder)


def _told(error: BaseException) -> str:
    """One line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")


def _frame(batch: dict[str, Any]) -> pl.DataFrame:
    """A batch's columns, from their bytes."""
    rows = batch["rows"]

    def column(name: str, kind: type[pl.DataType]) -> pl.Series:
        return pl.Series(name, [batch[name]]).bin.reinterpret(dtype=pl.Array(kind, rows)).explode()

    return pl.DataFrame([column(name, kind) for name, kind in COLUMNS.items()])


@contextmanager
def logging_ios(session: Session, folder: RunFolder, wanted: bool) -> Iterator[None]:
    """Log every I/O meanwhile, if that is `wanted`, and write down in run.json what came of it. Closes the session."""
    if not wanted:
        yield
        return
    writer = IoLogWriter(session.log_ios(), folder.path / FOLDER)
    try:
        yield
    finally:
        session.close()
        result = writer.finish()
        folder.update(io_log=result.to_json())
        if result.dropped or result.error:
            folder.disclose(_incomplete(result))


def _incomplete(result: IoLogResult) -> Disclosure:
    why = f"it could not be written ({result.error})" if result.error else "it was not written as fast as I/Os came"
    return Disclosure(
        Kind.IO_LOG_INCOMPLETE,
        "6",
        f"the I/O log lacks {result.dropped:,} of {result.rows + result.dropped:,} I/Os: {why}; all results count them",
        "put the run folder on a faster disk with more space, or leave out --io-log",
    )


def read_io_log(run: Path) -> pl.LazyFrame:
    """The I/O log of a run, also of one that was killed; columns as in `COLUMNS`. Raises FileNotFoundError."""
    paths = sorted((run / FOLDER).glob("*.parquet"))
    if not paths:
        raise FileNotFoundError(f"{run}: no I/O log; make one with: flashgauge run --io-log")
    return pl.scan_parquet(paths)
