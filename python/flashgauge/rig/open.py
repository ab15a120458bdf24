"""From a target to a rig: nothing is opened for writing before every check has passed."""

from __future__ import annotations

from flashgauge.rig import identify, safety
from flashgauge.rig.base import Rig, SessionNeeds
from flashgauge.rig.block import BlockRig, usable_bytes
from flashgauge.rig.file import file_bytes, needed_bytes, open_file
from flashgauge.rig.simulated import simulated, simulated_bytes
from flashgauge.rig.target import Target


def capacity_bytes(target: Target) -> int:
    """The user capacity, for forecasts; nothing is opened for it. Raises TargetError."""
    if target.kind == "sim":
        return simulated_bytes(target)
    if target.kind == "file":
        return file_bytes(target)
    return usable_bytes(identify.find_block(target.path))


def open_rig(target: Target, needs: SessionNeeds, consent: str | None) -> Rig:
    """The rig for `target`. `consent`: what the operator gave with --consent; a simulated drive needs none.

    Raises TargetError when the target does not exist, is in use, lacks consent or is too small, and DeviceError when
    the device fails or changes while being opened.
    """
    if target.kind == "sim":
        return simulated(target, needs)
    if target.kind == "file":
        return open_file(target, needs, consent)
    device = identify.find_block(target.path)
    cleared = safety.clear(device, target.text, consent, needed_bytes(needs))
    return BlockRig(cleared, needs)
