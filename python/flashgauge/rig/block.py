"""A block device as a rig. Made only from a `Cleared` device: see safety.py for what that took."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from flashgauge._core import Session
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig import identify, purge, safety, writecache
from flashgauge.rig.base import Prepared, SessionNeeds, Telemetry
from flashgauge.rig.identify import BlockDevice, read_text
from flashgauge.rig.telemetry import HostTelemetry, temperature_source

# Settings of the block layer that change what is measured.
_QUEUE_FACTS = (
    "scheduler",
    "nomerges",
    "rq_affinity",
    "rotational",
    "discard_max_bytes",
    "discard_granularity",
    "logical_block_size",
    "physical_block_size",
    "nr_requests",
    "max_sectors_kb",
    "write_cache",
    "fua",
    "zoned",
    "io_poll",
    "wbt_lat_usec",
)


class BlockRig:
    """A drive (or what stands for one), held exclusively from here to `close`."""

    def __init__(self, cleared: safety.Cleared, needs: SessionNeeds) -> None:
        """Raises TargetError or DeviceError, also when the device changed between consent and opening."""
        self._cleared = cleared
        device = cleared.device
        self.dut = cleared.dut
        self.session = Session.block(
            device.path,
            usable_bytes(device),
            needs.seed,
            needs.max_threads,
            needs.max_queue_depth,
            needs.max_block_bytes,
            True,
        )
        self.telemetry: Telemetry = HostTelemetry(temperature_source(device), device.roots)
        try:
            # The session opened a path; now that it is held, see that the path led to the right device.
            safety.recheck(cleared)
        except BaseException:
            self.session.close()
            raise

    def description(self) -> dict[str, Any]:
        return describe(self._cleared.device) | {"identity": asdict(self._cleared.identity)}

    def disclosures(self) -> list[Disclosure]:
        meaning = identify.stands_for(self._cleared.device)
        return [] if meaning is None else [not_device_level(f"{self._cleared.device.given} stands for {meaning}")]

    def purge(self) -> Prepared:
        safety.recheck(self._cleared)
        return purge.discard_device(self._cleared.device)

    def set_write_cache(self, enabled: bool) -> Prepared:
        return writecache.compare(writecache.state(self._cleared.device), enabled)

    def close(self) -> None:
        self.session.close()


def usable_bytes(device: BlockDevice) -> int:
    """Whole logical blocks of the device."""
    return device.size_bytes // device.logical_block_bytes * device.logical_block_bytes


def describe(device: BlockDevice) -> dict[str, Any]:
    """What sysfs says of the device and its queue; None where there is no such attribute."""
    disk = device.disk
    return {
        "path": device.path,
        "kernel_name": device.name,
        "disk": identify.kernel_name(disk),
        "size_bytes": device.size_bytes,
        "queue": {name: read_text(disk / "queue" / name) for name in _QUEUE_FACTS},
        "numa_node": read_text(disk / "device/numa_node") or read_text(disk / "device/device/numa_node"),
        "interface": identify.interface(device),
        "host_adapter": identify.host_adapter(device),
    }


def not_device_level(what: str) -> Disclosure:
    return Disclosure(
        Kind.NOT_DEVICE_LEVEL,
        "1.1",
        f"{what}, not for a drive: what is measured is not a device alone",
        "run on the drive itself, such as /dev/nvme0n1",
        invalidates=True,
    )
