"""What is on a device, by the magic numbers at their places: members of something larger, file systems, partitions.

References: the on-disk formats' own descriptions (md superblock, LVM2 label, ZFS on-disk format, LUKS 1 and 2, SNIA
DDF, ext4, XFS, btrfs, FAT, GPT of UEFI). Limits: a list of known formats; what it does not know looks empty, and a
format that was half overwritten may be missed or named still. Nothing is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

At = Callable[[int, int], bytes]  # offset and number of bytes -> what is there


def members_in(descriptor: int, size_bytes: int) -> list[str]:
    """Names of what the device is a member of: arrays, volume groups, pools, encrypted volumes. Such a device can be in
    use without being mounted, or be wanted by a machine that is off. Raises OSError."""
    at = _reader(descriptor)
    md = b"\xfc\x4e\x2b\xa9"  # 0xa92b4efc, little-endian; version 0.90 is written in the host's order
    end_64k = size_bytes // 65536 * 65536 - 65536
    end_8k = (size_bytes // 512 - 16) // 8 * 8 * 512
    checks = {
        "LVM": any(_lvm_label(at(sector * 512, 32)) for sector in range(4)),
        "md": any(at(offset, 4) == md for offset in (0, 4096, end_8k, end_64k)) or at(end_64k, 4) == md[::-1],
        "Intel firmware RAID": at(size_bytes - 1024, 23) == b"Intel Raid ISM Cfg Sig.",
        "DDF RAID": at(size_bytes - 512, 4) == b"\xde\x11\xde\x11",
        "bcache": at(4096 + 24, 16) == bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81"),
        "bcachefs": at(4096 + 24, 16) == bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef"),
        "LUKS": at(0, 6) == b"LUKS\xba\xbe" or at(0x4000, 6) == b"SKUL\xba\xbe",
        "ZFS": any(_zfs_label(at(offset + 131072, 131072)) for offset in _zfs_labels(size_bytes)),
        "Ceph BlueStore": at(0, 22) == b"bluestore block device",
        "Oracle ASM": at(32, 8) == b"ORCLDISK",
        "VMFS": at(1 << 20, 4) == b"\x0d\xd0\x01\xc0",
    }
    return [name for name, present in checks.items() if present]


def _lvm_label(sector: bytes) -> bool:
    """Its type too: wipefs erases that, and leaves the name of the label."""
    return sector[:8] == b"LABELONE" and sector[24:32] == b"LVM2 001"


@dataclass(frozen=True)
class _Format:
    """A file system known by `magic` at `offset`; its volume label is text of `label_bytes` at `label_at`."""

    name: str
    offset: int
    magic: bytes
    label_at: int = 0
    label_bytes: int = 0


_FORMATS = (
    _Format("xfs", 0, b"XFSB", 108, 12),
    _Format("btrfs", 0x10040, b"_BHRfS_M", 0x1012B, 256),
    _Format("vfat", 82, b"FAT32   ", 71, 11),
    _Format("vfat", 54, b"FAT16   ", 43, 11),
    _Format("vfat", 54, b"FAT12   ", 43, 11),
    _Format("exfat", 3, b"EXFAT   "),
    _Format("ntfs", 3, b"NTFS    "),
    _Format("ReFS", 3, b"ReFS\0\0\0\0"),
    _Format("BitLocker", 3, b"-FVE-FS-"),
    _Format("swap", 4096 - 10, b"SWAPSPACE2", 1052, 16),
    _Format("swap", 65536 - 10, b"SWAPSPACE2", 1052, 16),
    _Format("f2fs", 1024, b"\x10\x20\xf5\xf2"),
    _Format("erofs", 1024, b"\xe2\xe1\xf5\xe0"),
    _Format("HFS+", 1024, b"H+\0\4"),
    _Format("HFS+", 1024, b"HX\0\5"),
    _Format("APFS", 32, b"NXSB"),
    _Format("squashfs", 0, b"hsqs"),
    _Format("iso9660", 32769, b"CD001", 32808, 32),
)


def contents_in(descriptor: int, size_bytes: int) -> list[str]:
    """What an owner would miss: members, file systems with their volume labels (ext4 "home"), partition tables.

    Raises OSError.
    """
    at = _reader(descriptor)
    found = [f"{name} member" for name in members_in(descriptor, size_bytes)]
    found += [_labelled(at, form) for form in _FORMATS if at(form.offset, len(form.magic)) == form.magic]
    found += _ext(at)
    table = _partition_table(at)
    # The boot sector of a FAT or NTFS ends as a partition table does.
    if table == "GPT" or (table is not None and not found):
        found.append(f"{table} partition table")
    return list(dict.fromkeys(found))


def _reader(descriptor: int) -> At:
    return lambda offset, count: os.pread(descriptor, count, offset) if offset >= 0 else b""


def _labelled(at: At, form: _Format) -> str:
    label = at(form.label_at, form.label_bytes).split(b"\0")[0].decode(errors="replace").strip()
    return _named(form.name, "" if label == "NO NAME" else label)


def _named(name: str, label: str) -> str:
    printable = "".join(letter for letter in label if letter.isprintable())
    return f'{name} "{printable}"' if printable else name


def _ext(at: At) -> list[str]:
    """The superblock is 1 KiB into the volume: magic at 56, features from 92, volume name at 120."""
    block = at(1024, 136)
    if len(block) < 136 or block[56:58] != b"\x53\xef" or int.from_bytes(block[24:28], "little") > 6:
        return []
    compatible, incompatible = (int.from_bytes(block[at : at + 4], "little") for at in (92, 96))
    has_journal, extents_64bit_flex = compatible & 0x4, incompatible & 0x2C0
    kind = "ext4" if extents_64bit_flex else "ext3" if has_journal else "ext2"
    return [_named(kind, block[120:136].split(b"\0")[0].decode(errors="replace"))]


def _partition_table(at: At) -> str | None:
    if any(at(block_bytes, 8) == b"EFI PART" for block_bytes in (512, 4096)):
        return "GPT"
    sector = at(0, 512)
    entries = [sector[start : start + 16] for start in range(446, 510, 16)]
    # Each of the four entries begins with 00h or 80h; an entry in use has a type.
    whole = sector[510:] == b"\x55\xaa" and all(entry[0] in (0, 0x80) for entry in entries)
    return "MBR" if whole and any(entry[4] for entry in entries) else None


def _zfs_labels(size_bytes: int) -> tuple[int, ...]:
    label = 262144
    end = size_bytes // label * label
    return (0, label, end - 2 * label, end - label) if end >= 4 * label else ()


def _zfs_label(uberblocks: bytes) -> bool:
    """Uberblocks start with their magic, at a multiple of 1 KiB at least, in either byte order."""
    magic = (0x00BAB10C).to_bytes(8, "little")
    return any(uberblocks[at : at + 8] in (magic, magic[::-1]) for at in range(0, len(uberblocks), 1024))
