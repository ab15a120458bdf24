"""Each test of the standard, shortened, on a loop device through io_uring: the same code as on a drive."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from blockdevices import MIB
from conftest import disclosure_kinds, run_cli, run_json, start_cli
from flashgauge.measurement import NS_PER_S
from flashgauge.runfolder import Entry, read_journal
from flashgauge.spec.hir import wait_purpose

# Everything that takes time is cut; how many rounds steady state then takes depends on the machine.
ROUNDS = {"window_rounds": "2", "max_rounds": "2"}
SHORT: dict[str, dict[str, str]] = {
    "tp": {**ROUNDS, "wipc_capacities": "0.25", "point_s": "0.1"},
    "lat": {**ROUNDS, "wipc_capacities": "0.25", "point_s": "0.1", "histogram_s": "1"},
    "wsat": {"minute_s": "0.2", "max_minutes": "10", "histogram_s": "1"},
    "hir": {
        "minute_s": "0.2",
        "round_spacing_minutes": "2",
        "max_data_excursion_percent": "1000",
        "max_slope_excursion_percent": "1000",
        "waits_s": "0.1, 0.25",
        "access_s": "0.1",
        "wait_accesses": "6",
        "baseline_accesses": "6",
    },
    "xsr": {"minute_s": "0.2", "group_1_minutes": "4", "group_2_minutes": "4", "group_3_minutes": "4"},
    "cbw": {
        **ROUNDS,
        "pc_max_rounds": "2",
        "wipc_capacities": "0.25",
        "minute_s": "0.1",
        "round_spacing_minutes": "2",
        "prewrite_min_minutes": "2",
        "prewrite_max_minutes": "3",
        "thread_counts": "8, 2, 1",
        "queue_depths": "8, 2, 1",
        "heaviest_thread_count": "8",
        "heaviest_queue_depth": "8",
        "point_s": "0.1",
        "final_prewrite_minutes": "2",
        "histogram_s": "0.5",
    },
}
SHORT["dirth"] = SHORT["cbw"]


def run_short(test: str, folder: Path, device: str) -> list[Entry]:
    """Run the test; its journal."""
    settings = [part for name, value in SHORT[test].items() for part in ("--set", f"{name}={value}")]
    result = run_cli(folder.parent, "run", test, device, "--consent", Path(device).name, *settings, "--out", folder)
    assert result.returncode == 0, result.stderr
    return read_journal(folder)[0]


@pytest.mark.slow
@pytest.mark.parametrize("test", SHORT)
def test_shortened_on_a_loop_device(tmp_path: Path, loop_device: str, test: str) -> None:
    folder = tmp_path / "run"
    entries = run_short(test, folder, loop_device)
    run = run_json(folder)
    assert run["state"] == "complete"
    assert "BLKDISCARD" in run["purge_method"]
    changed = {item["message"].split()[0] for item in run["disclosures"] if item["kind"] == "parameter_changed"}
    assert changed == set(SHORT[test])
    assert {"not_device_level", "purge_by_discard"} <= disclosure_kinds(folder)
    for entry in entries:
        m = entry.measurement
        assert (m.stop_reason, m.errors) == ("complete", ())
        assert m.submitted_ios == m.ios + m.handover_ios
        assert m.ios > 0, entry.label
    gaps = [gap for entry in entries[2:] if (gap := entry.measurement.excess_gap_ns) is not None]
    print(f"{test}: {len(entries)} steps, gaps of median {statistics.median(gaps) / 1e3:.1f} us")
    assert "INVALID AS A PTS RESULT" in (folder / "report.html").read_text()
    assert (folder / "report.pdf").stat().st_size > 10_000
    shown = run_cli(tmp_path, "show", folder)
    assert "INVALID AS A PTS RESULT" in shown.stdout
    assert any(entry.measurement.host.cpu_system_percent is not None for entry in entries)


@pytest.mark.slow
@pytest.mark.clause("11.2.4")
def test_idle_times_are_kept(tmp_path: Path, loop_device: str) -> None:
    """The time with nothing outstanding, as the engine saw it, is what was asked for and little more."""
    entries = run_short("hir", tmp_path / "run", loop_device)
    for wait_s in (0.1, 0.25):
        bursts = [entry.measurement for entry in entries if entry.label.purpose == wait_purpose(wait_s)]
        idle = [m.gap_ns / NS_PER_S for m in bursts[1:] if m.gap_ns is not None]
        assert len(idle) == 5
        assert min(idle) >= wait_s
        assert statistics.median(idle) < wait_s + 0.05
        assert all(m.bridge_ios == 0 for m in bursts[1:])


@pytest.mark.slow
def test_a_campaign_on_a_file(tmp_path: Path) -> None:
    """Two tests after one another; Ctrl-C in the second; resume runs that one again, and no other."""
    folder = tmp_path / "set"
    target = f"file:{tmp_path / 'drive.img'}?size={64 * MIB}"
    settings = [f"tp.{name}={value}" for name, value in SHORT["tp"].items()]
    settings += [f"xsr.{name}={value}" for name, value in SHORT["xsr"].items() if name != "minute_s"]
    options = [part for text in settings for part in ("--set", text)]
    consent = ("--consent", "drive.img")
    process = start_cli(tmp_path, "run", "tp", "xsr", target, *options, *consent, "--json", "--out", folder)
    assert process.stdout is not None
    for line in process.stdout:
        if '"test": "xsr", "event": "step"' in line:
            process.send_signal(2)
            break
    assert process.wait(60) == 130
    assert run_json(folder / "tp")["state"] == "complete"
    assert run_json(folder / "xsr")["state"] == "interrupted"
    again = run_cli(tmp_path, "resume", folder)
    assert "drive.img" in again.stderr, "what the first tests left is contents, and needs consent now"
    assert again.returncode == 2
