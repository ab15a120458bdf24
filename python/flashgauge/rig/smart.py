"""A drive's health log: NVMe by nvme-cli, ATA and SCSI by smartctl, both as JSON.

Reference: NVM Express Base Specification 2.0, log page 02h, whose names nvme-cli uses; ACS-4, 9.5 (device statistics
log) and SPC-5, 7.3 (log pages), as smartctl names them. nvme-cli writes 128-bit counters as text since 2.0, the
temperature in Kelvin; data units are of 1000 x 512 bytes. smartctl's exit status has bits for what it found: only the
two lowest mean that it could not read the drive. A reading is a command to the drive and takes some milliseconds.
Limits: no vendor's own attributes but those that ACS names; the units of these differ from drive to drive.
"""

from __future__ import annotations

import errno
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from flashgauge._core import DeviceError
from flashgauge.health import RELIABILITY_DEGRADED, Health
from flashgauge.rig import identify, records, tools
from flashgauge.rig.ata import is_ata
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.nvme import Nvme
from flashgauge.rig.scsi import is_scsi

READ_S = 10.0
_DATA_UNIT_BYTES = 512_000
_ZERO_C_IN_K = 273.15
_NOT_READ = 3  # bits of smartctl's exit status: wrong arguments, device not opened
# Device statistics are an ATA drive's, error counters and endurance a SCSI drive's; smartctl asks for what there is.
_LOGS = ("--attributes", "--health", "--log=devstat", "--log=error", "--log=ssd")


@dataclass(frozen=True)
class HealthSource:
    """`read` raises DeviceError. `tool`: the program it takes."""

    read: Callable[[], Health]
    tool: str


def health_source(device: BlockDevice) -> HealthSource | str:
    """How to read the health of the drive; or why that cannot be."""
    if identify.stands_for(device) is not None and not device.is_partition:
        return "no drive's health log is behind it"
    if identify.nvme_controllers(device):
        tool, read = "nvme", lambda: read_nvme(Nvme(device))
    elif is_ata(device) or is_scsi(device):
        tool, read = "smartctl", lambda: read_smartctl(device)
    else:
        return "neither an NVMe nor an ATA nor a SCSI drive"
    return tools.missing(tool) or HealthSource(read, tool)


def tool_versions(device: BlockDevice) -> dict[str, str]:
    """Tool -> version of what the health is read with; empty where it is not read."""
    source = health_source(device)
    version = None if isinstance(source, str) else tools.version(source.tool)
    return {} if isinstance(source, str) or version is None else {source.tool: version}


def read_nvme(drive: Nvme) -> Health:
    """Raises DeviceError; with a format under way before anything is asked: it might not be answered in time, and the
    kernel would reset the controller in the middle of it."""
    where = f"{drive.device.given} ({drive.controller})"
    if records.command_under_way(drive.device):
        raise DeviceError(errno.EBUSY, f"{where}: a format is under way, and nothing is asked of the drive meanwhile")
    output = tools.run("nvme", "smart-log", drive.controller, "--output-format=json", limit_s=READ_S)
    return _understood(nvme_health, _object(tools.done(output, where), where, "nvme smart-log"), where)


def nvme_health(log: dict[str, Any]) -> Health:
    """From what `nvme smart-log --output-format=json` gives."""

    def number(name: str) -> int | None:
        value = log.get(name)
        if isinstance(value, dict):  # the critical warning, when nvme-cli is told to be verbose
            value = value.get("value")
        return None if value is None else int(value)

    def scaled(name: str, scale: int) -> int | None:
        value = number(name)
        return None if value is None else value * scale

    def both(first: str, second: str) -> int | None:
        """Of both thermal management temperatures."""
        values = [value for name in (first, second) if (value := number(name)) is not None]
        return sum(values) if values else None

    kelvin = number("temperature")
    return Health(
        source="nvme smart-log",
        temperature_c=round(kelvin - _ZERO_C_IN_K, 2) if kelvin else None,
        percentage_used=_first(number("percent_used"), number("percentage_used")),
        available_spare_percent=number("avail_spare"),
        media_errors=number("media_errors"),
        error_log_entries=number("num_err_log_entries"),
        critical_warning=number("critical_warning"),
        throttle_transitions=both("thm_temp1_trans_count", "thm_temp2_trans_count"),
        throttled_s=both("thm_temp1_total_time", "thm_temp2_total_time"),
        warning_temperature_s=scaled("warning_temp_time", 60),
        critical_temperature_s=scaled("critical_comp_time", 60),
        read_bytes=scaled("data_units_read", _DATA_UNIT_BYTES),
        written_bytes=scaled("data_units_written", _DATA_UNIT_BYTES),
        power_cycles=number("power_cycles"),
        unsafe_shutdowns=number("unsafe_shutdowns"),
        power_on_h=number("power_on_hours"),
    )


def read_smartctl(device: BlockDevice) -> Health:
    """An ATA or a SCSI drive; which of them, smartctl knows: behind a USB bridge, an ATA drive looks like a SCSI one to
    the kernel. Raises DeviceError."""

    def parse(log: dict[str, Any]) -> Health:
        protocol = log.get("device", {}).get("protocol", "ATA" if is_ata(device) else "SCSI")
        return (ata_health if protocol == "ATA" else scsi_health)(log)

    return _understood(parse, _smartctl(device), device.given)


def ata_health(log: dict[str, Any]) -> Health:
    """From what smartctl gives of an ATA drive: device statistics first, then the attributes that ACS names."""
    statistics = {
        (page["number"], entry["offset"]): int(entry["value"])
        for page in log.get("ata_device_statistics", {}).get("pages", ())
        for entry in page.get("table", ())
        if entry.get("flags", {}).get("valid") and "value" in entry
    }
    raw = {
        entry["id"]: int(entry["raw"]["value"]) & 0xFFFFFFFF
        for entry in log.get("ata_smart_attributes", {}).get("table", ())
    }
    block = int(log.get("logical_block_size", 512))
    minutes = statistics.get((5, 80))

    def sectors(offset: int) -> int | None:
        count = statistics.get((1, offset))
        return None if count is None else count * block

    return Health(
        source="smartctl, device statistics and attributes" if statistics else "smartctl, attributes",
        temperature_c=_temperature(log, statistics.get((5, 8))),
        percentage_used=statistics.get((7, 8)),
        media_errors=_first(statistics.get((4, 8)), raw.get(187)),
        critical_warning=_verdict(log),
        warning_temperature_s=None if minutes is None else 60 * minutes,
        read_bytes=sectors(40),
        written_bytes=sectors(24),
        power_cycles=_first(statistics.get((1, 8)), log.get("power_cycle_count")),
        power_on_h=_first(statistics.get((1, 16)), log.get("power_on_time", {}).get("hours")),
    )


def scsi_health(log: dict[str, Any]) -> Health:
    """From what smartctl gives of a SCSI drive; it has no counter of power cycles."""
    counters = log.get("scsi_error_counter_log", {})
    failed = [int(of["total_uncorrected_errors"]) for of in counters.values() if "total_uncorrected_errors" in of]

    def processed(direction: str) -> int | None:
        gigabytes = counters.get(direction, {}).get("gigabytes_processed")
        return None if gigabytes is None else round(float(gigabytes) * 1e9)

    return Health(
        source="smartctl, log pages",
        temperature_c=_temperature(log, None),
        percentage_used=log.get("scsi_percentage_used_endurance_indicator"),
        media_errors=sum(failed) if failed else None,
        critical_warning=_verdict(log),
        read_bytes=processed("read"),
        written_bytes=processed("write"),
        power_on_h=log.get("power_on_time", {}).get("hours"),
    )


def _smartctl(device: BlockDevice) -> dict[str, Any]:
    path = str(device.roots.dev / device.disk.name)
    output = tools.run("smartctl", "--json", "--info", *_LOGS, path, limit_s=READ_S)
    data = _object(output, device.given, "smartctl")
    if output.code < 0 or output.code & _NOT_READ:
        said = [str(message["string"]) for message in data.get("smartctl", {}).get("messages", ())]
        why = "; ".join(said) or f"smartctl ends with {output.code}"
        raise DeviceError(errno.EIO, f"{device.given}: {why}")
    return data


def _object(output: tools.Output, where: str, what: str) -> dict[str, Any]:
    try:
        data = json.loads(output.raw)
    except ValueError as error:
        raise DeviceError(errno.EIO, f"{where}: {what} gives no JSON ({output.complaint}); update it") from error
    if not isinstance(data, dict):
        raise DeviceError(errno.EIO, f"{where}: {what} gives JSON that is no object; update it")
    return data


def _understood(parse: Callable[[dict[str, Any]], Health], log: dict[str, Any], where: str) -> Health:
    """A log of another shape than the tools' versions so far must not end a run in any other way."""
    try:
        return parse(log)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise DeviceError(errno.EIO, f"{where}: the health log is not understood ({error!r})") from error


def _temperature(log: dict[str, Any], statistic: int | None) -> float | None:
    current = _first(log.get("temperature", {}).get("current"), statistic)
    return None if current is None else float(current)


def _verdict(log: dict[str, Any]) -> int | None:
    """The drive's own overall verdict, as the bit of NVMe's critical warning that comes nearest."""
    passed = log.get("smart_status", {}).get("passed")
    return None if passed is None else 0 if passed else RELIABILITY_DEGRADED


def _first(*values: int | None) -> int | None:
    return next((value for value in values if value is not None), None)
