"""`flashgauge sim`: the simulated drives there are, and what one is made of."""

from __future__ import annotations

import json as jsonlib
from typing import Annotated, Any

import typer
from rich.console import Console, JustifyMethod
from rich.table import Table

from flashgauge import simulation
from flashgauge._core import TargetError, preset_description, preset_names, preset_text
from flashgauge.rig.simulated import overrides
from flashgauge.rig.target import parse_target

app = typer.Typer(help="List and describe the simulated drives.", no_args_is_help=True)


@app.command("list")
def list_presets(json: Annotated[bool, typer.Option("--json", help="One JSON array.")] = False) -> None:
    """List the simulated drives: presets for sim:PRESET."""
    rows = [_listed(name) for name in preset_names()]
    if json:
        print(jsonlib.dumps(rows))
        return
    table = Table(box=None, pad_edge=False)
    for column in ("preset", "capacity", "interface", "what it is"):
        justify: JustifyMethod = "right" if column == "capacity" else "left"
        table.add_column(column, justify=justify, no_wrap=column == "preset")
    for row in rows:
        capacity = f"{row['capacity_bytes'] / 1e9:,.0f} GB"
        table.add_row(row["name"], capacity, row["interface"], row["description"])
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
        print(jsonlib.dumps({**facts, "limits": {name: limit.value for name, limit in facts["limits"].items()}}))
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
        raise TargetError(f"which preset? there are: {', '.join(preset_names())}")
    whole = jsonlib.loads(preset_description(target.path, jsonlib.dumps(overrides(target))))
    preset = jsonlib.loads(preset_description(target.path, "{}"))["parameters"]
    text = preset_text(target.path)
    sources = simulation.sources(text)
    order = [*sources, *whole["parameters"]]  # the preset's order, which is by subject
    parameters = {
        name: {"value": value, "preset_value": preset[name], "source": sources.get(name, "")}
        for name, value in sorted(whole["parameters"].items(), key=lambda item: order.index(item[0]))
    }
    return {
        "name": target.path,
        "kind": whole["kind"],
        "description": simulation.headline(text),
        "parameters": parameters,
        "geometry": whole["geometry"],
        "limits": simulation.limits(whole),
    }


def _show(facts: dict[str, Any]) -> None:
    console = Console(markup=False, highlight=False)
    console.print(f"{facts['name']}: {facts['description']}")
    console.print()
    table = Table("parameter", "value", "source", box=None, pad_edge=False, title="Parameters", title_justify="left")
    for name, parameter in facts["parameters"].items():
        changed = parameter["value"] != parameter["preset_value"]
        source = f"changed; the preset has {_text(parameter['preset_value'])}" if changed else parameter["source"]
        table.add_row(name, _text(parameter["value"]), source)
    console.print(table)
    console.print()
    derived = Table(box=None, pad_edge=False, title="What follows", title_justify="left")
    for column in ("limit", "value", "", "law"):
        derived.add_column(column, justify="right" if column == "value" else "left")
    for limit in facts["limits"].values():
        text = "-" if limit.value is None else f"{limit.value:.3f}" if not limit.unit else _text(limit.value)
        derived.add_row(limit.what, text, limit.unit, limit.law)
    console.print(derived)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
