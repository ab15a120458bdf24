"""Power and temperature of a simulated drive, from its parameters to the journal and the report."""

from __future__ import annotations

from pathlib import Path

from conftest import SHORT, Cli, disclosure_kinds, run_json
from flashgauge.measurement import HostUsage
from flashgauge.runfolder import read_journal

DRIVE = "sim:sata-enterprise?capacity=1GB"
WARM = "idle_w=1&program_uj=500&read_uj=50&thermal_resistance_c_per_w=10&thermal_time_constant_s=0.5"


def test_power_and_temperature_reach_the_journal_and_the_report(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", "iops", f"{DRIVE}&{WARM}", *SHORT, "--out", "run")
    assert result.returncode == 0, result.stderr
    entries, _ = read_journal(tmp_path / "run")
    for entry in entries:
        host = entry.measurement.host
        assert host.power_w is not None
        assert host.energy_j is not None
        assert host.temperature_c is not None
        assert host.temperature_max_c is not None
        assert 1.0 < host.power_w < 20
        assert 35.0 <= host.temperature_c <= host.temperature_max_c < 250
        assert host.throttled_s == 0
        # The energy is of the step's whole time: its window, and at both ends what is outstanding.
        assert host.energy_j >= 0.999 * host.power_w * entry.measurement.window_s
    assert "thermal_throttling" not in disclosure_kinds(tmp_path / "run")
    html = (tmp_path / "run" / "report.html").read_text()
    assert "Energy of the drive in steps" in html
    assert "Drive temperature" in html


def test_throttling_is_disclosed(cli: Cli, tmp_path: Path) -> None:
    limit = "throttle_from_c=50&throttle_full_c=60"
    for name, more in (("free", ""), ("hot", f"&{limit}")):
        result = cli("run", "iops", f"{DRIVE}&{WARM}{more}", *SHORT, "--out", name)
        assert result.returncode == 0, result.stderr
    entries, _ = read_journal(tmp_path / "hot")
    # At 20 W above the balance a drive this light gains 4 C in the 10 ms between two looks: no more over the limit.
    assert max(entry.measurement.host.temperature_max_c or 0 for entry in entries) < 64
    assert sum(entry.measurement.host.throttled_s or 0 for entry in entries) > 0.5
    messages = [d["message"] for d in run_json(tmp_path / "hot")["disclosures"] if d["kind"] == "thermal_throttling"]
    assert messages[0].startswith("the drive throttled itself for ")
    free, _ = read_journal(tmp_path / "free")
    # Pre-conditioning runs long enough to be hot: it is slower than that of a drive that does not throttle.
    assert entries[0].measurement.window_ns > free[0].measurement.window_ns


def test_without_energies_nothing_is_known(finished_run: Path) -> None:
    entries, _ = read_journal(finished_run)
    assert all(entry.measurement.host == HostUsage() for entry in entries)
    assert "Drive temperature" not in (finished_run / "report.html").read_text()


def test_what_the_drive_knows_goes_before_what_the_host_knows() -> None:
    drive, host = HostUsage(power_w=2.0), HostUsage(cpu_system_percent=5.0, power_w=1.0, temperature_c=40.0)
    assert drive.over(host) == HostUsage(5.0, None, 2.0, 40.0)
