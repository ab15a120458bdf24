"""Every reason to refuse a device, on sysfs and proc trees made for the test, and the one case that passes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flashgauge._core import DeviceError, TargetError
from flashgauge.rig import identify, safety
from flashgauge.rig.identify import BlockDevice, Roots
from flashgauge.rig.safety import Facts

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


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_idle_disk_with_consent_passes(tree: Tree) -> None:
    cleared = safety.clear(tree.device(), "/dev/sda", "S-1", MIB)
    assert cleared.dut.serial == "S-1"
    assert cleared.dut.capacity_bytes == 16 * MIB
    assert cleared.identity.major_minor == "8:0"
    assert safety.refusals(safety.gather(tree.device())) == []


def test_idle_partition_with_the_disks_serial_passes(tree: Tree) -> None:
    assert safety.clear(tree.device("sda1"), "/dev/sda1", "S-1", MIB).dut.serial == "S-1"


@pytest.mark.parametrize("name", ["sda", "sda1", "sda2"])
def test_mounted_partition_refuses_its_disk_and_siblings(tree: Tree, name: str) -> None:
    tree.mount("8:1", "/srv/with\\040space", "/dev/sda1")
    assert "mounted (/dev/sda1 at /srv/with space): umount first" in tree.refusal(name)


def test_mounted_disk_is_refused(tree: Tree) -> None:
    tree.mount("8:0", "/srv", "/dev/sda")
    assert "mounted (/dev/sda at /srv)" in tree.refusal()


def test_mount_of_another_namespace_is_seen(tree: Tree) -> None:
    tree.write("proc/4711/mountinfo", "99 1 8:2 / /data rw - xfs /dev/sda2 rw\n")
    assert "/dev/sda2 at /data" in tree.refusal()


def test_btrfs_mount_is_found_by_its_source(tree: Tree) -> None:
    tree.mount("0:44", "/pool", "/dev/sda2", "btrfs")
    assert "/dev/sda2 at /pool" in tree.refusal()


def test_second_member_of_a_mounted_btrfs_is_refused(tree: Tree) -> None:
    # mountinfo names one member only.
    (tree.roots.sys / "fs/btrfs/uuid/devices/sda2").mkdir(parents=True)
    assert "in a mounted btrfs (sda2)" in tree.refusal()


@pytest.mark.parametrize("name", ["sdb", "sdb1"])
def test_root_disk_is_refused(tree: Tree, name: str) -> None:
    assert "the running system's root is on it (sdb" in tree.refusal(name)


def test_root_is_found_through_dm_and_md(tree: Tree) -> None:
    (tree.roots.proc / "self/mountinfo").write_text("")
    tree.mapping("md0", "9:0", "sda1", "sdb1")
    tree.mapping("dm-0", "252:0", "md0")
    tree.mount("252:0", "/", "/dev/mapper/vg-root")
    for name in ("sda", "sda2", "sdb", "md0", "dm-0"):
        assert "root is on it" in tree.refusal(name)


def test_volume_beside_the_root_volume_is_refused(tree: Tree) -> None:
    (tree.roots.proc / "self/mountinfo").write_text("")
    tree.mapping("dm-0", "252:0", "sda1")
    tree.mapping("dm-1", "252:1", "sda1")
    tree.mount("252:0", "/", "/dev/mapper/vg-root")
    assert "root is on it (sda, sda1)" in tree.refusal("dm-1")


def test_root_on_btrfs_without_a_major_number(tree: Tree) -> None:
    (tree.roots.proc / "self/mountinfo").write_text("")
    tree.mount("0:30", "/", "/dev/sda2", "btrfs")
    assert "root is on it (sda, sda2)" in tree.refusal("sda2")


def test_root_on_overlay_is_followed_to_its_layers(tree: Tree) -> None:
    (tree.roots.proc / "self/mountinfo").write_text("")
    tree.mount("8:1", "/run/live", "/dev/sda1", "ext4")
    tree.mount("0:50", "/", "overlay", "overlay", "rw,lowerdir=/run/live/a:/run/live/b,upperdir=/run/live/up")
    assert "root is on it (sda)" in tree.refusal()


@pytest.mark.parametrize("name", ["sda", "sda1"])
def test_active_swap_is_refused(tree: Tree, name: str) -> None:
    tree.write("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n/swap.img file 1 0 -3\n")
    assert "active swap (sda2): swapoff first" in tree.refusal(name)


def test_swap_on_a_mapping_is_followed(tree: Tree) -> None:
    tree.mapping("dm-3", "252:3", "sda2")
    (tree.roots.dev / "mapper").mkdir()
    (tree.roots.dev / "mapper/vg-swap").symlink_to("../dm-3")
    tree.write("proc/swaps", "Filename Type Size Used Priority\n/dev/mapper/vg-swap partition 1 0 -2\n")
    assert "active swap (dm-3)" in tree.refusal()


@pytest.mark.parametrize("name", ["sda", "sda1", "sda2"])
def test_holder_that_is_not_mounted_is_refused(tree: Tree, name: str) -> None:
    tree.mapping("dm-0", "252:0", "sda1")
    assert "held (sda1 by dm-0)" in tree.refusal(name)


def test_backing_of_a_loop_device_is_refused(tree: Tree) -> None:
    tree.disk("loop7", "7:7", None, "virtual/block")
    tree.write("sys/devices/virtual/block/loop7/loop/backing_file", "/dev/sda2\n")
    assert "behind a loop device (loop7): losetup -d first" in tree.refusal()


@pytest.mark.parametrize(("flags", "refused"), [("0100002", True), ("0100001", True), ("0100000", False)])
def test_process_with_the_disk_open_for_writing_is_refused(tree: Tree, flags: str, refused: bool) -> None:
    tree.write("proc/4711/comm", "qemu-system-x86\n")
    tree.write("proc/4711/fdinfo/9", f"pos:\t0\nflags:\t{flags}\n")
    (tree.roots.proc / "4711/fd").mkdir()
    (tree.roots.proc / "4711/fd/9").symlink_to("/dev/sda")
    if refused:
        assert "open for writing (/dev/sda by process 4711 qemu-system-x86)" in tree.refusal()
    else:
        safety.clear(tree.device(), "/dev/sda", "S-1", MIB)


@pytest.mark.parametrize("name", ["sda", "sda1"])
def test_read_only_disk_is_refused(tree: Tree, name: str) -> None:
    tree.write("sys/devices/pci0000:00/ata1/block/sda/ro", "1\n")
    assert "read-only (sda)" in tree.refusal(name)


def test_device_without_size_is_refused(tree: Tree) -> None:
    tree.write("sys/devices/pci0000:00/ata1/block/sda/size", "0\n")
    assert "its size is 0" in tree.refusal()


def test_host_managed_zones_are_refused(tree: Tree) -> None:
    tree.write("sys/devices/pci0000:00/ata1/block/sda/queue/zoned", "host-managed\n")
    assert "host-managed zones" in tree.refusal()


MD = bytes.fromhex("fc4e2ba9")
SIGNATURES = [
    ("LVM", 512, b"LABELONE"),
    ("LVM", 1536, b"LABELONE"),
    ("md", 0, MD),
    ("md", 4096, MD),
    ("md", 16 * MIB - 8192, MD),
    ("md", 16 * MIB - 65536, MD),
    ("md", 16 * MIB - 65536, MD[::-1]),
    ("Intel firmware RAID", 16 * MIB - 1024, b"Intel Raid ISM Cfg Sig. 1.3.00"),
    ("DDF RAID", 16 * MIB - 512, bytes.fromhex("de11de11")),
    ("bcache", 4096 + 24, bytes.fromhex("c68573f64e1a45ca8265f57f48ba6d81")),
    ("LUKS", 0, b"LUKS\xba\xbe\0\2"),
    ("LUKS", 16384, b"SKUL\xba\xbe"),
    ("ZFS", 131072 + 5 * 1024, (0x00BAB10C).to_bytes(8, "little")),
    ("ZFS", 16 * MIB - 262144 + 131072, (0x00BAB10C).to_bytes(8, "big")),
]


@pytest.mark.parametrize(("kind", "offset", "magic"), SIGNATURES)
def test_member_signature_is_refused(tree: Tree, kind: str, offset: int, magic: bytes) -> None:
    with (tree.roots.dev / "sda2").open("r+b") as file:
        file.seek(offset)
        file.write(magic)
    assert f"member signature (sda2: {kind}): if its data may go, wipefs -a first" in tree.refusal("sda")
    assert f"sda2: {kind}" in tree.refusal("sda2")
    # The sibling would not be lost, and nothing uses it now.
    safety.clear(tree.device("sda1"), "/dev/sda1", "S-1", MIB)


def test_signature_of_the_disk_refuses_its_partitions(tree: Tree) -> None:
    with (tree.roots.dev / "sda").open("r+b") as file:
        file.write(MD)
    assert "sda: md" in tree.refusal("sda1")


def test_unreadable_device_is_refused_with_the_cure(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    assert "no permission to read" in (text := tree.refusal())
    assert "run as root" in text


def test_claim_of_the_kernel_is_refused(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    real_open = os.open

    def busy(path: str, flags: int) -> int:
        if flags & os.O_EXCL:
            raise OSError(16, "Device or resource busy")
        return real_open(path, flags)

    monkeypatch.setattr(os, "open", busy)
    assert "the kernel holds it exclusively" in tree.refusal()


FIELDS: dict[str, tuple[str, ...] | bool | int | str] = {
    **dict.fromkeys(("root", "mounted", "swaps", "holders", "pools", "loops", "writers"), ("x",)),
    "signatures": ("x",),
    "read_only": ("x",),
    "host_managed": True,
    "claimed": True,
    "size_bytes": 0,
    "unreadable": "no permission",
}


def test_each_fact_alone_refuses() -> None:
    """Also a fact added later: the list above must then name it."""
    free = Facts("disk", MIB)
    assert safety.refusals(free) == []
    assert {*FIELDS, "label"} == set(Facts.__dataclass_fields__)
    for name, value in FIELDS.items():
        assert len(safety.refusals(replace(free, **{name: value}))) == 1  # type: ignore[arg-type]


def test_all_reasons_are_named_at_once() -> None:
    with pytest.raises(TargetError, match=r"mounted \(a at /\).*active swap \(b\)"):
        safety.refuse(Facts("disk", MIB, mounted=("a at /",), swaps=("b",), claimed=True))


@pytest.mark.parametrize("consent", [None, "", "s-1", "S-2", "sda", "yes", "S-1 S-2"])
def test_consent_must_be_the_serial(tree: Tree, consent: str | None) -> None:
    with pytest.raises(TargetError) as refused:
        safety.clear(tree.device(), "/dev/sda", consent, MIB)
    text = str(refused.value)
    assert text.endswith("to consent add --consent S-1")
    for part in (str(tree.roots.dev / "sda"), "0.0167772 GB", "TESTDISK", "serial S-1"):
        assert part in text
    assert "\n" not in text


def test_device_without_serial_asks_for_its_kernel_name(tree: Tree) -> None:
    tree.disk("loop3", "7:3", None, "virtual/block")
    with pytest.raises(TargetError, match=r"no serial number\).* not its kernel name; .*--consent loop3$"):
        safety.clear(tree.device("loop3"), "/dev/loop3", "loop4", MIB)
    assert safety.clear(tree.device("loop3"), "/dev/loop3", "loop3", MIB).dut.serial is None


def test_serial_with_a_space_is_quoted_for_the_shell(tree: Tree) -> None:
    tree.disk("sdc", "8:32", "A B;C")
    with pytest.raises(TargetError, match=re.escape("--consent 'A B;C'")):
        safety.check_consent(tree.device("sdc"), None)
    safety.check_consent(tree.device("sdc"), "A B;C")


def test_link_and_where_it_leads_are_both_named(tree: Tree) -> None:
    device = replace(tree.device(), given="/dev/disk/by-id/ata-TESTDISK")
    with pytest.raises(TargetError, match=f"^/dev/disk/by-id/ata-TESTDISK -> {device.path} "):
        safety.check_consent(device, None)


def test_too_small_device_is_refused_after_consent(tree: Tree) -> None:
    with pytest.raises(TargetError, match="too small, the test needs 16777217 bytes"):
        safety.clear(tree.device(), "/dev/sda", "S-1", 16 * MIB + 1)


Change = Callable[[Tree], object]


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("serial", lambda tree: tree.write("sys/devices/pci0000:00/ata1/block/sda/device/vpd_pg80", b"\0\x80\0\1X")),
        ("wwid", lambda tree: tree.write("sys/devices/pci0000:00/ata1/block/sda/device/wwid", "naa.5\n")),
        ("size_bytes", lambda tree: tree.write("sys/devices/pci0000:00/ata1/block/sda/size", "1024\n")),
        ("major_minor", lambda tree: tree.write("sys/devices/pci0000:00/ata1/block/sda/dev", "8:48\n")),
        ("diskseq", lambda tree: tree.write("sys/devices/pci0000:00/ata1/block/sda/diskseq", "12\n")),
    ],
)
def test_changed_device_is_found_before_destruction(
    tree: Tree, monkeypatch: pytest.MonkeyPatch, field: str, change: Change
) -> None:
    cleared = safety.clear(tree.device(), "/dev/sda", "S-1", MIB)
    monkeypatch.setattr(identify, "find_block", lambda path, roots: tree.device())
    safety.recheck(cleared)
    change(tree)
    with pytest.raises(DeviceError, match=f"not the device consented to .*{field}"):
        safety.recheck(cleared)


def test_vanished_device_is_found_before_destruction(tree: Tree) -> None:
    cleared = safety.clear(tree.device(), "/dev/sda", "S-1", MIB)
    (tree.roots.dev / "sda").unlink()
    with pytest.raises(DeviceError, match="went away after consent"):
        safety.recheck(cleared)
