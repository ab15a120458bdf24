"""The drives of the emulated machine: what QEMU is told of each, which is what must be found inside.

Images are sparse files that the tests made. `spare-1` and `spare-2` are plugged in and pulled out by tests.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

MIB = 1 << 20
PORTS = 6  # PCI Express ports a drive can be plugged into


@dataclass(frozen=True)
class Drive:
    """`device`: QEMU's options for it but for the image; empty: it is not plugged in yet."""

    name: str
    serial: str
    mib: int
    device: str
    block_bytes: int = 512

    @property
    def size_bytes(self) -> int:
        return self.mib * MIB


MAIN = Drive("main", "FG-MAIN-01", 64, "nvme,bus=port0,serial=FG-MAIN-01,mdts=8")
FOUR_K = Drive(
    "four-k", "FG-TWIN-02", 64, "nvme-ns,bus=twin,nsid=1,logical_block_size=4096,physical_block_size=4096", 4096
)
SIBLING = Drive("sibling", "FG-TWIN-02", 32, "nvme-ns,bus=twin,nsid=2")
SATA = Drive("sata", "FG-SATA-03", 64, "ide-hd,bus=ide.0,serial=FG-SATA-03,model=FLASHGAUGE-SATA,ver=1.5")
SCSI = Drive(
    "scsi",
    "FG-SCSI-04",
    64,
    "scsi-hd,bus=scsi0.0,serial=FG-SCSI-04,vendor=FGVENDOR,product=FG-SCSI-DISK,ver=2.5,wwn=0x5000c50015ea71ad",
)
SAS = Drive("sas", "FG-SAS-05", 64, "scsi-hd,bus=sas0.0,serial=FG-SAS-05,vendor=FGVENDOR,product=FG-SAS-DISK,ver=3.5")
FITTED = (MAIN, FOUR_K, SIBLING, SATA, SCSI)
SPARE_MIB = 64
SPARE = tuple(Drive(f"spare-{number}", f"FG-SPARE-{number}", SPARE_MIB, "") for number in (1, 2))


def image(folder: Path, drive: Drive) -> Path:
    return folder / f"{drive.name}.img"


def arguments(folder: Path) -> list[str]:
    """QEMU's arguments for all drives, whose images are made in `folder`."""
    ports = [f"pcie-root-port,id=port{number},slot={number},chassis={number}" for number in range(PORTS)]
    parts = [part for port in ports for part in ("-device", port)]
    parts += ["-device", "nvme,id=twin,bus=port1,serial=FG-TWIN-02", "-device", "virtio-scsi-pci,id=scsi0"]
    for drive in (*FITTED, *SPARE):
        path = image(folder, drive)
        path.touch()
        os.truncate(path, drive.size_bytes)
        parts += ["-blockdev", f"driver=file,node-name={drive.name}-file,filename={path},discard=unmap"]
        parts += ["-blockdev", f"driver=raw,node-name={drive.name},file={drive.name}-file,discard=unmap"]
        if drive.device:
            parts += ["-device", f"{drive.device},id=d-{drive.name},drive={drive.name}"]
    return parts
