"""As a new user would: list the drives, run one shortened test on the NVMe drive, read its report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import disclosure_kinds, run_cli, run_json
from flashgauge.runfolder import read_journal
from machine import drives
from machine.qemu import Machine
from machine.runs import POINTS, ROUNDS, SHORT

pytestmark = pytest.mark.machine


@pytest.mark.clause("3.2")
@pytest.mark.clause("3.7")
def test_one_test_from_nothing_to_its_report(machine: Machine, tmp_path: Path) -> None:
    assert drives.MAIN.serial in machine.sh("nvme list")
    disk = machine.disk(drives.MAIN)
    result = machine.flashgauge("run", "iops", disk, "--consent", drives.MAIN.serial, *SHORT, "--out", "journey")
    assert result.returncode == 0, result.stderr
    folder = machine.out / "journey"
    run = run_json(folder)
    assert run["state"] == "complete"
    assert run["dut"]["kind"] == "block"
    assert run["dut"]["serial"] == drives.MAIN.serial
    assert {"parameter_changed"} <= disclosure_kinds(folder)
    assert "not_device_level" not in disclosure_kinds(folder)
    assert run["purge_method"] == (
        "NVMe Format, user data erase; verified: the old data is gone from 64 of 64 samples (64 zeros)"
    )
    assert run["write_cache"] == "disabled (read back from the drive; enabled before the run, and again after it)"
    assert not {"purge_by_discard", "purge_not_run", "write_cache_state"} & disclosure_kinds(folder)
    assert run["software"]["nvme"]
    (after,) = json.loads(machine.flashgauge("devices", disk, "--json").stdout)["devices"]
    assert (after["drive_write_cache"], after["write_cache"]) == ("on", "write back")
    before, later = run["health"]["before"], run["health"]["after"]
    assert before["source"] == later["source"] == "nvme smart-log"
    assert later["temperature_c"] == pytest.approx(49.85, abs=0.5)
    # QEMU counts data units of 1000 sectors, and has written the pre-conditioning at least.
    assert later["written_bytes"] - before["written_bytes"] > 4_000_000
    assert (later["media_errors"], later["throttle_transitions"]) == (0, 0)
    assert run["host_ceilings"][0]["source"] == "no-op requests"
    entries, torn = read_journal(folder)
    assert not torn
    assert len(entries) == 1 + ROUNDS * POINTS
    for entry in entries:
        assert entry.measurement.ios > 0
        assert not entry.measurement.errors
        assert entry.measurement.host.engine_busy_percent is not None
        assert entry.measurement.host.interrupts is not None
    # QEMU's controller says 323 K, whatever it does; a step may be too short for a reading.
    temperatures = {entry.measurement.host.temperature_c for entry in entries} - {None}
    assert temperatures
    assert all(found == pytest.approx(49.85, abs=0.5) for found in temperatures)
    # Its reports are made inside, where the run was; the PDF on the host: plotting it takes minutes under emulation.
    for kind in ("--html", "--csv"):
        result = machine.flashgauge("report", kind, folder.name)
        assert result.returncode == 0, result.stderr
    assert (folder / "csv").is_dir()
    result = run_cli(tmp_path, "report", "--pdf", folder)
    assert result.returncode == 0, result.stderr
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    assert drives.MAIN.serial in (folder / "report.html").read_text()
    assert "INVALID AS A PTS RESULT" in run_cli(tmp_path, "show", folder).stdout
