"""The question before data is destroyed, for an operator at a terminal who gave no --consent."""

from __future__ import annotations

import os
import sys
from dataclasses import replace

from rich.console import Console
from rich.text import Text

from flashgauge._core import TargetError
from flashgauge.execute import RequestError, RunRequest
from flashgauge.rig import identify, records, safety
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.target import Target, parse_target
from flashgauge.rig.uses import read_uses

CONSENT_SIGNATURES = "Overwrite a member of an array, a pool or a volume group too, when nothing uses it."


def asked_consent(request: RunRequest, json: bool, tests: int = 1) -> RunRequest:
    """The request with its consent, and with what the device was then; where no consent was given, with what the
    operator types. Nobody is asked about a simulated drive or a file without contents, nor where nobody could see the
    question or answer it: then the run is refused as without consent. `tests`: that are to run one after another.

    Raises TargetError when the device is refused whatever the consent, or something else was typed; RequestError when a
    file is to be written by several tests without consent; DeviceError when the device was exchanged meanwhile.
    """
    target = parse_target(request.target)
    seen = not json and sys.stdin.isatty() and sys.stderr.isatty()
    if target.kind == "sim" or request.consent is not None:
        return request
    if target.kind == "file":
        return _about_file(request, target, seen, tests)
    return _about_device(request, target) if seen else request


def _about_device(request: RunRequest, target: Target) -> RunRequest:
    device = identify.find_block(target.path)
    before = identify.identity(device)
    unreadable = _unreadable(device)
    facts = safety.gather(device, read_uses(device.roots), touch=unreadable is None)
    if facts.unreadable is not None and facts.unreadable.kind == "unreadable":
        # A drive whose last sanitize failed takes a new one: it is asked about that once there is consent.
        unreadable = facts.unreadable.text
        facts = replace(facts, unreadable=None)
    safety.refuse(facts, request.consent_signatures)
    name, what = identify.consent_name(device)
    found = [unreadable] if unreadable is not None else safety.contents(device)
    _ask(identify.label(device), what, [*found, *_others(device)])
    _check_typed(name, what, identify.label(device))
    # The question may have stood there for hours.
    safety.same_device(before, identify.identity(identify.find_block(target.path)), device.given)
    return replace(request, consent=name, seen=before)


def _unreadable(device: BlockDevice) -> str | None:
    """Why the device is not to be read now: what an earlier run has left in it comes to its end after the consent."""
    if records.command_under_way(device):
        return "cannot be read: a format begun by an earlier run is under way"
    return "cannot be read: an earlier run may have left its password" if records.password_left(device) else None


def _about_file(request: RunRequest, target: Target, seen: bool, tests: int) -> RunRequest:
    """What a test leaves in a file is contents to the next."""
    path = os.path.realpath(target.path)
    name = os.path.basename(path)
    status = os.stat(path) if os.path.isfile(path) else None
    size_bytes = status.st_size if status is not None else 0
    if tests > 1 and not seen:
        raise RequestError(f"{request.target}: each test destroys what the one before it left; add --consent {name}")
    if not seen or not (size_bytes or tests > 1):
        return request
    label = f"{request.target} ({size_bytes} bytes{', a file with contents' if size_bytes else ''})"
    _ask(label, "name", [f"{path}: {size_bytes} bytes"] if size_bytes else [])
    _check_typed(name, "name", label)
    if status is not None and not (os.path.isfile(path) and os.path.samestat(os.stat(path), status)):
        raise TargetError(f"{label}: replaced since it was asked about; start again")
    return replace(request, consent=name)


def _check_typed(name: str, what: str, label: str) -> None:
    """Raises TargetError unless the next line is `name`."""
    line = ""
    try:
        line = sys.stdin.readline()
    finally:
        if not line.endswith("\n"):
            print(file=sys.stderr)  # Nobody has ended the line of the question.
    typed = line.strip()
    if typed != name:
        said = f"{typed!r} is not its {what}" if typed else "no consent given"
        raise TargetError(f"{label}: {said}; nothing was written")


def _ask(label: str, what: str, found: list[str]) -> None:
    console = Console(stderr=True, markup=False, highlight=False)
    console.print(Text("ALL DATA ON THIS DEVICE WILL BE DESTROYED", style="bold red"))
    console.print(label, soft_wrap=True)
    console.print("on it:" if found else "on it: nothing that is recognized; that does not mean it is empty")
    for line in found:
        console.print(f"  {line}", soft_wrap=True)
    console.print(f"Type its {what} to go on, anything else to leave: ", end="")


def _others(device: BlockDevice) -> list[str]:
    parts = [] if device.is_partition else identify.partitions(device.folder)
    sizes = [identify.block_device(part, device.roots) for part in parts]
    return [f"{part.name}: partition of {part.size_bytes / 1e9:.6g} GB" for part in sizes]
