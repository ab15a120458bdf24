"""Where a fio job's I/Os go: offset, size and zones of a stimulus, and how often its range is gone through.

With the device's capacity known everything is in bytes, computed as the core computes it (crates/core/src/workload).
Without, it is in percent, of which fio takes whole ones only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from flashgauge.steps import LbaGroup, Stimulus

SECTOR = 512
GRANULE = 4096  # ranges begin and end on such boundaries
CURE = "name a TARGET to have it in bytes"


@dataclass(frozen=True)
class Extent:
    """The options that say where I/Os go. `region_bytes`: of each thread; None where only a share is known.
    `covered`: share of the device that all threads together go over."""

    options: list[str]
    notes: list[str]
    region_bytes: int | None
    covered: float


def extent(stimulus: Stimulus, capacity_bytes: int | None) -> Extent:
    """ActiveRange(start:end); a sequential stimulus of several threads gives each a region of its own."""
    if capacity_bytes is None:
        return _in_percent(stimulus)
    start, end = active_range(stimulus, capacity_bytes)
    regions = stimulus.thread_count if stimulus.access in {"sequential", "mixed"} else 1
    block = max(size for size, weight in stimulus.block_sizes if weight > 0)
    region = (end - start) // regions // block * block if regions > 1 else end - start
    options, notes = [f"offset={start}", f"size={region}"], []
    if regions > 1 and stimulus.access == "mixed":
        options[-1] = f"size={end - start}"
        notes.append("flashgauge goes on in sequence in a region for each thread; fio's threads share the range")
    elif regions > 1:
        options.append(f"offset_increment={region}")
        if left := end - start - regions * region:
            notes.append(f"flashgauge's last thread has {left} bytes more, so that every LBA is reached")
    return Extent(options, notes, region, (end - start) / capacity_bytes)


def active_range(stimulus: Stimulus, capacity_bytes: int) -> tuple[int, int]:
    """First byte, and the one after the last."""
    start_percent, end_percent = stimulus.active_range_percent
    sectors = capacity_bytes // SECTOR
    granules = GRANULE // SECTOR
    start = ceil(_half_up(sectors * start_percent / 100) / granules) * granules
    end = sectors if end_percent >= 100 else _half_up(sectors * end_percent / 100) // granules * granules
    return start * SECTOR, end * SECTOR


def _half_up(value: float) -> int:
    """Rounded as the core does it, where Python goes to the even number."""
    return int(value + 0.5)


def _in_percent(stimulus: Stimulus) -> Extent:
    start, end = stimulus.active_range_percent
    options, notes = [], []
    regions = stimulus.thread_count if stimulus.access == "sequential" else 1
    share = (end - start) / regions
    region = max(1, int(share))
    if round(start):
        options.append(f"offset={round(start)}%")
    options.append(f"size={region}%")
    if regions > 1:
        options.append(f"offset_increment={region}%")
    if region != share or start != round(start):
        each = " for each thread" if regions > 1 else ""
        notes.append(f"fio takes whole percents: the range is {share:g} % of the device{each}; {CURE}")
    return Extent(options, notes, None, (end - start) / 100)


def passes(total_bytes: int, stimulus: Stimulus, place: Extent, nominal_bytes: int) -> tuple[list[str], list[str]]:
    """How much to transfer: bytes for each thread, or so many times the range."""
    threads = stimulus.thread_count
    if place.region_bytes is not None:
        block = max(size for size, weight in stimulus.block_sizes if weight > 0)
        each = ceil(total_bytes / threads / block) * block
        notes = (
            [] if each * threads == total_bytes else [f"{total_bytes} bytes over all threads; {each * threads} here"]
        )
        return [f"io_size={each}"], notes
    # A thread that is not bound to a region of its own goes over the whole range.
    sharing = 1 if stimulus.access == "sequential" else threads
    times = total_bytes / (place.covered * nominal_bytes) / sharing
    if times == int(times):
        return ([f"loops={int(times)}"] if times > 1 else []), []
    if times < 1:
        percent = max(1, round(100 * times))
        exact = percent == 100 * times
        return [f"io_size={percent}%"], [] if exact else [f"{100 * times:.6g} % of the range are meant; {CURE}"]
    return [f"loops={ceil(times)}"], [f"{times:.6g} times the range are meant, fio rounds up here; {CURE}"]


def zones(stimulus: Stimulus, place: Extent) -> tuple[list[str], list[str]]:
    """LBA groups as fio's zones, which lie one behind another. In percent where that is exact, else in bytes where
    those are known (zoned_abs)."""
    pieces = _pieces(stimulus.groups)
    shares, sizes = [share for share, _ in pieces], [size for _, size in pieces]
    accesses = _whole(shares)
    notes = []
    if accesses != shares:
        notes.append("fio takes whole percents: the LBA groups' shares of the accesses are rounded")
    exact = all(size == int(size) for size in sizes)
    if exact or place.region_bytes is None:
        if not exact:
            notes.append(f"fio takes whole percents: the LBA groups' sizes are rounded; {CURE}")
        text = ":".join(f"{access}/{size}" for access, size in zip(accesses, _whole(sizes), strict=True))
        return [f"random_distribution=zoned:{text}"], notes
    ends = [round(place.region_bytes * sum(sizes[: i + 1]) / 100) // GRANULE * GRANULE for i in range(len(sizes))]
    ends[-1] = place.region_bytes
    lengths = [end - start for start, end in pairwise([0, *ends])]
    text = ":".join(f"{access}/{length}" for access, length in zip(accesses, lengths, strict=True))
    return [f"random_distribution=zoned_abs:{text}"], notes


def _pieces(groups: Sequence[LbaGroup]) -> list[tuple[float, float]]:
    """(percent of the accesses, percent of the range) of the parts between the groups' ends, in order: exact also
    where groups overlap or leave something out."""
    cuts = sorted({0.0, 100.0, *(end for group in groups for end in (group.start_percent, group.end_percent))})
    pieces = []
    for start, end in pairwise(cuts):
        share = sum(
            group.probability_percent * (end - start) / (group.end_percent - group.start_percent)
            for group in groups
            if group.start_percent <= start and end <= group.end_percent
        )
        pieces.append((share, end - start))
    return pieces


def _whole(percents: Sequence[float]) -> list[int]:
    """Whole numbers with the sum 100, the nearest to the given (largest remainders)."""
    floors = [int(value) for value in percents]
    by_remainder = sorted(range(len(percents)), key=lambda i: floors[i] - percents[i])
    for i in by_remainder[: 100 - sum(floors)]:
        floors[i] += 1
    return floors
