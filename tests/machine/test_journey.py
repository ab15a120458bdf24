"""As a new user would: list the drives, run one shortened test on the NVMe drive, read its report."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from conftest import disclosure_kinds, run_cli, run_json
from flashgauge.runfolder import read_journal
from machine import drives
from machine.qemu import Machine
from machine.runs import POINTS, ROUNDS, SHORT

pytestmark = pytest.mark.machine


def test_the_program_starts_by_its_own_interpreter(machine: Machine) -> None:
    result = machine.run(Path(sys.executable).parent / "flashgauge", "--version")
    assert (result.returncode, result.stdout.split()[0]) == (0, "flashgauge"), result.stderr


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
    before, after = run["health"]["before"], run["health"]["after"]
    assert before["source"] == after["source"] == "nvme smart-log"
    assert after["temperature_c"] == pytest.approx(49.85, abs=0.5)
    # QEMU counts data units of 1000 sectors, and has written the pre-conditioning at least.
    assert after["written_bytes"] - before["written_bytes"] > 4_000_000
    assert (after["media_errors"], after["throttle_transitions"]) == (0, 0)
    assert run["host_ceilings"][0]["source"] == "null device"
    entries, torn = read_journal(folder)
    assert not torn
    assert len(entries) == 1 + ROUNDS * POINTS
    for entry in entries:
        assert entry.measurement.ios > 0
        assert not entry.measurement.errors
        # QEMU's controller says 323 K, whatever it does.
        assert entry.measurement.host.temperature_c == pytest.approx(49.85, abs=0.5)
        assert entry.measurement.host.engine_busy_percent is not None
        assert entry.measurement.host.interrupts is not None
    result = run_cli(tmp_path, "report", folder)
    assert result.returncode == 0, result.stderr
    assert (folder / "report.pdf").read_bytes().startswith(b"%PDF")
    assert drives.MAIN.serial in (folder / "report.html").read_text()
    assert "INVALID AS A PTS RESULT" in run_cli(tmp_path, "show", folder).stdout
