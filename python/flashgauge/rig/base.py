"""What the driver needs of a device under test and its surroundings; one implementation per kind of target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flashgauge._core import Session
from flashgauge.disclosure import Disclosure
from flashgauge.measurement import HostUsage
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.runfolder import DutInfo

# Told what a purge is doing now, in a phrase.
Tell = Callable[[str], None]


@dataclass(frozen=True)
class SessionNeeds:
    """The largest step the test will ask for; the engine allocates for it once, before the first step.
    `verifiable`: what is written is to be read back and checked."""

    max_threads: int
    max_queue_depth: int
    max_block_bytes: int
    seed: int
    verifiable: bool = False


@dataclass(frozen=True)
class Prepared:
    """What came of a purge or of setting the cache: a text for the report header, and any departure."""

    state: str
    disclosures: tuple[Disclosure, ...] = ()


class Telemetry(Protocol):
    """Host and drive conditions over one step."""

    def begin(self) -> None:
        """A step starts now."""

    def end(self, quiet: bool = False) -> HostUsage:
        """Usage since `begin`; None in every field without a source. `quiet`: no command may go to the drive now."""


class Rig(Protocol):
    """The device under test, ready to execute steps."""

    dut: DutInfo
    session: Session
    telemetry: Telemetry

    def description(self) -> dict[str, Any]:
        """Everything known of the device, JSON values, for run.json."""

    def software(self) -> dict[str, str]:
        """Name -> version of the programs that are used on the device."""

    def disclosures(self) -> list[Disclosure]:
        """Departures that follow from the kind of target alone."""

    def purge(self, tell: Tell) -> Prepared:
        """Purge, and see that it was done. `tell` is told how far it is.

        Raises DeviceError (an OSError) when it fails, or cannot be seen to have been done.
        """

    def set_write_cache(self, enabled: bool) -> Prepared:
        """Set the volatile write cache, and read it back."""

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        """What of the host may disturb a test; see `hostchecks.check_host`. Takes a moment of watching."""

    def check(self) -> None:
        """The device is still the one consented to. Sends it nothing. Raises DeviceError."""

    def close(self) -> None:
        """Give the device back as it was found. Safe to call twice."""


class NoTelemetry:
    """For virtual time: the host's CPU use says nothing about the drive."""

    def begin(self) -> None:
        pass

    def end(self, quiet: bool = False) -> HostUsage:
        return HostUsage()
