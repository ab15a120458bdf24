"""The volatile write cache (3.7): read from the drive, set, read back, and the kernel's view made to agree.

NVMe: the Volatile Write Cache feature; ATA: the write cache of IDENTIFY DEVICE; SCSI: WCE of the caching mode page.
Always the current value, never the saved one. The kernel sends flushes by its own view of the cache
(queue/write_cache), which it does not always correct when the drive's setting changes; a SCSI disk's is set through
its cache_type, with the word "temporary", since without it the kernel would save the setting in the drive.
Limits: a drive tells nothing of capacitors; one whose buffer they protect reports that it has no volatile cache.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from flashgauge._core import DeviceError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig import identify, tools
from flashgauge.rig.ata import Ata, is_ata
from flashgauge.rig.base import Prepared
from flashgauge.rig.identify import BlockDevice, read_text
from flashgauge.rig.nvme import VOLATILE_WRITE_CACHE, Nvme
from flashgauge.rig.scsi import Scsi, is_scsi

NONE = "none: the drive has no volatile write cache (one protected against power loss does not count as volatile)"

# Told what is about to change: the cache as the drive has it, and as the kernel sees it. Returns what the changing
# command has to keep open (see Keeper).
Note = Callable[[bool, str | None], int]


class Cache(Protocol):
    """A drive's volatile write cache. All methods raise DeviceError."""

    def read(self) -> bool | None:
        """Whether it is on; None when there is none."""

    def set(self, enabled: bool, keep: int | None = None) -> None:
        """Its current value, not the saved one. May succeed without effect: read it back. `keep`: see tools.Command."""


class NvmeCache:
    def __init__(self, device: BlockDevice) -> None:
        self._drive = Nvme(device)

    def read(self) -> bool | None:
        present = self._drive.capability("vwc") & 1
        return bool(self._drive.feature(VOLATILE_WRITE_CACHE) & 1) if present else None

    def set(self, enabled: bool, keep: int | None = None) -> None:
        self._drive.set_feature(VOLATILE_WRITE_CACHE, int(enabled), keep)


class AtaCache:
    def __init__(self, device: BlockDevice) -> None:
        self._drive = Ata(device)

    def read(self) -> bool | None:
        return self._drive.write_cache()

    def set(self, enabled: bool, keep: int | None = None) -> None:
        self._drive.set_write_cache(enabled, keep)


class ScsiCache:
    def __init__(self, device: BlockDevice) -> None:
        self._drive = Scsi(device)

    def read(self) -> bool | None:
        return self._drive.write_cache()

    def set(self, enabled: bool, keep: int | None = None) -> None:
        self._drive.set_write_cache(enabled, keep)


def needed_tools(device: BlockDevice) -> tuple[str, ...]:
    """The programs that reach the drive's own cache setting; none for what is no drive."""
    if identify.nvme_controllers(device):
        return Nvme.TOOLS
    if is_ata(device):
        return Ata.TOOLS
    return ("sg_modes", "sg_wr_mode") if is_scsi(device) else ()


def cache_of(device: BlockDevice) -> Cache | None:
    """The drive's cache; None for what is no drive of the three kinds."""
    if identify.nvme_controllers(device):
        return NvmeCache(device)
    if is_ata(device):
        return AtaCache(device)
    return ScsiCache(device) if is_scsi(device) else None


def kernel_view(device: BlockDevice) -> str | None:
    """ "write back" or "write through"; None when the kernel does not say."""
    return read_text(device.disk / "queue/write_cache")


def set_kernel_view(device: BlockDevice, view: str) -> None:
    """Make the kernel see the cache so. A kernel that does not let itself be told keeps its view."""
    with contextlib.suppress(OSError):
        tell_kernel(device, view)


def tell_kernel(device: BlockDevice, view: str) -> None:
    """Raises OSError when the kernel does not take it."""
    types = sorted(device.disk.glob("device/scsi_disk/*/cache_type"))
    if types:
        _write(types[0], f"temporary {view}")
    else:
        _write(device.disk / "queue/write_cache", view)


def _write(attribute: Path, text: str) -> None:
    # Not open(..., "w"): writing must never make a file where there is no such attribute.
    descriptor = os.open(attribute, os.O_WRONLY | os.O_TRUNC | os.O_CLOEXEC)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def set_cache(device: BlockDevice, asked: bool, note: Note) -> Prepared:
    """Set the cache and read it back. `note` is called before the first change, and not without one.

    Never fails for want of a drive that obeys: what is not as asked is disclosed. Raises what `note` raises.
    """
    view = kernel_view(device)
    changed, keep = False, None
    try:
        cache = cache_of(device)
        missing = tools.missing(*needed_tools(device))
        if cache is None or missing is not None:
            return by_kernel(view, asked, missing)
        before = cache.read()
        if before is None:
            met = not asked
            return Prepared(NONE, () if met else (_differs(NONE, asked, "state in the report that there is none"),))
        wanted_view = "write back" if asked else "write through"
        if before != asked or view not in {None, wanted_view}:
            keep = note(before, view)
        if before != asked:
            changed = True
            cache.set(asked, keep)
        now = cache.read()
    except DeviceError as error:
        text = "not known: set, but not read back" if changed else f"{by_kernel(view, asked).state}, and not set"
        text = f"{text} ({error.strerror or error})"
        return Prepared(text, (_differs(text, asked, "cure what the message names, and run again"),))
    if now != asked:
        text = f"{_word(not asked)} (the drive does not let itself be switched)"
        return Prepared(text, (_differs(text, asked, "state in the report that it cannot be switched"),))
    if kernel_view(device) not in {None, wanted_view}:
        set_kernel_view(device, wanted_view)
    return Prepared(_text(asked, before, kernel_view(device), wanted_view))


def look_again(device: BlockDevice, asked: bool) -> tuple[Disclosure, ...]:
    """After a run, of a cache that was as asked: a drive that was reset or lost its power has its saved setting again.
    No cache, and one that cannot be asked, is none of it."""
    try:
        cache = cache_of(device)
        now = cache.read() if cache is not None and tools.missing(*needed_tools(device)) is None else None
    except DeviceError as error:
        text = f"not known at the end of the run ({error.strerror or error})"
        return (_differs(text, asked, "see the kernel log for resets of the drive"),)
    if now is None or now == asked:
        return ()
    text = f"{_word(now)} at the end of the run: the drive was reset, or lost its power, and took its saved setting"
    return (_differs(text, asked, "see the kernel log for resets of the drive; run again"),)


def _word(enabled: bool) -> str:
    return "enabled" if enabled else "disabled"


def _text(asked: bool, before: bool, view: str | None, wanted_view: str) -> str:
    how = "as found" if before == asked else f"{_word(before)} before the run, and again after it"
    differing = f"; the kernel still treats it as {view}" if view not in {None, wanted_view} else ""
    return f"{_word(asked)} (read back from the drive; {how}{differing})"


def by_kernel(found: str | None, asked: bool, why: str | None = None) -> Prepared:
    """By the kernel's word alone: the text, and the disclosure when it is not as asked, or the drive could be asked
    if not for `why`."""
    if found == "write back":
        text, met = "enabled (the kernel reports write back)", asked
    elif found == "write through":
        text, met = "disabled or absent (the kernel reports write through)", not asked
    else:
        text, met = "not known (the kernel does not report it)", False
    if why is not None:
        text = f"{text}; {why}"
        return Prepared(text, (_differs(text, asked, "install it, so that the cache is set and read back"),))
    cure = "test a drive whose cache can be switched (NVMe, SATA, SAS), or state the cache's state in the report"
    return Prepared(text, () if met else (_differs(text, asked, cure),))


def of_file() -> Prepared:
    """A file's writes may stop in the cache of whatever its file system sits on."""
    text = "not known (the file system's device has its own)"
    message = f"write cache should be set by the test, it is {text}"
    return Prepared(
        text, (Disclosure(Kind.WRITE_CACHE_STATE, "3.7", message, "run on the drive itself, not on a file"),)
    )


def _differs(text: str, asked: bool, cure: str) -> Disclosure:
    return Disclosure(Kind.WRITE_CACHE_STATE, "3.7", f"write cache should be {_word(asked)}, it is {text}", cure)
