"""`flashgauge devices`: every drive of this machine, and whether it may be tested."""

from __future__ import annotations

import json as jsonlib
import re
from dataclasses import asdict
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from flashgauge._core import TargetError
from flashgauge.rig import identify
from flashgauge.rig.keeper import left_over
from flashgauge.rig.listing import Listed, Listing, list_devices, list_one
from flashgauge.rig.target import parse_target

_UNKNOWN = Text("not known", style="dim")


def devices(
    device: Annotated[
        str | None, typer.Argument(metavar="DEVICE", help="One device, such as /dev/nvme0n1: all that is known of it.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List block devices: what they are, and whether they may be tested.

    Partitions are with their disk. Nothing is written, and a device in use is neither opened nor asked anything.
    """
    listing = list_devices() if device is None else list_one(_found(device))
    if json:
        print(jsonlib.dumps(_facts(listing)))
        return
    console = Console(markup=False, highlight=False)
    if device is not None:
        console.print(_details(listing.devices[0]))
    elif listing.devices:
        console.print(_table(listing.devices))
    else:
        console.print("no block devices")
    for left in left_over():
        console.print(left, style="yellow")
    for missing in listing.not_seen:
        console.print(f"not seen: {missing}", style="yellow")


def _found(text: str) -> identify.BlockDevice:
    target = parse_target(text)
    if target.kind != "block":
        raise TargetError(f"{text}: not a block device; give a path such as /dev/nvme0n1")
    return identify.find_block(target.path)


def _facts(listing: Listing) -> dict[str, Any]:
    devices = [_of_one(listed) for listed in listing.devices]
    return {"devices": devices, "not_seen": list(listing.not_seen), "left_over": left_over()}


def _of_one(listed: Listed) -> dict[str, Any]:
    facts = asdict(listed)
    return {"path": listed.dut.target, **facts.pop("dut"), **facts}


def _table(devices: tuple[Listed, ...]) -> Table:
    """A serial is typed to consent and never cut; model, interface and verdict wrap."""
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    wrapping = ("model", "interface", "may be tested")
    for title in ("device", "model", "serial", "size", "interface", "cache", "°C", "may be tested"):
        justify: Literal["left", "right"] = "right" if title in ("size", "°C") else "left"
        table.add_column(title, justify=justify, overflow="fold", no_wrap=title not in wrapping)
    for listed in devices:
        dut = listed.dut
        model = dut.model or (f"({listed.stands_for})" if listed.stands_for else "")
        table.add_row(
            dut.target,
            model,
            dut.serial or "",
            size_text(dut.capacity_bytes),
            _link_text(dut.interface or ""),
            {"write back": "on", "write through": "off"}.get(listed.write_cache or "", ""),
            "" if listed.temperature_c is None else f"{listed.temperature_c:.0f}",
            _verdict(listed),
        )
    return table


def _link_text(interface: str) -> str:
    """PCIe 3.0 x2 of 4.0 x4, where the drive could do more than its slot."""
    return re.sub(r"^NVMe, PCIe (.*) \(the drive can PCIe (.*)\)$", r"PCIe \1 of \2", interface)


def _verdict(listed: Listed) -> Text:
    kinds = ", ".join(refusal.kind for refusal in listed.refusals)
    if listed.may_be_tested is None:
        return Text(f"not known: {kinds}", style="yellow")
    return Text("yes", style="green") if listed.may_be_tested else Text(f"no: {kinds}", style="red")


def _details(listed: Listed) -> Table:
    dut = listed.dut
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")

    def row(name: str, value: str | Text | None) -> None:
        grid.add_row(name, _UNKNOWN if value is None else value)

    row("device", " ".join(filter(None, (dut.target, f"(stands for {listed.stands_for})" * bool(listed.stands_for)))))
    for link in listed.links:
        row("", link)
    row("manufacturer", dut.manufacturer)
    row("model", dut.model)
    row("serial", dut.serial)
    row("firmware", dut.firmware)
    row("identifier", listed.wwid)
    row("capacity", f"{dut.capacity_bytes:,} bytes ({size_text(dut.capacity_bytes)})")
    row("blocks", f"{dut.logical_block_bytes} bytes logical, {listed.physical_block_bytes} bytes physical")
    row("interface", dut.interface)
    row("host adapter", listed.host_adapter)
    row("NUMA node", None if listed.numa_node is None else str(listed.numa_node))
    row("form factor", dut.form_factor)
    row("media", f"{listed.media or 'not known'}{', removable' * listed.removable}")
    row("write cache", _cache_text(listed))
    row("purge methods", _purge_text(listed))
    row("temperature", None if listed.temperature_c is None else f"{listed.temperature_c:.0f} °C")
    for part in listed.partitions:
        row("partition", f"{part.path}, {size_text(part.size_bytes)}")
    for name in listed.other_namespaces:
        row("same drive", f"namespace {name}")
    if listed.may_be_tested:
        for number, found in enumerate(listed.contents or ("nothing that is recognized",)):
            row("" if number else "contents", found)
    row("may be tested", _verdict(listed))
    for refusal in listed.refusals:
        row("", refusal.text)
    if listed.may_be_tested:
        row("", f"with --consent {listed.consent}: all its data is then destroyed")
    return grid


def _cache_text(listed: Listed) -> str | None:
    words = [
        listed.drive_write_cache and f"{listed.drive_write_cache} (read from the drive)",
        listed.write_cache and f"{listed.write_cache} (the kernel's word)",
    ]
    return "; ".join(word for word in words if word) or None


def _purge_text(listed: Listed) -> str:
    known = "; ".join(listed.purge_methods) or ("none" if listed.purge_methods_complete else "")
    more = "" if listed.purge_methods_complete else "its own commands are asked of the drive when a run begins"
    return "; ".join(filter(None, (known, more)))


def size_text(size_bytes: int) -> str:
    """Decimal, as drives are sold: 1.92 TB."""
    size, units = float(size_bytes), ["B", "kB", "MB", "GB", "TB"]
    while size >= 1000 and len(units) > 1:
        size /= 1000
        units.pop(0)
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:,.0f} {units[0]}"
