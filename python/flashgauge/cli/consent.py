"""The question before data is destroyed, for an operator at a terminal who gave no --consent."""

from __future__ import annotations

import sys

from rich.console import Console
from rich.text import Text

from flashgauge._core import TargetError
from flashgauge.execute import RunRequest
from flashgauge.rig import identify, safety
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.target import parse_target
from flashgauge.rig.uses import read_uses

CONSENT_SIGNATURES = "Overwrite a member of an array, a pool or a volume group too, when nothing uses it."


def asked_consent(request: RunRequest, json: bool) -> str | None:
    """The consent of the request; where there is none, what the operator types. Nobody is asked about a simulated drive
    or a file, nor where nobody could see the question or answer it: then the run is refused as without consent.

    Raises TargetError when the device is refused whatever the consent, or something else was typed; DeviceError when
    it was exchanged meanwhile.
    """
    target = parse_target(request.target)
    seen = not json and sys.stdin.isatty() and sys.stderr.isatty()
    if request.consent is not None or target.kind != "block" or not seen:
        return request.consent
    device = identify.find_block(target.path)
    before = identify.identity(device)
    safety.refuse(safety.gather(device, read_uses(device.roots)), request.consent_signatures)
    name, what = identify.consent_name(device)
    _ask(device, what)
    typed = sys.stdin.readline().strip()
    if typed != name:
        said = f"{typed!r} is not its {what}" if typed else "no consent given"
        raise TargetError(f"{identify.label(device)}: {said}; nothing was written")
    # The question may have stood there for hours.
    safety.same_device(before, identify.identity(identify.find_block(target.path)), device.given)
    return name


def _ask(device: BlockDevice, what: str) -> None:
    console = Console(stderr=True, markup=False, highlight=False)
    console.print(Text("ALL DATA ON THIS DEVICE WILL BE DESTROYED", style="bold red"))
    console.print(identify.label(device), soft_wrap=True)
    found = [*safety.contents(device), *_others(device)]
    console.print("on it:" if found else "on it: nothing that is recognized; that does not mean it is empty")
    for line in found:
        console.print(f"  {line}", soft_wrap=True)
    console.print(f"Type its {what} to go on, anything else to leave: ", end="")


def _others(device: BlockDevice) -> list[str]:
    parts = [] if device.is_partition else identify.partitions(device.folder)
    sizes = [identify.block_device(part, device.roots) for part in parts]
    return [f"{part.name}: partition of {part.size_bytes / 1e9:.6g} GB" for part in sizes]
