"""What follows from a simulated device's parameters: its limits and rates, by closed forms. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from flashgauge.simulation import disk, ssd
from flashgauge.simulation.limit import Limit

_LIMITS = {"ssd": ssd.limits, "disk": disk.limits}


def limits(description: Mapping[str, Any]) -> dict[str, Limit]:
    """All of it, by name, of a device as `preset_description` gives it."""
    found = _LIMITS[description["kind"]](description["parameters"], description["geometry"])
    return {limit.name: limit for limit in found}


def headline(preset_text: str) -> str:
    """What a preset models: its TOML's first comment."""
    return preset_text.splitlines()[0].removeprefix("#").strip()


def sources(preset_text: str) -> dict[str, str]:
    """Parameter -> its comment in the preset's TOML, that is its source; "" where it has none."""
    lines = re.findall(r"^(\w+) = ([^#\n]*)(?:#(.*))?$", preset_text, re.MULTILINE)
    return {name: comment.strip() for name, _, comment in lines}
