"""What a drive says of its own health, before a run and after it, and what of the difference is to be disclosed.

The names are those of the NVMe SMART / Health Information log (NVM Express Base Specification 2.0, 5.16.1.3); what ATA
and SCSI drives count of it is put under the same names. Counters run over the drive's whole life. Pure values: `rig`
reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from typing import Any

from flashgauge.disclosure import Disclosure, Kind

# Bits of the critical warning (NVMe); SCSI and ATA drives have only a verdict, which is put into bit 2.
_WARNINGS = (
    "spare space is low",
    "the temperature is out of its range",
    "reliability is degraded",
    "the drive takes no more writes",
    "the backup of the volatile memory has failed",
    "the persistent memory is read-only",
)
RELIABILITY_DEGRADED = 1 << 2


@dataclass(frozen=True)
class Health:
    """None in every field that the drive does not report. `source`: the program and the log it was read from.

    `warning_temperature_s`, `critical_temperature_s`: time above these temperatures, in the drive's units of a minute.
    `throttle_transitions`, `throttled_s`: how often, and for how long, the drive went to a lower performance to cool
    down (both of NVMe's thermal management temperatures). `media_errors`: data that could not be recovered.
    """

    source: str
    temperature_c: float | None = None
    percentage_used: int | None = None
    available_spare_percent: int | None = None
    media_errors: int | None = None
    error_log_entries: int | None = None
    critical_warning: int | None = None
    throttle_transitions: int | None = None
    throttled_s: int | None = None
    warning_temperature_s: int | None = None
    critical_temperature_s: int | None = None
    read_bytes: int | None = None
    written_bytes: int | None = None
    power_cycles: int | None = None
    unsafe_shutdowns: int | None = None
    power_on_h: int | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Health:
        """What another version has written too: names that this one does not know are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{name: value for name, value in data.items() if name in known})


def new(before: Health | None, after: Health | None, name: str) -> int | None:
    """How much a counter has grown; None when it is not known at both times, or ran backwards (a drive that begins
    anew)."""
    if before is None or after is None:
        return None
    first, last = getattr(before, name), getattr(after, name)
    return last - first if first is not None and last is not None and last >= first else None


def disclosures(before: Health | None, after: Health | None) -> Iterator[Disclosure]:
    """What of a run's difference a reader of its results must know."""
    if before is None or after is None:
        return
    yield from _thermal(before, after)
    if found := new(before, after, "media_errors"):
        yield _health(
            f"the drive counts {found} new media error{'s' * (found > 1)}: data that it could not recover",
            "see the drive's error log; replace the drive, and run again from the purge",
        )
    if found := new(before, after, "power_cycles"):
        yield _health(
            f"the drive counts {found} power cycle{'s' * (found > 1)} during the run",
            "find what takes its power away: what was set before may have been lost, its write cache for one",
        )
    raised = (after.critical_warning or 0) & ~(before.critical_warning or 0)
    for bit, meaning in enumerate(_WARNINGS):
        if raised >> bit & 1:
            yield _health(f"the drive has raised a critical warning: {meaning}", "see the drive's health log")


def unread(media_errors: int) -> Iterator[Disclosure]:
    """For a run at whose end the log could not be read. `media_errors`: new ones, as long as it could."""
    if media_errors:
        yield _health(
            f"the drive counted {media_errors} new media error{'s' * (media_errors > 1)} before its log could not be "
            "read any more: data that it could not recover",
            "see the drive's error log; replace the drive, and run again from the purge",
        )


def _thermal(before: Health, after: Health) -> Iterator[Disclosure]:
    times, seconds = (new(before, after, name) for name in ("throttle_transitions", "throttled_s"))
    hot = {name: new(before, after, f"{name}_temperature_s") for name in ("warning", "critical")}
    parts = []
    if times or seconds:
        how_often = f" {times} time{'s' * (times > 1)}" if times else ""
        how_long = f", for {seconds} s together" if seconds else ""
        parts.append(f"it throttled itself{how_often}{how_long}")
    parts += [f"it was above its {name} temperature for {found / 60:g} min" for name, found in hot.items() if found]
    if parts:
        yield Disclosure(
            Kind.THERMAL_THROTTLING,
            "6",
            f"by the drive's own log of the run, {' and '.join(parts)}",
            "cool the drive as it will be cooled in use, and run again",
        )


def _health(message: str, advice: str) -> Disclosure:
    return Disclosure(Kind.DRIVE_HEALTH, "6", message, advice)
