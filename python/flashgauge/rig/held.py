"""The device consented to, held open from consent to the end of the run.

While a descriptor is open, the kernel gives the device's number and name to no other device; what can still happen is
that the drive goes away, that its medium or its size changes, or that somebody puts another node at the path. `check`
finds each of these. It reads sysfs and asks the kernel about the descriptor; the drive gets no command.
"""

from __future__ import annotations

import errno
import fcntl
import os
import struct

from flashgauge._core import DeviceError
from flashgauge.rig import safety
from flashgauge.rig.safety import Cleared

BLKGETDISKSEQ = 0x80081280  # _IOR(0x12, 128, __u64), linux/fs.h; since Linux 5.15


class Held:
    """An open descriptor of a cleared device. The exclusive claim is the session's."""

    def __init__(self, cleared: Cleared) -> None:
        """Raises DeviceError when the device cannot be opened, or is not the one consented to."""
        self._cleared = cleared
        device = cleared.device
        try:
            self._descriptor = os.open(device.path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except OSError as error:
            raise DeviceError(error.errno, f"{device.path}: {error.strerror}; it was there: start again") from error
        try:
            self.check()
        except BaseException:
            self.close()
            raise

    def check(self) -> None:
        """The path, and this descriptor, are those of the device consented to. Raises DeviceError."""
        safety.recheck(self._cleared)
        identity = self._cleared.identity
        status = os.fstat(self._descriptor)
        held_number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
        if held_number != identity.major_minor or self._diskseq() not in {None, identity.diskseq}:
            raise DeviceError(
                errno.ESTALE, f"{self._cleared.device.given}: the drive or its medium was exchanged; start again"
            )

    def close(self) -> None:
        """Safe to call twice."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _diskseq(self) -> str | None:
        """None where the kernel has no such number."""
        try:
            answer = fcntl.ioctl(self._descriptor, BLKGETDISKSEQ, bytes(8))
        except OSError as error:
            if error.errno in (errno.ENOTTY, errno.EINVAL):
                return None
            raise DeviceError(error.errno, f"{self._cleared.device.given}: {error.strerror}; start again") from error
        return str(struct.unpack("=Q", answer)[0])
