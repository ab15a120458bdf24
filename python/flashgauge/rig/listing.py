"""Every block device of this machine and whether it may be tested, for `flashgauge devices`.

From sysfs, udev and the kernel's hwmon; the listing itself sends a drive no command, but hwmon does to answer, and
signatures are read. So neither is asked of a device that a program has open or the kernel holds: a test may run on it.
Limits: a drive that does not answer is named as such after `ANSWER_S`; what only root may see is said to be missing.
"""

from __future__ import annotations

import os
import queue
import re
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from flashgauge._core import DeviceError
from flashgauge.rig import identify, purge, records, safety, tools, writecache
from flashgauge.rig.identify import BlockDevice, Roots, read_text
from flashgauge.rig.safety import Refusal
from flashgauge.rig.telemetry import temperature_source
from flashgauge.rig.uses import Uses, read_uses
from flashgauge.runfolder import DutInfo

ANSWER_S = 5.0  # for all devices together; a dead drive holds up its reader for half a minute
READERS = 32
PURGING = Refusal("purge under way", "a purge that an earlier run began goes on in it: look again when it has ended")
NOT_LOOKED_AT = "not looked at"
NO_ANSWER = Refusal("no answer", "it does not answer: check its connection and the kernel log")
_MEDIA = {"0": "solid state", "1": "rotational"}
_MADE_UP = r"(loop|z?ram|nbd|nullb)\d"  # of no interest until something is behind them


@dataclass(frozen=True)
class Part:
    """A partition: path and size."""

    path: str
    size_bytes: int


@dataclass(frozen=True)
class Listed:
    """A device as the listing shows it; None where not known.

    `media`: as the kernel has it, "solid state" or "rotational". `write_cache`: the kernel's word;
    `drive_write_cache`: the drive's own, "on", "off" or "none", where it was asked. `consent`: what to type.
    `may_be_tested`: None when that could not be seen. `purge_methods_complete`: false where the drive would have to be
    asked for others. `links`: its names in /dev/disk/by-id. `contents`: what is recognized of what a test would
    destroy, where the device was looked at.
    """

    dut: DutInfo
    name: str
    wwid: str | None
    stands_for: str | None
    media: str | None
    physical_block_bytes: int
    write_cache: str | None
    drive_write_cache: str | None
    purge_methods: tuple[str, ...]
    purge_methods_complete: bool
    temperature_c: float | None
    numa_node: int | None
    host_adapter: str | None
    removable: bool
    consent: str
    may_be_tested: bool | None
    refusals: tuple[Refusal, ...]
    partitions: tuple[Part, ...]
    other_namespaces: tuple[str, ...]
    links: tuple[str, ...]
    contents: tuple[str, ...] | None = None


@dataclass(frozen=True)
class Listing:
    """`not_seen`: what was out of sight, each with its cure."""

    devices: tuple[Listed, ...]
    not_seen: tuple[str, ...]


def list_devices(roots: Roots = Roots()) -> Listing:  # noqa: B008 - Roots is frozen
    """All whole devices with something behind them, drives first; partitions are with their disk."""
    devices = [
        identify.block_device(folder, roots)
        for folder in identify.folders_by_number(roots).values()
        if _of_interest(folder)
    ]
    return _listing(devices, roots)


def list_one(device: BlockDevice) -> Listing:
    """The device alone; it may be a partition. If it may be tested, it is looked at what is on it, and it is asked how
    it can be purged and whether its write cache is on."""
    listing = _listing([device], device.roots)
    (listed,) = listing.devices
    if not listed.may_be_tested:
        return listing
    listed = replace(listed, contents=tuple(safety.contents(device)))
    if tools.missing(*purge.needed_tools(device)):
        return replace(listing, devices=(listed,))
    if not listed.purge_methods_complete:
        supports = purge.supports(device)
        known = tuple(name for name, support in supports.items() if support.reason is None)
        listed = replace(listed, purge_methods=known, purge_methods_complete=True)
    listed = replace(listed, drive_write_cache=_drive_write_cache(device))
    return replace(listing, devices=(listed,))


def _drive_write_cache(device: BlockDevice) -> str | None:
    try:
        cache = writecache.cache_of(device)
        return None if cache is None else {True: "on", False: "off", None: "none"}[cache.read()]
    except DeviceError:
        return None  # no permission, or the drive fails the command: the run says which


def _listing(devices: Sequence[BlockDevice], roots: Roots) -> Listing:
    uses = read_uses(roots)
    links = _links(roots)
    answers = _ask_all(devices, uses)
    listed = [_listed(device, *answers.get(device.name, ((NO_ANSWER,), None)), links) for device in devices]
    return Listing(tuple(sorted(listed, key=_order)), _not_seen())


def _of_interest(folder: Path) -> bool:
    if (folder / "partition").exists() or read_text(folder / "hidden") == "1":
        return False
    return not re.match(_MADE_UP, folder.name) or bool(identify.number(folder / "size"))


def _order(listed: Listed) -> tuple[bool, list[tuple[str, int, str]]]:
    """Drives before what stands for something; sda, sdb, sdaa and nvme2n1, nvme10n1 as people count."""
    parts = re.findall(r"\d+|\D+", listed.name)
    return listed.stands_for is not None, [
        ("", int(part), "") if part.isdigit() else (part[:2], len(part), part) for part in parts
    ]


def _ask_all(devices: Sequence[BlockDevice], uses: Uses) -> dict[str, tuple[tuple[Refusal, ...], float | None]]:
    """Refusals and temperature of each device that answers in time. The readers are daemons: one that waits for a dead
    drive must not keep the others, nor the program, waiting."""
    waiting: queue.SimpleQueue[BlockDevice] = queue.SimpleQueue()
    answers: dict[str, tuple[tuple[Refusal, ...], float | None]] = {}

    def read() -> None:
        while True:
            try:
                device = waiting.get_nowait()
            except queue.Empty:
                return
            answers[device.name] = _ask(device, uses)

    for device in devices:
        waiting.put(device)
    readers = [threading.Thread(target=read, daemon=True) for _ in range(min(READERS, len(devices)))]
    until_s = time.monotonic() + ANSWER_S
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(max(0.0, until_s - time.monotonic()))
    return dict(answers)


def _ask(device: BlockDevice, uses: Uses) -> tuple[tuple[Refusal, ...], float | None]:
    """Refusals and temperature. Nothing is asked of a drive that a program has open, or that purges itself: not by
    another of its names either, since the drive is one."""
    if records.command_under_way(device):
        return (PURGING,), None
    others = _other_names(device, uses) if uses.writers else set()
    by = [use.phrase for use in uses.writers if use.names & others]
    facts = safety.gather(device, uses, gently=True, touch=not by)
    refusals = tuple(safety.refusals(facts))
    if by and not refusals:
        text = f"the same drive is open for writing ({', '.join(by)}): look again when that has ended"
        return (Refusal(NOT_LOOKED_AT, text),), None
    # Without permission nothing tells whether another user's run is on it.
    under_test = by or any(refusal.kind in {"open", "claimed", "under test", "permission"} for refusal in refusals)
    return refusals, None if under_test else _temperature_c(device)


def _other_names(device: BlockDevice, uses: Uses) -> set[str]:
    """Kernel names of the drive's other namespaces, of other paths to it, and of their partitions."""
    twins = uses.disks.get(identify.same_drive(device.disk, device.roots) or (), ())
    disks = {*twins, *identify.other_namespaces(device)} - {device.disk}
    return {identify.kernel_name(node) for disk in disks for node in (disk, *identify.partitions(disk))}


def _listed(
    device: BlockDevice, refusals: tuple[Refusal, ...], temperature_c: float | None, links: dict[str, tuple[str, ...]]
) -> Listed:
    disk = device.disk
    known, complete = _purge_methods(device)
    return Listed(
        dut=identify.dut_info(device, device.path),
        name=device.name,
        wwid=identify.identity(device).wwid,
        stands_for=identify.stands_for(device),
        media=_MEDIA.get(read_text(disk / "queue/rotational") or "") if identify.stands_for(device) is None else None,
        physical_block_bytes=device.physical_block_bytes,
        write_cache=writecache.kernel_view(device),
        drive_write_cache=None,
        purge_methods=known,
        purge_methods_complete=complete,
        temperature_c=temperature_c,
        numa_node=identify.numa_node(device),
        host_adapter=identify.host_adapter(device),
        removable=read_text(disk / "removable") == "1",
        consent=identify.consent_name(device)[0],
        may_be_tested=_verdict(refusals),
        refusals=refusals,
        partitions=tuple(_part(node, device.roots) for node in _partitions(device)),
        other_namespaces=tuple(identify.kernel_name(folder) for folder in identify.other_namespaces(device)),
        links=links.get(device.path, ()),
    )


def _verdict(refusals: tuple[Refusal, ...]) -> bool | None:
    unseen = {"permission", NO_ANSWER.kind, NOT_LOOKED_AT}
    if refusals and all(refusal.kind in unseen for refusal in refusals):
        return None
    return not refusals


def _partitions(device: BlockDevice) -> list[Path]:
    return [] if device.is_partition else identify.partitions(device.folder)


def _part(node: Path, roots: Roots) -> Part:
    device = identify.block_device(node, roots)
    return Part(device.path, device.size_bytes)


def _purge_methods(device: BlockDevice) -> tuple[tuple[str, ...], bool]:
    """The ways to purge that sysfs tells of, and whether there can be no others. A SATA drive's are in its IDENTIFY
    DEVICE data, words 59 and 128 (ACS-4); an NVMe or SAS drive would have to be asked."""
    words = identify.ata_identify(device.disk)
    found = []
    if words and not device.is_partition:
        sanitize, security = (int.from_bytes(words[2 * word : 2 * word + 2], "little") for word in (59, 128))
        found += ["ata-sanitize"] if sanitize & 1 << 12 and sanitize & 1 << 15 else []
        found += ["ata-sanitize-crypto"] if sanitize & 1 << 12 and sanitize & 1 << 13 else []
        found += ["ata-security-erase"] if security & 1 else []
    if identify.number(device.disk / "queue/discard_max_bytes"):
        found.append("discard")
    asks = not words and identify.stands_for(device) is None
    return tuple(found), not asks


def _temperature_c(device: BlockDevice) -> float | None:
    source = temperature_source(device)
    text = read_text(source) if source is not None else None
    return int(text) / 1000 if text is not None and text.lstrip("-").isdigit() else None


def _links(roots: Roots) -> dict[str, tuple[str, ...]]:
    """Stable names of each device: its links in /dev/disk/by-id."""
    found: dict[str, tuple[str, ...]] = {}
    for link in sorted((roots.dev / "disk/by-id").glob("*")):
        path = os.path.realpath(link)
        found[path] = (*found.get(path, ()), str(link))
    return found


def _not_seen() -> tuple[str, ...]:
    if os.geteuid() == 0:
        return ()
    return (
        "what other users' programs have open, and mounts of their namespaces: run as root",
        "signatures of devices that only root may read: run as root",
    )
