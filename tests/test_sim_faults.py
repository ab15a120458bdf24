"""Simulated drives that fail on purpose, as a user runs them: exit code, message, journal, disclosures, resume."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import SHORT, Cli, disclosure_kinds, one_line, run_json
from flashgauge.runfolder import read_journal

DRIVE = "sim:sata-enterprise?capacity=1GB"

# Parameters -> errno of the first failed I/O, part of the one line that tells of it.
FATAL = {
    "fault_read_error_rate=0.00001": (5, "the first a read at sector"),
    "fault_dropout_after_ios=20000": (19, "device failed 128 I/Os"),
    "fault_dropout_after_s=1.5": (19, "I/Os in round 1"),
    "fault_power_loss_after_s=2": (5, "I/Os in round 1"),
}


@pytest.mark.parametrize("fault", FATAL)
def test_a_fault_ends_the_run_with_one_line_and_a_whole_journal(cli: Cli, tmp_path: Path, fault: str) -> None:
    errno, message = FATAL[fault]
    result = cli("run", "iops", f"{DRIVE}&{fault}", *SHORT, "--out", "run")
    assert message in one_line(result, 1)
    folder = tmp_path / "run"
    run = run_json(folder)
    name, _, value = fault.partition("=")
    assert run["state"] == "failed"
    assert run["device_description"][name] == float(value)
    assert {"faults_injected", "io_errors", "interrupted"} <= disclosure_kinds(folder)
    told = [item["message"] for item in run["disclosures"] if item["kind"] == "faults_injected"]
    assert fault in told[0].replace("1e-05", "0.00001")
    entries, torn = read_journal(folder)
    assert not torn
    assert all(not entry.measurement.errors for entry in entries[:-1])
    assert entries[-1].measurement.errors[0].errno == errno
    assert (folder / "report.html").exists(), "what was measured is worth a report"


HARMLESS = {"fault_spike_rate=0.0001&fault_spike_ms=30": 30e6, "fault_program_error_rate=0.001": 0.0}


@pytest.mark.parametrize("fault", HARMLESS)
def test_a_fault_that_fails_no_command_is_disclosed_and_seen_in_latency(cli: Cli, tmp_path: Path, fault: str) -> None:
    result = cli("run", "iops", f"{DRIVE}&{fault}", *SHORT, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert "faults_injected" in disclosure_kinds(tmp_path / "run")
    assert "faults are injected on purpose: fault_" in (tmp_path / "run" / "report.html").read_text()
    entries, _ = read_journal(tmp_path / "run")
    assert max(entry.measurement.mrt_ns or 0 for entry in entries) > HARMLESS[fault]


def test_a_campaign_on_a_failing_drive_resumes_from_the_purge_and_fails_alike(cli: Cli, tmp_path: Path) -> None:
    """As with a real drive: the test that was cut off begins again. The simulated one then fails again, since it is
    made anew with the same fault."""
    target = f"{DRIVE}&fault_dropout_after_ios=20000"
    first = cli("run", "iops", "tp", target, *SHORT, "--out", "set")
    assert first.returncode == 1, first.stderr
    again = cli("resume", "set")
    assert again.returncode == 1, again.stderr
    journals = [(tmp_path / "set" / name / "journal.jsonl").read_text() for name in ("iops", "iops.ended-1")]
    assert journals[0] == journals[1] != ""


def test_a_wrong_fault_is_refused(cli: Cli) -> None:
    result = cli("run", "iops", f"{DRIVE}&fault_read_error_rate=2", *SHORT, "--out", "run")
    assert "fault_read_error_rate: 0 to 1 is possible" in one_line(result, 2)


def test_without_faults_nothing_is_said_of_them(finished_run: Path) -> None:
    assert "faults_injected" not in disclosure_kinds(finished_run)
    assert json.loads((finished_run / "run.json").read_text())["device_description"]["fault_spike_rate"] == 0


def test_faults_and_throttling_are_the_same_with_any_number_of_jobs(cli: Cli, tmp_path: Path) -> None:
    faults = "fault_spike_rate=0.001&fault_program_error_rate=0.01"
    heat = "idle_w=1&program_uj=500&thermal_resistance_c_per_w=10&throttle_from_c=40&throttle_full_c=60"
    for jobs in ("1", "2"):
        out = tmp_path / jobs
        result = cli("run", "iops", "tp", f"{DRIVE}&{faults}&{heat}", *SHORT[:4], "--jobs", jobs, "--out", out)
        assert result.returncode == 0, result.stderr
    for test in ("iops", "tp"):
        alone, together = ((tmp_path / jobs / test / "journal.jsonl").read_bytes() for jobs in ("1", "2"))
        assert alone == together != b""
    assert {"faults_injected", "thermal_throttling"} <= disclosure_kinds(tmp_path / "1" / "iops")
