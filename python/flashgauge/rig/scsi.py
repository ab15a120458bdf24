"""A SCSI drive's commands, by sg3_utils: sense data, the caching mode page, and which commands it takes.

Reference: SPC-5 (REQUEST SENSE, MODE SENSE, REPORT SUPPORTED OPERATION CODES), SBC-4 (caching mode page 08h). Sense
data and mode pages are read as bytes, which the standards define, not as the tools' words.
"""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import tools
from flashgauge.rig.ata import is_ata
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.node import Node

CACHING_PAGE = 8
WCE = 0x04  # byte 2 of the caching page
NOT_READY, MEDIUM_ERROR = 2, 3  # sense keys
_UNIT_ATTENTION, _NO_SUCH_COMMAND = 6, {5, 9}  # exit status of sg3_utils; 5: illegal request, 9: invalid opcode
UNIT_ATTENTIONS = 4  # that may wait one after another: power on, mode parameters changed, capacity changed
FORMAT_UNDER_WAY, SANITIZE_UNDER_WAY = (0x04, 0x04), (0x04, 0x1B)  # additional sense code and its qualifier


@dataclass(frozen=True)
class Sense:
    """Sense data. `percent`: of a command that goes on in the background; None when it gives none."""

    key: int
    code: tuple[int, int]
    percent: float | None

    @classmethod
    def parse(cls, data: bytes) -> Sense:
        """Fixed format, SPC-5 4.4.3. Raises DeviceError when it is another."""
        if len(data) < 14 or data[0] & 0x7F not in {0x70, 0x71}:
            raise DeviceError(errno.EIO, f"no sense data in fixed format ({data[:4].hex()})")
        progress = len(data) >= 18 and data[15] & 0x80
        percent = int.from_bytes(data[16:18], "big") * 100 / 65536 if progress else None
        return cls(data[2] & 0xF, (data[12], data[13]), percent)


def is_scsi(device: BlockDevice) -> bool:
    """A SAS, iSCSI or virtual SCSI disk: the SCSI disk driver's, and no ATA drive behind it."""
    return device.disk.name.startswith("sd") and not is_ata(device)


class Scsi:
    """One SCSI drive."""

    TOOLS = ("sg_modes", "sg_wr_mode", "sg_opcodes", "sg_requests", "sg_sanitize", "sg_format")

    def __init__(self, device: BlockDevice) -> None:
        self.device = device
        self.node = Node(device, str(device.roots.dev / device.disk.name), device.disk / "dev")
        self.path = self.node.path

    def takes(self, opcode: int, action: int | None = None) -> bool | None:
        """Whether the drive says that it takes the command; None when it does not tell. Raises DeviceError."""
        asked = f"--opcode={opcode:#x}" if action is None else f"--opcode={opcode:#x},{action}"
        output = self._run("sg_opcodes", asked, self.path)
        if output.code in _NO_SUCH_COMMAND:
            return None
        tools.done(output, self.device.given)
        return re.search(r"Command (is )?supported", output.text) is not None

    def sense(self) -> Sense:
        """Raises DeviceError."""
        output = tools.done(self._run("sg_requests", "--raw", self.path), self.device.given)
        # A drive with nothing to say answers with no data at all.
        return Sense.parse(output.raw) if output.raw else Sense(0, (0, 0), None)

    def write_cache(self) -> bool | None:
        """WCE of the current caching page; None when the drive has no such page. Raises DeviceError."""
        page = self._caching_page()
        return bool(page[2] & WCE) if page else None

    def set_write_cache(self, enabled: bool, keep: int | None = None) -> None:
        """The current values only: never --save. `keep`: see tools.Command. Raises DeviceError."""
        page = self._caching_page()
        if not page:
            raise DeviceError(errno.EIO, f"{self.device.given}: no caching mode page")
        # Parameters saveable is reserved in MODE SELECT (SPC-5): it goes out as 0.
        page[0] &= 0x3F
        page[2] = page[2] | WCE if enabled else page[2] & ~WCE
        contents = ",".join(f"{byte:x}" for byte in page)
        output = self._run(
            "sg_wr_mode", f"--page={CACHING_PAGE:x}", f"--contents={contents}", self.node.checked(), keep=keep
        )
        tools.done(output, self.device.given)

    def _run(self, tool: str, *arguments: str, keep: int | None = None) -> tools.Output:
        """A drive reports each change of its state once, to the next command whatever that is, which then is sent
        again."""
        for _ in range(UNIT_ATTENTIONS):
            output = tools.run(tool, *arguments, keep=keep)
            if output.code != _UNIT_ATTENTION:
                break
        return output

    def _caching_page(self) -> bytearray:
        """Its current values; empty when there is no such page."""
        output = self._run("sg_modes", f"--page={CACHING_PAGE}", "-R", self.path)
        if output.code in _NO_SUCH_COMMAND:
            return bytearray()
        tools.done(output, self.device.given)
        page = bytearray.fromhex("".join(re.findall(r"^([0-9a-f]{2})\s*$", output.text, re.MULTILINE)))
        return page if len(page) > 2 and page[0] & 0x3F == CACHING_PAGE else bytearray()
