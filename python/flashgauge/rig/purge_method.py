"""What the ways to purge a drive have in common: their interface, what each needs of the device, how it is awaited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from flashgauge._core import DeviceError
from flashgauge.rig import identify, tools
from flashgauge.rig.base import Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.underway import LeftUnderWay


@dataclass(frozen=True)
class Support:
    """`reason`: why the method cannot be used; None when it can. `forecast_s`: the drive's own estimate.

    `may_try`: the drive does not tell, so that the method is not chosen, but tried when asked for by name.
    """

    reason: str | None = None
    forecast_s: float | None = None
    may_try: bool = False


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
