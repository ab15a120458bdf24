"""What a run changes in a drive and has to put back, whatever ends it: the write cache, a temporary ATA password.

A record on disk (records.py) says how the drive was found; it is there before the first change, and gone when all is
put back. A guardian process (guardian.py) holds the other end of a pipe: when the run ends, in whatever way, the pipe
closes, and the guardian puts back what the record names. A command that changes the drive keeps the pipe open too: it
goes on when its run is killed, and would change what was just put back. A run that ends well does nothing else; it
only waits for the guardian. If the machine crashes, the record stays, and the next run on that drive puts things back
first (`overdue`).
"""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

from flashgauge._core import DeviceError
from flashgauge.rig import underway, writecache
from flashgauge.rig.ata import Ata, is_ata
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.records import (
    FINISH_S,
    PASSWORD,
    Record,
    Tell,
    all_records,
    drive_of,
    is_held,
    is_provable,
    locked,
    new_record,
    read_record,
    record_file,
    records_of,
    silent,
    wait_for_command,
    write_record,
)

RETRY_S = 2.0
GONE = 2  # exit code of the guardian


class Keeper:
    """Keeps note of one drive for one run."""

    def __init__(self, device: BlockDevice) -> None:
        self._file = record_file(device)
        self._record = new_record(device)
        self._guardian: subprocess.Popen[bytes] | None = None
        self._left = False

    def note_cache(self, enabled: bool, kernel_cache: str | None) -> int:
        """The cache is about to be changed; it was so. Only the first such note of a run counts. Returns what the
        command that changes it has to keep open: the guardian does nothing before its end.

        Raises DeviceError when the record or the guardian cannot be had: then nothing may be changed.
        """
        if self._record.write_cache is None:
            self._note(replace(self._record, write_cache=enabled, kernel_cache=kernel_cache))
        return self._pipe()

    def note_password(self, set_now: bool, erase_s: float = 0.0) -> int:
        """A password is about to be set, or is known to be gone. Returns what the commands that set it and erase have
        to keep open. Raises DeviceError."""
        self._note(replace(self._record, password=set_now, password_s=erase_s))
        return self._pipe()

    def _pipe(self) -> int:
        assert self._guardian is not None and self._guardian.stdin is not None, "a note starts it"
        return self._guardian.stdin.fileno()

    def leave(self) -> None:
        """The guardian is not to be waited for: the operator has no patience."""
        self._left = True

    def _note(self, record: Record) -> None:
        if not is_provable(record):
            text = "nothing tells it from another drive (no serial, no WWID, no disk number): it is left as it is"
            raise DeviceError(errno.ENOTSUP, f"{record.path}: {text}")
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
        if self._left:
            guardian.stdout.close()
            return f"process {guardian.pid} puts the drive back when that takes commands again; {self._file} says what"
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


def left_over() -> list[str]:
    """Drives that a run has left changed which ended with its machine, each in a sentence. Only reads."""
    told = []
    for file in all_records():
        try:
            if is_held(file.with_suffix(".lock")):
                continue  # a run is under way, or its guardian is at work
            record = read_record(file)
        except OSError as error:
            told.append(str(error.strerror or error))
            continue
        if record is not None and not record.is_empty:
            told.append(_left_text(record, file))
    return told


def _left_text(record: Record, file: Path) -> str:
    changed = {"its write cache changed": record.write_cache is not None, "a password": record.password}
    what = " and ".join(text for text, left in changed.items() if left)
    left = f"{record.path}, serial {record.serial}: left with {what} by a run that ended with its machine"
    if record.nameless:
        # After a restart nothing tells which drive it was.
        return f"{left}; it has no serial and no WWID to be known by: put it back by hand: {record.by_hand(file)}"
    return f"{left}; the next run or resume on it puts that right first"


def overdue(device: BlockDevice, tell: Tell = silent) -> str | None:
    """Put back what a run has left that ended with its machine. Returns what was done, or None.

    To be called with the drive held exclusively: no other run then has it. A guardian that is still at work is waited
    for. Raises DeviceError, also when the record may be of this drive or of a twin.
    """
    done = []
    for file, record in records_of(device):
        if all(found.disk != device.disk for found in drive_of(record, file)):
            continue  # a twin's, as the kernel knows
        with locked(file, FINISH_S + record.password_s, tell):
            done.append(put_back_file(file, device))
    return "; ".join(filter(None, done)) or None


def put_back_file(file: Path, device: BlockDevice | None = None) -> str | None:
    """Put the drive of the record back, and remove the record when all of it is. Returns what was done; None when
    nothing was to be.

    `device`: the drive, when it is known. Raises DeviceError; the record then has what is left to do, and the reason.
    """
    record = read_record(file)
    if record is None:
        return None
    done = []
    try:
        device = device or _located(record, file)
        # A drive that formats itself takes no other command, and one that ran out of time would reset it.
        wait_for_command(device)
        _wait_for_purge(device)
        # Password first: a locked drive takes no other setting.
        for part in (_clear_password, _restore_cache, _restore_kernel_view):
            record, text = part(record, device, file)
            done += [text] if text else []
    except DeviceError as error:
        write_record(file, replace(record, error=str(error.strerror or error)))
        raise
    file.unlink(missing_ok=True)
    return "; ".join(done) or None


def _wait_for_purge(device: BlockDevice) -> None:
    """A drive at work takes no setting. One that does not answer is left to what follows, which then says why."""
    try:
        underway.wait_for_earlier(device, silent)
    except DeviceError as error:
        if error.errno == errno.ETIMEDOUT:
            raise


def _located(record: Record, file: Path) -> BlockDevice:
    """The record's drive, also under another name. Raises DeviceError when it is not there."""
    for device in drive_of(record, file):
        return device
    raise DeviceError(
        errno.ENODEV,
        f"the drive with serial {record.serial} is gone, and was not put back; a power cycle resets its write cache",
    )


def _clear_password(record: Record, device: BlockDevice, file: Path) -> tuple[Record, str | None]:
    if not record.password:
        return record, None
    if not is_ata(device):
        raise DeviceError(
            errno.ENOTSUP,
            f"{device.path}: an earlier run's password may be set, and no ATA command reaches the drive here: connect "
            f"it to a SATA port, and {record.by_hand(file)}",
        )
    cleared = clear_password(device, record.password_s)
    return replace(record, password=False), "the temporary ATA password was cleared" if cleared else None


def _restore_cache(record: Record, device: BlockDevice, file: Path) -> tuple[Record, str | None]:
    wanted, done = record.write_cache, None
    if wanted is None:
        return record, None
    cache = writecache.cache_of(device)
    now = cache.read() if cache is not None else None
    if cache is None or now is None:
        text = f"{device.path}: the cache setting an earlier run has changed is out of reach here"
        raise DeviceError(errno.ENOTSUP, f"{text}: {record.by_hand(file)}")
    if now != wanted:
        cache.set(wanted)
        if cache.read() != wanted:
            raise DeviceError(errno.EIO, f"{device.path}: its write cache cannot be put back; power-cycle it")
        done = f"the write cache was {'en' if wanted else 'dis'}abled again"
    return replace(record, write_cache=None), done


def _restore_kernel_view(record: Record, device: BlockDevice, file: Path) -> tuple[Record, str | None]:
    wanted = record.kernel_cache
    if wanted is not None and writecache.kernel_view(device) not in {None, wanted}:
        try:
            writecache.tell_kernel(device, wanted)
        except OSError as error:
            raise DeviceError(
                error.errno,
                f"{device.path}: the kernel does not take back that its cache is {wanted} ({error.strerror}): "
                f"plug the drive anew, and rm {file}",
            ) from error
    return replace(record, kernel_cache=None), None


def clear_password(device: BlockDevice, limit_s: float) -> bool:
    """Disable the security that an erase of ours has enabled; whether there was a need. An erase that goes on is
    waited for, `limit_s` at most. Raises DeviceError, with the commands to do it by hand."""
    drive = Ata(device)
    until_s = time.monotonic() + limit_s
    tried = False
    while True:
        try:
            security = drive.security()
            if not security.enabled:
                return tried
            if security.frozen or security.expired:
                what = "frozen by the firmware: suspend and wake the machine" if security.frozen else "counted out"
                raise _still_set(device, f"its security is {what}, or cycle the drive's power while the system runs")
            tried = True
            if security.locked:  # since its power was cycled: it takes no other command before
                drive.unlock(PASSWORD)
            drive.disable_security(PASSWORD)
            if not drive.security().enabled:
                return True
            reason = "it did not obey"
        except PasswordSet:
            raise
        except DeviceError as error:
            reason = str(error.strerror or error)
        if time.monotonic() > until_s:
            raise _still_set(device, reason)
        time.sleep(RETRY_S)


class PasswordSet(DeviceError):
    """The temporary password is still set, and trying again does not help."""


def _still_set(device: BlockDevice, reason: str) -> PasswordSet:
    path = Ata(device).path
    commands = " && ".join(
        f"hdparm --user-master u --security-{what} {PASSWORD} {path}" for what in ("unlock", "disable")
    )
    return PasswordSet(errno.EACCES, f"{device.path}: its password is still set ({reason}): {commands}")
