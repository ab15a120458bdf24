"""May the data on this device be destroyed? Facts are gathered first; what they mean is decided by pure functions.

A device in use is refused whatever the consent; a free one needs consent that names its serial number. The list of
uses is long because each catches what the others miss (a dm device that is not mounted, a swap file's disk, a pool
that is not imported); the kernel's own claim, asked last, catches what none of them knows.
Limits: a device used raw by another machine (shared SAS, NVMe over fabrics) looks free; data without a signature of
md, LVM, ZFS, bcache or LUKS is protected by the consent alone.
"""

from __future__ import annotations

import errno
import os
import re
import shlex
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from flashgauge._core import DeviceError, TargetError
from flashgauge.rig import identify
from flashgauge.rig.identify import BlockDevice, Identity, Roots, read_text
from flashgauge.runfolder import DutInfo


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo; `names`: kernel names of the block devices it is known to sit on."""

    point: str
    filesystem: str
    source: str
    options: str
    names: frozenset[str]


@dataclass(frozen=True)
class Facts:
    """What was found of a device. With every use empty, nothing speaks against destroying its data.

    Uses are phrases that name the device concerned ("sda1 at /home"). `claimed`: the kernel holds it exclusively.
    `unreadable`: why the device could not be searched for signatures.
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
    writers: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    claimed: bool = False
    unreadable: str | None = None


@dataclass(frozen=True)
class Cleared:
    """A device that was found free, and that the operator consented to lose: what a rig is made from."""

    device: BlockDevice
    dut: DutInfo
    identity: Identity


def clear(device: BlockDevice, target: str, consent: str | None, needed_bytes: int) -> Cleared:
    """All checks, in order: uses, consent, size. Raises TargetError; DeviceError when the device changed meanwhile."""
    before = identify.identity(device)
    refuse(gather(device))
    check_consent(device, consent)
    if before.size_bytes < needed_bytes:
        raise TargetError(
            f"{identify.label(device)}: too small, the test needs {needed_bytes} bytes; take a larger one"
        )
    same_device(before, identify.identity(device), identify.label(device))
    return Cleared(device, identify.dut_info(device, target), before)


def refuse(facts: Facts) -> None:
    """Raises TargetError naming every reason and its cure, when there is one."""
    reasons = refusals(facts)
    if reasons:
        raise TargetError(f"{facts.label}: refused: {'; '.join(reasons)}")


def refusals(facts: Facts) -> list[str]:
    """Why the device may not be tested, each with its cure; empty when it may."""
    uses = [
        (facts.root, "the running system's root is on it ({}): test another drive"),
        (facts.mounted, "mounted ({}): umount first"),
        (facts.swaps, "active swap ({}): swapoff first"),
        (facts.holders, "held ({}): take that device down first (dmsetup, vgchange, mdadm, cryptsetup)"),
        (facts.pools, "in a mounted btrfs ({}): umount first"),
        (facts.loops, "behind a loop device ({}): losetup -d first"),
        (facts.writers, "open for writing ({}): stop that process first"),
        (facts.signatures, "carries a member signature ({}): if its data may go, wipefs -a first"),
        (facts.read_only, "read-only ({}): blockdev --setrw, or the drive's own write protection"),
    ]
    reasons = [text.format(", ".join(found)) for found, text in uses if found]
    if facts.size_bytes == 0:
        reasons.append("its size is 0: no medium, or not set up")
    if facts.host_managed:
        reasons.append("host-managed zones take no random writes: test a conventional drive")
    if facts.unreadable:
        reasons.append(facts.unreadable)
    if facts.claimed and not reasons:  # else the reasons above already explain the claim
        reasons.append("the kernel holds it exclusively: find the user with lsblk and lsof, and stop it")
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


def gather(device: BlockDevice) -> Facts:
    """Look at everything that may use the device, its disk, or a partition of it."""
    roots = device.roots
    disk = device.disk
    family = [disk, *identify.partitions(disk)]
    # Signatures on a sibling partition are no use of ours; those on the disk itself, or on what is to be lost, are.
    lost = [disk, device.folder] if device.is_partition else family
    touched = names_under(device.folder)
    mounts = all_mounts(roots)
    signatures, unreadable = _signatures(device, lost)
    return Facts(
        label=identify.label(device),
        size_bytes=device.size_bytes,
        read_only=_sorted(
            identify.kernel_name(node) for node in (disk, device.folder) if read_text(node / "ro") == "1"
        ),
        host_managed=read_text(disk / "queue/zoned") == "host-managed",
        root=_sorted(name for mount in mounts if mount.point == "/" for name in mount.names & touched),
        mounted=_sorted(f"{mount.source} at {mount.point}" for mount in mounts if mount.names & touched),
        swaps=_sorted(name for name in _swaps(roots) if _under(name, roots) & touched),
        holders=_sorted(
            f"{identify.kernel_name(node)} by {holder.name}" for node in family for holder in node.glob("holders/*")
        ),
        pools=_sorted(
            name
            for member in (roots.sys / "fs/btrfs").glob("*/devices/*")
            if _under(name := identify.kernel_name(member), roots) & touched
        ),
        loops=_sorted(name for name, file in loop_files(roots) if _under(_name_of(file, roots), roots) & touched),
        writers=_sorted(
            f"{path} by {process}"
            for path, process in writers(roots, lambda path: bool(_under(_name_of(path, roots), roots) & touched))
        ),
        signatures=signatures,
        claimed=_claimed(device),
        unreadable=unreadable,
    )


def names_under(folder: Path) -> frozenset[str]:
    """Kernel names of the device, its whole disk, and all devices beneath it (dm and md members), to the bottom."""
    names: set[str] = set()
    to_visit = [folder]
    while to_visit:
        node = to_visit.pop()
        if identify.kernel_name(node) in names:
            continue
        names.add(identify.kernel_name(node))
        to_visit += [member.resolve() for member in node.glob("slaves/*")]
        if (node / "partition").exists():
            to_visit.append(node.parent)
    return frozenset(names)


def all_mounts(roots: Roots) -> list[Mount]:
    """Mounts of this and, as far as they can be read, of every other mount namespace."""
    lines: set[str] = set()
    seen: set[str] = set()
    for folder in [roots.proc / "self", *roots.proc.glob("[0-9]*")]:
        try:
            space = os.readlink(folder / "ns/mnt")
        except OSError:
            space = str(folder)  # no leave to ask which namespace it is in; its mounts may be readable still
        if space not in seen:
            seen.add(space)
            lines.update((read_text(folder / "mountinfo") or "").splitlines())
    return parse_mounts(sorted(lines), roots)


def parse_mounts(lines: list[str], roots: Roots) -> list[Mount]:
    """mountinfo lines: 4th field the mount point, 3rd major:minor, after " - " file system, source, options."""
    by_number = identify.folders_by_number(roots)
    mounts = []
    for line in lines:
        left, _, right = line.partition(" - ")
        fields, tail = left.split(), right.split()
        if len(fields) < 5 or len(tail) < 2:
            continue
        source = _unescaped(tail[1])
        folder = by_number.get(fields[2])
        # btrfs, overlay and others mount with major number 0; what they sit on is then known by the source.
        names = names_under(folder) if folder is not None else _under(_name_of(source, roots), roots)
        mounts.append(Mount(_unescaped(fields[4]), tail[0], source, tail[2] if len(tail) > 2 else "", names))
    return [_with_layers(mount, mounts) for mount in mounts]


def _with_layers(mount: Mount, mounts: list[Mount]) -> Mount:
    """An overlay sits on the devices of the file systems that hold its layers."""
    if mount.filesystem != "overlay":
        return mount
    layers = re.findall(r"(?:upperdir|lowerdir|workdir)=([^,]*)", mount.options)
    names = mount.names
    for layer in [path for paths in layers for path in paths.split(":")]:
        below = mount_of(_unescaped(layer), [other for other in mounts if other.filesystem != "overlay"])
        names |= below.names if below is not None else frozenset()
    return Mount(mount.point, mount.filesystem, mount.source, mount.options, names)


def mount_of(path: str, mounts: list[Mount]) -> Mount | None:
    """The mount a path is on: the longest mount point that leads to it."""
    holding = [mount for mount in mounts if Path(path).is_relative_to(mount.point)]
    return max(holding, key=lambda mount: len(mount.point), default=None)


def swap_paths(roots: Roots) -> list[str]:
    """Paths of active swap devices and files."""
    lines = (read_text(roots.proc / "swaps") or "").splitlines()[1:]
    return [_unescaped(line.split()[0]) for line in lines if line.strip()]


def loop_files(roots: Roots) -> list[tuple[str, str]]:
    """(loop device, path of its backing file or device)."""
    pairs = [
        (folder.name, read_text(folder / "loop/backing_file")) for folder in (roots.sys / "class/block").glob("loop*")
    ]
    return [(name, file) for name, file in pairs if file is not None]


def _swaps(roots: Roots) -> list[str]:
    return [name for path in swap_paths(roots) if (name := _name_of(path, roots)) is not None]


def writers(roots: Roots, concerns: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """(path, process) for every path of concern that another process has open for writing: nothing else tells of the
    raw disk or the disk image of a virtual machine."""
    for entry in roots.proc.glob("[0-9]*/fd"):
        process = entry.parent
        try:
            links = [] if process.name == str(os.getpid()) else list(os.scandir(entry))
            # The link's text is compared, not what it leads to: stat hangs on a dead network file system.
            paths = [(link.name, os.readlink(link.path)) for link in links]
        except OSError:
            continue  # ended meanwhile, or not ours to look at
        for number, path in paths:
            if concerns(path):
                flags = re.search(r"flags:\s*([0-7]+)", read_text(process / f"fdinfo/{number}") or "")
                if flags is None or int(flags[1], 8) & os.O_ACCMODE != os.O_RDONLY:
                    yield path, f"process {process.name} {read_text(process / 'comm') or ''}".strip()


def _claimed(device: BlockDevice) -> bool:
    """Whether an exclusive open fails: mounts of other namespaces, pools, targets, anything the kernel uses."""
    try:
        os.close(os.open(device.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC | os.O_NONBLOCK))
    except OSError as error:
        return error.errno == errno.EBUSY  # other errors come up, with their cure, when signatures are read
    return False


def _signatures(device: BlockDevice, nodes: list[Path]) -> tuple[tuple[str, ...], str | None]:
    """Signatures on the nodes, and why a node could not be read."""
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
                    return tuple(found), f"{path} is not the device {name}: start again"
                found += [f"{name}: {signature}" for signature in signatures_in(descriptor, size_bytes)]
            finally:
                os.close(descriptor)
        except PermissionError:
            return tuple(found), f"no permission to read {path}: run as root"
        except OSError as error:
            if size_bytes:  # without a medium, the size says so already
                return tuple(found), f"cannot read {path} ({error.strerror}): check its connection and the kernel log"
    return tuple(found), None


def signatures_in(descriptor: int, size_bytes: int) -> list[str]:
    """Names of the signatures of md, LVM, ZFS, bcache and LUKS at their places. Raises OSError."""

    def at(offset: int, count: int) -> bytes:
        return os.pread(descriptor, count, offset) if offset >= 0 else b""

    md = b"\xfc\x4e\x2b\xa9"  # 0xa92b4efc, little-endian; version 0.90 is written in the host's order
    end_64k = size_bytes // 65536 * 65536 - 65536
    end_8k = (size_bytes // 512 - 16) // 8 * 8 * 512
    checks = {
        "LVM": any(at(sector * 512, 8) == b"LABELONE" for sector in range(4)),
        "md": any(at(offset, 4) == md for offset in (0, 4096, end_8k, end_64k)) or at(end_64k, 4) == md[::-1],
        "Intel firmware RAID": at(size_bytes - 1024, 23) == b"Intel Raid ISM Cfg Sig.",
        "DDF RAID": at(size_bytes - 512, 4) == b"\xde\x11\xde\x11",
        "bcache": at(4096 + 24, 16) == bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"),
        "LUKS": at(0, 6) == b"LUKS\xba\xbe" or at(0x4000, 6) == b"SKUL\xba\xbe",
        "ZFS": any(_zfs_label(at(offset + 131072, 131072)) for offset in _zfs_labels(size_bytes)),
    }
    return [name for name, present in checks.items() if present]


def _zfs_labels(size_bytes: int) -> tuple[int, ...]:
    label = 262144
    end = size_bytes // label * label
    return (0, label, end - 2 * label, end - label) if end >= 4 * label else ()


def _zfs_label(uberblocks: bytes) -> bool:
    """Uberblocks start with their magic, at a multiple of 1 KiB at least, in either byte order."""
    magic = (0x00BAB10C).to_bytes(8, "little")
    return any(uberblocks[at : at + 8] in (magic, magic[::-1]) for at in range(0, len(uberblocks), 1024))


def _name_of(path: str, roots: Roots) -> str | None:
    """Kernel name of the device node at `path` (/dev/mapper/x is a link to /dev/dm-0); None when it is none."""
    if not path.startswith("/dev/"):
        return None
    top = Path(os.path.realpath(roots.dev))
    real = Path(os.path.realpath(top / path.removeprefix("/dev/")))
    name = str(real.relative_to(top)) if real.is_relative_to(top) else ""
    return name if name and (roots.sys / "class/block" / name.replace("/", "!")).exists() else None


def _under(name: str | None, roots: Roots) -> frozenset[str]:
    entry = roots.sys / "class/block" / (name or "").replace("/", "!")
    return names_under(entry.resolve()) if name and entry.exists() else frozenset()


def _sorted(phrases: Iterator[str]) -> tuple[str, ...]:
    return tuple(sorted(set(phrases)))


def _unescaped(text: str) -> str:
    """The kernel writes space, tab, newline and backslash in these tables as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
