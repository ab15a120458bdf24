"""An ATA drive's commands, by hdparm: IDENTIFY DEVICE as words, write cache, security and sanitize feature sets.

Reference: ACS-4 (IDENTIFY DEVICE words 59, 82, 85, 89, 90, 128; SECURITY and SANITIZE DEVICE commands). hdparm ends
with 0 after some failures, so that what a command has done is always read back from the drive.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import tools
from flashgauge.rig.identify import BlockDevice, read_text
from flashgauge.rig.node import Node

WORDS = 256
FAILED = 3  # sanitize state
# What hdparm 9.65 says, on standard error, of a drive whose last sanitize failed.
_FAILED = re.compile(r"Last Sanitize Command completed unsuccessfully|SD3 Sanitize Operation Failed", re.IGNORECASE)


@dataclass(frozen=True)
class Security:
    """Word 128, and the erase times of words 89 and 90 in seconds (None when not given)."""

    supported: bool
    enabled: bool
    locked: bool
    frozen: bool
    expired: bool
    enhanced: bool
    erase_s: float | None
    enhanced_s: float | None


@dataclass(frozen=True)
class Sanitize:
    """Word 59."""

    supported: bool
    crypto: bool
    block_erase: bool


@dataclass(frozen=True)
class SanitizeStatus:
    """`state`: SD0 idle, SD1 frozen, SD2 under way, SD3 failed, SD4 succeeded. `text`: what hdparm says of it."""

    state: int
    percent: float
    completed: bool
    text: str


def is_ata(device: BlockDevice) -> bool:
    """A SATA drive, also behind a SAS adapter; the SCSI layer gives all of them the vendor ATA."""
    return read_text(device.disk / "device/vendor") == "ATA"


class Ata:
    """One ATA drive."""

    TOOLS = ("hdparm",)

    def __init__(self, device: BlockDevice) -> None:
        self.device = device
        self.node = Node(device, str(device.roots.dev / device.disk.name), device.disk / "dev")
        self.path = self.node.path

    def words(self) -> list[int]:
        """IDENTIFY DEVICE, read anew. Raises DeviceError."""
        output = tools.done(tools.run("hdparm", "--Istdout", self.path), self.device.given)
        words = [int(text, 16) for text in re.findall(r"\b[0-9a-f]{4}\b", output.text.partition(":")[2])]
        if len(words) != WORDS or not any(words):
            raise DeviceError(errno.EIO, f"{self.device.given}: no answer to IDENTIFY DEVICE ({output.complaint})")
        return words

    def security(self) -> Security:
        """Raises DeviceError."""
        words = self.words()
        supported, enabled, locked, frozen, expired, enhanced = (bool(words[128] & 1 << bit) for bit in range(6))
        times = _erase_s(words[89]), _erase_s(words[90])
        return Security(supported, enabled, locked, frozen, expired, enhanced, *times)

    def sanitize(self) -> Sanitize:
        """Raises DeviceError."""
        word = self.words()[59]
        return Sanitize(bool(word & 1 << 12), bool(word & 1 << 13), bool(word & 1 << 15))

    def write_cache(self) -> bool | None:
        """Whether the volatile cache is on (word 85); None when there is none (word 82). Raises DeviceError."""
        words = self.words()
        return bool(words[85] & 1 << 5) if words[82] & 1 << 5 else None

    def set_write_cache(self, enabled: bool, keep: int | None = None) -> None:
        """Read it back: hdparm ends with 0 whatever the drive answers. `keep`: as of tools.Command.

        Raises DeviceError.
        """
        output = tools.run("hdparm", "-W", str(int(enabled)), self.node.checked(), keep=keep)
        tools.done(output, self.device.given)

    def set_password(self, password: str, keep: int) -> None:
        """A user password of high security, which the master password could open too. `keep`: see tools.Command.

        Raises DeviceError.
        """
        self._secure("--security-set-pass", password, keep)

    def disable_security(self, password: str) -> None:
        """Clear the password of a drive that is not locked. Raises DeviceError; success shows in `security` only."""
        self._secure("--security-disable", password)

    def unlock(self, password: str) -> None:
        """A drive whose power was cycled is locked, and takes no other security command. Raises DeviceError."""
        self._secure("--security-unlock", password)

    def _secure(self, option: str, password: str, keep: int | None = None) -> None:
        output = tools.run("hdparm", "--user-master", "u", option, password, self.node.checked(), keep=keep)
        tools.done(output, f"{self.device.given}: hdparm {option}")

    def sanitize_status(self) -> SanitizeStatus:
        """Raises DeviceError."""
        output = tools.run("hdparm", "--sanitize-status", self.path)
        if output.code != 0 and (said := _FAILED.search(output.errors)) is not None:
            # The command itself is aborted as long as the last sanitize's failure stands.
            return SanitizeStatus(FAILED, 0.0, False, said[0])
        tools.done(output, self.device.given)
        text = " ".join(output.text.partition("status:")[2].split())
        state = re.search(r"\bSD([0-4])\b", text)
        if state is None:
            raise DeviceError(errno.EIO, f"{self.device.given}: hdparm --sanitize-status says {output.complaint!r}")
        percent = re.search(r"\((\d+)\s*%\)", text)
        completed = "Completed Without Error" in text or int(state[1]) == 4
        return SanitizeStatus(int(state[1]), float(percent[1]) if percent else 0.0, completed, text)


def _erase_s(word: int) -> float | None:
    """Units of 2 minutes: 15 bits when bit 15 is set, else 8; 0 is no estimate, the largest "longer than that"."""
    units = word & 0x7FFF if word & 0x8000 else word & 0xFF
    return units * 120.0 if units else None
