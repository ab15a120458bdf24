"""Purge by ATA commands: SANITIZE DEVICE (block erase, crypto scramble) and SECURITY ERASE UNIT, by hdparm.

Reference: ACS-4, 7.34 (SECURITY) and 7.36 (SANITIZE DEVICE). A security erase needs a password, which the drive
forgets when the erase succeeds; it is cleared on every other way out (see keeper.py).
Limits: tested against stand-ins that answer as hdparm's source has it; no drive with these feature sets has met
this code.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import keeper, tools
from flashgauge.rig.ata import Ata, Security, is_ata
from flashgauge.rig.base import Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.purge_method import Support, asked, wait_through, whole_drive
from flashgauge.rig.records import PASSWORD
from flashgauge.rig.underway import ATA_FAILED, ATA_FROZEN, UNKNOWN_LIMIT_S, LeftUnderWay, look_at_ata, until_done

LONGEST_GIVEN_S = {0xFF * 120.0, 0x7FFF * 120.0}  # stands for "longer than that"

_THAW = "suspend the machine and wake it (systemctl suspend), or pull and plug the drive's power while the system runs"


@dataclass(frozen=True)
class AtaSanitize:
    """SANITIZE DEVICE, followed by its status."""

    name: str
    what: str
    option: str

    @property
    def scrambles(self) -> bool:
        return self.option == "--sanitize-crypto-scramble"

    def supported(self, device: BlockDevice) -> Support:
        if not is_ata(device):
            return Support("no ATA drive")
        reason = whole_drive(device)
        return Support(reason) if reason else asked(lambda: self._supported(Ata(device)), *Ata.TOOLS)

    def _supported(self, drive: Ata) -> Support:
        sanitize = drive.sanitize()
        if not sanitize.supported or not (sanitize.crypto if self.scrambles else sanitize.block_erase):
            return Support("the drive has no such sanitize command (IDENTIFY DEVICE word 59)")
        if drive.sanitize_status().state == ATA_FROZEN:
            return Support("its sanitize commands are frozen until its power is cycled")
        return Support()

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Ata(device)
        output = tools.run("hdparm", "--yes-i-know-what-i-am-doing", self.option, drive.node.checked())
        tools.done(output, f"{device.given}: {self.name} not started")
        until_done(lambda: look_at_ata(drive), self.name, None, tell)
        status = drive.sanitize_status()
        if status.state == ATA_FAILED or not status.completed:
            raise DeviceError(
                errno.EIO,
                f"{device.given}: {self.name} failed ({status.text}); try it again, or another method with --purge",
            )
        return f"the drive's sanitize status: {status.text}"


@dataclass(frozen=True)
class AtaSecurityErase:
    """SECURITY ERASE UNIT, enhanced where the drive has that."""

    name: str = "ata-security-erase"
    what: str = "ATA SECURITY ERASE UNIT"
    scrambles: bool = False

    def supported(self, device: BlockDevice) -> Support:
        if not is_ata(device):
            return Support("no ATA drive")
        reason = whole_drive(device)
        return Support(reason) if reason else asked(lambda: self._supported(Ata(device).security()), *Ata.TOOLS)

    def _supported(self, security: Security) -> Support:
        if not security.supported:
            return Support("the drive has no security feature set (IDENTIFY DEVICE word 128)")
        if security.enabled or security.locked:
            return Support("it has a user password already: disable it first (hdparm --security-disable)")
        if security.frozen:
            return Support(f"its security is frozen, as firmware does at boot: {_THAW}")
        if security.expired:
            return Support("its security count has expired: cycle its power")
        return Support(forecast_s=_estimate_s(security))

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        drive = Ata(device)
        security = drive.security()
        reason = self._supported(security).reason
        if reason is not None:  # minutes may have passed since it was asked
            raise DeviceError(errno.EACCES, f"{device.given}: {self.name}: {reason}")
        estimate_s = _estimate_s(security)
        limit_s = 4 * estimate_s + 600 if estimate_s is not None else UNKNOWN_LIMIT_S
        keep = keeper.note_password(True, limit_s)
        try:
            self._erase(drive, security, limit_s, tell, keep)
        except LeftUnderWay:
            tell(f"{self.name}: left to the guardian, which clears the drive's password when the erase has ended")
            raise
        except BaseException:
            tell(f"{self.name}: not finished; the drive's temporary password is being cleared")
            self._clear(device, keeper, limit_s)
            raise
        self._clear(device, keeper, limit_s)
        return None

    def _erase(self, drive: Ata, security: Security, limit_s: float, tell: Tell, keep: int) -> None:
        given = drive.device.given
        drive.set_password(PASSWORD, keep)
        if not drive.security().enabled:
            raise DeviceError(errno.EIO, f"{given}: {self.name}: the drive takes no password; choose another --purge")
        option = "--security-erase-enhanced" if security.enhanced else "--security-erase"
        command = tools.Command("hdparm", "--user-master", "u", option, PASSWORD, drive.node.checked(), keep=keep)
        estimate_s = _estimate_s(security)
        of = f" of about {estimate_s:.0f} s" if estimate_s is not None else ""
        # The drive takes no command before the erase ends, neither this one's end nor the password's.
        output = wait_through(command, limit_s, self.name, tell, of)
        tools.done(output, f"{given}: {self.name} failed")
        if drive.security().enabled:  # hdparm ends with 0 after some failures; a success has cleared the password
            raise DeviceError(errno.EIO, f"{given}: {self.name} failed ({output.complaint}); choose another --purge")

    def _clear(self, device: BlockDevice, kept: Keeper, limit_s: float) -> None:
        """An interruption meanwhile leaves it to the guardian."""
        try:
            keeper.clear_password(device, limit_s)
        except KeyboardInterrupt:
            kept.leave()
            raise
        kept.note_password(False)


def _estimate_s(security: Security) -> float | None:
    estimate_s = security.enhanced_s if security.enhanced else security.erase_s
    return None if estimate_s in LONGEST_GIVEN_S else estimate_s


METHODS = (
    AtaSanitize("ata-sanitize", "ATA SANITIZE DEVICE, block erase", "--sanitize-block-erase"),
    AtaSecurityErase(),
    AtaSanitize("ata-sanitize-crypto", "ATA SANITIZE DEVICE, crypto scramble", "--sanitize-crypto-scramble"),
)
