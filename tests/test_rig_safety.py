"""Every reason to refuse a device, on sysfs and proc trees made for the test, and the one case that passes."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from flashgauge._core import DeviceError, TargetError
from flashgauge.rig import identify, safety
from flashgauge.rig.safety import Facts, Refusal
from flashgauge.rig.uses import read_uses
from trees import MIB, Tree


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_idle_disk_with_consent_passes(tree: Tree) -> None:
    cleared = safety.clear(tree.device(), "/dev/sda", "S-1", MIB)
    assert cleared.dut.serial == "S-1"
    assert cleared.dut.capacity_bytes == 16 * MIB
    assert cleared.identity.major_minor == "8:0"
    assert safety.refusals(safety.gather(tree.device(), read_uses(tree.roots))) == []


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


NVMET = "sys/kernel/config/nvmet/subsystems/testnqn/namespaces/1"


@pytest.mark.parametrize("name", ["sda", "sda1", "sda2"])
def test_device_exported_to_other_machines_is_refused(tree: Tree, name: str) -> None:
    """The kernel's NVMe target holds what it exports, but not exclusively."""
    tree.write(f"{NVMET}/device_path", "/dev/sda2\n")
    tree.write(f"{NVMET}/enable", "1\n")
    assert "exported to other machines (/dev/sda2): take it out of that target first" in tree.refusal(name)
    tree.write(f"{NVMET}/enable", "0\n")
    safety.clear(tree.device(name), "target", "S-1", MIB)


def second_path(tree: Tree, serial: str, wwid: str | None = "naa.5") -> None:
    """sdc (sdc1 mounted): the drive that sda is, by another cable, if serial and wwid say so."""
    tree.disk("sdc", "8:32", serial, "pci0000:00/ata1/block")
    tree.part("sdc", "sdc1", "8:33")
    tree.mount("8:33", "/data", "/dev/sdc1")
    tree.write("sys/devices/pci0000:00/ata1/block/sda/device/wwid", "naa.5\n")
    if wwid is not None:
        tree.write("sys/devices/pci0000:00/ata1/block/sdc/device/wwid", f"{wwid}\n")


@pytest.mark.parametrize("name", ["sda", "sda1"])
def test_drive_mounted_by_its_other_path_is_refused(tree: Tree, name: str) -> None:
    second_path(tree, "S-1")
    assert "mounted (/dev/sdc1 at /data)" in tree.refusal(name)


@pytest.mark.parametrize(("serial", "wwid"), [("S-9", "naa.5"), ("S-1", "naa.6"), ("S-1", None)])
def test_another_drive_with_one_identifier_in_common_is_no_other_path(
    tree: Tree, serial: str, wwid: str | None
) -> None:
    second_path(tree, serial, wwid)
    safety.clear(tree.device(), "target", "S-1", MIB)


def test_drive_held_by_multipath_on_its_other_path_is_refused(tree: Tree) -> None:
    second_path(tree, "S-1")
    (tree.roots.proc / "self/mountinfo").write_text("")
    tree.mapping("dm-0", "252:0", "sdc")
    text = tree.refusal()
    assert "held (sdc by dm-0): take that device down first" in text
    assert "multipath" in text


def test_removable_drive_whose_kernel_hides_a_change_of_medium_is_refused(tree: Tree) -> None:
    tree.write("sys/devices/pci0000:00/ata1/block/sda/removable", "1\n")
    assert "its medium can be exchanged, and this kernel would not tell: use Linux 5.15" in tree.refusal()
    tree.write("sys/devices/pci0000:00/ata1/block/sda/diskseq", "11\n")
    safety.clear(tree.device(), "target", "S-1", MIB)


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


@pytest.mark.parametrize(("file_system", "refused"), [("tmpfs", True), ("nfs4", False)])
def test_a_disk_open_for_writing_by_another_node_of_it_is_refused(
    tree: Tree, tmp_path: Path, file_system: str, refused: bool
) -> None:
    """In a container, the same disk has another name. A network file system is not asked: that may hang."""
    node = tmp_path / "xvdz"
    try:
        os.mknod(node, stat.S_IFBLK | 0o600, os.makedev(8, 1))
    except PermissionError:
        pytest.skip("device nodes cannot be made here")
    tree.write("proc/4711/comm", "qemu-system-x86\n")
    tree.write("proc/4711/fdinfo/9", "pos:\t0\nflags:\t0100002\nmnt_id:\t77\n")
    tree.write("proc/4711/mountinfo", f"77 1 0:5 / {tmp_path} rw - {file_system} none rw\n")
    (tree.roots.proc / "4711/fd").mkdir()
    (tree.roots.proc / "4711/fd/9").symlink_to(node)
    if refused:
        for name in ("sda", "sda1"):
            assert f"open for writing ({node} by process 4711 qemu-system-x86)" in tree.refusal(name)
        safety.clear(second_disk(tree), "target", "S-3", MIB)
    else:
        safety.clear(tree.device(), "target", "S-1", MIB)


def second_disk(tree: Tree) -> identify.BlockDevice:
    """A disk that nobody has open."""
    tree.disk("sdd", "8:48", "S-3")
    return tree.device("sdd")


def test_what_it_was_at_consent_is_what_it_has_to_be(tree: Tree) -> None:
    """Another drive with the same serial: a namespace, or a twin."""
    seen = identify.identity(tree.device())
    safety.clear(tree.device(), "target", "S-1", MIB, seen=seen)
    tree.write("sys/devices/pci0000:00/ata1/block/sda/device/wwid", "naa.5\n")
    with pytest.raises(DeviceError, match=r"not the device consented to .*wwid was None, is naa\.5"):
        safety.clear(tree.device(), "target", "S-1", MIB, seen=seen)


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
    ("LVM", 512, b"LABELONE" + bytes(16) + b"LVM2 001"),
    ("LVM", 1536, b"LABELONE" + bytes(16) + b"LVM2 001"),
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
    ("bcachefs", 4096 + 24, bytes.fromhex("c68573f666ce90a9d96a60cf803df7ef")),
    ("Ceph BlueStore", 0, b"bluestore block device\n"),
    ("Oracle ASM", 32, b"ORCLDISK"),
    ("VMFS", 1 << 20, b"\x0d\xd0\x01\xc0"),
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


def test_member_signature_may_be_consented_to(tree: Tree) -> None:
    with (tree.roots.dev / "sda2").open("r+b") as file:
        file.seek(512)
        file.write(b"LABELONE" + bytes(16) + b"LVM2 001")
    assert "or add --consent-signatures" in tree.refusal()
    cleared = safety.clear(tree.device(), "target", "S-1", MIB, consent_signatures=True)
    assert cleared.signatures == ("sda2: LVM",)
    with pytest.raises(TargetError, match="to consent add --consent S-1"):
        safety.clear(tree.device(), "target", None, MIB, consent_signatures=True)
    tree.mapping("dm-0", "252:0", "sda2")
    with pytest.raises(TargetError, match="refused: held"):
        safety.clear(tree.device(), "target", "S-1", MIB, consent_signatures=True)


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


FIELDS: dict[str, tuple[str, ...] | bool | int | Refusal] = {
    **dict.fromkeys(("root", "mounted", "swaps", "holders", "pools", "loops", "exports", "writers"), ("x",)),
    "signatures": ("x",),
    "read_only": ("x",),
    "host_managed": True,
    "claimed": True,
    "size_bytes": 0,
    "unwatched": True,
    "measured": True,
    "unreadable": Refusal("permission", "no permission"),
}


def test_each_fact_alone_refuses() -> None:
    """Also a fact added later: the list above must then name it."""
    free = Facts("disk", MIB)
    assert safety.refusals(free) == []
    assert {*FIELDS, "label"} == set(Facts.__dataclass_fields__)
    for name, value in FIELDS.items():
        assert len(safety.refusals(replace(free, **{name: value}))) == 1  # type: ignore[arg-type]


def test_consent_to_signatures_lifts_no_other_refusal() -> None:
    for name, value in FIELDS.items():
        facts = replace(Facts("disk", MIB), **{name: value})  # type: ignore[arg-type]
        assert bool(safety.refusals(facts, True)) == (name != "signatures")


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
