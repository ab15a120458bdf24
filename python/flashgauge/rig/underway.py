"""A drive that works on by itself: followed to its end, and found when somebody else has begun it.

A sanitize and a SCSI format go on in the drive whatever becomes of the program that began them, and the drive tells of
them: NVMe in its sanitize log, ATA in its sanitize status, SCSI in its sense data. (An NVMe format tells nothing: see
records.py, wait_for_command.)
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass

from flashgauge._core import DeviceError
from flashgauge.rig import identify
from flashgauge.rig.ata import Ata, is_ata
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.nvme import Nvme
from flashgauge.rig.records import Tell
from flashgauge.rig.scsi import FORMAT_UNDER_WAY, SANITIZE_UNDER_WAY, Scsi, Sense, is_scsi

POLL_S = 2.0
SETTLE_LOOKS = 2  # a drive may take a moment before it says that it is busy
UNKNOWN_LIMIT_S = 24 * 3600.0  # where the drive gives no estimate: a large hard disk formats for most of a day

NVME_UNDER_WAY, NVME_FAILED = 2, 3  # status in the sanitize log
ATA_FROZEN, ATA_UNDER_WAY, ATA_FAILED = 1, 2, 3  # sanitize states
# MEDIUM FORMAT CORRUPTED, FORMAT COMMAND FAILED, SANITIZE COMMAND FAILED: what a failure leaves behind.
SCSI_FAILURES = {(0x31, 0): "medium format corrupted", (0x31, 1): "format failed", (0x31, 3): "sanitize failed"}


@dataclass(frozen=True)
class Progress:
    """One look at a drive at work. `percent`: None when it does not tell."""

    done: bool
    percent: float | None = None


class LeftUnderWay(KeyboardInterrupt):
    """Interrupted: what the drive does is not waited for any longer."""


def until_done(look: Callable[[], Progress], what: str, forecast_s: float | None, tell: Tell) -> None:
    """Look until the drive is done. Raises DeviceError when it takes four times its own estimate, and 10 minutes.

    Ctrl-C ends the waiting, not the drive's work, and is LeftUnderWay; the next run finds it and waits for its end.
    """
    limit_s = 4 * forecast_s + 600 if forecast_s is not None else UNKNOWN_LIMIT_S
    began_s = time.monotonic()
    quiet_looks = 0
    try:
        while True:
            progress = look()
            quiet_looks = quiet_looks + 1 if progress.done else 0
            if quiet_looks >= SETTLE_LOOKS:
                return
            elapsed_s = time.monotonic() - began_s
            tell(f"{what}: {_so_far(progress, elapsed_s, forecast_s)}")
            if elapsed_s > limit_s:
                raise DeviceError(
                    errno.ETIMEDOUT,
                    f"{what} has not ended after {elapsed_s:.0f} s; the drive goes on with it: wait, and run again",
                )
            time.sleep(POLL_S)
    except KeyboardInterrupt:
        raise LeftUnderWay from None


def _so_far(progress: Progress, elapsed_s: float, forecast_s: float | None) -> str:
    if progress.percent is not None and not progress.done:
        return f"{progress.percent:.0f} %"
    of = f" of about {forecast_s:.0f} s" if forecast_s is not None else ""
    return f"{elapsed_s:.0f} s{of}"


def wait_for_earlier(device: BlockDevice, tell: Tell) -> bool:
    """Wait for the end of a purge that an earlier run, or somebody else, has left under way; whether the device takes
    I/O now. One whose last sanitize failed takes a new one only. Raises DeviceError."""
    if identify.nvme_controllers(device):
        return _wait_for_nvme(Nvme(device), tell)
    if is_ata(device):
        return _wait_for_ata(Ata(device), tell)
    return _wait_for_scsi(Scsi(device), tell) if is_scsi(device) else True


def look_at_nvme(drive: Nvme) -> Progress:
    log = drive.sanitize_log()
    return Progress(log.status != NVME_UNDER_WAY, log.percent)


def _wait_for_nvme(drive: Nvme, tell: Tell) -> bool:
    """A drive without a sanitize command has none under way."""
    if not drive.capability("sanicap") & 7:
        return True
    log = drive.sanitize_log()
    if log.status == NVME_UNDER_WAY:
        until_done(lambda: look_at_nvme(drive), "a sanitize begun earlier", log.erase_s, tell)
        log = drive.sanitize_log()
    return log.status != NVME_FAILED


def look_at_ata(drive: Ata) -> Progress:
    status = drive.sanitize_status()
    return Progress(status.state != ATA_UNDER_WAY, status.percent)


def _wait_for_ata(drive: Ata, tell: Tell) -> bool:
    if not drive.sanitize().supported:
        return True
    status = drive.sanitize_status()
    if status.state == ATA_UNDER_WAY:
        until_done(lambda: look_at_ata(drive), "a sanitize begun earlier", None, tell)
        status = drive.sanitize_status()
    return status.state != ATA_FAILED


def wait_for_scsi(drive: Scsi, what: str, tell: Tell) -> Sense:
    """The sense data when nothing is under way any more."""

    def look() -> Progress:
        sense = drive.sense()
        return Progress(not _under_way(sense), sense.percent)

    until_done(look, what, None, tell)
    return drive.sense()


def _wait_for_scsi(drive: Scsi, tell: Tell) -> bool:
    sense = drive.sense()
    if _under_way(sense):
        sense = wait_for_scsi(drive, "a format or sanitize begun earlier", tell)
    return sense.code not in SCSI_FAILURES


def _under_way(sense: Sense) -> bool:
    return sense.code in {FORMAT_UNDER_WAY, SANITIZE_UNDER_WAY}
