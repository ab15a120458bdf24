"""What is read of a drive and of the host, from trees laid out as the kernel lays them out."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashgauge._core import TargetError
from flashgauge.rig import identify
from flashgauge.rig.block import describe, usable_bytes
from flashgauge.rig.host import host_info
from flashgauge.rig.identify import BlockDevice, Roots


def roots_in(root: Path) -> Roots:
    return Roots(root / "sys", root / "proc", root / "dev", root / "run", root / "etc")


def write(root: Path, files: dict[str, str | bytes]) -> None:
    for path, content in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_bytes(content if isinstance(content, bytes) else content.encode() + b"\n")


def block(root: Path, where: str, device_link: str | None = "..", **files: str) -> BlockDevice:
    """A disk at sysfs path `where`; `device_link`: where its link "device" leads, from its folder."""
    write(root, {f"{where}/size": "2000409264", f"{where}/dev": "8:0", f"{where}/queue/logical_block_size": "512"})
    write(root, {f"{where}/{name.replace('__', '/')}": value for name, value in files.items()})
    if device_link is not None:
        (root / where / "device").symlink_to(device_link)
    return BlockDevice("/dev/x", "/dev/x", (root / where).resolve(), roots_in(root))


NVME = "sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0/nvme/nvme0"


def nvme(root: Path, speed: str = "16.0 GT/s PCIe", width: str = "4") -> BlockDevice:
    pci = "sys/devices/pci0000:00/0000:00:1d.0/0000:01:00.0"
    write(
        root,
        {
            f"{NVME}/model": "EXAMPLE SSD 980" + 25 * " ",
            f"{NVME}/serial": "NV123456" + 12 * " ",
            f"{NVME}/firmware_rev": "5B2QGXA7",
            f"{NVME}/transport": "pcie",
            f"{pci}/vendor": "0x144d",
            f"{pci}/current_link_speed": speed,
            f"{pci}/current_link_width": width,
            f"{pci}/max_link_speed": "16.0 GT/s PCIe",
            f"{pci}/max_link_width": "4",
        },
    )
    device = block(root, f"{NVME}/nvme0n1", wwid="eui.0025", queue__rotational="0", queue__discard_max_bytes="2199023")
    (root / NVME / "device").symlink_to("../..")
    return device


@pytest.mark.clause("5")
def test_nvme_drive(tmp_path: Path) -> None:
    dut = identify.dut_info(nvme(tmp_path), "/dev/nvme0n1")
    assert (dut.manufacturer, dut.model, dut.serial) == ("PCI vendor 0x144d", "EXAMPLE SSD 980", "NV123456")
    assert (dut.firmware, dut.capacity_bytes, dut.logical_block_bytes) == ("5B2QGXA7", 2000409264 * 512, 512)
    assert dut.interface == "NVMe, PCIe 4.0 x4"
    assert (dut.media, dut.form_factor, dut.features) == (None, None, "discard")
    assert identify.identity(nvme(tmp_path / "again")).wwid == "eui.0025"
    assert identify.stands_for(nvme(tmp_path / "third")) is None


def test_nvme_link_below_what_the_drive_can(tmp_path: Path) -> None:
    assert identify.interface(nvme(tmp_path, "8.0 GT/s PCIe", "2")) == "NVMe, PCIe 3.0 x2 (the drive can PCIe 4.0 x4)"


def test_nvme_over_fabrics(tmp_path: Path) -> None:
    device = nvme(tmp_path)
    write(tmp_path, {f"{NVME}/transport": "tcp"})
    assert identify.interface(device) == "NVMe over tcp"


def test_nvme_multipath_takes_serial_of_the_subsystem_and_link_of_a_controller(tmp_path: Path) -> None:
    nvme(tmp_path)
    subsystem = "sys/devices/virtual/nvme-subsystem/nvme-subsys0"
    write(tmp_path, {f"{subsystem}/serial": "NV123456", f"{subsystem}/model": "EXAMPLE"})
    (tmp_path / subsystem / "nvme0").symlink_to(tmp_path / NVME)
    device = block(tmp_path, f"{subsystem}/nvme0n1")
    dut = identify.dut_info(device, "/dev/nvme0n1")
    assert (dut.serial, dut.interface) == ("NV123456", "NVMe, PCIe 4.0 x4")
    assert identify.stands_for(device) is None


def ata_page(serial: str, firmware: str, model: str, form_factor: int) -> bytes:
    words = bytearray(512)
    for first, width, text in ((10, 20, serial), (23, 8, firmware), (27, 40, model)):
        padded = text.ljust(width).encode()
        words[2 * first : 2 * first + width] = b"".join(padded[at : at + 2][::-1] for at in range(0, width, 2))
    words[2 * 168] = form_factor
    return bytes(60) + bytes(words)


@pytest.mark.clause("5")
def test_sata_drive_by_its_identify_page(tmp_path: Path) -> None:
    port = "sys/devices/pci0000:00/0000:00:17.0/ata3"
    scsi = f"{port}/host2/target2:0:0/2:0:0:0"
    page = ata_page("S3Z8NB0K", "EXM02B6Q", "EXAMPLE SSD 860 EVO 1TB of many words", 3)
    write(
        tmp_path,
        {
            f"{scsi}/vendor": "ATA     ",
            f"{scsi}/model": "EXAMPLE SSD 860",
            f"{scsi}/rev": "2B6Q",
            f"{scsi}/wwid": "naa.5002538e",
            f"{scsi}/vpd_pg89": page,
            "sys/class/ata_link/link3/sata_spd": "6.0 Gbps",
            "sys/devices/pci0000:00/0000:00:17.0/vendor": "0x8086",
            "sys/devices/pci0000:00/0000:00:17.0/device": "0xa352",
        },
    )
    device = block(tmp_path, f"{scsi}/block/sda", "../..")
    dut = identify.dut_info(device, "/dev/sda")
    assert (dut.manufacturer, dut.serial, dut.firmware) == (None, "S3Z8NB0K", "EXM02B6Q")
    assert dut.model == "EXAMPLE SSD 860 EVO 1TB of many words"
    assert (dut.interface, dut.form_factor) == ("SATA 6.0 Gbps", '2.5"')
    assert identify.identity(device).wwid == "naa.5002538e"
    assert identify.host_adapter(device) == "no driver (PCI 0x8086:0xa352)"
    assert describe(device)["host_adapter"] == "no driver (PCI 0x8086:0xa352)"


def test_sas_drive(tmp_path: Path) -> None:
    port = "sys/devices/pci0000:00/0000:02:00.0/host0/port-0:0"
    scsi = f"{port}/end_device-0:0/target0:0:0/0:0:0:0"
    write(
        tmp_path,
        {
            f"{scsi}/vendor": "EXAMPLE ",
            f"{scsi}/model": "SAS1600",
            f"{scsi}/rev": "B026",
            f"{scsi}/vpd_pg80": b"\0\x80\0\x0a  ZR0ABC  tail",
            f"{port}/phy-0:0/sas_phy/phy-0:0/negotiated_linkrate": "12.0 Gbit",
        },
    )
    dut = identify.dut_info(block(tmp_path, f"{scsi}/block/sda", "../.."), "/dev/sda")
    assert (dut.manufacturer, dut.serial, dut.firmware) == ("EXAMPLE", "ZR0ABC", "B026")
    assert dut.interface == "SAS 12.0 Gbit"


def test_virtio_disk_stands_for_something_else(tmp_path: Path) -> None:
    virtio = "sys/devices/pci0000:00/0000:00:02.0/virtio1"
    write(tmp_path, {f"{virtio}/vendor": "0x1af4"})
    device = block(tmp_path, f"{virtio}/block/vda", "../..", serial="disk-1", queue__rotational="1")
    dut = identify.dut_info(device, "/dev/vda")
    assert (dut.manufacturer, dut.serial, dut.interface, dut.media) == (None, "disk-1", "virtio", None)
    assert identify.stands_for(device) == "a virtual disk"


def test_scsi_debug_is_no_drive(tmp_path: Path) -> None:
    device = block(tmp_path, "sys/devices/pseudo_0/adapter0/host4/target4:0:0/4:0:0:0/block/sdc", "../..")
    assert identify.stands_for(device) == "memory (scsi_debug)"


@pytest.mark.parametrize("name", ["loop0", "zram1", "ram0", "dm-3", "md127", "nbd0", "bcache0", "unheard0"])
def test_virtual_devices_stand_for_something_else(tmp_path: Path, name: str) -> None:
    device = block(tmp_path, f"sys/devices/virtual/block/{name}", None, serial="")
    assert identify.stands_for(device) is not None
    assert identify.serial(device) is None
    assert identify.consent_name(device) == (name, "kernel name")
    assert "(virtual)" in str(identify.interface(device))


def test_serial_from_udev_when_sysfs_has_none(tmp_path: Path) -> None:
    device = block(tmp_path, "sys/devices/pci0000:00/usb1/1-1/block/sda", None)
    write(tmp_path, {"run/udev/data/b8:0": "S:disk/by-id/x\nE:ID_SERIAL=LONG_U77\nE:ID_SERIAL_SHORT=U77"})
    assert identify.consent_name(device) == ("U77", "serial")
    assert identify.interface(device) == "USB"


def test_partition_has_the_serial_of_its_disk_and_its_own_size(tmp_path: Path) -> None:
    disk = nvme(tmp_path)
    write(
        tmp_path, {f"{NVME}/nvme0n1/nvme0n1p1/{name}": value for name, value in {"partition": "1", "size": "9"}.items()}
    )
    part = BlockDevice("/dev/x1", "/dev/x1", disk.folder / "nvme0n1p1", disk.roots)
    dut = identify.dut_info(part, "/dev/nvme0n1p1")
    assert (dut.serial, dut.capacity_bytes, dut.interface) == ("NV123456", 9 * 512, "NVMe, PCIe 4.0 x4")
    assert identify.stands_for(part) == "a part of a drive"


def test_usable_bytes_are_whole_logical_blocks(tmp_path: Path) -> None:
    device = block(tmp_path, "sys/devices/virtual/block/loop0", None, queue__logical_block_size="4096", size="17")
    assert usable_bytes(device) == 2 * 4096
    assert identify.dut_info(device, "/dev/loop0").logical_block_bytes == 4096


def test_name_with_a_slash(tmp_path: Path) -> None:
    assert block(tmp_path, "sys/devices/pci0000:00/block/cciss!c0d0", None).name == "cciss/c0d0"


@pytest.mark.parametrize(
    ("kind", "message"),
    [("file", "write file:"), ("folder", "not a block device"), ("missing", "no such device"), ("tty", "character")],
)
def test_paths_that_are_no_block_device(tmp_path: Path, kind: str, message: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("data")
    elif kind == "folder":
        path.mkdir()
    elif kind == "tty":
        path = Path("/dev/null")
    with pytest.raises(TargetError, match=message):
        identify.find_block(str(path))


def test_dangling_link_names_both_ends(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    with pytest.raises(TargetError, match=f"{tmp_path}/link -> {tmp_path}/gone: no such device"):
        identify.find_block(str(tmp_path / "link"))


@pytest.mark.clause("5")
def test_host(tmp_path: Path) -> None:
    cpu = "processor\t: {}\nmodel name\t: Example CPU @ 2.00GHz\nphysical id\t: {}\n"
    write(
        tmp_path,
        {
            "proc/cpuinfo": "\n".join(cpu.format(n, n // 2) for n in range(4)),
            "proc/meminfo": "MemTotal:       65821796 kB\nMemFree: 1 kB",
            "etc/os-release": '# comment\nID=debian\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"',
            "sys/class/dmi/id/sys_vendor": "Example Inc.",
            "sys/class/dmi/id/product_name": "Server 9",
            "sys/class/dmi/id/board_name": "B9",
        },
    )
    host = host_info("ahci (PCI 0x8086:0xa352)", roots_in(tmp_path))
    assert (host.system, host.motherboard) == ("Example Inc. Server 9", "B9")
    assert host.cpu == "2 x Example CPU @ 2.00GHz (4 logical CPUs)"
    assert host.memory_bytes == 65821796 * 1024
    assert host.operating_system == "Debian GNU/Linux 12 (bookworm)"
    assert host.hba == "ahci (PCI 0x8086:0xa352)"


@pytest.mark.clause("5")
def test_host_that_tells_nothing(tmp_path: Path) -> None:
    host = host_info(roots=roots_in(tmp_path))
    assert {host.system, host.motherboard, host.cpu, host.memory_bytes, host.hba, host.operating_system} == {None}
    assert host.kernel


def test_this_host_answers() -> None:
    host = host_info()
    assert host.memory_bytes is not None
    assert host.memory_bytes > 0
