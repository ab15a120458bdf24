"""Access patterns that the standard names: the optional workloads of 10.2 2.2.3, and the composite of section 13.

A pattern says what I/O to issue; thread count, queue depth and ActiveRange are the test's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashgauge.steps import KIB, LbaGroup, Stimulus

# Table 13-1: block size in bytes, and its share of the accesses in percent.
COMPOSITE_BLOCKS: tuple[tuple[int, int], ...] = (
    (512, 4),
    (1024, 1),
    (1536, 1),
    (2048, 1),
    (2560, 1),
    (3072, 1),
    (3584, 1),
    (4 * KIB, 67),
    (8 * KIB, 10),
    (16 * KIB, 7),
    (32 * KIB, 3),
    (64 * KIB, 3),
)

# Table 13-2: groups A, B and C of the ActiveRange, and the share of the accesses each receives.
COMPOSITE_GROUPS: tuple[LbaGroup, ...] = (
    LbaGroup(0.0, 5.0, 50.0),
    LbaGroup(5.0, 20.0, 30.0),
    LbaGroup(20.0, 100.0, 20.0),
)


@dataclass(frozen=True)
class AccessPattern:
    """`blocks`: (bytes, share) pairs. `alignment_bytes`: None aligns each I/O to its own size."""

    title: str
    access: Literal["random", "sequential", "groups", "mixed"]
    blocks: tuple[tuple[int, int], ...]
    read_percent: int
    groups: tuple[LbaGroup, ...] = ()
    alignment_bytes: int | None = None
    sequential_percent: float = 0.0

    @property
    def block_bytes(self) -> int | None:
        """The block size; None for a composite."""
        return self.blocks[0][0] if len(self.blocks) == 1 else None

    def stimulus(
        self,
        thread_count: int,
        queue_depth: int,
        *,
        active_range_percent: float,
        entropy_percent: int,
        read_percent: int | None = None,
    ) -> Stimulus:
        """The pattern as a stimulus; `read_percent` instead of its own R/W mix, if given."""
        return Stimulus(
            access=self.access,
            block_sizes=self.blocks,
            read_percent=self.read_percent if read_percent is None else read_percent,
            thread_count=thread_count,
            queue_depth=queue_depth,
            active_range_percent=(0.0, active_range_percent),
            groups=self.groups,
            entropy_percent=entropy_percent,
            alignment_bytes=self.alignment_bytes,
            sequential_percent=self.sequential_percent,
        )


def _single(title: str, access: Literal["random", "sequential"], kib: float, read_percent: int) -> AccessPattern:
    return AccessPattern(title, access, ((int(kib * KIB), 1),), read_percent)


# The standard gives the composite's I/Os no alignment. Here each begins on a 4 KiB boundary, as the sample reports'
# headers have it ("Align=4K"): aligned to their own size, those of 1.5, 2.5, 3 and 3.5 KiB would straddle boundaries.
COMPOSITE = AccessPattern(
    "Composite block sizes, R/W 40/60", "groups", COMPOSITE_BLOCKS, 40, COMPOSITE_GROUPS, alignment_bytes=4 * KIB
)

# 10.2 2.2.3; DIRTH may use the same (14.1).
WORKLOADS: dict[str, AccessPattern] = {
    "write-intensive": _single("RND 4 KiB RW0", "random", 4, 0),
    "read-intensive": _single("RND 4 KiB RW100", "random", 4, 100),
    "mixed": _single("RND 8 KiB RW65", "random", 8, 65),
    "vod": _single("SEQ 128 KiB RW90", "sequential", 128, 90),
    "meta-data": _single("SEQ 0.5 KiB RW50", "sequential", 0.5, 50),
    "composite": COMPOSITE,
}
