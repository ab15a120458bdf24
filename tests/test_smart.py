"""Health logs: what the tools give, in their formats, and what of a difference is told.

No drive was met: nvme-cli's JSON is that of QEMU's NVMe drive (nvme-cli 2.3), with counters changed; smartctl's as its
version 7.3 writes it, made after published outputs.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drives import made_up
from flashgauge._core import DeviceError
from flashgauge.disclosure import Kind
from flashgauge.health import Health, disclosures, new
from flashgauge.rig import smart
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.smart import HealthSource, ata_health, health_source, nvme_health, scsi_health

NVME = {
    "critical_warning": 0,
    "temperature": 323,
    "avail_spare": 100,
    "spare_thresh": 10,
    "percent_used": 3,
    "endurance_grp_critical_warning_summary": 0,
    "data_units_read": "2000",
    "data_units_written": "18446744073709551617",
    "host_read_commands": "77",
    "host_write_commands": "88",
    "controller_busy_time": "9",
    "power_cycles": "12",
    "power_on_hours": "345",
    "unsafe_shutdowns": "2",
    "media_errors": "4",
    "num_err_log_entries": "6",
    "warning_temp_time": 2,
    "critical_comp_time": 1,
    "temperature_sensor_1": 323,
    "thm_temp1_trans_count": 5,
    "thm_temp2_trans_count": 1,
    "thm_temp1_total_time": 30,
    "thm_temp2_total_time": 12,
}


def statistic(offset: int, value: int, valid: bool = True) -> dict[str, Any]:
    return {"offset": offset, "name": "x", "size": 4, "value": value, "flags": {"value": 192, "valid": valid}}


ATA = {
    "smartctl": {"version": [7, 3], "exit_status": 0},
    "device": {"name": "/dev/sda", "type": "sat", "protocol": "ATA"},
    "logical_block_size": 512,
    "smart_status": {"passed": True},
    "temperature": {"current": 31},
    "power_on_time": {"hours": 100},
    "power_cycle_count": 8,
    "ata_smart_attributes": {
        "table": [
            {"id": 187, "name": "Reported_Uncorrect", "value": 100, "raw": {"value": 9, "string": "9"}},
            {"id": 194, "name": "Temperature_Celsius", "value": 69, "raw": {"value": 31 + (45 << 32), "string": "31"}},
        ]
    },
    "ata_device_statistics": {
        "pages": [
            {"number": 1, "table": [statistic(8, 7), statistic(16, 99), statistic(24, 1000), statistic(40, 2000)]},
            {"number": 4, "table": [statistic(8, 3)]},
            {"number": 5, "table": [statistic(8, 30), statistic(80, 6)]},
            {"number": 7, "table": [statistic(8, 2)]},
        ]
    },
}

SCSI = {
    "smartctl": {"version": [7, 3], "exit_status": 0},
    "device": {"name": "/dev/sdb", "type": "scsi", "protocol": "SCSI"},
    "smart_status": {"passed": False},
    "scsi_percentage_used_endurance_indicator": 1,
    "temperature": {"current": 35, "drive_trip": 74},
    "power_on_time": {"hours": 3862, "minutes": 30},
    "scsi_error_counter_log": {
        "read": {"gigabytes_processed": "12.699", "total_uncorrected_errors": 1},
        "write": {"gigabytes_processed": "4.5", "total_uncorrected_errors": 2},
        "verify": {"total_uncorrected_errors": 0},
    },
}


def test_nvme() -> None:
    found = nvme_health(NVME)
    assert found == Health(
        source="nvme smart-log",
        temperature_c=49.85,
        percentage_used=3,
        available_spare_percent=100,
        media_errors=4,
        error_log_entries=6,
        critical_warning=0,
        throttle_transitions=6,
        throttled_s=42,
        warning_temperature_s=120,
        critical_temperature_s=60,
        read_bytes=2000 * 512_000,
        written_bytes=(2**64 + 1) * 512_000,
        power_cycles=12,
        unsafe_shutdowns=2,
        power_on_h=345,
    )
    assert Health.from_json({**json.loads(json.dumps(found.to_json())), "of_a_later_version": 1}) == found


def test_nvme_in_the_shapes_of_other_versions() -> None:
    """1.x writes numbers for all, and knows no thermal management; a verbose one splits the warning into its bits."""
    log = {name: int(value) for name, value in NVME.items() if not name.startswith("thm_")}
    found = nvme_health({**log, "critical_warning": {"value": 4, "reliability_degraded": 1}, "temperature": 0})
    assert (found.media_errors, found.critical_warning, found.temperature_c) == (4, 4, None)
    assert (found.throttle_transitions, found.throttled_s) == (None, None)


def test_ata_by_device_statistics() -> None:
    assert ata_health(ATA) == Health(
        source="smartctl, device statistics and attributes",
        temperature_c=31.0,
        percentage_used=2,
        media_errors=3,
        critical_warning=0,
        warning_temperature_s=360,
        read_bytes=2000 * 512,
        written_bytes=1000 * 512,
        power_cycles=7,
        power_on_h=99,
    )


def test_ata_by_attributes_alone() -> None:
    log = {name: value for name, value in ATA.items() if name != "ata_device_statistics"}
    found = ata_health(log)
    assert (found.media_errors, found.power_cycles, found.power_on_h, found.percentage_used) == (9, 8, 100, None)
    assert found.source == "smartctl, attributes"


def test_a_statistic_that_the_drive_calls_invalid_is_not_used() -> None:
    log = {**ATA, "ata_device_statistics": {"pages": [{"number": 4, "table": [statistic(8, 3, valid=False)]}]}}
    assert ata_health(log).media_errors == 9


def test_scsi() -> None:
    assert scsi_health(SCSI) == Health(
        source="smartctl, log pages",
        temperature_c=35.0,
        percentage_used=1,
        media_errors=3,
        critical_warning=4,
        read_bytes=12_699_000_000,
        written_bytes=4_500_000_000,
        power_on_h=3862,
    )
    assert scsi_health({}) == Health("smartctl, log pages")


# Reading


def tool(folder: Path, name: str, output: str, code: int = 0, errors: str = "") -> None:
    """A program that says this, whatever it is asked, and keeps what it was asked in NAME.log."""
    (folder / f"{name}.out").write_text(output)
    script = folder / name
    script.unlink(missing_ok=True)
    script.write_text(f'#!/bin/sh\necho "$@" >> {folder}/{name}.log\ncat {folder}/{name}.out\n{errors}\nexit {code}\n')
    script.chmod(0o755)


@pytest.fixture
def only_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    monkeypatch.setattr("flashgauge.rig.tools.SYSTEM_FOLDERS", ())
    return folder


def source(device: BlockDevice) -> HealthSource:
    found = health_source(device)
    assert isinstance(found, HealthSource)
    return found


@pytest.mark.parametrize(
    ("kind", "name", "log", "asked", "errors"),
    [
        ("nvme", "nvme", NVME, "smart-log {dev}/nvme0 --output-format=json", 4),
        (
            "ata",
            "smartctl",
            ATA,
            "--json --info --attributes --health --log=devstat --log=error --log=ssd {dev}/sda",
            3,
        ),
        (
            "scsi",
            "smartctl",
            SCSI,
            "--json --info --attributes --health --log=devstat --log=error --log=ssd {dev}/sdb",
            3,
        ),
    ],
)
def test_the_drive_is_asked(
    tmp_path: Path, only_ours: Path, kind: str, name: str, log: dict[str, Any], asked: str, errors: int
) -> None:
    device = made_up(tmp_path / "drive", kind).device
    tool(only_ours, name, json.dumps(log))
    assert source(device).read().media_errors == errors
    assert (only_ours / f"{name}.log").read_text() == asked.format(dev=device.roots.dev) + "\n"


def test_an_ata_drive_behind_a_usb_bridge_is_read_as_one(tmp_path: Path, only_ours: Path) -> None:
    """The kernel has it as a SCSI disk of the bridge's maker."""
    device = made_up(tmp_path / "drive", "scsi").device
    tool(only_ours, "smartctl", json.dumps(ATA))
    assert source(device).read() == ata_health(ATA)


def test_what_smartctl_finds_is_no_failure_to_read(tmp_path: Path, only_ours: Path) -> None:
    device = made_up(tmp_path / "drive", "ata").device
    tool(only_ours, "smartctl", json.dumps(ATA), code=64)  # errors in the log
    assert source(device).read().media_errors == 3
    messages = {"smartctl": {"messages": [{"string": "Read Device Identity failed", "severity": "error"}]}}
    tool(only_ours, "smartctl", json.dumps(messages), code=2)
    with pytest.raises(DeviceError, match="Read Device Identity failed"):
        source(device).read()


@pytest.mark.parametrize(
    "output", ["", "no JSON", "[]", '{"ata_device_statistics": {"pages": [{}]}}', '{"temperature": 3}']
)
def test_an_answer_that_is_not_understood_is_an_error_of_the_device(
    tmp_path: Path, only_ours: Path, output: str
) -> None:
    """Which the run goes over: it must not end by a tool's new version."""
    device = made_up(tmp_path / "drive", "ata").device
    if "pages" in output:
        output = '{"ata_device_statistics": {"pages": [{"table": [{"flags": {"valid": true}, "value": "x"}]}]}}'
    tool(only_ours, "smartctl", output)
    with pytest.raises(DeviceError):
        source(device).read()


def test_a_drive_that_fails_the_command(tmp_path: Path, only_ours: Path) -> None:
    device = made_up(tmp_path / "drive", "nvme").device
    tool(only_ours, "nvme", "", code=1, errors="echo 'NVMe status: Invalid Log Page' >&2")
    with pytest.raises(DeviceError, match="Invalid Log Page"):
        source(device).read()


def test_the_tools_version_is_known(tmp_path: Path, only_ours: Path) -> None:
    device = made_up(tmp_path / "drive", "scsi").device
    assert smart.tool_versions(device) == {}
    tool(only_ours, "smartctl", "smartctl 7.3 2022-02-28 r5338 [x86_64-linux] (local build)\n")
    assert smart.tool_versions(device) == {"smartctl": "7.3"}


def test_a_missing_tool_names_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("flashgauge.rig.tools.SYSTEM_FOLDERS", ())
    for kind, package in (("nvme", "nvme-cli"), ("ata", "smartmontools")):
        said = smart.health_source(made_up(tmp_path / kind, kind).device)
        assert isinstance(said, str)
        assert package in said


# What is told


BEFORE = nvme_health(NVME)


def told(**changes: Any) -> list[str]:
    after = replace(BEFORE, **changes)
    return [f"{item.kind.value}: {item.message}" for item in disclosures(BEFORE, after)]


def test_nothing_new_is_not_told() -> None:
    assert told() == []
    assert told(temperature_c=80.0, written_bytes=10**20, percentage_used=4, power_on_h=400) == []


def test_new_media_errors() -> None:
    (message,) = told(media_errors=6)
    assert message == "drive_health: the drive counts 2 new media errors: data that it could not recover"


def test_throttling_and_heat() -> None:
    (message,) = told(throttle_transitions=8, throttled_s=50, warning_temperature_s=240)
    assert message.startswith("thermal_throttling: by the drive's own log of the run, ")
    assert "throttled itself 2 times, for 8 s together and it was above its warning temperature for 2 min" in message
    assert "critical" not in message


def test_a_warning_that_was_there_before_is_not_told_again() -> None:
    degraded = replace(BEFORE, critical_warning=4)
    raised = replace(BEFORE, critical_warning=4 | 1)
    assert list(disclosures(degraded, degraded)) == []
    (found,) = disclosures(degraded, raised)
    assert found.kind is Kind.DRIVE_HEALTH
    assert "spare space is low" in found.message


def test_a_power_cycle() -> None:
    (message,) = told(power_cycles=13)
    assert "1 power cycle during the run" in message


def test_a_counter_that_runs_backwards_or_is_not_known_is_not_told() -> None:
    assert told(media_errors=0, power_cycles=0, throttled_s=None) == []
    assert new(BEFORE, None, "media_errors") is None
    assert list(disclosures(None, BEFORE)) == []
