"""Who uses which block device: mounts, swap, pools, loop devices, exports, and processes that have one open.

Read once for the whole machine, and then asked about any number of devices. Reference: proc(5), and the kernel's
Documentation/ABI for sysfs-block and configfs-nvmet. Limits: what other users' processes have open, and the mounts of
their namespaces, are seen by root alone; a device that another machine uses raw (shared SAS, NVMe over fabrics) looks
free.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from flashgauge.rig import identify
from flashgauge.rig.identify import Roots, read_text


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo; `names`: kernel names of the block devices it is known to sit on."""

    point: str
    filesystem: str
    source: str
    options: str
    names: frozenset[str]


@dataclass(frozen=True)
class Use:
    """`phrase`: the use in a few words, for messages. `names`: kernel names of all devices it is on, to the bottom."""

    phrase: str
    names: frozenset[str]


@dataclass(frozen=True)
class Uses:
    """All uses of block devices on this machine. `disks`: folders of whole disks by what `identify.same_drive` says."""

    mounts: tuple[Mount, ...]
    swaps: tuple[Use, ...]
    pools: tuple[Use, ...]
    loops: tuple[Use, ...]
    exports: tuple[Use, ...]
    writers: tuple[Use, ...]
    disks: dict[tuple[str, ...], tuple[Path, ...]]


def read_uses(roots: Roots) -> Uses:
    @cache
    def under(path: str) -> frozenset[str]:
        return _under(_name_of(path, roots), roots)

    folders = identify.folders_by_number(roots)

    @cache
    def by_number(number: str | None) -> frozenset[str]:
        return names_under(folders[number]) if number in folders else frozenset()

    members = (roots.sys / "fs/btrfs").glob("*/devices/*")
    return Uses(
        mounts=tuple(all_mounts(roots)),
        swaps=tuple(Use(_name_of(path, roots) or path, under(path)) for path in swap_paths(roots)),
        pools=tuple(Use(name, _under(name, roots)) for member in members for name in [identify.kernel_name(member)]),
        loops=tuple(Use(name, under(file)) for name, file in loop_files(roots)),
        exports=tuple(Use(path, under(path)) for path in _exported(roots)),
        writers=tuple(
            Use(f"{path} by {process}", under(path) or by_number(number))
            for path, process, number in writers(roots, lambda path, number: bool(under(path) or by_number(number)))
        ),
        disks=_same_drives(roots),
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


# What can hold a device node, and answers stat(2) without another machine.
_LOCAL = {"devtmpfs", "tmpfs", "ramfs", "rootfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "overlay", "squashfs"}


def writers(roots: Roots, concerns: Callable[[str, str | None], bool]) -> Iterator[tuple[str, str, str | None]]:
    """(path, process, number) of all of concern that another process has open for writing: nothing else tells of the
    raw disk or the disk image of a virtual machine. `number`: "major:minor" of a block device, by whatever name."""
    kinds: dict[str, dict[str, str]] = {}
    for entry in roots.proc.glob("[0-9]*/fd"):
        process = entry.parent
        try:
            links = [] if process.name == str(os.getpid()) else list(os.scandir(entry))
        except OSError:
            continue  # ended meanwhile, or not ours to look at
        for link in links:
            try:
                path = os.readlink(link.path)
            except OSError:
                continue  # closed meanwhile
            if not path.startswith("/"):
                continue  # a socket or a pipe
            facts = read_text(process / f"fdinfo/{link.name}") or ""
            flags = re.search(r"flags:\s*([0-7]+)", facts)
            if flags is not None and int(flags[1], 8) & os.O_ACCMODE == os.O_RDONLY:
                continue
            number = _block_number(link.path, facts, process, kinds)
            if concerns(path, number):
                yield path, f"process {process.name} {read_text(process / 'comm') or ''}".strip(), number


def _block_number(link: str, facts: str, process: Path, kinds: dict[str, dict[str, str]]) -> str | None:
    """The number of the block device behind an open descriptor. Not asked of a network file system: stat hangs on a
    dead one. `kinds`: mount id -> file system, of the mount namespaces seen so far."""
    mount = re.search(r"mnt_id:\s*(\d+)", facts)
    try:
        space = os.readlink(process / "ns/mnt")
    except OSError:
        space = str(process)
    if space not in kinds:
        lines = [line.partition(" - ") for line in (read_text(process / "mountinfo") or "").splitlines()]
        kinds[space] = {left.split()[0]: right.split()[0] for left, _, right in lines if left.strip() and right.strip()}
    if mount is None or kinds[space].get(mount[1]) not in _LOCAL:
        return None
    try:
        status = os.stat(link)
    except OSError:
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if stat.S_ISBLK(status.st_mode) else None


def _exported(roots: Roots) -> list[str]:
    """Paths of devices that the kernel's NVMe and SCSI targets offer to other machines; the NVMe target does not claim
    its devices exclusively."""
    config = roots.sys / "kernel/config"
    files = [
        *config.glob("nvmet/subsystems/*/namespaces/*/device_path"),
        *config.glob("target/core/*/*/udev_path"),
    ]
    return [path for file in files if read_text(file.parent / "enable") != "0" and (path := read_text(file))]


def _same_drives(roots: Roots) -> dict[tuple[str, ...], tuple[Path, ...]]:
    found: dict[tuple[str, ...], tuple[Path, ...]] = {}
    for folder in identify.folders_by_number(roots).values():
        if not (folder / "partition").exists() and (key := identify.same_drive(folder, roots)) is not None:
            found[key] = (*found.get(key, ()), folder)
    return found


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


def _unescaped(text: str) -> str:
    """The kernel writes space, tab, newline and backslash in these tables as three octal digits."""
    return re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text)
