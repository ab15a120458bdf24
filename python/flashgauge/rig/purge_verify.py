"""Was the drive purged? Stamps are written to sample places before it, and must not be there after it.

What a drive returns after a purge is its own affair (zeros, ones, anything, an error until it is written), so that the
one thing asked is that no stamp survived. A stamp is random, a new one for each place and each purge.
Limits: samples; and a drive could forget what is addressed while the flash still holds it, which nothing at its
interface tells.
"""

from __future__ import annotations

import errno
import mmap
import os
import stat
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import identify
from flashgauge.rig.identify import BlockDevice, read_text

SAMPLES = 64
STAMP_BYTES = 4096  # or a logical block, where that is larger


@dataclass(frozen=True)
class Stamps:
    """The stamps written: offset in bytes -> contents."""

    written: dict[int, bytes]


@contextmanager
def opened(device: BlockDevice, flags: int) -> Iterator[int]:
    """A descriptor of the device beside the session's, which holds it exclusively. Raises DeviceError when the path
    leads elsewhere by now."""
    try:
        descriptor = os.open(device.path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise DeviceError(error.errno, f"{device.path}: {error.strerror}; check the device's connection") from error
    try:
        status = os.fstat(descriptor)
        major_minor = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if not stat.S_ISBLK(status.st_mode) or major_minor != read_text(device.folder / "dev"):
            raise DeviceError(errno.ENODEV, f"{device.path}: no longer leads to {device.name}; start again")
        yield descriptor
    finally:
        os.close(descriptor)


def places(device: BlockDevice) -> list[int]:
    """Offsets in bytes, spread evenly from the first stamp's worth to the last.

    Parts of a granule at the ends are left out: a discard does not reach them.
    """
    unit = max(STAMP_BYTES, device.logical_block_bytes)
    granule = max(unit, identify.number(device.disk / "queue/discard_granularity"))
    head = -(-identify.number(device.folder / "discard_alignment") // unit)
    last = (device.size_bytes // granule * granule - head * unit) // unit - 1
    if last < 0:
        raise DeviceError(errno.EINVAL, f"{device.path}: too small to see whether it was purged; take a larger one")
    return sorted({unit * (head + last * number // (SAMPLES - 1)) for number in range(SAMPLES)})


def stamp(device: BlockDevice) -> Stamps:
    """Write the stamps and read them back, past all caches of the kernel. Raises DeviceError."""
    unit = max(STAMP_BYTES, device.logical_block_bytes)
    written = {offset: os.urandom(unit) for offset in places(device)}
    with opened(device, os.O_RDWR | os.O_DIRECT) as descriptor, mmap.mmap(-1, unit) as buffer:
        for offset, contents in written.items():
            buffer[:] = contents
            _complete(os.pwritev, descriptor, buffer, offset, device)
        os.fsync(descriptor)
        for offset, contents in written.items():
            _complete(os.preadv, descriptor, buffer, offset, device)
            if buffer[:] != contents:
                raise DeviceError(
                    errno.EIO, f"{device.path}: what is written at byte {offset} does not come back; replace the drive"
                )
    return Stamps(written)


def _complete(call: object, descriptor: int, buffer: mmap.mmap, offset: int, device: BlockDevice) -> None:
    assert callable(call)
    try:
        moved = call(descriptor, [buffer], offset)
    except OSError as error:
        raise DeviceError(error.errno, f"{device.path}: byte {offset}: {error.strerror}; see the kernel log") from error
    if moved != len(buffer):
        raise DeviceError(errno.EIO, f"{device.path}: {moved} of {len(buffer)} bytes at byte {offset}")


def check(device: BlockDevice, stamps: Stamps | None, what: str, *, scrambles: bool) -> tuple[str, str | None]:
    """Read the samples again; returns what is there now, for the report, and why that verifies nothing, if so.

    `stamps`: None when the drive took no writes before; the places are read all the same. `scrambles`: places may be
    unreadable until they are written. Raises DeviceError when a stamp survived, or when a
    place cannot be read that should be.
    """
    found: Counter[str] = Counter()
    written = stamps.written if stamps is not None else dict.fromkeys(places(device), b"")
    unit = max(STAMP_BYTES, device.logical_block_bytes)
    with opened(device, os.O_RDONLY | os.O_DIRECT) as descriptor:
        for offset, contents in written.items():
            found[_state(descriptor, offset, unit, contents)] += 1
    count = len(written)
    if found["old data"]:
        raise DeviceError(
            errno.EIO,
            f"{device.path}: {what} left {found['old data']} of {count} samples as they were: the drive is not purged; "
            "choose another method with --purge, or none",
        )
    if found["unreadable"] and not scrambles:
        raise DeviceError(
            errno.EIO,
            f"{device.path}: after {what}, {found['unreadable']} of {count} samples cannot be read; see the kernel log",
        )
    states = ", ".join(f"{number} {state}" for state, number in sorted(found.items()))
    read = count - found["unreadable"]
    if not read:
        # A drive that cannot be read at all would look the same with all its data on it.
        why = f"none of {count} samples can be read"
        return f"not verified: {why}", why
    if stamps is None:
        why = f"the drive took no writes before it, so that there were no samples to look for; there are now {states}"
        return f"not verified: {why}", why
    unread = f"; the others cannot be read until they are written: {found['unreadable']}" if read < count else ""
    return f"verified: the old data is gone from {read} of {count} samples ({states}){unread}", None


def _state(descriptor: int, offset: int, unit: int, contents: bytes) -> str:
    with mmap.mmap(-1, unit) as buffer:
        try:
            moved = os.preadv(descriptor, [buffer], offset)
        except OSError as error:
            if error.errno in {errno.ENODEV, errno.ENXIO}:
                raise DeviceError(error.errno, f"the device is gone: {error.strerror}") from error
            return "unreadable"
        now = buffer[:moved]
    if now == contents:
        return "old data"
    if not now.strip(b"\0"):
        return "zeros"
    return "ones" if not now.strip(b"\xff") else "other"
