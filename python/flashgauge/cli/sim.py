"""`flashgauge sim`: the simulated drives there are, and what one is made of."""

from __future__ import annotations

import dataclasses
import json as jsonlib
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from flashgauge import simulation
from flashgauge._core import TargetError, preset_description, preset_names, preset_text
from flashgauge.rig.simulated import overrides
from flashgauge.rig.target import parse_target

app = typer.Typer(help="List and describe the simulated drives.", no_args_is_help=True)

# Limit -> what it is, its unit, and the law behind it.
LIMITS = {
    "programs_per_s": ("peak programs", "/s", "dies / tPROG; each is a page of every plane"),
    "program_mb_per_s": ("peak programs", "MB/s", "the same in bytes"),
    "page_reads_per_s": ("peak page reads", "/s", "dies / tR"),
    "channels_mb_per_s": ("channels", "MB/s", "all together, reads and writes"),
    "link_read_4k_iops": ("link, reads of 4 KiB", "IOPS", "overhead and transfer of one after the other"),
    "link_write_4k_iops": ("link, writes of 4 KiB", "IOPS", "the same"),
    "link_read_1024k_mb_per_s": ("link, reads of 1024 KiB", "MB/s", "the same"),
    "link_write_1024k_mb_per_s": ("link, writes of 1024 KiB", "MB/s", "the same"),
    "write_amplification_greedy": (
        "write amplification, greedy",
        "",
        "uniform random writes, finite blocks (after Desnoyers 2014)",
    ),
    "write_amplification_fifo": (
        "write amplification, FIFO",
        "",
        "alpha / (alpha + W0(-alpha e^-alpha)); greedy's limit",
    ),
    "fresh_write_4k_iops": ("RND 4 KiB writes, fresh", "IOPS", "least of dies, channels and link"),
    "steady_write_4k_iops": ("RND 4 KiB writes, steady", "IOPS", "the same, at the greedy write amplification"),
    "memory_bytes": (
        "memory for its tables",
        "bytes",
        "4 bytes for each unit of user and of physical capacity, and a bit",
    ),
}


@app.command("list")
def list_presets(json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """List the simulated drives: presets for sim:PRESET."""
    rows = [_listed(name) for name in preset_names()]
    if json:
        print(jsonlib.dumps(rows))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("preset", "capacity", "interface", "media", "what it is"):
        table.add_column(column, justify="right" if column == "capacity" else "left")
    for row in rows:
        capacity = f"{row['capacity_bytes'] / 1e9:,.0f} GB"
        table.add_row(row["name"], capacity, row["interface"], row["media"], row["description"])
    Console(markup=False, highlight=False).print(table)


@app.command("describe")
def describe(
    drive: Annotated[
        str,
        typer.Argument(metavar="PRESET", help="A preset, also with changes: PRESET[?capacity=8GiB&program_us=900]."),
    ],
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Describe a simulated drive: every parameter with its source, and the limits that follow."""
    facts = _described(drive)
    if json:
        print(jsonlib.dumps(facts))
    else:
        _show(facts)


def _listed(name: str) -> dict[str, Any]:
    parameters = jsonlib.loads(preset_description(name, "{}"))["parameters"]
    wanted = ("capacity_bytes", "interface", "media")
    return {
        "name": name,
        **{key: parameters[key] for key in wanted},
        "description": simulation.headline(preset_text(name)),
    }


def _described(drive: str) -> dict[str, Any]:
    """Raises TargetError for an unknown preset or parameter."""
    target = parse_target(drive if drive.startswith("sim:") else f"sim:{drive}")
    if not target.path:
        raise TargetError(f"{drive}: which preset? there are: {', '.join(preset_names())}")
    whole = jsonlib.loads(preset_description(target.path, jsonlib.dumps(overrides(target))))
    preset = jsonlib.loads(preset_description(target.path, "{}"))["parameters"]
    text = preset_text(target.path)
    sources = simulation.sources(text)
    order = [*sources, *whole["parameters"]]  # the preset's order, which is by subject
    parameters = {
        name: {"value": value, "preset_value": preset[name], "source": sources.get(name, "")}
        for name, value in sorted(whole["parameters"].items(), key=lambda item: order.index(item[0]))
    }
    limits = simulation.limits(whole["parameters"], whole["geometry"])
    return {
        "name": target.path,
        "description": simulation.headline(text),
        "parameters": parameters,
        "geometry": whole["geometry"],
        "limits": dataclasses.asdict(limits),
    }


def _show(facts: dict[str, Any]) -> None:
    console = Console(markup=False, highlight=False)
    console.print(f"{facts['name']}: {facts['description']}")
    table = Table("parameter", "value", "source", box=None, pad_edge=False, title="Parameters", title_justify="left")
    for name, parameter in facts["parameters"].items():
        changed = parameter["value"] != parameter["preset_value"]
        source = f"changed; the preset has {_text(parameter['preset_value'])}" if changed else parameter["source"]
        table.add_row(name, _text(parameter["value"]), source)
    console.print(table)
    derived = Table(box=None, pad_edge=False, title="What follows", title_justify="left")
    for column in ("limit", "value", "", "law"):
        derived.add_column(column, justify="right" if column == "value" else "left")
    for name, value in facts["limits"].items():
        what, unit, law = LIMITS[name]
        derived.add_row(what, _text(value) if unit else f"{value:.3f}", unit, law)
    console.print(derived)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
