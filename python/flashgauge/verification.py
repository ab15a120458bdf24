"""Reading back what a run wrote, sector by sector (`run --verify`, `flashgauge verify`).

Every sector such a run writes carries a stamp: its LBA, the number of the write, the run's seed, and a hash of all its
bytes (crates/core/src/engine/stamp.rs). Which write a sector must have is known while the run's process lives, for
devices up to 64 GiB; later, or on larger ones, an older write in place of the last one cannot be told.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, fields
from errno import EILSEQ
from typing import Any

from flashgauge._core import Verifier
from flashgauge.disclosure import Disclosure, Kind

SECTOR_BYTES = 512
CHUNK_BYTES = 64 << 20  # between two looks at Ctrl-C

# Told bytes read and bytes to read.
Tell = Callable[[int, int], None]


class VerificationError(OSError):
    """What was read back is not what was written."""


@dataclass(frozen=True)
class Findings:
    """Sectors of 512 bytes, each in one class. `known`: of which it is known which write they must have."""

    sectors: int = 0
    intact: int = 0
    unwritten: int = 0
    corrupt: int = 0
    misdirected: int = 0
    lost: int = 0
    foreign: int = 0
    known: int = 0
    first_bad_lba: int | None = None

    @property
    def bad(self) -> int:
        return self.corrupt + self.misdirected + self.lost + self.foreign

    def plus(self, other: Findings) -> Findings:
        sums = {
            f.name: getattr(self, f.name) + getattr(other, f.name) for f in fields(self) if f.name != "first_bad_lba"
        }
        first = [lba for lba in (self.first_bad_lba, other.first_bad_lba) if lba is not None]
        return Findings(**sums, first_bad_lba=min(first, default=None))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Findings:
        return cls(**data)

    def __str__(self) -> str:
        """One sentence."""
        limits = ""
        if not self.known:
            limits = "; an older write in place of the last one could not be told"
        elif unknown := self.sectors - self.known:
            limits = f"; in {unknown:,} sectors an older write in place of the last one could not be told"
        if not self.bad:
            return (
                f"{self.intact:,} sectors of 512 B read back as written, {self.unwritten:,} not written, "
                f"no mismatch{limits}"
            )
        kinds = {
            "corrupt": self.corrupt,
            "of another LBA": self.misdirected,
            "of an older write (a newer one is lost)": self.lost,
            "of another run": self.foreign,
        }
        told = ", ".join(f"{count:,} {name}" for name, count in kinds.items() if count)
        return (
            f"{self.bad:,} of {self.sectors:,} sectors of 512 B are not as written: {told}; "
            f"the first at LBA {self.first_bad_lba}{limits}"
        )


def read_back(verifier: Verifier, tell: Tell = lambda _done, _all: None) -> Findings:
    """Read and judge the whole range. Raises DeviceError when it cannot be read."""
    found = Findings()
    total = verifier.range_bytes
    for start in range(0, total, CHUNK_BYTES):
        tell(start, total)
        found = found.plus(Findings(**verifier.verify(start, CHUNK_BYTES)))  # type: ignore[arg-type]
    tell(total, total)
    return found


def mismatch(found: Findings) -> Disclosure:
    return Disclosure(
        Kind.DATA_MISMATCH,
        "6",
        str(found),
        "the drive, its connection or the host's memory loses or changes data: find out which before measuring again",
        invalidates=True,
    )


def failed(found: Findings) -> VerificationError:
    return VerificationError(EILSEQ, str(found))
