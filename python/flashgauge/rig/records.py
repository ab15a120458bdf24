"""Records of drives that a run has changed, and the locks that go with them, in one folder of the machine.

A record (FILE.json) says how a drive was found, and which drive that is; FILE.lock is held by the guardian that will
put it back. NAME.command is held by a command that goes on in the drive when its run has ended, since the command
inherits the lock; NAME.run by the run that has the NVMe drive, all of whose namespaces share one cache and one
controller.
Limits: two drives that give the same serial and WWID are told apart within one boot of the machine only.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from flashgauge._core import DeviceError, TargetError
from flashgauge.rig import identify
from flashgauge.rig.ata import is_ata
from flashgauge.rig.identify import BlockDevice, Roots, read_text
from flashgauge.runfolder import sync_folder

PASSWORD = "flashgauge"  # known and documented, so that a drive left locked can be opened by hand
ROOTS_FOLDER = Path("/var/lib/flashgauge")
FINISH_S = 180.0
LOOK_S = 0.1
LISTING_S = 0.05  # somebody who lists devices looks at a lock for some microseconds
COMMAND_LIMIT_S = 24 * 3600.0

Tell = Callable[[str], None]


def silent(_text: str) -> None:
    """Nobody is told."""


@dataclass(frozen=True)
class Record:
    """How a drive was found. `write_cache`, `kernel_cache`: None when not changed. `password`: one may be set, for at
    most `password_s` seconds of erasing. `subsystem`: of an NVMe drive, its name; `controller`: its controller's node,
    which takes the drive's settings. `boot_id`: of the kernel, which
    `diskseq` counts in. `roots`: where the kernel's trees were."""

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
    subsystem: str | None = None
    boot_id: str | None = None
    controller: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left to be put back."""
        return self.write_cache is None and self.kernel_cache is None and not self.password

    @property
    def nameless(self) -> bool:
        return self.serial is None and self.wwid is None

    def is_of(self, device: BlockDevice) -> bool:
        """Whether the device says that it is this drive: any namespace of an NVMe drive. Without a serial and a WWID,
        the same attachment of a disk in the same boot."""
        if self.subsystem is not None:
            return (self.serial, self.subsystem) == (identify.serial(device), subsystem_of(device))
        if not self.nameless:
            identity = identify.identity(device)
            return (self.serial, self.wwid) == (identity.serial, identity.wwid)
        return self.is_attached_as(device)

    def is_attached_as(self, device: BlockDevice) -> bool:
        """Whether the kernel has not seen it go since: then it is the drive, whatever that says of itself."""
        here = self.boot_id is not None and self.boot_id == boot_id(device.roots)
        return here and self.diskseq is not None and self.diskseq == identify.identity(device).diskseq

    def by_hand(self, file: Path) -> str:
        """The commands that put the drive back."""
        commands = []
        if self.password:
            secure = "hdparm --user-master u --security-"
            commands += [f"{secure}{what} {PASSWORD} {self.path}" for what in ("unlock", "disable")]
        if self.write_cache is not None:
            value = int(self.write_cache)
            commands.append(
                f"nvme set-feature {self.controller or self.path} --feature-id=6 --value={value}"
                if self.subsystem is not None
                else f"hdparm -W{value} {self.path} (SATA), sdparm --set WCE={value} {self.path} (SAS)"
            )
        return "; ".join([*commands, f"rm {file}"])


def boot_id(roots: Roots) -> str | None:
    return read_text(roots.proc / "sys/kernel/random/boot_id")


def subsystem_of(device: BlockDevice) -> str | None:
    """The NVMe subsystem's name, or its model where it has none; None for other drives."""
    # Its name first: a listing asks of every disk.
    for controller in identify.nvme_controllers(device) if device.disk.name.startswith("nvme") else ():
        return read_text(controller / "subsysnqn") or read_text(controller / "model") or "nvme"
    return None


def state_folder() -> Path:
    """Where records are: /var/lib/flashgauge for root. FLASHGAUGE_STATE names another folder."""
    # The guardian gets the path too, and works elsewhere.
    if named := os.environ.get("FLASHGAUGE_STATE"):
        return Path(named).absolute()
    if os.geteuid() == 0:
        return ROOTS_FOLDER
    home = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (home if home.is_absolute() else Path.home() / ".local/state") / "flashgauge"


def _drive_name(device: BlockDevice) -> str:
    """Of the drive, the same for all namespaces and in each boot; of a nameless one, for this boot."""
    identity = identify.identity(device)
    subsystem = subsystem_of(device)
    parts = (identity.serial, subsystem) if subsystem is not None else (identity.serial, identity.wwid)
    text = "-".join(filter(None, parts)) or f"disk-{boot_id(device.roots)}-{identity.diskseq}"
    return re.sub(r"[^A-Za-z0-9._-]+", "_", text)


def record_file(device: BlockDevice) -> Path:
    """With the disk's number in this boot: twins that share all names have a record each."""
    number = identify.identity(device).diskseq or "0"
    return state_folder() / f"{_drive_name(device)}.{number}.json"


def all_records() -> list[Path]:
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


def records_of(device: BlockDevice) -> list[tuple[Path, Record]]:
    """Records that the device may be the drive of. Raises DeviceError for one of its name that cannot be read."""
    found = []
    for file in all_records():
        try:
            record = read_record(file)
        except DeviceError:
            if file.name.startswith(f"{_drive_name(device)}."):
                raise
            continue
        if record is not None and record.is_of(device):
            found.append((file, record))
    return found


def drive_of(record: Record, file: Path) -> list[BlockDevice]:
    """The record's drive, also under another name: its one device, or its namespaces; empty when it is not there.

    Raises DeviceError when several drives say that they are it, and the kernel cannot tell which one was meant.
    """
    roots = Roots(**{name: Path(path) for name, path in record.roots.items()})
    devices = [identify.block_device(folder, roots) for folder in identify.folders_by_number(roots).values()]
    candidates = [device for device in devices if not device.is_partition and record.is_of(device)]
    attached = {_owner(device) for device in candidates if record.is_attached_as(device)}
    owners = attached or {_owner(device) for device in candidates}
    if len(owners) > 1:
        names = ", ".join(sorted(device.path for device in candidates))
        raise DeviceError(
            errno.ENOTUNIQ,
            f"{names} all have serial {record.serial} and WWID {record.wwid}, and one of them was left changed by an "
            f"earlier run: find out which, and put it back by hand: {record.by_hand(file)}",
        )
    return [device for device in candidates if _owner(device) in owners]


def _owner(device: BlockDevice) -> tuple[Path, ...]:
    """What the namespaces of one drive have in common; else the disk itself."""
    return tuple(identify.nvme_controllers(device)) or (device.disk,)


@contextmanager
def locked(file: Path, limit_s: float = FINISH_S, tell: Tell = silent) -> Iterator[None]:
    """Nobody else works by this record. Raises DeviceError when somebody still does after `limit_s`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.with_suffix(".lock").open("w") as lock:
        _lock(lock, file, limit_s, tell)
        yield


def _lock(lock: IO[str], file: Path, limit_s: float, tell: Tell) -> None:
    until_s = time.monotonic() + limit_s
    while not _try(lock.fileno(), fcntl.LOCK_EX):
        tell("an earlier run's drive to be put back")
        if time.monotonic() > until_s:
            raise DeviceError(errno.EBUSY, f"{file}: another process is still putting the drive back; wait for it")
        time.sleep(LOOK_S)


def _try(descriptor: int, how: int) -> bool:
    try:
        fcntl.flock(descriptor, how | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _claim(descriptor: int) -> bool:
    """The lock for us alone; not refused because somebody is just looking whether it is held."""
    if _try(descriptor, fcntl.LOCK_EX):
        return True
    time.sleep(LISTING_S)
    return _try(descriptor, fcntl.LOCK_EX)


def is_held(file: Path) -> bool:
    """Whether somebody has the lock. Raises OSError when that cannot be seen."""
    try:
        with file.open() as lock:
            return not _try(lock.fileno(), fcntl.LOCK_SH)
    except FileNotFoundError:
        return False


def _beside(device: BlockDevice, suffix: str) -> Path:
    return state_folder() / f"{_drive_name(device)}.{suffix}"


def _held_beside(device: BlockDevice, suffix: str) -> bool:
    """Whether somebody has the NVMe drive's lock: a run of this user, or of root."""
    if subsystem_of(device) is None:
        return False
    file = _beside(device, suffix)
    for one in {file, ROOTS_FOLDER / file.name}:
        with suppress(OSError):  # what cannot be seen is not known
            if is_held(one):
                return True
    return False


@contextmanager
def command_lock(device: BlockDevice) -> Iterator[int]:
    """A descriptor for a command to inherit, which keeps the lock until the command ends, whatever ends the run.

    Raises DeviceError.
    """
    file = _beside(device, "command")
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        lock = file.open("w")
    except OSError as error:
        raise DeviceError(error.errno, f"{file}: {error.strerror}; FLASHGAUGE_STATE names another folder") from error
    with lock:
        if not _claim(lock.fileno()):
            raise DeviceError(errno.EBUSY, f"{device.given}: a command of an earlier run is under way; wait for it")
        yield lock.fileno()


def command_under_way(device: BlockDevice) -> bool:
    """Whether an NVMe format that an earlier run began goes on in the drive; others, the drive itself tells of."""
    return _held_beside(device, "command")


def wait_for_command(device: BlockDevice, tell: Tell = silent, limit_s: float = COMMAND_LIMIT_S) -> None:
    """Wait for the end of such a command. Sends the drive nothing. Raises DeviceError when it takes too long."""
    until_s = time.monotonic() + limit_s
    while command_under_way(device):
        tell("the end of a format begun by an earlier run")
        if time.monotonic() > until_s:
            raise DeviceError(
                errno.ETIMEDOUT, f"{device.given}: an earlier run's format does not end; see the kernel log"
            )
        time.sleep(LOOK_S)


class RunLock:
    """The whole NVMe drive for one run: its namespaces share the write cache, and would disturb each other. Other
    drives have one device, which the run holds exclusively."""

    def __init__(self, device: BlockDevice) -> None:
        """Raises TargetError when another run has it. Where no folder can be made nothing is changed, nor locked."""
        self._file: IO[str] | None = None
        if subsystem_of(device) is None:
            return
        file = _beside(device, "run")
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._file = file.open("w")
        except OSError:
            return
        if not _claim(self._file.fileno()):
            self.release()
            raise TargetError(
                f"{device.given}: refused: another run is under way on this drive, whose namespaces share a controller "
                "and a write cache: wait for its end"
            )

    def release(self) -> None:
        """Safe to call twice."""
        if self._file is not None:
            self._file.close()
            self._file = None


def run_under_way(device: BlockDevice) -> bool:
    """Whether a run has the NVMe drive, by whatever namespace."""
    return _held_beside(device, "run")


def new_record(device: BlockDevice) -> Record:
    """Of the drive as it is attached now, with nothing changed."""
    identity = identify.identity(device)
    controller = identify.live_controller(device)
    return Record(
        device.path,
        identity.serial,
        identity.wwid,
        identity.diskseq,
        roots={name: str(path) for name, path in vars(device.roots).items()},
        subsystem=subsystem_of(device),
        boot_id=boot_id(device.roots),
        controller=None if controller is None else str(device.roots.dev / controller.name),
    )


def is_provable(record: Record) -> bool:
    """Whether anything tells the drive from another later."""
    return not record.nameless or (record.diskseq is not None and record.boot_id is not None)


def password_left(device: BlockDevice) -> bool:
    """Whether an earlier run may have left its password on the drive: then it answers no read."""
    return is_ata(device) and any(record.password for _, record in records_of(device))
