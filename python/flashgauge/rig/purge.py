"""Purge (3.2): which method, and the one way all of them are run: identity, stamps, purge, identity, samples read.

Chosen by what the device says it supports, in the order of METHODS: what the standard names before what it does not,
block erase before cryptographic erase, discard last. A drive's own command that fails, or leaves data behind, stops
the run: what state the drive is in then, nobody knows.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from flashgauge._core import DeviceError, TargetError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig import identify, purge_ata, purge_nvme, purge_scsi, purge_verify, tools, underway
from flashgauge.rig.ata import Ata, is_ata
from flashgauge.rig.base import Prepared, Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.nvme import Nvme
from flashgauge.rig.purge_discard import Discard, disclosed, not_run
from flashgauge.rig.purge_method import Method, Support, whole_drive
from flashgauge.rig.scsi import Scsi, is_scsi
from flashgauge.rig.underway import LeftUnderWay

AUTO, NONE = "auto", "none"
NOT_ASKED_FOR = "as asked for with --purge none"
METHODS: tuple[Method, ...] = (*purge_nvme.METHODS, *purge_ata.METHODS, *purge_scsi.METHODS, Discard())
NAMES = (AUTO, *(method.name for method in METHODS), NONE)

RETURN_S = 60.0  # for a drive to answer again after it has formatted itself

BLKPG, BLKPG_DEL_PARTITION = 0x1269, 2  # linux/blkpg.h


@dataclass(frozen=True)
class Choice:
    """`method`: None for no purge, for `reason`. `passed_over`: methods before it, and why not."""

    method: Method | None
    reason: str = ""
    support: Support = Support()  # noqa: RUF009 - Support is frozen
    passed_over: dict[str, str] = field(default_factory=dict)


def check_name(name: str) -> str:
    """Raises TargetError when there is no such method."""
    if name not in NAMES:
        raise TargetError(f"--purge {name}: there are: {', '.join(NAMES)}")
    return name


def supports(device: BlockDevice) -> dict[str, Support]:
    """What the device says of each method of its kind, in the order of choice. Only asks."""
    return {method.name: method.supported(device) for method in METHODS if _may_concern(method, device)}


def _may_concern(method: Method, device: BlockDevice) -> bool:
    kinds = {
        "nvme": bool(identify.nvme_controllers(device)),
        "ata": is_ata(device),
        "scsi": is_scsi(device),
    }
    return kinds.get(method.name.split("-")[0], True)


def choose(device: BlockDevice, name: str = AUTO) -> Choice:
    """The method for the device. Raises TargetError when the one asked for by name cannot be used on it."""
    check_name(name)
    if name == NONE:
        return Choice(None, NOT_ASKED_FOR)
    if name != AUTO:
        method = next(method for method in METHODS if method.name == name)
        support = method.supported(device)
        if support.reason is not None and not support.may_try:
            raise TargetError(f"{device.given}: --purge {name} cannot be used: {support.reason}")
        return Choice(method, support=support)
    passed_over: dict[str, str] = {}
    for method in METHODS:
        support = method.supported(device)
        if support.reason is None:
            return Choice(method, support=support, passed_over=passed_over)
        if _may_concern(method, device):
            passed_over[method.name] = support.reason
    return Choice(None, passed_over["discard"], passed_over=passed_over)


def wait_for_earlier(device: BlockDevice, tell: Tell) -> bool:
    """Wait for the end of a purge that an earlier run, or somebody else, has left under way: until then the drive
    cannot even be read. Whether it can be now: not when it says that its last sanitize failed. A drive that does not
    answer the question is left to the checks that follow.

    Raises DeviceError when it takes too long.
    """
    if whole_drive(device) is not None or not needed_tools(device) or tools.missing(*needed_tools(device)):
        return True
    try:
        return underway.wait_for_earlier(device, tell)
    except DeviceError as error:
        if error.errno == errno.ETIMEDOUT:
            raise
        return True


def needed_tools(device: BlockDevice) -> tuple[str, ...]:
    """The programs that speak to a drive of this kind."""
    if identify.nvme_controllers(device):
        return Nvme.TOOLS
    if is_ata(device):
        return Ata.TOOLS
    return Scsi.TOOLS if is_scsi(device) else ()


def tool_versions(device: BlockDevice) -> dict[str, str]:
    """Tool -> version, of those that are installed and tell one."""
    found = {tool: tools.version(tool) for tool in needed_tools(device)}
    return {tool: version for tool, version in found.items() if version is not None}


def run(choice: Choice, device: BlockDevice, recheck: Callable[[], None], keeper: Keeper, tell: Tell) -> Prepared:
    """Purge and verify. `recheck` raises DeviceError when the device is not the one consented to any more.

    Raises DeviceError when the purge fails, or leaves data behind.
    """
    recheck()
    method = choice.method
    if method is None:
        return not_run(choice.reason)
    forecast_s = choice.support.forecast_s
    tell(method.name if forecast_s is None else f"{method.name}: about {forecast_s:.0f} s by the drive's own estimate")
    try:
        takes_writes = wait_for_earlier(device, tell)
        recheck()
        # A drive whose last sanitize failed takes a new one only.
        stamps = purge_verify.stamp(device) if takes_writes else None
        recheck()
        log = method.run(device, tell, keeper)
    except LeftUnderWay:
        # What else the run has changed cannot be put back before the drive's end either.
        keeper.leave()
        raise
    except DeviceError as error:
        if isinstance(method, Discard) and error.errno == errno.EOPNOTSUPP:
            return not_run("the device takes no discard")
        raise
    _wait_for_return(device, recheck)
    _forget_partitions(device)
    tell(f"{method.name}: reading samples")
    evidence, unverified = purge_verify.check(device, stamps, method.name, scrambles=method.scrambles)
    state = "; ".join(filter(None, (method.what, evidence, log)))
    disclosures = [] if unverified is None else [_not_verified(method.name, unverified)]
    if isinstance(method, Discard):
        reasons = "; ".join(f"{name}: {reason}" for name, reason in choice.passed_over.items())
        disclosures.append(disclosed(method.what, reasons))
    return Prepared(state, tuple(disclosures))


def _not_verified(method: str, why: str) -> Disclosure:
    return Disclosure(
        Kind.PURGE_NOT_VERIFIED,
        "3.2",
        f"the purge by {method} was not verified: {why}",
        "run again: a drive that takes writes now can be seen to lose them",
    )


def _wait_for_return(device: BlockDevice, recheck: Callable[[], None]) -> None:
    """The kernel reads capacity and identity anew after a format; until then they may be missing."""
    until_s = time.monotonic() + RETURN_S
    while True:
        try:
            recheck()
            with purge_verify.opened(device, os.O_RDONLY):
                return
        except DeviceError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.5)


class _Partition(ctypes.Structure):
    """struct blkpg_partition."""

    _fields_ = (
        ("start", ctypes.c_longlong),
        ("length", ctypes.c_longlong),
        ("number", ctypes.c_int),
        ("names", ctypes.c_char * 128),
    )


class _PartitionCall(ctypes.Structure):
    """struct blkpg_ioctl_arg."""

    _fields_ = (
        ("op", ctypes.c_int),
        ("flags", ctypes.c_int),
        ("length", ctypes.c_int),
        ("data", ctypes.c_void_p),
    )


def _forget_partitions(device: BlockDevice) -> None:
    """The table is gone with the data; the kernel still has what it once read there. BLKRRPART would be refused, since
    the session holds the disk."""
    partitions = [] if device.is_partition else identify.partitions(device.disk)
    for folder in partitions:
        entry = _Partition(number=identify.number(folder / "partition"))
        size = ctypes.sizeof(entry)
        call = _PartitionCall(BLKPG_DEL_PARTITION, 0, size, ctypes.cast(ctypes.pointer(entry), ctypes.c_void_p))
        # A kernel that cannot keeps an entry nobody uses.
        with contextlib.suppress(OSError), purge_verify.opened(device, os.O_RDONLY) as descriptor:
            fcntl.ioctl(descriptor, BLKPG, call)


def not_asked_for() -> Prepared:
    """--purge none."""
    return not_run(NOT_ASKED_FOR)


def check_without_drive(name: str, target: str, own: tuple[str, ...]) -> None:
    """For targets that are no block devices; `own`: what they know beside none. Raises TargetError."""
    check_name(name)
    if name not in (*own, NONE):
        raise TargetError(f"{target}: --purge {name} is for drives; here there are: {', '.join((*own, NONE))}")
