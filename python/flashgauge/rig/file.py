"""A regular file as a rig: `file:PATH?size=8GiB`. For trying things out; a file system is no device (1.1).

A missing or empty file is created and stays afterwards, since the operator named it. A file with contents needs
consent by its name. The file stays open and locked from the checks to `close`, so that what was checked is what is
lost, and two runs cannot share it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from flashgauge._core import DeviceError, Session, TargetError
from flashgauge.disclosure import Disclosure
from flashgauge.rig import identify, purge, purge_discard, safety, uses, writecache
from flashgauge.rig.base import Prepared, SessionNeeds, Telemetry, Tell
from flashgauge.rig.block import describe, not_device_level
from flashgauge.rig.hostchecks import HostCheck, check_host
from flashgauge.rig.identify import BlockDevice, Roots
from flashgauge.rig.target import Target, parse_size
from flashgauge.rig.telemetry import HostTelemetry
from flashgauge.runfolder import DutInfo

GRANULE_BYTES = 4096  # O_DIRECT wants whole blocks of the device below, which are no larger than this


@dataclass(frozen=True)
class OpenFile:
    """A file cleared for destruction, open and locked. `created`: it was missing or empty before."""

    path: str
    descriptor: int
    range_bytes: int
    created: bool


def open_file(
    target: Target,
    needs: SessionNeeds,
    consent: str | None,
    roots: Roots = Roots(),  # noqa: B008 - Roots is frozen
    purge_method: str = purge.AUTO,
) -> FileRig:
    """Parse, look, refuse, ask consent, check the size, create, open. Raises TargetError or DeviceError."""
    purge.check_without_drive(purge_method, target.text, (purge.AUTO, "discard"))
    size_bytes = _asked_bytes(target)
    path = os.path.realpath(target.path)
    where = target.text if path == os.path.abspath(target.path) else f"{target.text} -> {path}"
    existed = _check_kind(path, where)
    if not existed and size_bytes is None:
        raise TargetError(f"{where}: no such file; say how large to create it, as in file:{target.path}?size=8GiB")
    with _locked(path, where, existed) as descriptor, _undone_on_error(path, descriptor, existed):
        status = os.fstat(descriptor)
        if existed:
            _refuse_used(path, status, where, roots)
        if status.st_size:
            label = f"{where} ({status.st_size} bytes, a file with contents)"
            safety.require_consent(label, os.path.basename(path), "name", consent)
        range_bytes = _range_bytes(where, size_bytes, status.st_size, needs)
        if not status.st_size:
            _allocate(descriptor, where, range_bytes)
        return FileRig(target, OpenFile(path, descriptor, range_bytes, not status.st_size), needs, roots, purge_method)


class FileRig:
    """A file, with the file system between the test and the device."""

    def __init__(self, target: Target, file: OpenFile, needs: SessionNeeds, roots: Roots, purge_method: str) -> None:
        self._file = file
        self._verifiable = needs.verifiable
        self._purge_method = purge_method
        self._mount = uses.mount_of(file.path, uses.all_mounts(roots))
        self._device = device_below(file.path, self._mount, roots)
        self._roots = roots
        self.session = Session.block(
            file.path,
            file.range_bytes,
            needs.seed,
            needs.max_threads,
            needs.max_queue_depth,
            needs.max_block_bytes,
            False,
            needs.verifiable,
        )
        self._open = True
        self.telemetry: Telemetry = HostTelemetry(roots=roots)
        filesystem = self._mount.filesystem if self._mount is not None else "unknown file system"
        self.dut = DutInfo(
            target=target.text,
            kind="file",
            capacity_bytes=file.range_bytes,
            interface=f"file on {filesystem}",
            logical_block_bytes=self._device.logical_block_bytes if self._device is not None else 512,
        )
        try:
            self.check()
        except BaseException:
            self.session.close()
            raise

    def description(self) -> dict[str, Any]:
        return {
            "path": self._file.path,
            "range_bytes": self._file.range_bytes,
            "created": self._file.created,
            "kept": True,  # whoever created it, it stays: the operator named it
            "file_system": self._mount.filesystem if self._mount is not None else None,
            "mount_options": self._mount.options if self._mount is not None else None,
            "device": describe(self._device) if self._device is not None else None,
            "host_adapter": identify.host_adapter(self._device) if self._device is not None else None,
        }

    def disclosures(self) -> list[Disclosure]:
        return [not_device_level(f"{self._file.path} is a file and stands for a file system on a device")]

    def software(self) -> dict[str, str]:
        return {}

    def purge(self, tell: Tell) -> Prepared:
        self.check()
        if self._purge_method == purge.NONE:
            return purge.not_asked_for()
        prepared = purge_discard.punch_file(self._file.descriptor, self._file.path, self._file.range_bytes)
        if self._verifiable:
            self.session.forget_written()
        return prepared

    def set_write_cache(self, enabled: bool) -> Prepared:
        return writecache.of_file()

    def after_run(self) -> tuple[Disclosure, ...]:
        return ()

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        return check_host(self._device, self._roots, sequential=sequential)

    def block_reads(self) -> str:
        return "the target is a file"

    def check(self) -> None:
        """The path still leads to the file that was cleared, and it is as large. Raises DeviceError."""
        held = os.fstat(self._file.descriptor)
        try:
            now = os.stat(self._file.path)
        except OSError as error:
            raise DeviceError(error.errno, f"{self._file.path}: {error.strerror}; it was there: start again") from error
        if (held.st_dev, held.st_ino) != (now.st_dev, now.st_ino) or now.st_size < self._file.range_bytes:
            raise DeviceError(errno.ESTALE, f"{self._file.path}: replaced or shortened since consent; start again")

    def close(self) -> None:
        self.session.close()
        if self._open:
            self._open = False
            os.close(self._file.descriptor)


def file_bytes(target: Target) -> int:
    """The size that would be tested, from the target or the file. Raises TargetError."""
    asked = _asked_bytes(target)
    if asked is None and not os.path.isfile(target.path):
        raise TargetError(f"{target.text}: no such file; say how large to create it, as in ?size=8GiB")
    return asked if asked is not None else os.path.getsize(target.path)


def _asked_bytes(target: Target) -> int | None:
    unknown = sorted(set(target.options) - {"size"})
    if unknown:
        raise TargetError(f"{target.text}: no option {', '.join(unknown)}; a file takes size, as in ?size=8GiB")
    if not target.path:
        raise TargetError(f"{target.text}: which file? for example file:/tmp/flashgauge.bin?size=8GiB")
    return parse_size(target.options["size"]) if "size" in target.options else None


def _check_kind(path: str, where: str) -> bool:
    """Whether the file exists. Raises TargetError when it is something else than a file."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        if not os.path.isdir(os.path.dirname(path)):
            raise TargetError(f"{where}: no folder {os.path.dirname(path)}; create it first") from None
        return False
    except OSError as error:
        raise TargetError(f"{where}: {error.strerror}; give the path of a file") from error
    if stat.S_ISBLK(mode):
        raise TargetError(f"{where}: a block device; to test it write {path}, without file:")
    if stat.S_ISDIR(mode):
        raise TargetError(f"{where}: a folder; give a file in it, as in file:{path}/flashgauge.bin?size=8GiB")
    if not stat.S_ISREG(mode):
        raise TargetError(f"{where}: not a regular file; give the path of a file")
    return True


@contextmanager
def _locked(path: str, where: str, existed: bool) -> Iterator[int]:
    """A descriptor of the file with an exclusive lock; closed when the block fails. Creates only a missing file."""
    # O_EXCL on creation: a file that came up since the look is not ours to overwrite.
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | (0 if existed else os.O_CREAT | os.O_EXCL)
    try:
        descriptor = os.open(path, flags, 0o600)
    except OSError as error:
        raise TargetError(f"{where}: {error.strerror}; give a file that can be written here") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise TargetError(f"{where}: another run uses it; wait for that or give another file") from None
        yield descriptor
    except BaseException:
        os.close(descriptor)
        raise


def _refuse_used(path: str, status: os.stat_result, where: str, roots: Roots) -> None:
    """Raises TargetError for a swap file, the file behind a loop device, and a file open elsewhere for writing."""

    def same(other: str) -> bool:
        try:
            return os.path.samestat(os.stat(other), status)
        except OSError:
            return False

    if any(same(swap) for swap in uses.swap_paths(roots)):
        raise TargetError(f"{where}: refused: active swap: swapoff {path} first, or give another file")
    for name, backing in uses.loop_files(roots):
        if same(backing):
            raise TargetError(f"{where}: refused: it is behind {name}: losetup -d /dev/{name} first")
    for _, process, _ in uses.writers(roots, lambda open_path, _: open_path == path):
        raise TargetError(f"{where}: refused: open for writing by {process}: stop that process first")


def _range_bytes(where: str, asked_bytes: int | None, file_bytes: int, needs: SessionNeeds) -> int:
    """The size to test, whole granules. Raises TargetError when it does not fit the file or the test."""
    if asked_bytes is None and not file_bytes:
        raise TargetError(f"{where}: the file is empty; say how large to make it, as in ?size=8GiB")
    if file_bytes and asked_bytes is not None and asked_bytes > file_bytes:
        raise TargetError(f"{where}: the file has only {file_bytes} bytes; ask for that or less, or remove it first")
    range_bytes = (asked_bytes or file_bytes) // GRANULE_BYTES * GRANULE_BYTES
    least = needed_bytes(needs)
    if range_bytes < least:
        raise TargetError(f"{where}: too small, the test needs at least ?size={least}")
    return range_bytes


def needed_bytes(needs: SessionNeeds) -> int:
    """The least range: one block of the largest size for each thread, which all have regions of their own."""
    return needs.max_block_bytes * needs.max_threads


def _allocate(descriptor: int, where: str, size_bytes: int) -> None:
    """Raises TargetError when the file system cannot hold it."""
    try:
        space = os.fstatvfs(descriptor)
        if space.f_bavail * space.f_frsize < size_bytes:  # sooner than filling the disk to find out
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        os.posix_fallocate(descriptor, 0, size_bytes)
        os.fsync(descriptor)
    except OSError as error:
        raise TargetError(
            f"{where}: cannot create a file of {size_bytes} bytes ({error.strerror}); ask for a smaller size"
        ) from error


@contextmanager
def _undone_on_error(path: str, descriptor: int, existed: bool) -> Iterator[None]:
    """When the block fails, also by Ctrl-C, a file made here goes, and one found empty is empty again."""
    size_before = os.fstat(descriptor).st_size
    try:
        yield
    except BaseException:
        if not existed:
            os.unlink(path)
        elif not size_before:
            os.ftruncate(descriptor, 0)
        raise


def device_below(path: str, mount: uses.Mount | None, roots: Roots) -> BlockDevice | None:
    """The block device under the file's file system, when it is exactly one that can be told."""
    device_number = os.stat(path).st_dev
    folder = identify.folders_by_number(roots).get(f"{os.major(device_number)}:{os.minor(device_number)}")
    if folder is None and mount is not None and len(mount.names) == 1:
        folder = (roots.sys / "class/block" / next(iter(mount.names)).replace("/", "!")).resolve()
    if folder is None:
        return None
    node = str(roots.dev / identify.kernel_name(folder))
    return BlockDevice(node, node, folder, roots)
