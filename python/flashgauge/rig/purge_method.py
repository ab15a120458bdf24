"""What the ways to purge a drive have in common: their interface, what each needs of the device, and waiting for it."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flashgauge._core import DeviceError
from flashgauge.rig import identify, tools
from flashgauge.rig.base import Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper

POLL_S = 2.0
SETTLE_LOOKS = 2  # a drive may take a moment before it says that it is busy
UNKNOWN_LIMIT_S = 24 * 3600.0  # where the drive gives no estimate: a large hard disk formats for most of a day


@dataclass(frozen=True)
class Support:
    """`reason`: why the method cannot be used; None when it can. `forecast_s`: the drive's own estimate.

    `may_try`: the drive does not tell, so that the method is not chosen, but tried when asked for by name.
    """

    reason: str | None = None
    forecast_s: float | None = None
    may_try: bool = False


@dataclass(frozen=True)
class Progress:
    """One look at a drive at work. `percent`: None when it does not tell."""

    done: bool
    percent: float | None = None


class Method(Protocol):
    """A way to purge. Methods hold no state: what they know they ask of the drive."""

    @property
    def name(self) -> str:
        """As in --purge."""

    @property
    def what(self) -> str:
        """For the report."""

    @property
    def scrambles(self) -> bool:
        """Whether what is read afterwards is undefined, and may be an error until it is written."""

    def supported(self, device: BlockDevice) -> Support:
        """Asks the device, by commands that read only."""

    def wait_for_earlier(self, device: BlockDevice, tell: Tell) -> bool:
        """Wait for the end of a purge that an earlier run has left under way; whether the device takes writes now.

        Raises DeviceError.
        """

    def run(self, device: BlockDevice, tell: Tell, keeper: Keeper) -> str | None:
        """Purge, to the end. Returns what the drive's own log says of it, where there is one. Raises DeviceError."""


def whole_drive(device: BlockDevice) -> str | None:
    """Why a method that erases whole drives cannot be used; None when it can."""
    if device.is_partition:
        return "the target is a partition, and it erases the whole drive"
    meaning = identify.stands_for(device)
    if meaning is not None:
        return f"the device stands for {meaning}"
    # A bridge may reset the drive, or cut its power, in the middle: with a password set, that locks it.
    return "the drive is behind a USB bridge" if "/usb" in str(device.folder) else None


def asked(question: Callable[[], Support], *needed: str) -> Support:
    """The answer, or why it could not be asked: a missing tool, no permission, a drive that fails the command."""
    missing = tools.missing(*needed)
    if missing is not None:
        return Support(missing)
    try:
        return question()
    except DeviceError as error:
        return Support(str(error.strerror or error))


class LeftUnderWay(KeyboardInterrupt):
    """Interrupted a second time: the drive's command is not waited for any longer."""


def wait_through(command: tools.Command, limit_s: float, what: str, tell: Tell, of: str = "") -> tools.Output:
    """Wait for the end of a command that the drive does not stop for. An interruption is raised after the end; a second
    one leaves the command alone, and is LeftUnderWay. Raises DeviceError after `limit_s`."""
    try:
        return command.wait(limit_s, lambda elapsed_s: tell(f"{what}: {elapsed_s:.0f} s{of}"))
    except KeyboardInterrupt:
        tell(f"{what}: interrupted; waiting for its end, since the drive does not stop (Ctrl-C again leaves it alone)")
    try:
        command.wait(limit_s)
    except KeyboardInterrupt:
        raise LeftUnderWay from None
    raise KeyboardInterrupt


def until_done(look: Callable[[], Progress], what: str, forecast_s: float | None, tell: Tell) -> None:
    """Look until the drive is done. Raises DeviceError when it takes four times its own estimate, and 10 minutes.

    Ctrl-C ends the waiting, not the drive's work; the next run finds it and waits for its end.
    """
    limit_s = 4 * forecast_s + 600 if forecast_s is not None else UNKNOWN_LIMIT_S
    began_s = time.monotonic()
    quiet_looks = 0
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


def _so_far(progress: Progress, elapsed_s: float, forecast_s: float | None) -> str:
    if progress.percent is not None and not progress.done:
        return f"{progress.percent:.0f} %"
    of = f" of about {forecast_s:.0f} s" if forecast_s is not None else ""
    return f"{elapsed_s:.0f} s{of}"
