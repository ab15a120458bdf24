"""What the driver needs of a device under test and its surroundings; one implementation per kind of target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from flashgauge._core import Session
from flashgauge.disclosure import Disclosure
from flashgauge.health import Health
from flashgauge.hostoverhead import BlockReads
from flashgauge.measurement import HostSeries, HostUsage
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.rig.power import PowerSource
from flashgauge.rig.samples import Window
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


@dataclass(frozen=True)
class HealthReading:
    """The drive's health log; None with the reason why it was not read."""

    health: Health | None
    reason: str = ""


class Telemetry(Protocol):
    """Host and drive conditions over each step."""

    def measure_power(self, source: PowerSource) -> None:
        """By this meter from now on; it is begun, and closed, by whoever gives it."""

    def begin(self, quiet: bool = False) -> None:
        """A step has started. `quiet`: no command may go to the drive until the next one."""

    def quiet(self) -> None:
        """No command may go to the drive from now on, until the next step begins: it idles, or is purged."""

    def between(self) -> None:
        """A step's window is over and the next not begun, and the device is kept loaded: the drive may be asked."""

    def end(self, window: Window) -> tuple[HostUsage, HostSeries]:
        """Of the window that ended last; None, and an empty series, in every field without a source."""

    def health(self) -> HealthReading:
        """The drive's health log, read now."""

    def close(self) -> None:
        """Measure no more. Safe to call twice."""


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

    def after_run(self) -> tuple[Disclosure, ...]:
        """When the last step is over: what is not as it was set any more."""

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        """What of the host may disturb a test; see `hostchecks.check_host`. Takes a moment of watching."""

    def block_reads(self) -> BlockReads | str:
        """By the block layer's counters; or why there are none."""

    def check(self) -> None:
        """The device is still the one consented to. Sends it nothing. Raises DeviceError."""

    def close(self) -> None:
        """Give the device back as it was found. Safe to call twice."""


class NoTelemetry:
    """For virtual time: the host's CPU use says nothing about the drive."""

    def measure_power(self, source: PowerSource) -> None:
        pass

    def begin(self, quiet: bool = False) -> None:
        pass

    def quiet(self) -> None:
        pass

    def between(self) -> None:
        pass

    def end(self, window: Window) -> tuple[HostUsage, HostSeries]:
        return HostUsage(), HostSeries()

    def health(self) -> HealthReading:
        return HealthReading(None, "the drive is simulated")

    def close(self) -> None:
        pass
