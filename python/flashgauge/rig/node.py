"""The node that a tool is given, looked at once more right before each command that changes something.

Tools open a path. What it leads to is compared with the device it was when the drive was first asked, by the number of
the node and by what the kernel says of the drive. Limits: whoever may make nodes can still exchange one in between.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from flashgauge._core import DeviceError
from flashgauge.rig import identify
from flashgauge.rig.identify import BlockDevice, read_text


class Node:
    """`path`: as it is given to tools. `number_file`: where sysfs has the node's number."""

    def __init__(self, device: BlockDevice, path: str, number_file: Path) -> None:
        self.path = path
        self._device = device
        self._number_file = number_file
        self._before = self._facts()

    def checked(self) -> str:
        """The path, when it leads to the drive still. Raises DeviceError."""
        now = self._facts()
        try:
            status = os.stat(self.path)
        except OSError as error:
            raise DeviceError(error.errno, f"{self.path}: {error.strerror}; is the drive still connected?") from error
        # What is no device node cannot be another drive's; the tool will say what is wrong with it.
        is_node = stat.S_ISBLK(status.st_mode) or stat.S_ISCHR(status.st_mode)
        found = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}" if is_node else now[0]
        if now != self._before or found != now[0]:
            raise DeviceError(
                errno.ENODEV,
                f"{self.path}: not the device it was ({', '.join(map(str, self._before))}; now {found}, "
                f"{', '.join(map(str, now))}); nothing was sent to it: start again",
            )
        return self.path

    def _facts(self) -> tuple[str | None, ...]:
        """The node's number; serial, WWID and running number of the disk. Not the size, which a format takes away for
        a moment."""
        identity = identify.identity(self._device)
        return read_text(self._number_file), identity.serial, identity.wwid, identity.diskseq
