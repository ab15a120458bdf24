"""What the program says of a drive, against what QEMU was told to make of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from machine import drives
from machine.drives import Drive
from machine.qemu import Machine
from machine.runs import wait_until

pytestmark = pytest.mark.machine


@pytest.fixture(scope="module")
def listed(machine: Machine) -> list[dict[str, Any]]:
    result = machine.flashgauge("devices", "--json")
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["devices"]


def found(listed: list[dict[str, Any]], drive: Drive) -> dict[str, Any]:
    (one,) = [each for each in listed if (each["serial"], each["capacity_bytes"]) == (drive.serial, drive.size_bytes)]
    return one


@pytest.mark.parametrize("drive", drives.FITTED, ids=lambda drive: drive.name)
def test_a_drive_is_what_it_was_made_as(listed: list[dict[str, Any]], drive: Drive, machine: Machine) -> None:
    one = found(listed, drive)
    assert one["path"] == machine.disk(drive)
    assert one["logical_block_bytes"] == drive.block_bytes
    assert one["write_cache"] == "write back"
    assert one["consent"] == drive.serial
    assert one["may_be_tested"] is True, one["refusals"]
    hypervisor = "a virtual disk" if drive is drives.SCSI else None
    assert one["stands_for"] == hypervisor


def test_models_firmware_and_interfaces(listed: list[dict[str, Any]], machine: Machine) -> None:
    version = machine.qmp("query-version")["qemu"]
    qemu = f"{version['major']}.{version['minor']}.{version['micro']}"
    nvme, sata, scsi = (found(listed, drive) for drive in (drives.MAIN, drives.SATA, drives.SCSI))
    assert (nvme["model"], nvme["firmware"]) == ("QEMU NVMe Ctrl", qemu)
    assert nvme["interface"].startswith("NVMe, PCIe ")
    assert nvme["manufacturer"] == "PCI vendor 0x1b36"
    assert nvme["temperature_c"] == pytest.approx(49.85, abs=0.5)  # the controller's 323 K
    assert (sata["model"], sata["firmware"], sata["manufacturer"]) == ("FLASHGAUGE-SATA", "1.5", None)
    assert sata["interface"].startswith("SATA")
    assert (scsi["model"], scsi["firmware"], scsi["manufacturer"]) == ("FG-SCSI-DISK", "2.5", "FGVENDOR")
    assert scsi["wwid"] == "naa.5000c50015ea71ad"


def test_namespaces_of_one_controller_are_told_apart(listed: list[dict[str, Any]]) -> None:
    """They share a serial number: what the operator consents to is one of them."""
    one, other = (found(listed, drive) for drive in (drives.FOUR_K, drives.SIBLING))
    assert one["serial"] == other["serial"]
    assert one["wwid"] != other["wwid"]
    assert one["other_namespaces"] == [other["name"]]
    assert other["other_namespaces"] == [one["name"]]


def test_the_table_and_the_details_name_every_drive(machine: Machine) -> None:
    table = machine.flashgauge("devices")
    assert table.returncode == 0, table.stderr
    for drive in drives.FITTED:
        assert f"{machine.disk(drive)} " in table.stdout
        assert drive.serial in table.stdout
    details = machine.flashgauge("devices", machine.disk(drives.FOUR_K))
    assert details.returncode == 0, details.stderr
    assert "4096 bytes logical, 4096 bytes physical" in details.stdout


def test_smart_and_the_cache_feature_can_be_read(machine: Machine) -> None:
    """What telemetry and write cache build on: the real tools, with the JSON they have here."""
    disk = machine.disk(drives.MAIN)
    health = json.loads(machine.sh(f"nvme smart-log {disk} --output-format=json"))
    assert health["temperature"] == 323
    assert int(health["critical_warning"]) == 0
    assert int(health["media_errors"]) == 0
    smart = json.loads(machine.run("smartctl", "--json", "--all", disk, check=True).stdout)
    assert smart["serial_number"] == drives.MAIN.serial
    controller = json.loads(machine.sh(f"nvme id-ctrl {disk} --output-format=json"))
    assert controller["vwc"] & 1


def test_a_removable_disk_that_the_kernel_makes_up(machine: Machine) -> None:
    """scsi_debug: removable as a disk in a USB enclosure is, and plugged in while the program is not looking."""
    disks = "ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null || true"
    machine.sh("modprobe scsi_debug dev_size_mb=48 removable=1")
    try:
        wait_until("the disk is there", lambda: bool(machine.sh(disks)))
        (one,) = json.loads(machine.flashgauge("devices", f"/dev/{machine.sh(disks)}", "--json").stdout)["devices"]
        assert one["model"] == "ST380013AS"  # the SATA disk that its ATA Information page (89h) says it translates for
        assert one["capacity_bytes"] == 48 * drives.MIB
        assert one["removable"] is True
        assert int(one["serial"]) % 2000 == 0  # 2000 x (number of its host + 1)
        assert one["consent"] == one["serial"]
        assert one["write_cache"] == "write back"
        assert one["stands_for"] == "memory (scsi_debug)"
    finally:
        machine.sh("modprobe --remove scsi_debug")
