"""A machine's sysfs, proc and dev trees, made for a test."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from flashgauge._core import TargetError
from flashgauge.rig import identify, safety
from flashgauge.rig.identify import BlockDevice, Roots

MIB = 1 << 20


class Tree:
    """A machine with two idle disks of 16 MiB: sda (sda1, sda2) with serial S-1, and sdb with its own root on sdb1."""

    def __init__(self, root: Path) -> None:
        self.roots = Roots(root / "sys", root / "proc", root / "dev", root / "run", root / "etc")
        for folder in ("sys/class/block", "proc/self", "dev", "run", "etc"):
            (root / folder).mkdir(parents=True)
        self.disk("sda", "8:0", "S-1")
        self.part("sda", "sda1", "8:1")
        self.part("sda", "sda2", "8:2")
        self.disk("sdb", "8:16", "S-2")
        self.part("sdb", "sdb1", "8:17")
        self.mount("8:17", "/", "/dev/sdb1")
        self.write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n")

    def write(self, path: str, text: str | bytes) -> Path:
        file = self.roots.sys.parent / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return file

    def _device(self, where: str, name: str, major_minor: str) -> None:
        self.write(f"{where}/dev", f"{major_minor}\n")
        self.write(f"{where}/size", f"{16 * MIB // 512}\n")
        self.write(f"{where}/ro", "0\n")
        (self.roots.sys.parent / where / "holders").mkdir()
        (self.roots.sys / "class/block" / name).symlink_to(self.roots.sys.parent / where)
        os.truncate(self.write(f"dev/{name}", b""), 16 * MIB)

    def disk(self, name: str, major_minor: str, serial: str | None, place: str = "pci0000:00/ata1/block") -> None:
        where = f"sys/devices/{place}/{name}"
        self._device(where, name, major_minor)
        if serial is not None:
            self.write(f"{where}/device/vpd_pg80", b"\0\x80" + len(serial).to_bytes(2, "big") + serial.encode())
            self.write(f"{where}/device/model", "TESTDISK\n")

    def part(self, disk: str, name: str, major_minor: str) -> None:
        self._device(f"sys/devices/pci0000:00/ata1/block/{disk}/{name}", name, major_minor)
        self.write(f"sys/devices/pci0000:00/ata1/block/{disk}/{name}/partition", "1\n")

    def mapping(self, name: str, major_minor: str, *members: str) -> None:
        """A dm or md device on `members`, with the links the kernel makes both ways."""
        self.disk(name, major_minor, None, "virtual/block")
        for member in members:
            folder = (self.roots.sys / "class/block" / member).resolve()
            (folder / "holders" / name).mkdir()
            slaves = self.roots.sys / f"devices/virtual/block/{name}/slaves"
            slaves.mkdir(exist_ok=True)
            (slaves / member).symlink_to(folder)

    def mount(self, major_minor: str, point: str, source: str, kind: str = "ext4", options: str = "rw") -> None:
        with (self.roots.proc / "self/mountinfo").open("a") as file:
            file.write(f"30 1 {major_minor} / {point} rw,relatime shared:1 - {kind} {source} {options}\n")

    def device(self, name: str = "sda") -> BlockDevice:
        path = str(self.roots.dev / name)
        return BlockDevice(path, path, (self.roots.sys / "class/block" / name).resolve(), self.roots)

    def refusal(self, name: str = "sda") -> str:
        """The refusal's text; fails the test when there is none, or when consent would lift it."""
        device = self.device(name)
        with pytest.raises(TargetError) as refused:
            safety.clear(device, "target", identify.consent_name(device)[0], MIB)
        assert ": refused: " in str(refused.value)
        assert "\n" not in str(refused.value)
        return str(refused.value)
