"""An emulated machine: QEMU with a Debian kernel, the host's root inside, and drives to test on.

Everything has a time limit, and QEMU ends with the `with` block, also when the tests are killed: `timeout` is its
parent. It has no network, and of the host it can write to `out` and to the images only, which are made for it.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from machine.channel import Channel, Completed, Lines, MachineError, Process, connect
from machine.drives import SPARE_MIB, Drive
from machine.initramfs import initramfs

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".cache/machine"
PROGRAM = "qemu-system-x86_64"

# polars is built for processors with AVX.
CPU = {"tcg": "max", "kvm": "host"}
BOOT_WITHIN_S = 180
LIVES_AT_MOST_S = 1500
SEEN_WITHIN_S = 60
# Many times what anything takes: the host may be busy.
PATIENCE_S = 240
PROBE_S = 5


def missing() -> str | None:
    """Why no machine can be had here; None when it can."""
    if shutil.which(PROGRAM) is None:
        return f"{PROGRAM} is not installed (scripts/test-machine)"
    if not (CACHE / "ready").exists():
        return "no kernel was fetched for the emulated machine (scripts/test-machine)"
    return None


def accelerator() -> str:
    """kvm where it works: /dev/kvm can be there and yet hang, so a bare kernel has to boot to its panic first."""
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return "tcg"
    probe = [PROGRAM, "-accel", "kvm", "-m", "256", "-display", "none", "-no-reboot", "-kernel", str(CACHE / "vmlinuz")]
    try:
        subprocess.run([*probe, "-append", "quiet panic=-1"], timeout=PROBE_S, capture_output=True, check=True)
    except (subprocess.TimeoutExpired, subprocess.CalledProcessError):
        return "tcg"
    return "kvm"


_LIST_DISKS = """
import json, pathlib
disks = []
for disk in pathlib.Path("/sys/block").iterdir():
    for name, begin in (("serial", 0), ("vpd_pg80", 4)):
        try:
            serial = (disk / "device" / name).read_bytes()[begin:].decode().strip()
            disks.append((disk.name, serial, int((disk / "size").read_text())))
        except OSError:
            pass
print(json.dumps(disks))
"""


class Machine:
    """A running machine. `out`: the folder that is /out inside."""

    def __init__(self, folder: Path, devices: list[str]) -> None:
        """`devices`: QEMU's arguments for the drives. Raises MachineError when it does not come up."""
        self.folder = folder
        self.out = folder / "out"
        self.out.mkdir()
        self._fitted: dict[Drive, str] = {}
        self._ends = contextlib.ExitStack()
        # The path of a socket holds 107 characters; the folders of pytest may be longer.
        self._sockets = Path(self._ends.enter_context(tempfile.TemporaryDirectory(prefix="flashgauge-machine-")))
        try:
            self.accelerator = accelerator()
            self._boot(devices)
        except BaseException:
            self.close()
            raise

    def _boot(self, devices: list[str]) -> None:
        # The interpreter of the environment, with the path it has here: inside, the root is the same.
        image = initramfs(CACHE, [sys.executable, "-P", str(Path(__file__).with_name("guest.py"))])
        (self.folder / "initramfs").write_bytes(image)
        self._log = self.folder / "console.log"
        arguments = [
            *("-accel", self.accelerator, "-machine", "q35", "-cpu", CPU[self.accelerator], "-m", "1536", "-smp", "2"),
            *("-display", "none", "-nodefaults", "-no-reboot", "-nic", "none", "-serial", f"file:{self._log}"),
            *("-kernel", str(CACHE / "vmlinuz"), "-initrd", str(self.folder / "initramfs")),
            *("-append", "console=ttyS0 quiet panic=-1"),
            *("-qmp", f"unix:{self._sockets}/qmp,server=on,wait=off"),
            *("-chardev", f"socket,id=commands,path={self._sockets}/commands,server=on,wait=off"),
            *("-device", "virtio-serial-pci", "-device", "virtserialport,chardev=commands,name=flashgauge"),
            *("-fsdev", "local,id=host,path=/,security_model=none,readonly=on,multidevs=remap"),
            *("-device", "virtio-9p-pci,fsdev=host,mount_tag=host"),
            *("-fsdev", f"local,id=layer,path={CACHE}/root,security_model=none,readonly=on"),
            *("-device", "virtio-9p-pci,fsdev=layer,mount_tag=layer"),
            *("-fsdev", f"local,id=out,path={self.out},security_model=none"),
            *("-device", "virtio-9p-pci,fsdev=out,mount_tag=out"),
            *devices,
        ]
        with (self.folder / "qemu.log").open("wb") as log:
            command = ["timeout", "--kill-after=5", str(LIVES_AT_MOST_S), PROGRAM, *arguments]
            self._qemu = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._ends.callback(self._stop)
        until_s = time.monotonic() + BOOT_WITHIN_S
        try:
            self._qmp = Lines(connect(self._sockets / "qmp", until_s))
            self._ends.callback(self._qmp.close)
            self._qmp.receive(until_s)
            self._events: list[dict[str, Any]] = []
            self.qmp("qmp_capabilities")
            self._channel = Channel(connect(self._sockets / "commands", until_s))
            self._ends.callback(self._channel.close)
            self.booted_s = float(self._channel.answer(0, until_s - time.monotonic())["out"])
        except MachineError as error:
            raise MachineError(
                f"{error}; QEMU: {self._tail('qemu.log')}; console: {self._tail('console.log')}"
            ) from None

    def _tail(self, name: str) -> str:
        path = self.folder / name
        return path.read_text(errors="replace")[-2000:] if path.exists() else ""

    def _stop(self) -> None:
        self._qemu.terminate()  # timeout hands it on
        try:
            self._qemu.wait(10)
        except subprocess.TimeoutExpired:
            self._qemu.kill()
            self._qemu.wait(10)

    def close(self) -> None:
        self._ends.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(
        self,
        *argv: str | Path,
        cwd: str = "/out",
        seconds: float = PATIENCE_S,
        environment: Mapping[str, str] | None = None,
    ) -> Process:
        """Start a command inside; `flashgauge` is the environment's own. It is killed when `seconds` have passed."""
        return self._channel.start([str(part) for part in argv], cwd, seconds, environment or {})

    def run(self, *argv: str | Path, seconds: float = PATIENCE_S, check: bool = False) -> Completed:
        """Run a command inside to its end. `check`: raises MachineError when it fails."""
        result = self.start(*argv, seconds=seconds).wait()
        if check and result.returncode:
            raise MachineError(f"{' '.join(result.args)}: {result.returncode}: {result.stderr or result.stdout}")
        return result

    def flashgauge(self, *arguments: str | Path, seconds: float = PATIENCE_S, reports: bool = False) -> Completed:
        """Run the program in a fork of what has imported it. Without `reports` a run ends when its journal is whole:
        plotting them takes minutes under emulation, and the host can do it from the folder."""
        return self.start_flashgauge(*arguments, seconds=seconds, reports=reports).wait()

    def start_flashgauge(self, *arguments: str | Path, seconds: float = PATIENCE_S, reports: bool = False) -> Process:
        environment = {} if reports else {"WITHOUT_REPORTS": "1"}
        return self.start("flashgauge", *arguments, seconds=seconds, environment=environment)

    def sh(self, script: str, seconds: float = PATIENCE_S) -> str:
        """Output of a shell script; raises MachineError when it fails."""
        return self.run("/bin/sh", "-euc", script, seconds=seconds, check=True).stdout.strip()

    def disk(self, drive: Drive) -> str:
        """Path of the drive's block device inside, found by its serial number and size."""
        wanted = (drive.serial, drive.size_bytes)
        if drive in self._fitted:  # and stays where it is
            return self._fitted[drive]
        until_s = time.monotonic() + SEEN_WITHIN_S
        while wanted not in (found := self._disks()):
            if time.monotonic() > until_s:
                raise MachineError(f"no drive {wanted} inside, only {found}")
            time.sleep(0.2)
        if drive.device:
            self._fitted[drive] = found[wanted]
        return found[wanted]

    def listed_disks(self) -> list[tuple[str, str, int]]:
        """Kernel name, serial number and 512-byte sectors of each disk inside that has a serial number."""
        found: list[tuple[str, str, int]] = json.loads(self.run("python", _LIST_DISKS, check=True).stdout)
        return found

    def _disks(self) -> dict[tuple[str, int], str]:
        return {(serial, sectors * 512): f"/dev/{name}" for name, serial, sectors in self.listed_disks()}

    def qmp(self, command: str, seconds: float = 30, **arguments: Any) -> Any:
        """A command of the QEMU Machine Protocol; returns its answer. Raises MachineError."""
        until_s = time.monotonic() + seconds
        self._qmp.send({"execute": command, "arguments": arguments})
        while True:
            answer = self._qmp.receive(until_s)
            if "error" in answer:
                raise MachineError(f"{command}: {answer['error']['desc']}")
            if "return" in answer:
                return answer["return"]
            self._events.append(answer)

    def wait_event(self, name: str, seconds: float = 60, **data: Any) -> None:
        """Until QEMU has told of this event, with these data."""
        until_s = time.monotonic() + seconds
        while True:
            for event in self._events:
                if event["event"] == name and data.items() <= event.get("data", {}).items():
                    self._events.remove(event)
                    return
            self._events.append(self._qmp.receive(until_s))

    def plug(self, port: int, serial: str, node: str) -> str:
        """Plug an NVMe drive into a PCI Express port; returns the path of its block device when it is there."""
        device = f"port{port}-drive"
        self.qmp("device_add", driver="nvme", id=device, bus=f"port{port}", serial=serial, drive=node)
        return self.disk(Drive(node, serial, SPARE_MIB, ""))

    def pull(self, port: int) -> None:
        """Pull the drive out of a port; returns when it is out."""
        self.qmp("device_del", id=f"port{port}-drive")
        self.wait_event("DEVICE_DELETED", device=f"port{port}-drive")
