"""What follows from a simulated drive's parameters: its limits, write amplification and steady write rate. Pure.

The laws are those of Desnoyers (2012, 2014), Menon, and Xiang and Kurkoski (2011) for write amplification under
uniform random overwrites, and sums of die time for the rates. Tests compare them with what the simulator measures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from math import exp
from typing import Any

UNIT_BYTES = 4096
LARGE_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Derived limits of a drive. Rates are per second; MB are 10^6 bytes."""

    programs_per_s: float
    program_mb_per_s: float
    page_reads_per_s: float
    channels_mb_per_s: float
    link_read_4k_iops: float
    link_write_4k_iops: float
    link_read_1024k_mb_per_s: float
    link_write_1024k_mb_per_s: float
    write_amplification_greedy: float
    write_amplification_fifo: float
    fresh_write_4k_iops: float
    steady_write_4k_iops: float
    memory_bytes: int


def lambert_w0(x: float) -> float:
    """The root above -1 of w e^w = x, for -1/e < x < 0: Newton from the right."""
    if not -exp(-1) < x < 0:
        raise ValueError(f"{x} is not between -1/e and 0")
    w = 0.0
    for _ in range(200):
        w -= (w * exp(w) - x) / ((w + 1) * exp(w))
    return w


def amplification_fifo(alpha: float) -> float:
    """Write amplification of FIFO collection, and of greedy with endless blocks; `alpha`: physical / logical > 1."""
    if alpha <= 1:
        raise ValueError(f"alpha {alpha}: without spare capacity nothing can be collected")
    return alpha / (alpha + lambert_w0(-alpha * exp(-alpha)))


def amplification_greedy(alpha: float, block_units: int) -> float:
    """Write amplification of greedy collection of blocks of `block_units` units.

    After Desnoyers (2014), Bux and Iliadis (2010). Victims have one of two successive valid counts m and m + 1; g and
    a are their weights: g (b - m - 1) + a = 1 and g (H_b - H_{m+1}) + a / (m + 1) = alpha / b, with 0 <= a <= g and H
    the harmonic numbers. A = b g.
    """
    if alpha <= 1:
        raise ValueError(f"alpha {alpha}: without spare capacity nothing can be collected")
    b = block_units
    between = 0.0  # H_b - H_{m+1}
    for after in range(b - 1, 0, -1):  # m + 1
        between += 1 / (after + 1)
        rest = b - after
        g = (alpha / b - 1 / after) / (between - rest / after)
        a = 1 - g * rest
        if 0 <= a <= g * (1 + 1e-9):
            return b * g
    return 1.0  # alpha >= H_b: victims are empty.


def effective_alpha(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> float:
    """Physical / logical units, without what is free or, on average, not yet written: the reserve, and half of
    each of the two open superblocks."""
    superblocks = geometry["superblocks"] - parameters["gc_reserve_superblocks"] - 1
    return float(superblocks * geometry["units_per_superblock"] / geometry["units"])


def write_die_us(parameters: Mapping[str, Any], amplification: float) -> float:
    """Die time of one random 4 KiB write: its share of programs, erases, collection reads and mapping pages.

    A page's transfer to the die holds the die in this model; the transfer of what is read does not.
    """
    n = parameters["planes"] * parameters["page_bytes"] // UNIT_BYTES
    unit_us = UNIT_BYTES / parameters["channel_mb_per_s"]
    program_us = parameters["program_us"] + n * unit_us
    erase_us = 1e3 * parameters["erase_ms"] / parameters["pages_per_block"]
    used = amplification > 1
    us = (amplification * program_us + (amplification * erase_us if used else 0)) / n
    if used:
        p = (amplification - 1) / amplification
        us += (amplification - 1) * (1 - (1 - p) ** n) / (n * p) * parameters["read_us"]
    commands = parameters["write_commands_per_map_page"]
    return float(us + (program_us / commands if commands else 0))


def write_4k_iops(parameters: Mapping[str, Any], amplification: float) -> float:
    """Random 4 KiB writes per second at that write amplification: the least of dies, channels and link."""
    unit_us = UNIT_BYTES / parameters["channel_mb_per_s"]
    dies = parameters["dies"] * 1e6 / write_die_us(parameters, amplification)
    channels = parameters["channels"] * 1e6 / ((2 * amplification - 1) * unit_us)
    return float(min(dies, channels, link_iops(parameters, "write", UNIT_BYTES)))


def link_iops(parameters: Mapping[str, Any], direction: str, block_bytes: int) -> float:
    """Commands per second the link takes; `direction` is "read" or "write"."""
    transfer_us = block_bytes / parameters[f"link_{direction}_mb_per_s"]
    least_us = 1e6 / parameters[f"link_{direction}_max_iops"]
    return float(1e6 / max(parameters[f"link_{direction}_overhead_us"] + transfer_us, least_us))


def memory_bytes(geometry: Mapping[str, Any]) -> int:
    """Of the mapping tables: two of 4 bytes a unit, logical and physical, and a bit for each physical unit."""
    physical = geometry["units_per_superblock"] * geometry["superblocks"]
    return int(4 * (geometry["units"] + physical) + physical // 8)


def limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> Limits:
    """All of it, from the parameters and the geometry as `preset_description` gives them."""
    page_bytes = parameters["planes"] * parameters["page_bytes"]
    programs = parameters["dies"] * 1e6 / parameters["program_us"]
    alpha = effective_alpha(parameters, geometry)
    greedy = amplification_greedy(alpha, geometry["units_per_superblock"])
    large_mb = LARGE_BLOCK_BYTES / 1e6
    return Limits(
        programs_per_s=programs,
        program_mb_per_s=programs * page_bytes / 1e6,
        page_reads_per_s=parameters["dies"] * 1e6 / parameters["read_us"],
        channels_mb_per_s=parameters["channels"] * parameters["channel_mb_per_s"],
        link_read_4k_iops=link_iops(parameters, "read", UNIT_BYTES),
        link_write_4k_iops=link_iops(parameters, "write", UNIT_BYTES),
        link_read_1024k_mb_per_s=link_iops(parameters, "read", LARGE_BLOCK_BYTES) * large_mb,
        link_write_1024k_mb_per_s=link_iops(parameters, "write", LARGE_BLOCK_BYTES) * large_mb,
        write_amplification_greedy=greedy,
        write_amplification_fifo=amplification_fifo(alpha),
        fresh_write_4k_iops=write_4k_iops(parameters, 1.0),
        steady_write_4k_iops=write_4k_iops(parameters, greedy),
        memory_bytes=memory_bytes(geometry),
    )


def headline(preset_text: str) -> str:
    """What a preset models: its TOML's first comment."""
    return preset_text.splitlines()[0].removeprefix("#").strip()


def sources(preset_text: str) -> dict[str, str]:
    """Parameter -> its comment in the preset's TOML, that is its source; "" where it has none."""
    lines = re.findall(r"^(\w+) = ([^#\n]*)(?:#(.*))?$", preset_text, re.MULTILINE)
    return {name: comment.strip() for name, _, comment in lines}
