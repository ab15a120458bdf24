"""Purge (3.2) by discard: tell the device, or the file system, that none of the range holds data.

Discard is not among the methods the standard names, and no device promises what it does with it; the purge is
therefore disclosed. Nothing is read back: neither zeros nor old data would tell in which state the flash is.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import stat
import struct

from flashgauge._core import DeviceError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig.base import Prepared
from flashgauge.rig.identify import BlockDevice, number, read_text

BLKDISCARD = 0x1277  # _IO(0x12, 119), linux/fs.h; takes {u64 start, u64 bytes}
CHUNK_BYTES = 64 << 30  # one call cannot be interrupted; 64 GiB keeps Ctrl-C alive and is few calls

FALLOC_FL_KEEP_SIZE = 0x01  # linux/falloc.h
FALLOC_FL_PUNCH_HOLE = 0x02

_ADVICE = (
    "purge the drive by its own command before the run (nvme sanitize or nvme format; hdparm --security-erase or "
    "--sanitize-block-erase; sg_format), and name it in the report"
)


def not_run(reason: str) -> Prepared:
    """The purge that did not happen: the result is then not one of the standard's."""
    message = f"the device was not purged: {reason}"
    return Prepared(f"not run ({reason})", (Disclosure(Kind.PURGE_NOT_RUN, "3.2", message, _ADVICE, invalidates=True),))


def _by_discard(how: str) -> Prepared:
    message = f"purged by {how}, which is not one of the standard's methods; what the device does with it is not known"
    return Prepared(how, (Disclosure(Kind.PURGE_BY_DISCARD, "3.2", message, _ADVICE),))


def discard_device(device: BlockDevice) -> Prepared:
    """Discard the whole block device. Raises DeviceError when that fails.

    Opened without O_EXCL: the session holds the exclusive claim, also against a second open by its own process. The
    kernel discards all the same, since nobody else can have come in.
    """
    if not number(device.disk / "queue/discard_max_bytes"):
        return not_run("the device takes no discard")
    context = f"{device.path}: discard"
    try:
        descriptor = os.open(device.path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise DeviceError(error.errno, f"{context}: {error.strerror}; check the device's connection") from error
    try:
        status = os.fstat(descriptor)
        major_minor = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not stat.S_ISBLK(status.st_mode) or major_minor != read_text(device.folder / "dev"):
            raise DeviceError(errno.ENODEV, f"{context}: the path no longer leads to {device.name}; start again")
        _discard(descriptor, device.size_bytes)
    except DeviceError:
        raise
    except OSError as error:
        if error.errno == errno.EOPNOTSUPP:
            return not_run("the device takes no discard")
        raise DeviceError(error.errno, f"{context}: {error.strerror}; the kernel log says more") from error
    finally:
        os.close(descriptor)
    return _by_discard("discard of the whole device (BLKDISCARD)")


def _discard(descriptor: int, size_bytes: int) -> None:
    for start in range(0, size_bytes, CHUNK_BYTES):
        fcntl.ioctl(descriptor, BLKDISCARD, struct.pack("=QQ", start, min(CHUNK_BYTES, size_bytes - start)))


def punch_file(descriptor: int, path: str, range_bytes: int) -> Prepared:
    """Free the file's blocks over the range and reserve new, unwritten ones. Raises DeviceError when that fails."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    # fallocate64 takes a 64-bit offset on every platform; musl has only fallocate, which does so there.
    call = getattr(libc, "fallocate64", libc.fallocate)
    call.argtypes = libc.fallocate.argtypes
    if call(descriptor, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, range_bytes) == 0:
        try:
            # Else a disk that fills up during the run would fail writes, hours into it.
            os.posix_fallocate(descriptor, 0, range_bytes)
        except OSError as error:
            raise DeviceError(error.errno, f"{path}: purge: {error.strerror}; free space on the file system") from error
        return _by_discard("freeing the file's blocks (fallocate, punch hole)")
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS):
        return not_run("the file system cannot free the blocks of a file")
    raise DeviceError(code, f"{path}: purge: {os.strerror(code)}; check the file system")
