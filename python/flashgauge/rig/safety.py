"""May the data on this device be destroyed? Facts are gathered first; what they mean is decided by pure functions.

A device in use is refused whatever the consent; a free one needs consent that names its serial number. The list of
uses is long because each catches what the others miss (a dm device that is not mounted, a swap file's disk, a pool
that is not imported); the kernel's own claim, asked last, catches what none of them knows.
Limits: those of `uses` and `signatures`; data without a known member signature is protected by the consent alone.
"""

from __future__ import annotations

import errno
import os
import shlex
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from flashgauge._core import DeviceError, TargetError
from flashgauge.rig import identify, records, signatures
from flashgauge.rig.identify import BlockDevice, Identity, read_text
from flashgauge.rig.uses import Uses, names_under, read_uses
from flashgauge.runfolder import DutInfo

# Somebody who lists devices claims each for some microseconds; so may another program that looks at them.
CLAIM_AGAIN_S = 0.05
_CLAIM = os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(frozen=True)
class Refusal:
    """Why a device may not be tested: in a word or two, and as a phrase with its cure."""

    kind: str
    text: str


@dataclass(frozen=True)
class Facts:
    """What was found of a device. With every use empty, nothing speaks against destroying its data.

    Uses are phrases that name the device concerned ("sda1 at /home"). `claimed`: the kernel holds it exclusively.
    `unreadable`: why the device could not be searched for signatures. `unwatched`: its medium can be exchanged, and
    the kernel would not tell. `measured`: a run has the drive, by this or another of its namespaces.
    """

    label: str
    size_bytes: int
    read_only: tuple[str, ...] = ()
    host_managed: bool = False
    root: tuple[str, ...] = ()
    mounted: tuple[str, ...] = ()
    swaps: tuple[str, ...] = ()
    holders: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()
    loops: tuple[str, ...] = ()
    exports: tuple[str, ...] = ()
    writers: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    claimed: bool = False
    unwatched: bool = False
    measured: bool = False
    unreadable: Refusal | None = None


@dataclass(frozen=True)
class Cleared:
    """A device that was found free, and that the operator consented to lose: what a rig is made from.

    `signatures`: member signatures that the operator consented to lose as well.
    """

    device: BlockDevice
    dut: DutInfo
    identity: Identity
    signatures: tuple[str, ...] = ()


def clear(
    device: BlockDevice,
    target: str,
    consent: str | None,
    needed_bytes: int,
    *,
    consent_signatures: bool = False,
    seen: Identity | None = None,
    touch: bool = True,
) -> Cleared:
    """All checks, in order: uses, consent, size. `seen`: what the device was when the operator consented. `touch`: as
    of `gather`.

    Raises TargetError; DeviceError when the device changed meanwhile.
    """
    before = seen if seen is not None else identify.identity(device)
    facts = gather(device, read_uses(device.roots), touch=touch)
    refuse(facts, consent_signatures)
    check_consent(device, consent)
    if before.size_bytes < needed_bytes:
        raise TargetError(
            f"{identify.label(device)}: too small, the test needs {needed_bytes} bytes; take a larger one"
        )
    same_device(before, identify.identity(device), identify.label(device))
    return Cleared(device, identify.dut_info(device, target), before, facts.signatures)


def refuse(facts: Facts, consent_signatures: bool = False) -> None:
    """Raises TargetError naming every reason and its cure, when there is one."""
    reasons = refusals(facts, consent_signatures)
    if reasons:
        raise TargetError(f"{facts.label}: refused: {'; '.join(reason.text for reason in reasons)}")


def refusals(facts: Facts, consent_signatures: bool = False) -> list[Refusal]:
    """Why the device may not be tested, each with its cure; empty when it may. `consent_signatures`: the operator
    consents to losing what carries a member signature and is not in use."""
    member = () if consent_signatures else facts.signatures
    uses = [
        ("system disk", facts.root, "the running system's root is on it ({}): test another drive"),
        ("mounted", facts.mounted, "mounted ({}): umount first"),
        ("swap", facts.swaps, "active swap ({}): swapoff first"),
        (
            "held",
            facts.holders,
            "held ({}): take that device down first (dmsetup, vgchange, mdadm, cryptsetup, multipath)",
        ),
        ("btrfs", facts.pools, "in a mounted btrfs ({}): umount first"),
        ("loop", facts.loops, "behind a loop device ({}): losetup -d first"),
        ("exported", facts.exports, "exported to other machines ({}): take it out of that target first"),
        ("open", facts.writers, "open for writing ({}): stop that process first"),
        (
            "signature",
            member,
            "carries a member signature ({}): if its data may go, wipefs -a first, or add --consent-signatures",
        ),
        ("read-only", facts.read_only, "read-only ({}): blockdev --setrw, or the drive's own write protection"),
    ]
    reasons = [Refusal(kind, text.format(", ".join(found))) for kind, found, text in uses if found]
    if facts.size_bytes == 0:
        reasons.append(Refusal("no medium", "its size is 0: no medium, or not set up"))
    if facts.host_managed:
        reasons.append(Refusal("zoned", "host-managed zones take no random writes: test a conventional drive"))
    if facts.unwatched:
        missing = "its medium can be exchanged, and this kernel would not tell: use Linux 5.15 or newer"
        reasons.append(Refusal("removable", missing))
    if facts.measured:
        text = (
            "a run is under way on this drive, whose namespaces share a controller and a write cache: wait for its end"
        )
        reasons.append(Refusal("under test", text))
    if facts.unreadable:
        reasons.append(facts.unreadable)
    if facts.claimed and not reasons:  # else the reasons above already explain the claim
        text = "the kernel holds it exclusively: find the user with lsblk and lsof, and stop it"
        reasons.append(Refusal("claimed", text))
    return reasons


def check_consent(device: BlockDevice, consent: str | None) -> None:
    """Raises TargetError, saying what to type, unless `consent` is the serial (the kernel name without a serial)."""
    name, what = identify.consent_name(device)
    require_consent(identify.label(device), name, what, consent)


def require_consent(label: str, name: str, what: str, consent: str | None) -> None:
    """`consent` must be `name`, which is the target's `what`. Raises TargetError."""
    if consent is not None and consent.strip() == name:
        return
    given = "" if consent is None else f"--consent {shlex.quote(consent)} is not its {what}; "
    raise TargetError(f"{label}: {given}a test destroys all its data; to consent add --consent {shlex.quote(name)}")


def same_device(before: Identity, now: Identity, label: str) -> None:
    """Raises DeviceError when the two identities differ."""
    changes = [
        f"{name} was {value}, is {getattr(now, name)}"
        for name, value in vars(before).items()
        if getattr(now, name) != value
    ]
    if changes:
        raise DeviceError(errno.ENODEV, f"{label}: not the device consented to ({', '.join(changes)}); start again")


def recheck(cleared: Cleared) -> None:
    """Before each destructive step: the path still leads to the device consented to. Raises DeviceError."""
    device = cleared.device
    try:
        now = identify.find_block(device.path, device.roots)
    except TargetError as error:
        raise DeviceError(errno.ENODEV, f"{error} (the device went away after consent)") from error
    same_device(cleared.identity, identify.identity(now), device.given)


def gather(device: BlockDevice, uses: Uses, *, gently: bool = False, touch: bool = True) -> Facts:
    """Look at everything that may use the device, its disk, or a partition of it; also by another path to the drive.

    `gently`: a device in use is neither opened nor read, since that could disturb who uses it.
    `touch`: whether a device may be opened and read at all; without, its claim and its signatures are not known.
    """
    disk = device.disk
    twins = [twin for twin in uses.disks.get(identify.same_drive(disk, device.roots) or (), ()) if twin != disk]
    family = [node for whole in (disk, *twins) for node in (whole, *identify.partitions(whole))]
    touched = names_under(device.folder).union(*(names_under(twin) for twin in twins))

    def of(found: Iterable[tuple[str, frozenset[str]]]) -> tuple[str, ...]:
        return tuple(sorted({phrase for phrase, names in found if names & touched}))

    facts = Facts(
        label=identify.label(device),
        size_bytes=device.size_bytes,
        read_only=tuple(
            sorted({identify.kernel_name(node) for node in (disk, device.folder) if read_text(node / "ro") == "1"})
        ),
        host_managed=read_text(disk / "queue/zoned") == "host-managed",
        root=tuple(sorted({name for mount in uses.mounts if mount.point == "/" for name in mount.names & touched})),
        mounted=of((f"{mount.source} at {mount.point}", mount.names) for mount in uses.mounts),
        swaps=of((use.phrase, use.names) for use in uses.swaps),
        holders=tuple(
            sorted(f"{identify.kernel_name(node)} by {hold.name}" for node in family for hold in node.glob("holders/*"))
        ),
        pools=of((use.phrase, use.names) for use in uses.pools),
        loops=of((use.phrase, use.names) for use in uses.loops),
        exports=of((use.phrase, use.names) for use in uses.exports),
        writers=of((use.phrase, use.names) for use in uses.writers),
        unwatched=read_text(disk / "removable") == "1" and read_text(disk / "diskseq") is None,
        measured=records.run_under_way(device),
    )
    if not touch or (gently and refusals(facts)):
        return facts
    facts = replace(facts, claimed=_claimed(device))
    if gently and facts.claimed:
        return facts
    found, unreadable = _look(device, _lost(device, with_disk=True), signatures.members_in)
    return replace(facts, signatures=tuple(found), unreadable=unreadable)


def contents(device: BlockDevice) -> list[str]:
    """What a test would destroy, as far as it is recognized: "sda1: ext4 "home""."""
    return _look(device, _lost(device, with_disk=False), signatures.contents_in)[0]


def _lost(device: BlockDevice, *, with_disk: bool) -> list[Path]:
    """Folders of what a test overwrites: the device and its partitions. `with_disk`: also a partition's disk, whose
    signature makes the partition part of what the disk belongs to; one on a sibling partition does not."""
    if device.is_partition:
        return [device.disk, device.folder] if with_disk else [device.folder]
    return [device.folder, *identify.partitions(device.folder)]


@contextmanager
def claimed(device: BlockDevice) -> Iterator[bool]:
    """The device for us alone, while the block lasts; whether that could be had. One that cannot be opened for another
    reason than that somebody has it is free all the same."""
    for again in (True, False):
        try:
            descriptor = os.open(device.path, _CLAIM)
            break
        except OSError as error:
            if error.errno != errno.EBUSY or not again:
                yield error.errno != errno.EBUSY
                return
        time.sleep(CLAIM_AGAIN_S)
    try:
        yield True
    finally:
        os.close(descriptor)


def _claimed(device: BlockDevice) -> bool:
    """Whether an exclusive open fails: mounts of other namespaces, pools, targets, anything the kernel uses."""
    if not _busy(device):
        return False
    time.sleep(CLAIM_AGAIN_S)
    return _busy(device)


def _busy(device: BlockDevice) -> bool:
    try:
        os.close(os.open(device.path, _CLAIM))
    except OSError as error:
        return error.errno == errno.EBUSY  # other errors come up, with their cure, when signatures are read
    return False


def _look(
    device: BlockDevice, nodes: list[Path], search: Callable[[int, int], list[str]]
) -> tuple[list[str], Refusal | None]:
    """What `search(descriptor, size_bytes)` finds on the nodes, each with its name; why a node could not be read."""
    found: list[str] = []
    for node in nodes:
        name, size_bytes = identify.kernel_name(node), identify.number(node / "size") * identify.SECTOR_BYTES
        path = device.path if node == device.folder else str(device.roots.dev / name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            try:
                status = os.fstat(descriptor)
                major_minor = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
                if stat.S_ISBLK(status.st_mode) and major_minor != read_text(node / "dev"):
                    return found, Refusal("unreadable", f"{path} is not the device {name}: start again")
                found += [f"{name}: {what}" for what in search(descriptor, size_bytes)]
            finally:
                os.close(descriptor)
        except PermissionError:
            return found, Refusal("permission", f"no permission to read {path}: run as root")
        except OSError as error:
            if size_bytes:  # without a medium, the size says so already
                text = f"cannot read {path} ({error.strerror}): check its connection and the kernel log"
                return found, Refusal("unreadable", text)
    return found, None
