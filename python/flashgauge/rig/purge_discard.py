"""Purge by discard: tell the device, or the file system, that none of the range holds data.

Discard is not among the methods the standard names, and no device promises what it does with it; it is the last
choice, and disclosed.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct

from flashgauge._core import DeviceError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig.base import Prepared, Tell
from flashgauge.rig.identify import BlockDevice, number
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.purge_method import Support
from flashgauge.rig.purge_verify import opened

BLKDISCARD = 0x1277  # _IO(0x12, 119), linux/fs.h; takes {u64 start, u64 bytes}
CHUNK_BYTES = 64 << 30  # one call cannot be interrupted; 64 GiB keeps Ctrl-C alive and is few calls

FALLOC_FL_KEEP_SIZE = 0x01  # linux/falloc.h
FALLOC_FL_PUNCH_HOLE = 0x02

ADVICE = (
    "purge the drive by a command of its own: --purge names the methods, flashgauge devices those the drive has; or do "
    "it before the run, and name the method in the report"
)


def not_run(reason: str) -> Prepared:
    """The purge that did not happen: the result is then not one of the standard's."""
    message = f"the device was not purged: {reason}"
    return Prepared(f"not run ({reason})", (Disclosure(Kind.PURGE_NOT_RUN, "3.2", message, ADVICE, invalidates=True),))


def disclosed(how: str, why: str = "") -> Disclosure:
    """`why`: why no method of the standard was used."""
    because = f" ({why})" if why else ""
    message = f"purged by {how}, which is not one of the standard's methods{because}"
    return Disclosure(Kind.PURGE_BY_DISCARD, "3.2", f"{message}; what the device does with it is not known", ADVICE)


class Discard:
    """BLKDISCARD of the whole device.

    Opened without O_EXCL: the session holds the exclusive claim, also against a second open by its own process. The
    kernel discards all the same, since nobody else can have come in.
    """

    name = "discard"
    what = "discard of the whole device (BLKDISCARD)"
    scrambles = False

    def supported(self, device: BlockDevice) -> Support:
        takes = number(device.disk / "queue/discard_max_bytes")
        return Support() if takes else Support("the device takes no discard")

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        with opened(device, os.O_WRONLY) as descriptor:
            for start in range(0, device.size_bytes, CHUNK_BYTES):
                tell(f"discard: {100 * start // device.size_bytes} %")
                piece = struct.pack("=QQ", start, min(CHUNK_BYTES, device.size_bytes - start))
                try:
                    fcntl.ioctl(descriptor, BLKDISCARD, piece)
                except OSError as error:
                    message = f"{device.path}: discard: {error.strerror}; choose another --purge, or none"
                    raise DeviceError(error.errno, message) from error
        return None


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
        how = "freeing the file's blocks (fallocate, punch hole)"
        return Prepared(how, (disclosed(how),))
    code = ctypes.get_errno()
    if code in (errno.EOPNOTSUPP, errno.ENOSYS):
        return not_run("the file system cannot free the blocks of a file")
    raise DeviceError(code, f"{path}: purge: {os.strerror(code)}; check the file system")
