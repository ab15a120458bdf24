"""Which block device is it: serial, model, capacity and link, from sysfs and udev, as far as possible without root.

Reference: the kernel's Documentation/ABI for sysfs-block and sysfs-class-nvme; SAT (VPD page 89h) and ACS (IDENTIFY
DEVICE words) for SATA. Limits: nothing in sysfs tells the NAND type, and only SATA tells the form factor; what is not
told stays None. A hypervisor that passes its disk off as NVMe or SCSI is believed.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from flashgauge._core import TargetError
from flashgauge.runfolder import DutInfo

SECTOR_BYTES = 512  # the unit of sysfs `size`, whatever the device's own block


@dataclass(frozen=True)
class Roots:
    """Where the kernel's and udev's trees are; tests give a tree of their own."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev")
    run: Path = Path("/run")
    etc: Path = Path("/etc")


@dataclass(frozen=True)
class BlockDevice:
    """A block device as the kernel knows it. `given`: the operator's path; `path`: where its links end;
    `folder`: its sysfs folder, where links end."""

    given: str
    path: str
    folder: Path
    roots: Roots

    @property
    def name(self) -> str:
        return kernel_name(self.folder)

    @cached_property
    def disk(self) -> Path:
        """Folder of the whole disk: the parent's for a partition, else the device's own."""
        return self.folder.parent if self.is_partition else self.folder

    @cached_property
    def is_partition(self) -> bool:
        return (self.folder / "partition").exists()

    @property
    def size_bytes(self) -> int:
        return number(self.folder / "size") * SECTOR_BYTES

    @property
    def logical_block_bytes(self) -> int:
        return number(self.disk / "queue/logical_block_size") or SECTOR_BYTES

    @property
    def physical_block_bytes(self) -> int:
        return number(self.disk / "queue/physical_block_size") or self.logical_block_bytes


@dataclass(frozen=True)
class Identity:
    """What may not change between the operator's consent and the destruction of the data.

    `diskseq`: the kernel's running number of the disk, new whenever a disk or its medium is exchanged.
    """

    serial: str | None
    wwid: str | None
    size_bytes: int
    major_minor: str
    diskseq: str | None


def read_text(path: Path) -> str | None:
    """Contents without padding; None when there is no such attribute, it cannot be read, or it is empty."""
    try:
        data = path.read_bytes()
    except OSError:
        return None
    return data.decode(errors="replace").strip(" \t\n\0") or None


def number(path: Path) -> int:
    """A decimal attribute; 0 when it is absent."""
    text = read_text(path)
    return int(text) if text is not None and text.isdigit() else 0


def kernel_name(folder: Path) -> str:
    return folder.name.replace("!", "/")  # sysfs cannot have a / in a name: cciss/c0d0 is cciss!c0d0


def find_block(path: str, roots: Roots = Roots()) -> BlockDevice:
    """The block device at `path`, links followed. Raises TargetError when there is none."""
    real = os.path.realpath(path)
    where = path if real == os.path.normpath(path) else f"{path} -> {real}"
    try:
        status = os.stat(real)
    except FileNotFoundError:
        raise TargetError(f"{where}: no such device; lsblk lists the block devices") from None
    except OSError as error:
        raise TargetError(f"{where}: {error.strerror}; give the path of a block device") from error
    if stat.S_ISREG(status.st_mode):
        raise TargetError(f"{where}: a regular file, not a device; to test on it write file:{path}")
    if stat.S_ISCHR(status.st_mode):
        raise TargetError(f"{where}: a character device; give the block device, for NVMe the namespace /dev/nvme0n1")
    if not stat.S_ISBLK(status.st_mode):
        raise TargetError(f"{where}: not a block device; lsblk lists the block devices")
    number_text = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    # Not by a look at all devices: this is asked while a test runs.
    folder = (roots.sys / "dev/block" / number_text).resolve()
    if not folder.exists():
        raise TargetError(f"{where}: the kernel has no block device {number_text}; is the drive still connected?")
    return BlockDevice(path, real, folder, roots)


def folders_by_number(roots: Roots) -> dict[str, Path]:
    """sysfs folder of every block device, by "major:minor"."""
    found: dict[str, Path] = {}
    for entry in sorted((roots.sys / "class/block").glob("*")):
        major_minor = read_text(entry / "dev")
        if major_minor is not None:
            found[major_minor] = entry.resolve()
    return found


def partitions(disk: Path) -> list[Path]:
    return sorted(entry for entry in disk.glob("*") if (entry / "partition").exists())


def block_device(folder: Path, roots: Roots) -> BlockDevice:
    """The device with this sysfs folder, by its usual node."""
    path = str(roots.dev / kernel_name(folder))
    return BlockDevice(path, path, folder, roots)


def same_drive(disk: Path, roots: Roots) -> tuple[str, ...] | None:
    """What two disks have in common only when they are one drive, seen by two paths; None when that cannot be told.

    The identifier alone does not do: cheap bridges and emulators give the same one to all.
    """
    wwid, serial_text = _wwid(disk), serial(block_device(disk, roots))
    return (wwid, serial_text, str(number(disk / "size"))) if wwid and serial_text else None


def other_namespaces(device: BlockDevice) -> list[Path]:
    """Folders of further NVMe namespaces on the drive: what is done to the drive as a whole is done to them."""
    names = r"nvme\d+n\d+"
    homes = {device.disk.parent, *nvme_controllers(device)}
    found = {entry.resolve() for home in homes for entry in home.glob("nvme*n*") if re.fullmatch(names, entry.name)}
    return sorted(found - {device.disk}) if re.fullmatch(names, kernel_name(device.disk)) else []


def _wwid(disk: Path) -> str | None:
    return read_text(disk / "wwid") or read_text(disk / "device/wwid")


def identity(device: BlockDevice) -> Identity:
    return Identity(
        serial(device),
        _wwid(device.disk),
        device.size_bytes,
        read_text(device.folder / "dev") or "",
        read_text(device.disk / "diskseq"),
    )


def serial(device: BlockDevice) -> str | None:
    """Serial number of the drive (of the whole drive, for a partition); None when it has none."""
    return (
        read_text(device.disk / "serial")  # virtio
        or read_text(device.disk / "device/serial")  # NVMe, MMC
        or _unit_serial(device.disk)
        or _ata_text(device.disk, 10, 20)
        or _udev(device).get("ID_SERIAL_SHORT")
    )


def consent_name(device: BlockDevice) -> tuple[str, str]:
    """What the operator types to consent, and what that is ("serial", or "kernel name" where there is none)."""
    text = serial(device)
    return (text, "serial") if text is not None else (device.name, "kernel name")


def label(device: BlockDevice) -> str:
    """The device in one phrase for messages: path, real path, size, model, serial."""
    link = "" if device.given == device.path else f" -> {device.path}"
    number_text = serial(device)
    named = f"serial {number_text}" if number_text else "no serial number"
    return f"{device.given}{link} ({device.size_bytes / 1e9:.6g} GB, {model(device) or 'model not known'}, {named})"


def model(device: BlockDevice) -> str | None:
    # The SCSI inquiry behind device/model holds 16 characters; the ATA page has all 40.
    return _ata_text(device.disk, 27, 46) or read_text(device.disk / "device/model")


def stands_for(device: BlockDevice) -> str | None:
    """What a device that is no drive stands for, as a phrase; None for a drive."""
    if device.is_partition:
        return "a part of a drive"
    for prefix, meaning in _STAND_INS.items():
        if re.match(prefix, device.name):
            return meaning
    place = str(device.folder)
    if "/virtio" in place:
        return "a virtual disk"
    if re.search(r"/pseudo_\d+/", place):
        return "memory (scsi_debug)"
    if "/devices/virtual/" in place and "/nvme-subsystem/" not in place:
        return "something the kernel makes up"
    return None


_STAND_INS = {
    r"loop\d": "a file",
    r"z?ram\d": "memory",
    r"dm-\d": "a mapping onto other devices",
    r"md": "an array of other devices",
    r"r?nbd\d": "a disk across the network",
    r"rbd\d|drbd\d": "a disk across the network",
    r"bcache\d": "a cached device",
    r"nullb\d": "nothing at all",
    r"xvd": "a virtual disk",
}


def dut_info(device: BlockDevice, target: str) -> DutInfo:
    """The report's device section (5.4). `target`: the target as the operator wrote it."""
    disk = device.disk
    return DutInfo(
        target=target,
        kind="block",
        manufacturer=_manufacturer(device),
        model=model(device),
        serial=serial(device),
        firmware=_ata_text(disk, 23, 26) or read_text(disk / "device/firmware_rev") or read_text(disk / "device/rev"),
        capacity_bytes=device.size_bytes,
        interface=interface(device),
        form_factor=_form_factor(disk),
        media=_media(device),
        features="discard" if number(disk / "queue/discard_max_bytes") else None,
        logical_block_bytes=device.logical_block_bytes,
    )


def _media(device: BlockDevice) -> str | None:
    """The kernel tells disks from what is none; of what stands for something else it knows nothing."""
    rotates = read_text(device.disk / "queue/rotational") == "1" and stands_for(device) is None
    return "rotational" if rotates else None


def nvme_controllers(device: BlockDevice) -> list[Path]:
    """Folders of the NVMe controllers that lead to the device; several with native multipath."""
    owner = (device.disk / "device").resolve()
    if re.fullmatch(r"nvme\d+", owner.name):
        return [owner]
    return sorted(entry.resolve() for entry in owner.glob("nvme*") if re.fullmatch(r"nvme\d+", entry.name))


def live_controller(device: BlockDevice) -> Path | None:
    """The NVMe controller to send the drive's commands to: with several paths, one that answers. None for others."""
    controllers = nvme_controllers(device)
    # Without a state, the kernel is too old to have several.
    live = [folder for folder in controllers if read_text(folder / "state") in {None, "live"}]
    return next(iter(live or controllers), None)


def interface(device: BlockDevice) -> str | None:
    """Interface and negotiated speed (5.4 item 6)."""
    place = str(device.folder)
    controllers = nvme_controllers(device)
    if controllers:
        return _nvme_interface(controllers[0])
    if re.search(r"/ata\d+/", place):
        return " ".join(filter(None, ("SATA", _sata_speed(device))))
    if "/end_device-" in place:
        return _sas_interface(device)
    for mark, name in {"/usb": "USB", "/mmc_host/": "MMC", "/virtio": "virtio"}.items():
        if mark in place:
            return name
    return f"{re.split(r'[0-9-]', device.name)[0]} (virtual)" if "/devices/virtual/" in place else None


def numa_node(device: BlockDevice) -> int | None:
    """The node of the adapter that the device hangs on; None where the machine has no nodes, or does not tell."""
    for folder in (*nvme_controllers(device), device.disk, *device.disk.parents):
        for name in ("numa_node", "device/numa_node"):
            text = read_text(folder / name)
            if text is not None and text.isdigit():
                return int(text)
    return None


def host_adapter(device: BlockDevice) -> str | None:
    """Driver and PCI id of the adapter a SATA, SAS or USB drive hangs on; None for NVMe, which needs none."""
    if nvme_controllers(device):
        return None
    for folder in device.folder.parents:
        if re.fullmatch(r"[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", folder.name):
            driver = (folder / "driver").resolve().name if (folder / "driver").exists() else "no driver"
            return f"{driver} (PCI {read_text(folder / 'vendor')}:{read_text(folder / 'device')})"
    return None


_PCIE_GENERATION = {"2.5": "1.0", "5.0": "2.0", "8.0": "3.0", "16.0": "4.0", "32.0": "5.0", "64.0": "6.0"}


def _nvme_interface(controller: Path) -> str:
    transport = read_text(controller / "transport")
    if transport not in {None, "pcie"}:
        return f"NVMe over {transport}"
    now, most = _pcie_links(controller)
    if now is None:
        return "NVMe"
    return f"NVMe, {now}" if most in {None, now} else f"NVMe, {now} (the drive can {most})"


def link_speeds(device: BlockDevice) -> tuple[str | None, str | None]:
    """The speed that drive and host agreed on, and the drive's own highest; None where it is not told.

    A SATA drive's generations are bits 1 to 3 of IDENTIFY DEVICE word 76 (ACS-4).
    """
    controllers = nvme_controllers(device)
    if controllers:
        return _pcie_links(controllers[0])
    now, words = _sata_speed(device), ata_identify(device.disk)
    able = [rate for bit, rate in enumerate(("1.5 Gbps", "3.0 Gbps", "6.0 Gbps"), 1) if words and words[152] & 1 << bit]
    return (f"SATA {now}" if now else None), (f"SATA {able[-1]}" if able else None)


def _sata_speed(device: BlockDevice) -> str | None:
    port = re.search(r"/ata(\d+)/", str(device.folder))
    speed = read_text(device.roots.sys / f"class/ata_link/link{port[1]}/sata_spd") if port else None
    return speed if speed and speed[0].isdigit() else None


def _pcie_links(controller: Path) -> tuple[str | None, str | None]:
    return _pcie_link(controller / "device", "current"), _pcie_link(controller / "device", "max")


def _pcie_link(pci: Path, which: str) -> str | None:
    speed, width = read_text(pci / f"{which}_link_speed"), read_text(pci / f"{which}_link_width")
    if speed is None or width is None or not speed[0].isdigit():
        return None
    rate = speed.split()[0]
    rate = rate if "." in rate else f"{rate}.0"
    return f"PCIe {_PCIE_GENERATION.get(rate, f'{rate} GT/s')} x{width}"


def _sas_interface(device: BlockDevice) -> str:
    name = "SATA on SAS" if read_text(device.disk / "device/vendor") == "ATA" else "SAS"
    for folder in device.folder.parents:
        if folder.name.startswith("port-"):
            rates = [read_text(rate) for rate in sorted(folder.glob("phy-*/sas_phy/*/negotiated_linkrate"))]
            return f"{name} {rates[0]}" if rates and rates[0] else name
    return name


def _manufacturer(device: BlockDevice) -> str | None:
    controllers = nvme_controllers(device)
    if controllers:
        vendor = read_text(controllers[0] / "device/vendor")
        return f"PCI vendor {vendor}" if vendor else None
    vendor = read_text(device.disk / "device/vendor")
    # "ATA" is what the SCSI layer calls every SATA drive, 0x... the id of a virtio device: neither made the drive.
    return None if vendor is None or vendor == "ATA" or vendor.startswith("0x") else vendor


def _unit_serial(disk: Path) -> str | None:
    """SCSI VPD page 80h: 4 bytes of header, the last two of them the length, then the text."""
    try:
        page = (disk / "device/vpd_pg80").read_bytes()
    except OSError:
        return None
    text = page[4 : 4 + int.from_bytes(page[2:4], "big")]
    return text.decode(errors="replace").strip(" \0") or None


def ata_identify(disk: Path) -> bytes:
    """IDENTIFY DEVICE data, which VPD page 89h carries from byte 60; empty when the drive is not SATA."""
    try:
        page = (disk / "device/vpd_pg89").read_bytes()
    except OSError:
        return b""
    return page[60:572] if len(page) >= 572 else b""


def _ata_text(disk: Path, first: int, last: int) -> str | None:
    """ATA strings: two characters a word, the first in the high byte of a little-endian word."""
    words = ata_identify(disk)[2 * first : 2 * last + 2]
    swapped = b"".join(words[at : at + 2][::-1] for at in range(0, len(words), 2))
    return swapped.decode(errors="replace").strip(" \0") or None


_FORM_FACTORS = {1: '5.25"', 2: '3.5"', 3: '2.5"', 4: '1.8"', 5: 'under 1.8"', 6: "mSATA", 7: "M.2"}


def _form_factor(disk: Path) -> str | None:
    words = ata_identify(disk)
    return _FORM_FACTORS.get(words[336] & 0xF) if words else None  # word 168


def _udev(device: BlockDevice) -> dict[str, str]:
    """udev's properties of the disk, `E:NAME=VALUE` lines."""
    text = read_text(device.roots.run / f"udev/data/b{read_text(device.disk / 'dev')}") or ""
    return dict(line[2:].split("=", 1) for line in text.splitlines() if line.startswith("E:") and "=" in line)
