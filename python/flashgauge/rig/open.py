"""From a target to a rig: nothing is opened for writing before every check has passed."""

from __future__ import annotations

import sys

from flashgauge.rig import identify, keeper, purge, records, safety
from flashgauge.rig.base import Rig, SessionNeeds
from flashgauge.rig.block import BlockRig, usable_bytes
from flashgauge.rig.file import file_bytes, needed_bytes, open_file
from flashgauge.rig.identify import BlockDevice, Identity
from flashgauge.rig.simulated import simulated, simulated_bytes
from flashgauge.rig.target import Target
from flashgauge.rig.uses import read_uses


class _Once:
    """Says the first thing it is told; there is no display yet."""

    def __init__(self, prefix: str) -> None:
        self._prefix: str | None = prefix

    def __call__(self, what: str) -> None:
        if self._prefix is not None:
            print(f"flashgauge: {self._prefix}{what}", file=sys.stderr)
            self._prefix = None


def capacity_bytes(target: Target) -> int:
    """The user capacity, for forecasts; nothing is opened for it. Raises TargetError."""
    if target.kind == "sim":
        return simulated_bytes(target)
    if target.kind == "file":
        return file_bytes(target)
    return usable_bytes(identify.find_block(target.path))


def open_rig(
    target: Target,
    needs: SessionNeeds,
    consent: str | None,
    *,
    consent_signatures: bool = False,
    purge_method: str = purge.AUTO,
    seen: Identity | None = None,
) -> Rig:
    """The rig for `target`. `consent`: what the operator gave with --consent; a simulated drive needs none.
    `consent_signatures`: a device that carries a member signature, and is not in use, may be overwritten too.
    `seen`: what the device was when this process last looked at it, which it has to be still.

    Raises TargetError when the target does not exist, is in use, lacks consent, is too small or does not have
    `purge_method`, and DeviceError when the device fails or changes while being opened.
    """
    if target.kind == "sim":
        return simulated(target, needs, purge_method)
    if target.kind == "file":
        return open_file(target, needs, consent, purge_method=purge_method)
    device = identify.find_block(target.path)
    safety.refuse(safety.gather(device, read_uses(device.roots), touch=False), consent_signatures)
    safety.check_consent(device, consent)  # No command goes to a drive before that.
    if seen is not None:
        safety.same_device(seen, identify.identity(device), identify.label(device))
    readable = _open_up(device)
    needed = needed_bytes(needs)
    cleared = safety.clear(
        device, target.text, consent, needed, consent_signatures=consent_signatures, seen=seen, touch=readable
    )
    return BlockRig(cleared, needs, purge_method)


def _open_up(device: BlockDevice) -> bool:
    """What an earlier run has left in the drive that would make the checks fail: a command that goes on in it, or our
    password, with which it answers no read since its power was cycled. Whether the drive can be read then: one whose
    last sanitize failed can not, and takes nothing but a new one. Raises DeviceError."""
    tell = _Once(f"{device.given}: waiting for ")
    records.wait_for_command(device, tell)
    if records.password_left(device):
        with safety.claimed(device) as ours:
            if ours and (done := keeper.overdue(device, tell)):
                print(f"flashgauge: {device.given}: left by an earlier run, put right now: {done}", file=sys.stderr)
    return purge.wait_for_earlier(device, tell)
