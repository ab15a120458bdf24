"""Refused whatever the consent, by a real kernel's word: nothing is written to the drive, and no folder is made."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import one_line
from machine import drives
from machine.qemu import Machine
from machine.runs import SHORT, typed, wait_until, writes

pytestmark = pytest.mark.machine


def refused(machine: Machine, path: str, consent: str | None, *program: str | Path, file_system_kib: int = 0) -> str:
    """The line of a run that was refused. `file_system_kib`: what the one mounted there may write meanwhile; the
    run's own writing would be 6 MiB."""
    before = writes(machine)
    given = () if consent is None else ("--consent", consent)
    arguments = ("run", "iops", path, *given, *SHORT, "--out", "/out/refused")
    result = machine.run(*program, *arguments, seconds=300) if program else machine.flashgauge(*arguments)
    line = one_line(result, 2)
    assert not (machine.out / "refused").exists()
    after = writes(machine)
    assert {disk: discards for disk, (_, discards) in after.items()} == {disk: n for disk, (_, n) in before.items()}
    assert sum(kib for kib, _ in after.values()) - sum(kib for kib, _ in before.values()) <= file_system_kib
    return line


@contextmanager
def prepared(machine: Machine, script: str, undo: str) -> Iterator[str]:
    """What a script made, undone afterwards; gives the script's output."""
    try:
        yield machine.sh(script)
    finally:
        machine.sh(undo)


def wiped(disk: str) -> str:
    return f"dd if=/dev/zero of={disk} bs=1M count=1 conv=fsync status=none"


# Without the writing that ext4 otherwise leaves for when it is mounted.
EXT4 = "mkfs.ext4 -q -E lazy_itable_init=0,lazy_journal_init=0"


def test_without_consent_and_with_that_of_another_drive(machine: Machine) -> None:
    disk = machine.disk(drives.MAIN)
    assert f"--consent {drives.MAIN.serial}" in refused(machine, disk, None)
    line = refused(machine, disk, drives.SCSI.serial)
    assert drives.SCSI.serial in line
    assert f"--consent {drives.MAIN.serial}" in line


def test_a_mounted_partition_and_its_disk_and_its_neighbour(machine: Machine) -> None:
    disk, serial = machine.disk(drives.MAIN), drives.MAIN.serial
    first, second = f"{disk}p1", f"{disk}p2"
    parted = (
        f"printf 'label: gpt\\nsize=30MiB\\nsize=20MiB\\n' | sfdisk --quiet --wipe always {disk}; {EXT4} {first};"
        f" mkdir -p /run/data; mount {first} /run/data"
    )
    with prepared(machine, parted, f"umount /run/data; sfdisk --quiet --delete {disk}; {wiped(disk)}"):
        for path in (disk, first, second):
            line = refused(machine, path, serial, file_system_kib=512)
            assert f"mounted ({first} at /run/data): umount first" in line


def test_a_disk_that_is_mounted_in_another_namespace(machine: Machine) -> None:
    disk = machine.disk(drives.SCSI)
    machine.sh(f"{EXT4} {disk}; mkdir -p /run/elsewhere")
    hidden = machine.start(
        "unshare", "--mount", "sh", "-c", f"mount {disk} /run/elsewhere && touch /run/it-is && exec sleep 300"
    )
    try:
        wait_until("mounted", lambda: machine.run("test", "-e", "/run/it-is").returncode == 0)
        assert disk not in machine.sh("cat /proc/mounts")
        assert f"mounted ({disk} at /run/elsewhere)" in refused(machine, disk, drives.SCSI.serial, file_system_kib=512)
    finally:
        hidden.signal(signal.SIGKILL)
        hidden.wait()
        machine.sh(f"rm /run/it-is; {wiped(disk)}")


def test_active_swap(machine: Machine) -> None:
    disk = machine.disk(drives.SATA)
    with prepared(machine, f"mkswap -q {disk}; swapon {disk}", f"swapoff {disk}; {wiped(disk)}"):
        assert re.search(r"active swap \(sd\w+\): swapoff first", refused(machine, disk, drives.SATA.serial))


def test_a_device_mapper_target_on_it(machine: Machine) -> None:
    disk = machine.disk(drives.SIBLING)
    sectors = drives.SIBLING.size_bytes // 512
    with prepared(
        machine, f"dmsetup create flashgauge --table '0 {sectors} linear {disk} 0'", "dmsetup remove flashgauge"
    ):
        line = refused(machine, disk, drives.SIBLING.serial)
        assert f"held ({Path(disk).name} by dm-" in line


def test_an_active_and_an_inactive_lvm_volume(machine: Machine) -> None:
    disk = machine.disk(drives.SCSI)
    made = f"pvcreate -qq -y {disk}; vgcreate -qq flashgauge {disk}; lvcreate -qq -y -Zn -l 100%FREE -n all flashgauge"
    with prepared(machine, made, f"vgchange -qq -an flashgauge || true; {wiped(disk)}"):
        assert f"held ({Path(disk).name} by dm-" in refused(machine, disk, drives.SCSI.serial)
        machine.sh("vgchange -qq -an flashgauge")
        line = refused(machine, disk, drives.SCSI.serial)
        assert re.search(r"member signature \(\w+: LVM\).* wipefs -a first", line)
        cured(machine, disk)


def test_a_running_and_a_stopped_md_array(machine: Machine) -> None:
    disk = machine.disk(drives.SCSI)
    made = f"modprobe raid1; mdadm --create /dev/md7 --run --quiet --level=1 --force --raid-devices=1 {disk}"
    with prepared(machine, made, f"mdadm --stop --quiet /dev/md7 2>/dev/null || true; {wiped(disk)}"):
        assert f"held ({Path(disk).name} by md7)" in refused(machine, disk, drives.SCSI.serial)
        machine.sh("mdadm --stop --quiet /dev/md7")
        line = refused(machine, disk, drives.SCSI.serial)
        assert re.search(r"member signature \(\w+: md\).* wipefs -a first", line)
        cured(machine, disk)


def cured(machine: Machine, disk: str) -> None:
    """By the cure that is named for a member signature."""
    machine.sh(f"wipefs --all --quiet {disk}")
    listed = json.loads(machine.flashgauge("devices", disk, "--json").stdout)["devices"][0]
    assert listed["may_be_tested"], listed["refusals"]


def test_a_mounted_btrfs_and_its_second_member(machine: Machine) -> None:
    """mountinfo names one member, by a device number of the file system's own."""
    first, second = machine.disk(drives.SATA), machine.disk(drives.SCSI)
    made = (
        f"modprobe btrfs; mkfs.btrfs -q -f --mixed -d single -m single {first} {second}; mkdir -p /run/pool;"
        f" mount -o device={second} {first} /run/pool; sync"
    )
    with prepared(machine, made, f"umount /run/pool; {wiped(first)}; {wiped(second)}"):
        line = refused(machine, first, drives.SATA.serial, file_system_kib=2048)
        assert f"mounted ({first} at /run/pool): umount first" in line
        line = refused(machine, second, drives.SCSI.serial, file_system_kib=2048)
        assert f"in a mounted btrfs ({Path(second).name}): umount first" in line


PATHS = ("path-a", "path-b")


def test_a_drive_that_multipath_holds_by_its_other_path(machine: Machine) -> None:
    serial, sectors = "FG-PATHS-06", drives.SPARE_MIB * 2048
    for path in PATHS:
        one = {"driver": "scsi-hd", "bus": "scsi0.0", "drive": drives.SPARE[1].name, "share-rw": True}
        machine.qmp("device_add", id=path, serial=serial, wwn=0x5000C50015EA71AE, **one)
    try:
        wait_until("both paths are there", lambda: len(disks_of(machine, serial)) == 2)
        held, free = disks_of(machine, serial)
        table = f"0 {sectors} multipath 0 0 1 1 round-robin 0 1 1 {held} 1000"
        made = f"modprobe --all dm_multipath dm_round_robin; dmsetup create two-paths --table '{table}'"
        with prepared(machine, made, "dmsetup remove two-paths"):
            line = refused(machine, free, serial)
            assert f"held ({Path(held).name} by dm-" in line
            assert "multipath" in line
    finally:
        for path in PATHS:
            machine.qmp("device_del", id=path)
            machine.wait_event("DEVICE_DELETED", device=path)


def disks_of(machine: Machine, serial: str) -> list[str]:
    return sorted(f"/dev/{name}" for name, found, _ in machine.listed_disks() if found == serial)


def test_another_answer_to_the_question_than_the_serial(machine: Machine) -> None:
    disk = machine.disk(drives.MAIN)
    before = writes(machine)
    code, shown = typed(machine, "yes", "run", "iops", disk, *SHORT, "--out", "/out/refused")
    assert (code, "'yes' is not its serial; nothing was written" in shown) == (2, True), shown
    assert "ALL DATA ON THIS DEVICE WILL BE DESTROYED" in shown
    assert not (machine.out / "refused").exists()
    assert writes(machine) == before


def test_the_disk_under_the_running_systems_root(machine: Machine) -> None:
    """A root that is an overlay whose upper layer is on the disk, as a live system has it: the program runs in it."""
    disk = machine.disk(drives.SATA)
    script = (
        f"mount {disk} /run/disk; mkdir -p /run/disk/up /run/disk/work; mkdir -p /run/new;"
        " mount -t overlay -o lowerdir=/,upperdir=/run/disk/up,workdir=/run/disk/work live /run/new;"
        " for place in dev proc sys out run; do mount --rbind /$place /run/new/$place; done;"
        ' cd /run/new; pivot_root . mnt; cd /; exec "$@"'
    )
    program = Path(sys.executable).parent / "flashgauge"
    inside = ("env", "PYTHONDONTWRITEBYTECODE=1", "unshare", "--mount", "sh", "-euc", script, "sh", program)
    with prepared(machine, f"mkdir -p /run/disk; {EXT4} {disk}", wiped(disk)):
        line = refused(machine, disk, drives.SATA.serial, *inside, file_system_kib=2048)
    assert "the running system's root is on it" in line


def test_write_protected(machine: Machine) -> None:
    disk = machine.disk(drives.SIBLING)
    with prepared(machine, f"blockdev --setro {disk}", f"blockdev --setrw {disk}"):
        assert "read-only" in refused(machine, disk, drives.SIBLING.serial)


def test_behind_a_loop_device(machine: Machine) -> None:
    disk = machine.disk(drives.SCSI)
    with prepared(machine, f"modprobe loop; losetup --find --show {disk}", "losetup --detach-all") as loop:
        assert f"behind a loop device ({Path(loop).name})" in refused(machine, disk, drives.SCSI.serial)


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("os.open(DISK, os.O_WRONLY)", r"open for writing \(/dev/\w+ by process \d+ python"),
        ("os.open(DISK, os.O_RDONLY | os.O_EXCL)", "the kernel holds it exclusively"),
    ],
)
def test_open_in_another_process(machine: Machine, how: str, reason: str) -> None:
    disk = machine.disk(drives.SCSI)
    code = f"import os, pathlib, time\nDISK = {disk!r}\n{how}\npathlib.Path('/run/it-is').touch()\ntime.sleep(300)"
    holder = machine.start("python", code, seconds=300)
    try:
        wait_until("opened", lambda: machine.run("test", "-e", "/run/it-is").returncode == 0)
        assert re.search(reason, refused(machine, disk, drives.SCSI.serial))
    finally:
        holder.signal(signal.SIGKILL)
        holder.wait()
        machine.sh("rm /run/it-is")


def test_a_zoned_device(machine: Machine) -> None:
    with prepared(machine, "modprobe null_blk nr_devices=1 gb=1 zoned=1 zone_size=4", "modprobe --remove null_blk"):
        assert "host-managed zones" in refused(machine, "/dev/nullb0", "nullb0")
