"""Drives that are not there: a sysfs tree of one, tools that answer for it (fake_tools.py), and a loop device for its
data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flashgauge.rig.identify import BlockDevice, Roots

TOOLS = ("nvme", "hdparm", "sg_modes", "sg_wr_mode", "sg_opcodes", "sg_requests", "sg_sanitize", "sg_format")
PLACES = {
    "nvme": "devices/pci0000:00/0000:00:01.0/nvme/nvme0/nvme0n1",
    "ata": "devices/pci0000:00/0000:00:02.0/ata1/host0/target0:0:0/0:0:0:0/block/sda",
    "scsi": "devices/pci0000:00/0000:00:03.0/host1/port-1:0/end_device-1:0/target1:0:0/1:0:0:0/block/sdb",
}
VENDORS = {"nvme": "0x1b36", "ata": "ATA", "scsi": "SEAGATE"}
STATE: dict[str, Any] = {"cache": 1, "ctrl": {}, "namespaces": [1]}


@dataclass(frozen=True)
class Drive:
    """`device`: as the rig sees it. `folder`: of the tools and their state."""

    device: BlockDevice
    folder: Path

    @property
    def state(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / "state.json").read_text())
        return found

    def set(self, **changes: Any) -> None:
        (self.folder / "state.json").write_text(json.dumps({**self.state, **changes}))

    def calls(self, word: str = "") -> list[str]:
        log = self.folder / "calls.log"
        return [line for line in log.read_text().splitlines() if word in line] if log.exists() else []


def tools_at(folder: Path, **state: Any) -> Path:
    """A folder of tools, to be put on PATH."""
    folder.mkdir()
    script = folder / "fake_tools.py"
    shutil.copy(Path(__file__).parent / "fake_tools.py", script)
    script.chmod(0o755)
    for tool in TOOLS:
        (folder / tool).symlink_to(script.name)
    (folder / "state.json").write_text(json.dumps({**STATE, **state}))
    return folder


def again(drive: Drive, name: str, **texts: str) -> BlockDevice:
    """Another disk of the machine that says of itself what `drive` does, but for `texts` (sysfs attributes): a twin;
    for an NVMe drive, where `name` is one of its controller's, a further namespace."""
    device = drive.device
    disk = device.folder
    if drive.device.name.startswith("nvme0n") and name.startswith("nvme0n"):
        other = disk.with_name(name)
        shutil.copytree(disk, other, symlinks=True)
    else:
        place = device.roots.sys / f"devices/twin/{name}/block/{name}"
        shutil.copytree(disk, place, symlinks=True, ignore=shutil.ignore_patterns("device"))
        shutil.copytree((disk / "device").resolve(), place / "device", ignore=shutil.ignore_patterns("block"))
        other = place
    for attribute, text in {"dev": "259:9", **texts}.items():
        (other / attribute).write_text(f"{text}\n")
    (device.roots.sys / "class/block" / name).symlink_to(other)
    (device.roots.dev / name).touch()
    path = str(device.roots.dev / name)
    return BlockDevice(path, path, other, device.roots)


def made_up(folder: Path, kind: str, data: str | None = None, **state: Any) -> Drive:
    """A drive of the kind. `data`: a block device of the test that holds its data. Its tools are in folder/tools."""
    roots = Roots(folder / "sys", folder / "proc", folder / "dev", folder / "run", folder / "etc")
    disk = roots.sys / PLACES[kind]
    (disk / "queue").mkdir(parents=True)
    owner = disk.parent if kind == "nvme" else disk.parent.parent
    (disk / "device").symlink_to(owner)
    (roots.sys / "class/block").mkdir(parents=True)
    (roots.sys / "class/block" / disk.name).symlink_to(disk)
    numbers, sectors = "259:0", 1 << 15
    if data is not None:
        status = os.stat(data)
        numbers = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        sectors = int(Path(f"/sys/class/block/{Path(data).name}/size").read_text())
    texts = {"dev": numbers, "size": str(sectors), "diskseq": "7", "queue/write_cache": "write back"}
    texts |= {"queue/logical_block_size": "512", "queue/discard_max_bytes": "1048576", "nsid": "1"}
    texts |= {"device/serial": "FG0001", "device/wwid": "naa.5000c500a1b2c3d4", "device/vendor": VENDORS[kind]}
    if kind != "nvme":
        (owner / "scsi_disk/0:0:0:0").mkdir(parents=True)
        texts |= {"device/scsi_disk/0:0:0:0/cache_type": "write back", "device/scsi_disk/0:0:0:0/protection_type": "0"}
    for name, text in texts.items():
        (disk / name).write_text(f"{text}\n")
    roots.dev.mkdir()
    for node in (disk.name, *([owner.name] if kind == "nvme" else [])):
        (roots.dev / node).touch()
    (roots.proc / "sys/kernel/random").mkdir(parents=True)
    (roots.proc / "sys/kernel/random/boot_id").write_text("this-boot\n")
    path = data or str(roots.dev / disk.name)
    return Drive(BlockDevice(path, path, disk, roots), tools_at(folder / "tools", **state))


def start(drive: Drive, code: str) -> subprocess.Popen[bytes]:
    """A process that has `device` and `kept`, and runs `code`."""
    device = drive.device
    roots = ", ".join(f"Path({str(path)!r})" for path in vars(device.roots).values())
    program = (
        "from pathlib import Path\n"
        "from flashgauge.rig import identify, keeper, purge, writecache\n"
        "from flashgauge.rig.identify import BlockDevice, Roots\n"
        f"device = BlockDevice({device.path!r}, {device.path!r}, Path({str(device.folder)!r}), Roots({roots}))\n"
        "kept = keeper.Keeper(device)\n"
        f"{code}\n"
    )
    return subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.DEVNULL)


def wait_for(condition: Callable[[], bool], limit_s: float = 30.0) -> None:
    until_s = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until_s, "waited in vain"
        time.sleep(0.05)
