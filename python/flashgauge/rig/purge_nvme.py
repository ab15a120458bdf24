"""Purge by NVMe commands: Format NVM of the one namespace, and Sanitize of the whole subsystem.

Reference: NVM Express Base Specification 2.0, Format NVM (5.14), Sanitize (5.24 and 8.21), Sanitize Status log
(5.16.1.16.2). Nothing is asked of the drive while a format runs: many carry it out before they answer any other
command, whose time would run out, and the kernel would reset the controller in the middle of it. For the same reason a
format is not left alone: an interruption waits for its end, and a run that is killed leaves a lock which the next one
waits for.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import identify, tools
from flashgauge.rig.base import Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.nvme import Nvme, SanitizeLog
from flashgauge.rig.purge_method import Support, asked, wait_through, whole_drive
from flashgauge.rig.records import command_lock
from flashgauge.rig.underway import NVME_FAILED, look_at_nvme, until_done

FORMAT_LIMIT_S = 4 * 3600.0  # flash is erased in minutes; a command that is given up resets the controller
USER_DATA_ERASE, CRYPTOGRAPHIC_ERASE = 1, 2  # secure erase settings of Format NVM
BLOCK_ERASE, CRYPTO_ERASE = 2, 4  # sanitize actions
COMPLETED = {1, 4}  # sanitize status


def _others(namespaces: list[int]) -> str:
    return f"it would erase namespace{'s' * (len(namespaces) > 1)} {', '.join(map(str, namespaces))} too"


def _refuse_others(now: Support, device: BlockDevice, name: str) -> None:
    """A test may purge several times, hours apart: a namespace made since is not to be erased. Raises DeviceError."""
    if now.reason is not None:
        raise DeviceError(errno.EBUSY, f"{device.given}: {name} is not possible any more: {now.reason}")


@dataclass(frozen=True)
class NvmeFormat:
    """Format NVM with a secure erase setting; the LBA format, metadata and protection stay as they are."""

    name: str
    what: str
    setting: int

    @property
    def scrambles(self) -> bool:
        return self.setting == CRYPTOGRAPHIC_ERASE

    def supported(self, device: BlockDevice) -> Support:
        if not identify.nvme_controllers(device):
            return Support("no NVMe drive")
        reason = whole_drive(device)
        return Support(reason) if reason else asked(lambda: self._supported(Nvme(device)), *Nvme.TOOLS)

    def _supported(self, drive: Nvme) -> Support:
        oacs, fna = drive.capability("oacs"), drive.capability("fna")
        if not oacs & 1 << 1:
            return Support("the drive has no Format command (oacs)")
        if self.setting == CRYPTOGRAPHIC_ERASE and not fna & 1 << 2:
            return Support("the drive has no cryptographic erase (fna)")
        # Bit 0: a format goes to all namespaces. Bit 1: so does its secure erase.
        others = drive.other_namespaces() if fna & 3 else []
        return Support(f"{_others(others)} (fna)") if others else Support()

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Nvme(device)
        _refuse_others(self._supported(drive), device, self.name)
        before = drive.namespace()
        flbas, dps = before.flbas, before.dps
        arguments = (
            f"--namespace-id={drive.nsid}",
            # Bits 5 and 6 are the upper ones of the index, where a drive has more than 16 formats.
            f"--lbaf={flbas & 0xF | flbas >> 1 & 0x30}",
            f"--ms={flbas >> 4 & 1}",
            f"--pi={dps & 7}",
            f"--pil={dps >> 3 & 1}",
            f"--ses={self.setting}",
            f"--timeout={round(FORMAT_LIMIT_S * 1000)}",
            "--force",  # consent was given; without it, nvme-cli waits ten seconds for second thoughts
        )
        with command_lock(device) as lock:
            command = tools.Command("nvme", "format", drive.node.checked(), *arguments, keep=lock)
        output = wait_through(command, FORMAT_LIMIT_S, self.name, tell)
        tools.done(output, f"{device.given}: {self.name} failed")
        after = drive.namespace()
        changes = [name for name, value in vars(before).items() if getattr(after, name) != value]
        if changes:
            raise DeviceError(errno.EIO, f"{device.given}: {self.name} changed the namespace ({', '.join(changes)})")
        return None


@dataclass(frozen=True)
class NvmeSanitize:
    """Sanitize, followed in the drive's log. Unrestricted exit: a failure leaves a drive that can be freed from it."""

    name: str
    what: str
    action: int

    @property
    def scrambles(self) -> bool:
        return self.action == CRYPTO_ERASE

    def supported(self, device: BlockDevice) -> Support:
        if not identify.nvme_controllers(device):
            return Support("no NVMe drive")
        reason = whole_drive(device)
        return Support(reason) if reason else asked(lambda: self._supported(Nvme(device)), *Nvme.TOOLS)

    def _supported(self, drive: Nvme) -> Support:
        bit = 1 << 0 if self.action == CRYPTO_ERASE else 1 << 1
        if not drive.capability("sanicap") & bit:
            return Support("the drive has no such sanitize (sanicap)")
        others = drive.other_namespaces()
        return Support(_others(others)) if others else Support(forecast_s=self._forecast_s(drive.sanitize_log()))

    def _forecast_s(self, log: SanitizeLog) -> float | None:
        return log.crypto_s if self.action == CRYPTO_ERASE else log.erase_s

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Nvme(device)
        _refuse_others(self._supported(drive), device, self.name)
        arguments = (drive.node.checked(), f"--sanact={self.action}", "--ause")
        tools.done(tools.run("nvme", "sanitize", *arguments), f"{device.given}: {self.name} not started")
        until_done(lambda: look_at_nvme(drive), self.name, self._forecast_s(drive.sanitize_log()), tell)
        log = drive.sanitize_log()
        if log.status == NVME_FAILED:
            raise DeviceError(
                errno.EIO,
                f"{device.given}: {self.name} failed, by the drive's log, and it takes no I/O now; try it again, "
                f"or free the drive with: nvme sanitize {drive.controller} --sanact=1",
            )
        if log.status not in COMPLETED or log.action != self.action:
            raise DeviceError(
                errno.EIO,
                f"{device.given}: {self.name} was started, but the drive's log does not know of it "
                f"(status {log.status}, action {log.action}); choose another method with --purge",
            )
        return "the drive's sanitize log: completed"


METHODS = (
    NvmeFormat("nvme-format", "NVMe Format, user data erase", USER_DATA_ERASE),
    NvmeSanitize("nvme-sanitize", "NVMe Sanitize, block erase", BLOCK_ERASE),
    NvmeFormat("nvme-format-crypto", "NVMe Format, cryptographic erase", CRYPTOGRAPHIC_ERASE),
    NvmeSanitize("nvme-sanitize-crypto", "NVMe Sanitize, crypto erase", CRYPTO_ERASE),
)
