"""A run that is cut off: killed, interrupted, out of disk. What was measured can be read, and says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from blockdevices import tmpfs_at
from conftest import PATIENCE_S, SHORT, disclosure_kinds, one_line, run_cli, run_json, start_cli
from flashgauge.report import build
from flashgauge.runfolder import RunFolderError, read_journal

# Long enough per step that the run is still in its second round when the signal arrives.
DRIVE = "sim:sata-enterprise?capacity=8GB"
SLOW = (DRIVE, "--set", "point_s=2", "--set", "wipc_capacities=0.05")
INTO_ROUND_2 = 10
INTERRUPTED_WITHIN_S = 2.0  # a second, and one more for a machine that is busy with something else


@contextmanager
def in_the_middle_of_round_2(cwd: Path) -> Iterator[tuple[Popen[str], int]]:
    """A run, and how many measurements it has reported, when it is well inside its second round."""
    process = start_cli(cwd, "run", "iops", *SLOW, "--json", "--out", "run")
    try:
        steps, in_round_2 = 0, 0
        assert process.stdout is not None
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            if event["event"] == "step":
                steps += 1
                in_round_2 += event["label"]["round"] == 2
            if in_round_2 == INTO_ROUND_2:
                break
        assert in_round_2 == INTO_ROUND_2, process.communicate()
        yield process, steps
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate(timeout=PATIENCE_S)


def check_what_is_left(cwd: Path, steps: int) -> None:
    """At most the step that was just reported may be missing; everything says that the run is incomplete."""
    entries, _ = read_journal(cwd / "run")
    assert steps - 1 <= len(entries)
    assert [entry.sequence for entry in entries] == list(range(len(entries)))
    shown = run_cli(cwd, "show", "run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "INVALID AS A PTS RESULT: the run is incomplete" in shown.stdout
    (missing,) = [line for line in shown.stdout.splitlines() if line.startswith("missing: the run")]
    assert "in round 2 at R/W" in missing
    assert "round 1 is complete" in missing
    facts = json.loads(run_cli(cwd, "show", "run", "--json").stdout)
    assert facts["missing"]
    assert facts["valid_pts_result"] is False
    assert facts["steady"] is None
    assert "interrupted" in {item["kind"] for item in facts["disclosures"]}
    print(missing)


@pytest.mark.clause("4")
def test_killed_in_the_middle_of_a_round(tmp_path: Path) -> None:
    """kill -9: nothing of the program runs any more, and the folder is all there is."""
    with in_the_middle_of_round_2(tmp_path) as (process, steps):
        process.send_signal(signal.SIGKILL)
        assert process.wait(PATIENCE_S) == -signal.SIGKILL
    assert run_json(tmp_path / "run")["state"] == "running"
    assert not (tmp_path / "run/report.html").exists()
    check_what_is_left(tmp_path, steps)
    reported = run_cli(tmp_path, "report", "run")
    assert (reported.returncode, reported.stderr) == (0, "")
    assert (tmp_path / "run/report.pdf").read_bytes().startswith(b"%PDF")
    page = (tmp_path / "run/report.html").read_text()
    assert "the run is incomplete" in page
    assert "round 1 is complete" in page
    assert list((tmp_path / "run").rglob("*.csv"))


@pytest.mark.clause("4")
def test_ctrl_c_in_the_middle_of_a_round(tmp_path: Path) -> None:
    with in_the_middle_of_round_2(tmp_path) as (process, steps):
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        while run_json(tmp_path / "run")["state"] == "running":
            assert time.monotonic() - began_s < INTERRUPTED_WITHIN_S
            time.sleep(0.01)
        recorded_s = time.monotonic() - began_s
        _, err = process.communicate(timeout=PATIENCE_S)
        ended_s = time.monotonic() - began_s
    print(f"interrupted: recorded after {recorded_s:.2f} s, ended after {ended_s:.2f} s")
    assert ended_s < INTERRUPTED_WITHIN_S
    assert process.returncode == 130, err
    (line,) = err.splitlines()
    assert line.startswith("flashgauge: interrupted")
    assert "run folder" in line
    run = run_json(tmp_path / "run")
    assert run["state"] == "interrupted"
    assert run["finished"]
    assert "interrupted" in disclosure_kinds(tmp_path / "run")
    entries, torn = read_journal(tmp_path / "run")
    assert not torn
    assert all(entry.measurement.stop_reason == "complete" for entry in entries)
    check_what_is_left(tmp_path, steps)
    assert run_cli(tmp_path, "report", "run", "--html").returncode == 0
    assert "the run is incomplete" in (tmp_path / "run/report.html").read_text()


def test_ctrl_c_before_the_first_measurement(tmp_path: Path) -> None:
    """In the pre-conditioning, where one step lasts long: it must not be waited for."""
    # No simulator writes a thousand capacities within the test's patience.
    long = ("--set", "wipc_capacities=1000")
    process = start_cli(tmp_path, "run", "iops", DRIVE, *long, "--json", "--out", "run")
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["event"] == "progress":
                break
        began_s = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=PATIENCE_S)
        print(f"ended {time.monotonic() - began_s:.2f} s after Ctrl-C")
        assert time.monotonic() - began_s < INTERRUPTED_WITHIN_S
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
    assert process.returncode == 130, err
    assert len(err.splitlines()) == 1, err
    assert run_json(tmp_path / "run")["state"] == "interrupted"
    shown = run_cli(tmp_path, "show", "run")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "no round is complete" in shown.stdout


@pytest.mark.clause("4")
def test_journal_cut_at_every_byte_of_its_last_two_lines_opens(tmp_path: Path, finished_run: Path) -> None:
    """What a crash can leave is a prefix. Every prefix gives the whole lines in it, and says if there was more."""
    lines = (finished_run / "journal.jsonl").read_bytes().splitlines(keepends=True)[-3:]
    # Sequence numbers start at 0, so that these few lines are a journal: reading all of it for each cut would be slow.
    lines = [json.dumps(json.loads(line) | {"sequence": at}).encode() + b"\n" for at, line in enumerate(lines)]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(b"".join(lines))
    ends = [len(b"".join(lines[: count + 1])) for count in range(len(lines))]
    for cut in range(ends[-1], ends[0] - 1, -1):
        os.truncate(journal, cut)
        entries, torn = read_journal(tmp_path)
        complete = [end for end in ends if end <= cut]
        assert len(entries) == len(complete), cut
        assert torn == (cut != complete[-1]), cut
    print(f"{ends[-1] - ends[0] + 1} cuts")


@pytest.mark.clause("4")
def test_reports_of_a_cut_journal(tmp_path: Path, finished_run: Path) -> None:
    """Some of those cuts, and cuts anywhere else, all the way to what is shown."""
    whole = (finished_run / "journal.jsonl").read_bytes()
    folder = tmp_path / "run"
    folder.mkdir()
    shutil.copy(finished_run / "run.json", folder)
    last_but_one = whole.rindex(b"\n", 0, whole.rindex(b"\n", 0, -1))
    near_the_end = range(last_but_one, len(whole), (len(whole) - last_but_one) // 8)
    for cut in (*range(0, len(whole), len(whole) // 12), *near_the_end):
        (folder / "journal.jsonl").write_bytes(whole[:cut])
        report = build(folder)
        assert not report.complete, cut
        assert not report.valid, cut
        assert report.missing, cut
        if whole[:cut] and not whole[:cut].endswith(b"\n"):
            assert any("torn" in line for line in report.missing), cut


def test_journal_torn_where_it_is_not_the_end_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes(b'{"sequence":0\n{"sequence":1')
    with pytest.raises(RunFolderError, match="line 1"):
        read_journal(tmp_path)


def test_full_disk(tmp_path: Path) -> None:
    """One clear line; what was measured before stays whole and can be read, also while the disk is still full."""
    with tmpfs_at(tmp_path / "disk", "200k") as disk:
        result = run_cli(tmp_path, "run", "iops", DRIVE, *SHORT, "--out", disk / "run")
        line = one_line(result, 1)
        assert "No space left on device" in line
        entries, _ = read_journal(disk / "run")
        assert len(entries) > 1
        assert all(entry.measurement.stop_reason == "complete" for entry in entries)
        left = sorted(entry.name for entry in (disk / "run").iterdir())
        print(f"{line}; {len(entries)} measurements; left: {left}")
        for name in ("report.html", "report.pdf"):
            # Half a report is worse than none: it opens, and shows less than there was.
            assert name not in left, left
        shown = run_cli(tmp_path, "show", disk / "run")
        assert (shown.returncode, shown.stderr) == (0, "")
        assert "INVALID AS A PTS RESULT: the run is incomplete" in shown.stdout
        saved = shutil.copytree(disk / "run", tmp_path / "saved")
    assert run_cli(tmp_path, "report", saved).returncode == 0
    assert (saved / "report.pdf").read_bytes().startswith(b"%PDF")


def test_disk_full_from_the_start(tmp_path: Path) -> None:
    """Not even run.json fits: no half a folder may look like a run."""
    with tmpfs_at(tmp_path / "disk", "4k") as disk:
        result = run_cli(tmp_path, "run", "iops", DRIVE, *SHORT, "--out", disk / "run")
        assert result.returncode in (1, 2)
        assert "No space left on device" in one_line(result, result.returncode)
        shown = run_cli(tmp_path, "show", disk / "run")
        one_line(shown, 2)
