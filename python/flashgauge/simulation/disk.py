"""What follows from a simulated disk's parameters. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flashgauge.simulation.limit import Limit

SECTOR_BYTES = 512
UNIT_SECTORS = 8
MEASURE_IT = "no closed form for an order by place: measure it"


def sequential_mb_per_s(parameters: Mapping[str, Any], geometry: Mapping[str, Any], sectors_per_track: int) -> float:
    """Cylinder by cylinder: a turn for each track, and the switches between them."""
    heads = parameters["heads"]
    switches_ns = (heads - 1) * geometry["head_skew_ns"] + geometry["cylinder_skew_ns"]
    cylinder_bytes = heads * sectors_per_track * SECTOR_BYTES
    return float(cylinder_bytes * 1e3 / (heads * geometry["turn_ns"] + switches_ns))


def access_ms(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> float:
    """Of a random 4 KiB read, from the heads' start on: mean seek, half a turn, transfer.

    With several zones, user data is rather outside, and the mean seek is a little shorter than this.
    """
    turn_ms = geometry["turn_ns"] / 1e6
    sectors = (parameters["outer_sectors_per_track"] + parameters["inner_sectors_per_track"]) / 2
    return float(parameters["seek_average_ms"] + turn_ms / 2 + UNIT_SECTORS / sectors * turn_ms)


def limits(parameters: Mapping[str, Any], geometry: Mapping[str, Any]) -> list[Limit]:
    """All of it, from the parameters and the geometry as `preset_description` gives them."""
    turn_ms = geometry["turn_ns"] / 1e6
    outer, inner = parameters["outer_sectors_per_track"], parameters["inner_sectors_per_track"]
    moving_ms = access_ms(parameters, geometry)
    read_ms = parameters["controller_us"] / 1e3 + moving_ms
    link_ms = UNIT_SECTORS * SECTOR_BYTES / parameters["link_mb_per_s"] / 1e3
    write_ms = read_ms + link_ms + parameters["write_settle_ms"]
    in_order = parameters["queue_policy"] == "fifo"
    rate = "a cylinder's bytes / its turns and switches of track"
    return [
        Limit("turn_ms", "one turn", turn_ms, "ms", "60 / rpm"),
        Limit(
            "seek_average_ms", "mean seek, reads", parameters["seek_average_ms"], "ms", "over all pairs of cylinders"
        ),
        Limit(
            "read_4k_t1q1_ms", "RND 4 KiB read, T1Q1", read_ms, "ms", "controller + mean seek + half a turn + transfer"
        ),
        Limit("write_4k_t1q1_ms", "RND 4 KiB write, T1Q1, no cache", write_ms, "ms", "the same + link + settling"),
        Limit("read_4k_t1q1_iops", "RND 4 KiB reads, T1Q1", 1e3 / read_ms, "IOPS", "1 / the time of one"),
        Limit("write_4k_t1q1_iops", "RND 4 KiB writes, T1Q1, no cache", 1e3 / write_ms, "IOPS", "the same"),
        Limit(
            "read_4k_full_queue_iops",
            "RND 4 KiB reads, full queue",
            1e3 / moving_ms if in_order else None,
            "IOPS",
            "1 / (mean seek + half a turn + transfer)" if in_order else MEASURE_IT,
        ),
        Limit("media_outer_mb_per_s", "media, outermost track", _media(outer, turn_ms), "MB/s", "one track a turn"),
        Limit("media_inner_mb_per_s", "media, innermost track", _media(inner, turn_ms), "MB/s", "the same"),
        Limit(
            "sequential_outer_mb_per_s",
            "sequential, outside",
            sequential_mb_per_s(parameters, geometry, outer),
            "MB/s",
            rate,
        ),
        Limit(
            "sequential_inner_mb_per_s",
            "sequential, inside",
            sequential_mb_per_s(parameters, geometry, inner),
            "MB/s",
            rate,
        ),
    ]


def _media(sectors_per_track: int, turn_ms: float) -> float:
    return sectors_per_track * SECTOR_BYTES / turn_ms / 1e3
