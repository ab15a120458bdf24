"""What a run changes in a drive and has to put back, whatever ends it: the write cache, a temporary ATA password.

A record on disk says how the drive was found; it is there before the first change, and gone when all is put back. A
guardian process (guardian.py) holds the other end of a pipe: when the run ends, in whatever way, the pipe closes, and
the guardian puts back what the record names. A run that ends well does nothing else; it only waits for the guardian.
If the machine crashes, the record stays, and the next run on that drive puts things back first (`overdue`).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import IO

from flashgauge._core import DeviceError
from flashgauge.rig import identify, writecache
from flashgauge.rig.ata import Ata, is_ata
from flashgauge.rig.identify import BlockDevice, Identity, Roots
from flashgauge.runfolder import sync_folder

PASSWORD = "flashgauge"  # known and documented, so that a drive left locked can be opened by hand
FINISH_S = 180.0
RETRY_S = 2.0
GONE = 2  # exit code of the guardian


@dataclass(frozen=True)
class Record:
    """How a drive was found. `write_cache`, `kernel_cache`: None when not changed. `password`: one may be set, for at
    most `password_s` seconds of erasing. `roots`: where the kernel's trees were."""

    path: str
    serial: str | None
    wwid: str | None
    diskseq: str | None
    write_cache: bool | None = None
    kernel_cache: str | None = None
    password: bool = False
    password_s: float = 0.0
    error: str | None = None
    roots: dict[str, str] = field(default_factory=dict)

    def is_of(self, identity: Identity) -> bool:
        """Whether it is the same drive; without a serial and a WWID, the same attachment of a disk."""
        if self.serial is None and self.wwid is None:
            return self.diskseq is not None and self.diskseq == identity.diskseq
        return (self.serial, self.wwid) == (identity.serial, identity.wwid)


def state_folder() -> Path:
    """Where records are: /var/lib/flashgauge for root. FLASHGAUGE_STATE names another folder."""
    if named := os.environ.get("FLASHGAUGE_STATE"):
        return Path(named)
    if os.geteuid() == 0:
        return Path("/var/lib/flashgauge")
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state") / "flashgauge"


def record_file(identity: Identity) -> Path:
    name = "-".join(filter(None, (identity.serial, identity.wwid))) or f"disk-{identity.diskseq}"
    return state_folder() / f"{re.sub(r'[^A-Za-z0-9._-]+', '_', name)}.json"


def records() -> list[Path]:
    """Records of drives that have not been put back: of runs under way, or of runs that ended with the machine."""
    return sorted(state_folder().glob("*.json"))


def read_record(file: Path) -> Record | None:
    """None when it is gone. Raises DeviceError when it cannot be read."""
    try:
        return Record(**json.loads(file.read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        raise DeviceError(errno.EIO, f"{file}: {error}; see what it says, put the drive in order, remove it") from error


def write_record(file: Path, record: Record) -> None:
    """Raises OSError."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_suffix(".new")
    with temporary.open("w") as stream:
        json.dump(asdict(record), stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    temporary.replace(file)
    sync_folder(file.parent)


class Keeper:
    """Keeps note of one drive for one run."""

    def __init__(self, device: BlockDevice, identity: Identity) -> None:
        self._file = record_file(identity)
        roots = {name: str(path) for name, path in vars(device.roots).items()}
        self._record = Record(device.path, identity.serial, identity.wwid, identity.diskseq, roots=roots)
        self._guardian: subprocess.Popen[bytes] | None = None

    def note_cache(self, enabled: bool, kernel_cache: str | None) -> None:
        """The cache is about to be changed; it was so. Only the first such note of a run counts.

        Raises DeviceError when the record or the guardian cannot be had: then nothing may be changed.
        """
        if self._record.write_cache is None:
            self._note(replace(self._record, write_cache=enabled, kernel_cache=kernel_cache))

    def note_password(self, set_now: bool, erase_s: float = 0.0) -> None:
        """A password is about to be set, or is known to be gone. Raises DeviceError."""
        self._note(replace(self._record, password=set_now, password_s=erase_s))

    def _note(self, record: Record) -> None:
        try:
            write_record(self._file, record)
            if self._guardian is None:
                self._guardian = _start_guardian(self._file)
        except OSError as error:
            raise DeviceError(error.errno or errno.EIO, f"{self._file}: {error.strerror or error}") from error
        self._record = record

    def release(self) -> str | None:
        """Everything is put back, by the guardian; returns why not, or None. Safe to call twice.

        A drive that is gone is no reason: it has lost its settings with its power, and its record is kept in case not.
        """
        guardian, self._guardian = self._guardian, None
        if guardian is None:
            return None
        assert guardian.stdin is not None and guardian.stdout is not None, "both are pipes"
        guardian.stdin.close()
        try:
            guardian.wait(FINISH_S + self._record.password_s)
        except subprocess.TimeoutExpired:
            return f"process {guardian.pid} still tries to put the drive back; {self._file} says what"
        with guardian.stdout as said:
            told = said.read().decode(errors="replace").strip()
        if guardian.returncode in {0, GONE}:
            return None
        if guardian.returncode > 0:
            return told or f"the drive was not put back; {self._file} says what"
        try:  # somebody has killed the guardian
            put_back_file(self._file)
        except OSError as error:
            return str(error.strerror or error)
        return None


def _start_guardian(file: Path) -> subprocess.Popen[bytes]:
    """A process of its own session that a closing terminal does not reach. Returns when it is ready. Raises OSError."""
    guardian = subprocess.Popen(
        [sys.executable, "-P", "-m", "flashgauge.rig.guardian", str(file)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        cwd="/",
    )
    assert guardian.stdout is not None
    # It says so when it is ready; when it cannot be, it ends, and nothing is read.
    if guardian.stdout.readline() != b"ready\n":
        guardian.kill()
        guardian.wait()
        raise DeviceError(errno.ECHILD, "the process that puts the drive back after a crash does not start")
    return guardian


@contextmanager
def locked(file: Path, limit_s: float = FINISH_S) -> Iterator[None]:
    """Nobody else works by this record. Raises DeviceError when somebody still does after `limit_s`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        _lock(lock, file, limit_s)
        yield


def _lock(lock: IO[str], file: Path, limit_s: float) -> None:
    until_s = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > until_s:
                message = f"{file}: another process is still putting the drive back; wait for it"
                raise DeviceError(errno.EBUSY, message) from None
            time.sleep(0.1)


def left_over() -> list[str]:
    """Drives that a run has left changed which ended with its machine, each in a sentence. Only reads."""
    told = []
    for file in records():
        try:
            lock = file.with_suffix(".lock")
            if lock.exists():
                with lock.open() as held:
                    fcntl.flock(held, fcntl.LOCK_SH | fcntl.LOCK_NB)
            record = read_record(file)
        except BlockingIOError:
            continue  # a run is under way, or its guardian is at work
        except OSError as error:
            told.append(str(error.strerror or error))
            continue
        if record is not None:
            what = " and ".join(
                text
                for text, left in (
                    ("its write cache changed", record.write_cache is not None),
                    ("a password", record.password),
                )
                if left
            )
            told.append(
                f"{record.path}, serial {record.serial}: left with {what} by a run that ended with its machine; "
                "the next run or resume on it puts that right first"
            )
    return told


def overdue(device: BlockDevice, identity: Identity) -> str | None:
    """Put back what a run has left that ended with its machine. Returns what was done, or None.

    To be called with the drive held exclusively: no other run then has it. A guardian that is still at work is waited
    for. Raises DeviceError.
    """
    file = record_file(identity)
    if not file.exists():
        return None
    with locked(file):
        return put_back_file(file, device)


def put_back_file(file: Path, device: BlockDevice | None = None) -> str | None:
    """Put the drive of the record back, and remove the record. Returns what was done; None when nothing was to be.

    `device`: the drive, when it is known. Raises DeviceError; the record then stays, with the reason.
    """
    record = read_record(file)
    if record is None:
        return None
    try:
        done = put_back(record, device or _located(record))
    except DeviceError as error:
        write_record(file, replace(record, error=str(error.strerror or error)))
        raise
    file.unlink(missing_ok=True)
    return done


def _located(record: Record) -> BlockDevice:
    """The record's drive, also under another name. Raises DeviceError when it is not there."""
    roots = Roots(**{name: Path(path) for name, path in record.roots.items()})
    for folder in identify.folders_by_number(roots).values():
        path = str(roots.dev / identify.kernel_name(folder))
        device = BlockDevice(path, path, folder, roots)
        if not device.is_partition and record.is_of(identify.identity(device)):
            return device
    raise DeviceError(
        errno.ENODEV,
        f"the drive with serial {record.serial} is gone, and was not put back; a power cycle resets its write cache",
    )


def put_back(record: Record, device: BlockDevice) -> str | None:
    """Password first: a locked drive takes no other setting. Returns what was changed. Raises DeviceError."""
    done = []
    if record.password and is_ata(device) and clear_password(device, record.password_s):
        done.append("the temporary ATA password was cleared")
    if record.write_cache is not None:
        cache = writecache.cache_of(device)
        if cache is not None and cache.read() != record.write_cache:
            cache.set(record.write_cache)
            if cache.read() != record.write_cache:
                raise DeviceError(errno.EIO, f"{device.path}: its write cache cannot be put back; power-cycle it")
            done.append(f"the write cache was {'en' if record.write_cache else 'dis'}abled again")
        if record.kernel_cache is not None and writecache.kernel_view(device) != record.kernel_cache:
            writecache.set_kernel_view(device, record.kernel_cache)
    return "; ".join(done) or None


def clear_password(device: BlockDevice, limit_s: float) -> bool:
    """Disable the security that an erase of ours has enabled; whether there was a need. An erase that goes on is
    waited for, `limit_s` at most. Raises DeviceError, with the command to do it by hand."""
    drive = Ata(device)
    until_s = time.monotonic() + limit_s
    tried = False
    while True:
        try:
            if not drive.security().enabled:
                return tried
            tried = True
            drive.disable_security(PASSWORD)
            if not drive.security().enabled:
                return True
            reason = "it did not obey"
        except DeviceError as error:
            reason = str(error.strerror or error)
        if time.monotonic() > until_s:
            command = f"hdparm --user-master u --security-disable {PASSWORD} {drive.path}"
            raise DeviceError(errno.EACCES, f"{device.path}: its password is still set ({reason}): {command}")
        time.sleep(RETRY_S)
