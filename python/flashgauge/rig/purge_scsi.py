"""Purge by SCSI commands: FORMAT UNIT and SANITIZE (block erase, cryptographic erase), by sg3_utils.

Reference: SBC-4, FORMAT UNIT (5.4) and SANITIZE (5.30). Both are started with the IMMED bit and go on in the drive;
progress and outcome come from REQUEST SENSE. Limits: tested against stand-ins that answer as the
tools' sources have it; no SAS drive has met this code.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import identify, tools
from flashgauge.rig.base import Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.purge_method import Support, asked, whole_drive
from flashgauge.rig.scsi import MEDIUM_ERROR, Scsi, is_scsi
from flashgauge.rig.underway import SCSI_FAILURES, wait_for_scsi

FORMAT_UNIT, SANITIZE = 0x04, 0x48
BLOCK_ERASE, CRYPTOGRAPHIC_ERASE = 2, 3  # service actions of SANITIZE


def _supported(device: BlockDevice, opcode: int, action: int | None) -> Support:
    if not is_scsi(device):
        return Support("no SCSI drive")
    reason = whole_drive(device)
    if reason:
        return Support(reason)

    def question() -> Support:
        takes = Scsi(device).takes(opcode, action)
        if takes is None:
            return Support("the drive does not tell which commands it takes", may_try=True)
        return Support() if takes else Support("the drive does not take the command")

    return asked(question, *Scsi.TOOLS)


def _finish(drive: Scsi, name: str, tell: Tell) -> None:
    sense = wait_for_scsi(drive, name, tell)
    failure = SCSI_FAILURES.get(sense.code)
    if failure is not None or sense.key == MEDIUM_ERROR:
        raise DeviceError(
            errno.EIO,
            f"{drive.device.given}: {name} failed ({failure or 'medium error'}), and the drive takes no I/O now; "
            "try it again, or another method with --purge",
        )


@dataclass(frozen=True)
class ScsiSanitize:
    """SANITIZE, with unrestricted exit: a failure leaves a drive that can be freed from it."""

    name: str
    what: str
    action: int

    @property
    def scrambles(self) -> bool:
        return self.action == CRYPTOGRAPHIC_ERASE

    def supported(self, device: BlockDevice) -> Support:
        return _supported(device, SANITIZE, self.action)

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Scsi(device)
        kind = "--crypto" if self.action == CRYPTOGRAPHIC_ERASE else "--block"
        output = tools.run("sg_sanitize", kind, "--ause", "--early", "--quick", drive.node.checked())
        tools.done(output, f"{device.given}: {self.name} not started")
        _finish(drive, self.name, tell)
        return None


@dataclass(frozen=True)
class ScsiFormat:
    """FORMAT UNIT and no other command: block size and protection information stay as they are."""

    name: str = "scsi-format"
    what: str = "SCSI FORMAT UNIT"
    scrambles: bool = False

    def supported(self, device: BlockDevice) -> Support:
        return _supported(device, FORMAT_UNIT, None)

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Scsi(device)
        arguments = ("--format", "--format", "--format", "--early", "--quick", *_protection(device))
        tools.done(tools.run("sg_format", *arguments, drive.node.checked()), f"{device.given}: {self.name} not started")
        _finish(drive, self.name, tell)
        return None


def _protection(device: BlockDevice) -> tuple[str, ...]:
    """FMTPINFO and PFU for the type of protection the drive is formatted with, as the kernel knows it."""
    types = [identify.number(file) for file in device.disk.glob("device/scsi_disk/*/protection_type")]
    return {1: ("--fmtpinfo=2",), 2: ("--fmtpinfo=3",), 3: ("--fmtpinfo=3", "--pfu=1")}.get(max(types, default=0), ())


METHODS = (
    ScsiFormat(),
    ScsiSanitize("scsi-sanitize", "SCSI SANITIZE, block erase", BLOCK_ERASE),
    ScsiSanitize("scsi-sanitize-crypto", "SCSI SANITIZE, cryptographic erase", CRYPTOGRAPHIC_ERASE),
)
