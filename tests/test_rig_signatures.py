"""What is recognized on a device: made by the file systems' own tools where they are installed, else by hand."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from blockdevices import MIB, tool
from flashgauge.rig.signatures import contents_in

SIZE = 320 * MIB  # mkfs.xfs takes nothing smaller


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """An empty image, sparse."""
    file = tmp_path / "disk.img"
    file.touch()
    os.truncate(file, SIZE)
    return file


def found(image: Path) -> list[str]:
    with image.open("rb") as file:
        return contents_in(file.fileno(), image.stat().st_size)


def put(image: Path, offset: int, data: bytes) -> None:
    with image.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def by_blkid(image: Path) -> tuple[str, str]:
    """Type and label as libblkid has them: an answer of other hands."""
    values = [
        subprocess.run(
            ["blkid", "--probe", "--output", "value", "--match-tag", tag, str(image)], capture_output=True, text=True
        ).stdout.strip()
        for tag in ("TYPE", "LABEL")
    ]
    return values[0], values[1]


MAKERS = {
    "ext2": ("mkfs.ext2", "-q", "-F", "-L", "old home"),
    "ext3": ("mkfs.ext3", "-q", "-F", "-L", "old home"),
    "ext4": ("mkfs.ext4", "-q", "-F", "-L", "old home"),
    "swap": ("mkswap", "-L", "swap one"),
    "xfs": ("mkfs.xfs", "-q", "-f", "-L", "data"),
    "btrfs": ("mkfs.btrfs", "-q", "-f", "-L", "pool of mine"),
    "vfat": ("mkfs.vfat", "-n", "BOOT"),
    "exfat": ("mkfs.exfat",),
    "f2fs": ("mkfs.f2fs", "-q", "-f"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_file_systems_made_by_their_own_tools(image: Path, kind: str) -> None:
    tool(*MAKERS[kind], str(image))
    name, label = by_blkid(image)
    assert name == kind
    assert found(image) == [f'{name} "{label}"' if label else name]


@pytest.mark.parametrize("width", ["12", "16", "32"])
def test_fat_of_every_width(image: Path, width: str) -> None:
    os.truncate(image, 8 * MIB if width == "12" else SIZE)
    tool("mkfs.vfat", "-F", width, "-n", "CARD", str(image))
    assert found(image) == ['vfat "CARD"']


HAND_MADE = [
    ("ntfs", 3, b"NTFS    "),
    ("ReFS", 3, b"ReFS\0\0\0\0"),
    ("BitLocker", 3, b"-FVE-FS-"),
    ("exfat", 3, b"EXFAT   "),
    ("swap", 65536 - 10, b"SWAPSPACE2"),
    ("f2fs", 1024, (0xF2F52010).to_bytes(4, "little")),
    ("erofs", 1024, (0xE0F5E1E2).to_bytes(4, "little")),
    ("HFS+", 1024, b"H+\0\4"),
    ("APFS", 32, b"NXSB"),
    ("squashfs", 0, b"hsqs"),
    ("LVM member", 512, b"LABELONE" + bytes(16) + b"LVM2 001"),
    ("ZFS member", 131072, (0x00BAB10C).to_bytes(8, "little")),
    ("GPT partition table", 512, b"EFI PART"),
    ("GPT partition table", 4096, b"EFI PART"),
]


@pytest.mark.parametrize(("kind", "offset", "magic"), HAND_MADE)
def test_formats_made_by_hand(image: Path, kind: str, offset: int, magic: bytes) -> None:
    assert found(image) == []
    put(image, offset, magic)
    assert found(image) == [kind]


def test_iso_image_with_its_label(image: Path) -> None:
    put(image, 32769, b"CD001")
    put(image, 32808, b"INSTALL".ljust(32))
    assert found(image) == ['iso9660 "INSTALL"']


MBR_ENTRY = bytes([0x80, 0, 2, 0, 0x83, 0, 0, 0]) + (2048).to_bytes(4, "little") + (4096).to_bytes(4, "little")


def test_partition_tables(image: Path) -> None:
    put(image, 510, b"\x55\xaa")
    assert found(image) == [], "a boot sector without partitions"
    put(image, 446, MBR_ENTRY)
    assert found(image) == ["MBR partition table"]
    put(image, 512, b"EFI PART")
    assert found(image) == ["GPT partition table"], "its first sector is there to protect it"


def test_the_boot_sector_of_a_file_system_is_no_partition_table(image: Path) -> None:
    put(image, 3, b"NTFS    ")
    put(image, 446, MBR_ENTRY)
    put(image, 510, b"\x55\xaa")
    assert found(image) == ["ntfs"]


def test_all_of_several_are_named(image: Path) -> None:
    """A disk that had several lives."""
    put(image, 512, b"EFI PART")
    put(image, 0x10040, b"_BHRfS_M")
    put(image, 0x1012B, b"ba\x1b[31md\0junk")
    assert found(image) == ['btrfs "ba[31md"', "GPT partition table"], "and no label steers the terminal"


def test_a_device_smaller_than_any_format(tmp_path: Path) -> None:
    file = tmp_path / "tiny"
    file.write_bytes(b"x" * 700)
    with file.open("rb") as stream:
        assert contents_in(stream.fileno(), 700) == []
