"""What follows from a simulated SSD's parameters: its limits, write amplification and steady write rate. Pure.

The rates are sums of die time. Tests compare them with what the simulator measures.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

from flashgauge.simulation import amplification as forms
from flashgauge.simulation.limit import Limit

UNIT_BYTES = 4096
LARGE_BLOCK_BYTES = 1 << 20


def effective_alpha(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> float:
    """Units in use, valid or stale / logical units: all superblocks but the reserve and one, which is half of each of
    the two open ones, and with one open one the victim under way. Each of two pools has a reserve of its own."""
    pools = 2 if geometry["hot_superblocks"] else 1
    superblocks = geometry["superblocks"] - pools * (parameters["gc_reserve_superblocks"] + 1)
    return float(superblocks * geometry["units_per_superblock"] / geometry["units"])


def write_amplification(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> tuple[float | None, str]:
    """Of uniform random writes in steady state, by the closed form of the drive's policy; and what form it is."""
    if geometry["hot_superblocks"]:
        return amplification_of_pools(parameters, geometry, geometry["hot_units"] / geometry["units"])
    alpha, block = effective_alpha(parameters, geometry), geometry["units_per_superblock"]
    policy, choices = parameters["gc_policy"], parameters["gc_choices"]
    if policy == "greedy":
        return forms.greedy(alpha, block), "finite blocks, after Desnoyers, Bux and Iliadis"
    if policy == "fifo":
        return forms.fifo(alpha), "alpha / (alpha + W0(-alpha e^-alpha))"
    if policy == "random":
        return forms.random(alpha), "alpha / (alpha - 1)"
    if policy == "d-choices":
        return forms.best_of(alpha, block, choices), f"Van Houdt's fixed point, d = {choices}"
    return None, f"no closed form for {policy}: measure it"


def amplification_of_pools(
    parameters: Mapping[str, Any], geometry: Mapping[str, Any], hot_writes: float
) -> tuple[float | None, str]:
    """Each pool is a drive of its own; the hot one gets the share `hot_writes` of the writes."""
    hot = {"units": geometry["hot_units"], "superblocks": geometry["hot_superblocks"]}
    cold = {key: geometry[key] - hot[key] for key in hot}
    total, form = 0.0, ""
    for pool, writes in ((hot, hot_writes), (cold, 1 - hot_writes)):
        factor, form = write_amplification(parameters, {**geometry, **pool, "hot_superblocks": 0})
        if factor is None:
            return None, form
        total += factor * writes
    return total, f"hot and cold pool, as many writes for their size; {form}"


def write_die_us(parameters: Mapping[str, Any], amplification: float) -> float:
    """Die time of one random 4 KiB write: its share of programs, erases, collection reads and mapping pages.

    A page's transfer to the die holds the die in this model; the transfer of what is read does not.
    """
    pages = parameters["pages_per_program"]
    sensed = parameters["planes"] * parameters["page_bytes"] // UNIT_BYTES  # Units that one read operation fetches.
    n = pages * sensed
    program_us = parameters["program_us"] + n * transfer_us(parameters)
    erase_us = 1e3 * parameters["erase_ms"] * pages / parameters["pages_per_block"]
    used = amplification > 1
    us = (amplification * program_us + (amplification * erase_us if used else 0)) / n
    if used:
        p = (amplification - 1) / amplification
        us += (amplification - 1) * (1 - (1 - p) ** sensed) / (sensed * p) * parameters["read_us"]
    return float(us + mapping_die_us(parameters))


def transfer_us(parameters: Mapping[str, Any]) -> float:
    """A unit's way to the die, through the controller and over a channel: the slower of the two."""
    return float(max(UNIT_BYTES / parameters["channel_mb_per_s"], controller_us(parameters, UNIT_BYTES)))


def mapping_die_us(parameters: Mapping[str, Any]) -> float:
    """Die time of a write command's share of a mapping page."""
    commands, units = parameters["write_commands_per_map_page"], page_units(parameters)
    return float((parameters["program_us"] + units * transfer_us(parameters)) / commands if commands else 0)


def page_units(parameters: Mapping[str, Any]) -> int:
    """Units that one program of the main area writes."""
    return int(parameters["planes"] * parameters["page_bytes"] * parameters["pages_per_program"] // UNIT_BYTES)


def write_4k_iops(parameters: Mapping[str, Any], amplification: float) -> float:
    """Random 4 KiB writes per second to the main area at that write amplification."""
    return iops_of_die_time(parameters, write_die_us(parameters, amplification), amplification)


def has_slc(parameters: Mapping[str, Any]) -> bool:
    return bool(parameters["slc_static_mib"] or parameters["slc_dynamic_percent"])


def slc_capacity_bytes(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> int:
    """What the SLC cache holds when the drive is empty. Data that goes there takes from the space that is free, of
    which the dynamic part is a share: x superblocks = share (free - what the cache holds / superblock)."""
    held = geometry["slc_units_per_superblock"] / geometry["units_per_superblock"]
    share, static = parameters["slc_dynamic_percent"] / 100, geometry["slc_superblocks"]
    free = geometry["superblocks"] - parameters["gc_reserve_superblocks"] - 3
    dynamic = int(share * max(free - static * held, 0) / (1 + share * held))
    return int((static + dynamic) * geometry["slc_units_per_superblock"]) * UNIT_BYTES


def slc_die_us(parameters: Mapping[str, Any]) -> float:
    """Die time of a unit that goes to a fresh SLC cache."""
    sensed = parameters["planes"] * parameters["page_bytes"] // UNIT_BYTES
    return float(parameters["slc_program_us"] / sensed + transfer_us(parameters))


def folded_share(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> float:
    """What is folded for each unit that goes to a full SLC cache: as much, and what a dynamic cache loses as the drive
    fills."""
    held = geometry["slc_units_per_superblock"] / geometry["units_per_superblock"]
    return float(1 + held * parameters["slc_dynamic_percent"] / 100)


def folding_die_us(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> float:
    """Die time of a unit that goes to a full SLC cache: erased and written there, and what is folded is read again and
    written to the main area, fresh."""
    sensed = parameters["planes"] * parameters["page_bytes"] // UNIT_BYTES
    erase_us = 1e3 * parameters["slc_erase_ms"] * parameters["bits_per_cell"] / parameters["pages_per_block"]
    main_us = write_die_us({**parameters, "write_commands_per_map_page": 0}, 1.0)
    folded_us = (erase_us + parameters["slc_read_us"]) / sensed + main_us
    return float(slc_die_us(parameters) + folded_us * folded_share(parameters, geometry))


def large_write_mb_per_s(parameters: Mapping[str, Any], die_us: float, passes: float) -> float:
    """Writes of 1 MiB whose units each take so much die time and pass channels and controller so often: the least of
    dies, channels, controller and link. All in us of a command."""
    units, commands = LARGE_BLOCK_BYTES // UNIT_BYTES, parameters["write_commands_per_map_page"]
    moved = passes * units + (page_units(parameters) / commands if commands else 0)
    path_us = parameters["controller_write_overhead_us"] + controller_us(parameters, moved * UNIT_BYTES)
    slowest_us = max(
        (units * die_us + mapping_die_us(parameters)) / parameters["dies"],
        moved * UNIT_BYTES / parameters["channel_mb_per_s"] / parameters["channels"],
        path_us,
        1e6 / link_iops(parameters, "write", LARGE_BLOCK_BYTES),
    )
    return float(LARGE_BLOCK_BYTES / slowest_us)


def iops_of_die_time(parameters: Mapping[str, Any], die_us: float, amplification: float) -> float:
    """4 KiB writes per second of so much die time each: the least of dies, channels, controller and link."""
    unit_us = UNIT_BYTES / parameters["channel_mb_per_s"]
    dies = parameters["dies"] * 1e6 / die_us
    channels = parameters["channels"] * 1e6 / ((2 * amplification - 1) * unit_us)
    controller = per_second(controller_write_us(parameters, amplification))
    return float(min(dies, channels, controller, link_iops(parameters, "write", UNIT_BYTES)))


def read_iops(parameters: Mapping[str, Any], block_bytes: int) -> float:
    """Reads per second with enough of them outstanding: the least of dies, channels, controller and link."""
    senses = max(1.0, block_bytes / (parameters["planes"] * parameters["page_bytes"]))
    dies = parameters["dies"] * 1e6 / (parameters["read_us"] * senses)
    channels = parameters["channels"] * 1e6 * parameters["channel_mb_per_s"] / max(block_bytes, UNIT_BYTES)
    controller = per_second(controller_read_us(parameters, block_bytes))
    return float(min(dies, channels, controller, link_iops(parameters, "read", block_bytes)))


def controller_us(parameters: Mapping[str, Any], data_bytes: float) -> float:
    """Time for the data on the controller's path; a rate of 0 is no limit."""
    rate = parameters["controller_mb_per_s"]
    return float(data_bytes / rate) if rate else 0.0


def controller_read_us(parameters: Mapping[str, Any], block_bytes: int) -> float:
    """The controller's time for a read of `block_bytes`, in whole units."""
    data_bytes = -(-block_bytes // UNIT_BYTES) * UNIT_BYTES
    return float(parameters["controller_read_overhead_us"] + controller_us(parameters, data_bytes))


def controller_write_us(parameters: Mapping[str, Any], amplification: float) -> float:
    """The controller's time for a random 4 KiB write: its data passes once, what is collected for it twice."""
    page_bytes = parameters["planes"] * parameters["page_bytes"] * parameters["pages_per_program"]
    commands = parameters["write_commands_per_map_page"]
    data_bytes = (2 * amplification - 1) * UNIT_BYTES + (page_bytes / commands if commands else 0)
    return float(parameters["controller_write_overhead_us"] + controller_us(parameters, data_bytes))


def per_second(us: float) -> float:
    """How often, if each takes that long."""
    return 1e6 / us if us else inf


def link_iops(parameters: Mapping[str, Any], direction: str, block_bytes: int) -> float:
    """Commands per second the link takes; `direction` is "read" or "write"."""
    transfer_us = block_bytes / parameters[f"link_{direction}_mb_per_s"]
    least_us = 1e6 / parameters[f"link_{direction}_max_iops"]
    return float(1e6 / max(parameters[f"link_{direction}_overhead_us"] + transfer_us, least_us))


def memory_bytes(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> int:
    """Of the mapping tables: two of 4 bytes a unit, logical and physical, and a bit for each physical unit; 8 bytes for
    each of those where the drive keeps record of its data."""
    physical = geometry["units_per_superblock"] * (geometry["superblocks"] + geometry["slc_superblocks"])
    tracked = parameters["track_data"] or parameters["fault_power_loss_after_s"] > 0
    return int(4 * (geometry["units"] + physical) + physical // 8 + (8 * physical if tracked else 0))


def limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> list[Limit]:
    """All of it, from the parameters and the geometry as `preset_description` gives them."""
    return [
        *_die_limits(parameters),
        *_link_limits(parameters),
        *_controller_limits(parameters, geometry),
        *_write_limits(parameters, geometry),
        *_read_limits(parameters),
        *(_slc_limits(parameters, geometry) if has_slc(parameters) else []),
        Limit(
            "memory_bytes",
            "memory for its tables",
            memory_bytes(parameters, geometry),
            "bytes",
            "4 bytes a unit of user and of physical capacity, and a bit; 8 bytes more with track_data",
        ),
    ]


def _die_limits(parameters: Mapping[str, Any]) -> list[Limit]:
    program_bytes = parameters["planes"] * parameters["page_bytes"] * parameters["pages_per_program"]
    programs = parameters["dies"] * 1e6 / parameters["program_us"]
    reads = parameters["dies"] * 1e6 / parameters["read_us"]
    channels = parameters["channels"] * parameters["channel_mb_per_s"]
    return [
        Limit("programs_per_s", "peak programs", programs, "/s", "dies / tPROG; each is a program of every plane"),
        Limit("program_mb_per_s", "peak programs", programs * program_bytes / 1e6, "MB/s", "the same in bytes"),
        Limit("page_reads_per_s", "peak page reads", reads, "/s", "dies / tR"),
        Limit("channels_mb_per_s", "channels", channels, "MB/s", "all together, reads and writes"),
    ]


def _link_limits(parameters: Mapping[str, Any]) -> list[Limit]:
    law = "overhead and transfer of one after the other"
    found = []
    for direction in ("read", "write"):
        iops = link_iops(parameters, direction, UNIT_BYTES)
        large = link_iops(parameters, direction, LARGE_BLOCK_BYTES) * LARGE_BLOCK_BYTES / 1e6
        found += [
            Limit(f"link_{direction}_4k_iops", f"link, {direction}s of 4 KiB", iops, "IOPS", law),
            Limit(f"link_{direction}_1024k_mb_per_s", f"link, {direction}s of 1024 KiB", large, "MB/s", law),
        ]
    return found


def _controller_limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> list[Limit]:
    """Of its data path, by its rate or the time it takes for each command; none where neither is a limit."""
    overheads = parameters["controller_read_overhead_us"], parameters["controller_write_overhead_us"]
    if not (parameters["controller_mb_per_s"] or any(overheads)):
        return []
    factor, _ = write_amplification(parameters, geometry)
    read = per_second(controller_read_us(parameters, UNIT_BYTES))
    fresh = per_second(controller_write_us(parameters, 1.0))
    steady = None if factor is None else per_second(controller_write_us(parameters, factor))
    twice = "measure it" if steady is None else "the same; what is collected passes it twice"
    what = "controller, {} of 4 KiB".format
    return [
        Limit("controller_read_4k_iops", what("reads"), read, "IOPS", "overhead and data of one after the other"),
        Limit("controller_fresh_write_4k_iops", what("fresh writes"), fresh, "IOPS", "the same, and mapping pages"),
        Limit("controller_steady_write_4k_iops", what("steady writes"), steady, "IOPS", twice),
    ]


def _read_limits(parameters: Mapping[str, Any]) -> list[Limit]:
    small, large = (read_iops(parameters, size) for size in (UNIT_BYTES, LARGE_BLOCK_BYTES))
    law = "least of dies, channels, controller and link"
    return [
        Limit("read_4k_iops", "RND 4 KiB reads", small, "IOPS", law),
        Limit("read_1024k_mb_per_s", "SEQ 1024 KiB reads", large * LARGE_BLOCK_BYTES / 1e6, "MB/s", law),
    ]


def _write_limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> list[Limit]:
    """What random writes come to, fresh and steady."""
    alpha = effective_alpha(parameters, geometry)
    factor, form = write_amplification(parameters, geometry)
    line = parameters["gc_pacing"] == "line"
    roughly = "; up to a superblock more or less is in use" if line and factor is not None else ""
    steady = None if factor is None else write_4k_iops(parameters, factor)
    slc = has_slc(parameters)
    past = ", without an SLC cache" if slc else ""
    return [
        Limit(
            "effective_alpha", "flash in use / user capacity", alpha, "", "superblocks less the reserve and one more"
        ),
        Limit("write_amplification", "write amplification", factor, "", f"uniform random writes: {form}{roughly}"),
        Limit(
            "fresh_write_4k_iops",
            "RND 4 KiB writes, fresh",
            iops_of_die_time(parameters, slc_die_us(parameters) + mapping_die_us(parameters), 1.0)
            if slc
            else write_4k_iops(parameters, 1.0),
            "IOPS",
            f"least of dies, channels, controller and link{', into the SLC cache' if slc else ''}",
        ),
        Limit(
            "steady_write_4k_iops",
            "RND 4 KiB writes, steady",
            steady,
            "IOPS",
            "measure it" if steady is None else f"the same, at that write amplification{past}",
        ),
    ]


def _slc_limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> list[Limit]:
    """Large sequential writes to a drive that is nearly empty."""
    direct_us = write_die_us({**parameters, "write_commands_per_map_page": 0}, 1.0)
    folds = 1 + 2 * folded_share(parameters, geometry)
    cached = large_write_mb_per_s(parameters, slc_die_us(parameters), 1)
    folding = large_write_mb_per_s(parameters, folding_die_us(parameters, geometry), folds)
    law = "least of dies, channels, controller and link"
    return [
        Limit(
            "slc_capacity_bytes",
            "SLC cache",
            slc_capacity_bytes(parameters, geometry),
            "bytes",
            "static and dynamic, of an empty drive",
        ),
        Limit("slc_write_mb_per_s", "writes, SLC", cached, "MB/s", law),
        Limit(
            "direct_write_mb_per_s",
            "writes, past SLC",
            large_write_mb_per_s(parameters, direct_us, 1),
            "MB/s",
            f"{law}: to the main area",
        ),
        Limit("folding_write_mb_per_s", "writes, folding", folding, "MB/s", f"{law}: what is folded passes twice more"),
    ]
