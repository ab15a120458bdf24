"""A block device as a rig. Made only from a `Cleared` device: see safety.py for what that took."""

from __future__ import annotations

import errno
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from flashgauge._core import DeviceError, Session
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.hostoverhead import BlockReads
from flashgauge.rig import identify, purge, safety, smart, writecache
from flashgauge.rig.base import Prepared, SessionNeeds, Telemetry, Tell
from flashgauge.rig.held import Held
from flashgauge.rig.hostchecks import HostCheck, check_host
from flashgauge.rig.identify import BlockDevice, read_text
from flashgauge.rig.keeper import Keeper, overdue
from flashgauge.rig.records import RunLock
from flashgauge.rig.telemetry import HostTelemetry

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

    def __init__(self, cleared: safety.Cleared, needs: SessionNeeds, purge_method: str = purge.AUTO) -> None:
        """Raises TargetError or DeviceError, also when the device changed between consent and opening."""
        self._cleared = cleared
        self._verifiable = needs.verifiable
        device = cleared.device
        self._lock = RunLock(device)
        try:
            self._purge = purge.choose(device, purge_method)
            self._keeper = Keeper(device)
            self.dut = cleared.dut
            self._held = Held(cleared)
        except BaseException:
            self._lock.release()
            raise
        try:
            self.session = _session(device, needs)
        except BaseException:
            self._held.close()
            self._lock.release()
            raise
        self._cache_set: bool | None = None
        self.telemetry: Telemetry = HostTelemetry.of(device)
        try:
            # The session opened a path; now that it is held, see that the path led to the right device.
            self.check()
            # Nobody else has it now: what a run has left that ended with its machine can be put back.
            if done := overdue(device):
                print(f"flashgauge: {device.given}: left by an earlier run, put right now: {done}", file=sys.stderr)
        except BaseException:
            self.close()
            raise

    def description(self) -> dict[str, Any]:
        method = self._purge.method
        return describe(self._cleared.device) | {
            "identity": asdict(self._cleared.identity),
            "member_signatures": list(self._cleared.signatures),
            "purge": {
                "method": method.name if method is not None else purge.NONE,
                "passed_over": self._purge.passed_over,
                "forecast_s": self._purge.support.forecast_s,
            },
        }

    def software(self) -> dict[str, str]:
        return purge.tool_versions(self._cleared.device) | smart.tool_versions(self._cleared.device)

    def disclosures(self) -> list[Disclosure]:
        meaning = identify.stands_for(self._cleared.device)
        return [] if meaning is None else [not_device_level(f"{self._cleared.device.given} stands for {meaning}")]

    def purge(self, tell: Tell) -> Prepared:
        prepared = purge.run(self._purge, self._cleared.device, self.check, self._keeper, tell)
        if self._verifiable:
            self.session.forget_written()
        return prepared

    def set_write_cache(self, enabled: bool) -> Prepared:
        self.check()
        prepared = writecache.set_cache(self._cleared.device, enabled, self._keeper.note_cache)
        # What is not as asked is disclosed already.
        self._cache_set = None if prepared.disclosures else enabled
        return prepared

    def after_run(self) -> tuple[Disclosure, ...]:
        if self._cache_set is None:
            return ()
        self.check()
        return writecache.look_again(self._cleared.device, self._cache_set)

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        device = self._cleared.device
        return check_host(device, device.roots, sequential=sequential)

    def block_reads(self) -> BlockReads | str:
        return block_reads(self._cleared.device.disk)

    def check(self) -> None:
        self._held.check()

    def close(self) -> None:
        """Raises DeviceError when the drive could not be put back; then it is the run's error, unless there is one."""
        self.session.close()
        try:
            reason = self._keeper.release()
        finally:
            self._held.close()
            self._lock.release()
        if reason is not None and sys.exc_info()[0] is not None:
            print(f"flashgauge: {reason}", file=sys.stderr)
        elif reason is not None:
            raise DeviceError(errno.EIO, reason)


def _session(device: BlockDevice, needs: SessionNeeds) -> Session:
    """Somebody who lists devices claims each for some microseconds: a claim refused is tried again."""
    arguments = (usable_bytes(device), needs.seed, needs.max_threads, needs.max_queue_depth, needs.max_block_bytes)
    try:
        return Session.block(device.path, *arguments, True, needs.verifiable)
    except DeviceError as error:
        if error.errno != errno.EBUSY:
            raise
    time.sleep(safety.CLAIM_AGAIN_S)
    return Session.block(device.path, *arguments, True, needs.verifiable)


def block_reads(disk: Path) -> BlockReads | str:
    """By the counters in the disk's folder of sysfs; or why there are none."""
    # A driver that takes I/Os without queues has their times in ticks of the kernel's clock, 1 to 10 ms.
    counting = read_text(disk / "queue/iostats") == "1" and (disk / "mq").is_dir()
    fields = (read_text(disk / "stat") or "").split()
    if not counting or len(fields) < 4:
        return "the kernel does not count the time of each of its I/Os"
    return BlockReads(int(fields[0]), int(fields[3]))


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
