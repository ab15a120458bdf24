"""Campaigns: several tests in one folder, one after another or at the same time, cut off and resumed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from conftest import PATIENCE_S, Cli, one_line, run_cli, run_json, start_cli
from flashgauge.campaign import (
    Campaign,
    check_same,
    create,
    named_tests,
    put_aside,
    read_campaign,
    request_for,
    settings_for,
    unfinished,
)
from flashgauge.cli import campaign as commands
from flashgauge.disclosure import Kind
from flashgauge.execute import RequestError, RunRequest
from flashgauge.report.campaign import build_campaign
from flashgauge.rig.identify import Identity
from flashgauge.runfolder import DutInfo, RunFolderError, now_text
from flashgauge.spec.registry import TESTS

DRIVE = "sim:sata-enterprise?capacity=1GB"
# Two tests that take a second each, and one that takes a minute.
QUICK = ("--set", "wipc_capacities=0.05", "--set", "point_s=0.05", "--set", "histogram_s=1")
LONG = ("--set", "xsr.group_1_minutes=5000")


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def campaign(*tests: str, **settings: str) -> Campaign:
    return Campaign(tests, RunRequest("", DRIVE, settings=settings), now_text())


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[dict[str, Any]]]:
    """TP and LAT, at the same time; the folder, which is not to be changed, and the events."""
    folder = tmp_path_factory.mktemp("campaigns") / "set"
    result = run_cli(folder.parent, "run", "tp", "lat", DRIVE, *QUICK, "--jobs", "2", "--json", "--out", folder)
    assert result.returncode == 0, result.stderr
    return folder, events(result.stdout)


# What was asked for


def test_names_of_tests() -> None:
    assert named_tests(["all"]) == tuple(TESTS)
    assert named_tests(["lat", "iops", "lat"]) == ("lat", "iops")
    assert named_tests(["lat", "all"])[0] == "lat"
    with pytest.raises(RequestError, match="no test 'fast'"):
        named_tests(["iops", "fast"])


def test_settings_go_to_the_tests_that_have_them() -> None:
    settings = {"point_s": "1", "minute_s": "2", "lat.point_s": "3", "nines": "6"}
    tests = ("iops", "lat", "wsat")
    assert settings_for("iops", settings, tests) == {"point_s": "1"}
    assert settings_for("lat", settings, tests) == {"point_s": "3", "nines": "6"}
    assert settings_for("wsat", settings, tests) == {"minute_s": "2", "nines": "6"}
    with pytest.raises(RequestError, match="hir is not among the tests"):
        settings_for("iops", {"hir.minute_s": "1"}, tests)
    assert settings_for("iops", {"no_such": "1"}, tests) == {"no_such": "1"}, "for the test to refuse"


def test_campaign_json_is_what_was_asked_for_without_consent(tmp_path: Path) -> None:
    asked = campaign("tp", "hir", minute_s="1")
    asked = Campaign(asked.tests, RunRequest("", DRIVE, consent="S123", settings={"minute_s": "1"}), asked.started)
    create(tmp_path / "set", asked)
    read = read_campaign(tmp_path / "set")
    assert read.tests == ("tp", "hir")
    assert read.request.settings == {"minute_s": "1"}
    assert read.request.consent is None
    assert "S123" not in (tmp_path / "set" / "campaign.json").read_text()
    assert unfinished(read, tmp_path / "set") == ("tp", "hir")
    assert request_for(read, tmp_path / "set", "hir").settings == {"minute_s": "1"}
    assert request_for(read, tmp_path / "set", "tp").settings == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "Expecting value"),
        ('{"format_version": 9}', "format version 9"),
        ('{"format_version": 1, "tests": ["tp"]}', "request"),
        (
            '{"format_version": 1, "started": "", "tests": ["tp"], "request": {"test": null, "target": "sim:x", '
            '"device_class": "client", "settings": {"minute_s": 1}}}',
            "are texts",
        ),
        ("[]", "attribute"),
    ],
)
def test_a_broken_campaign_json_says_so(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "campaign.json").write_text(text)
    with pytest.raises(RunFolderError, match=message):
        read_campaign(tmp_path)


WRONG = {
    "test that is none": (("run", "iops", "fast", DRIVE), "no test 'fast'"),
    "setting that is none": (("run", "tp", "lat", DRIVE, "--set", "speed=1"), "no parameter 'speed'"),
    "setting of no test": (("run", "tp", "lat", DRIVE, "--set", "hir.minute_s=1"), "not among the tests"),
    "setting wrong in the second": (("run", "tp", "lat", DRIVE, "--set", "lat.nines=99"), "most allowed"),
    "jobs on a file": (("run", "all", "file:x?size=1GiB", "--jobs", "2"), "--jobs 2"),
    "preset that is none": (("run", "all", "sim:fast"), "fast"),
    "file without consent": (("run", "tp", "lat", "file:drive.img?size=64MiB"), "--consent drive.img"),
    "resume of nothing": (("resume", "nothing"), "not a campaign folder"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_input_is_one_line_and_leaves_nothing(cli: Cli, tmp_path: Path, case: str) -> None:
    arguments, named = WRONG[case]
    assert named in one_line(cli(*arguments), 2)
    assert not list(tmp_path.iterdir())


def test_an_existing_folder_is_left_alone(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "set" / "tp").mkdir(parents=True)
    (tmp_path / "set" / "tp" / "precious").write_text("x")
    line = one_line(cli("run", "tp", "lat", DRIVE, *QUICK, "--out", "set"), 2)
    assert "never overwritten" in line
    assert (tmp_path / "set" / "tp" / "precious").exists()


# What comes of it


def test_each_test_has_its_run_folder_and_reports(finished: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, told = finished
    for test in ("tp", "lat"):
        run = run_json(folder / test)
        assert (run["test"], run["state"]) == (test, "complete")
        assert run["purge_method"].startswith("simulated")
        assert (folder / test / "report.html").exists()
    assert told[0]["event"] == "campaign"
    assert set(told[0]["tests"]) == {"tp", "lat"}
    assert {event["test"] for event in told[1:-1]} == {"tp", "lat"}
    both = [event["test"] for event in told if event["event"] in {"begin", "end"}]
    assert set(both[:2]) == {"tp", "lat"}, "both began before one ended"
    result = told[-1]
    assert result["event"] == "campaign_result"
    assert result["tests"]["lat"]["state"] == "complete"


def test_the_summary_has_every_test_and_leads_to_its_report(finished: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, _ = finished
    report = build_campaign(folder)
    assert report.complete
    assert not report.valid, "the runs are shortened"
    rows = {str(row[0]): row for row in report.summary[0].rows}
    assert set(rows) == {"TP", "LAT"}
    html = (folder / "report.html").read_text()
    for test in ("tp", "lat"):
        section = report.section(f"test-{test}")
        assert section.items
        for _, path in section.links:
            assert (folder / path).exists()
            assert f'href="{path}"' in html
    assert "INVALID AS A PTS RESULT" in html
    assert any(item.message.startswith("all tests: ") for item in report.disclosures)
    assert (folder / "report.pdf").stat().st_size > 10_000


def test_show_and_report_know_campaigns(cli: Cli, finished: tuple[Path, list[dict[str, Any]]]) -> None:
    folder, _ = finished
    shown = cli("show", folder)
    assert shown.returncode == 0, shown.stderr
    assert "2 of 2 tests complete" in shown.stdout
    facts = json.loads(cli("show", folder, "--json").stdout)
    assert facts["tests"]["tp"]["status"].startswith("steady state reached")
    written = cli("report", folder, "--html")
    assert written.stdout.split() == [str(folder / "report.html")]


def test_a_parallel_run_measures_what_a_single_one_does(
    tmp_path: Path, finished: tuple[Path, list[dict[str, Any]]]
) -> None:
    """The same seed gives identical measurements, bit for bit, with any number of jobs."""
    alone = tmp_path / "alone"
    assert run_cli(tmp_path, "run", "tp", DRIVE, *QUICK[:4], "--out", alone).returncode == 0
    assert (alone / "journal.jsonl").read_bytes() == (finished[0] / "tp" / "journal.jsonl").read_bytes()


# Cut off


def started(tmp_path: Path, *more: str) -> subprocess.Popen[str]:
    """A campaign of TP, which is soon over, and XSR, which is not; returns when XSR measures and TP is complete."""
    process = start_cli(tmp_path, "run", "tp", "xsr", DRIVE, *QUICK[:4], *LONG, "--json", "--out", "set", *more)
    assert process.stdout is not None
    over = {"tp": False, "xsr": False}
    for line in process.stdout:
        event = json.loads(line)
        over["tp"] |= event["event"] == "result" and event["test"] == "tp"
        over["xsr"] |= event["event"] == "step" and event["test"] == "xsr"
        if all(over.values()):
            return process
    raise AssertionError(f"the campaign ended by itself: {process.communicate()[1]}")


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_ctrl_c_stops_all_and_resume_goes_on(tmp_path: Path, jobs: str) -> None:
    process = started(tmp_path, "--jobs", jobs)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, errors
    assert [line for line in errors.splitlines() if line.startswith("flashgauge: ")] == errors.splitlines()
    folder = tmp_path / "set"
    assert run_json(folder / "tp")["state"] == "complete"
    assert run_json(folder / "xsr")["state"] == "interrupted"
    shown = run_cli(tmp_path, "show", "set")
    assert "1 of 2 tests complete" in shown.stdout
    kept = (folder / "tp" / "journal.jsonl").read_bytes()
    # Make the rest short, as nobody would: what is asked for is in campaign.json.
    plan = json.loads((folder / "campaign.json").read_text())
    plan["request"]["settings"] |= {f"xsr.group_{n}_minutes": "1" for n in (1, 2, 3)}
    (folder / "campaign.json").write_text(json.dumps(plan))
    again = run_cli(tmp_path, "resume", "set", "--jobs", jobs)
    assert again.returncode == 0, again.stderr
    assert "2 of 2 tests complete" in again.stdout
    assert (folder / "tp" / "journal.jsonl").read_bytes() == kept, "what is complete is kept"
    assert run_json(folder / "xsr")["state"] == "complete"
    assert run_json(folder / "xsr.ended-1")["state"] == "interrupted"
    assert run_cli(tmp_path, "resume", "set").returncode == 0, "nothing left to do is no error"


def test_resume_leaves_a_running_campaign_alone(tmp_path: Path) -> None:
    process = started(tmp_path)
    line = one_line(run_cli(tmp_path, "resume", "set"), 2)
    assert "is running" in line
    assert (tmp_path / "set" / "xsr" / "run.json").exists()
    assert not list((tmp_path / "set").glob("*.ended-*"))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130


def test_another_drive_or_other_settings_are_another_campaign(
    tmp_path: Path, finished: tuple[Path, list[dict[str, Any]]]
) -> None:
    folder = tmp_path / "set"
    shutil.copytree(finished[0], folder)
    (folder / "lat").rename(folder / "gone")
    plan = json.loads((folder / "campaign.json").read_text())
    for change, message in (
        ({"target": DRIVE.replace("1GB", "2GB")}, "another drive"),
        ({"settings": {**plan["request"]["settings"], "point_s": "0.1"}}, "other settings"),
    ):
        changed = {**plan, "request": {**plan["request"], **change}}
        (folder / "campaign.json").write_text(json.dumps(changed))
        assert message in one_line(run_cli(tmp_path, "resume", "set"), 2)
        assert not (folder / "lat").exists()
    (folder / "gone").rename(folder / "lat")
    run = run_json(folder / "lat")
    run["dut"]["serial"] = "another"
    (folder / "lat" / "run.json").write_text(json.dumps(run))
    report = build_campaign(folder)
    assert [item.kind for item in report.disclosures][:1] == [Kind.MIXED_DEVICES]
    assert not report.valid


@pytest.mark.parametrize("state", ["complete", "interrupted"])
def test_resume_does_not_take_another_namespace_for_the_drive(
    tmp_path: Path, finished: tuple[Path, list[dict[str, Any]]], state: str
) -> None:
    """Model, serial, firmware and size are the same; the identifier is not."""
    folder = tmp_path / "set"
    shutil.copytree(finished[0], folder)
    (folder / "lat").rename(folder / "gone")
    asked = read_campaign(folder)
    run = run_json(folder / "tp")
    here = Identity("S1", "eui.01", 10**9, "259:0", "7")
    run |= {"state": state, "device_description": {"identity": asdict(here)}}
    (folder / "tp" / "run.json").write_text(json.dumps(run))
    dut = DutInfo(**run["dut"])
    check_same(asked, folder, dut, here)
    check_same(asked, folder, dut, replace(here, major_minor="259:4", diskseq="9"))  # of another boot
    with pytest.raises(RequestError, match=r"tp is of another drive \(wwid eui\.01 there, eui\.02 here\)"):
        check_same(asked, folder, dut, replace(here, wwid="eui.02"))


def test_each_test_of_a_campaign_is_told_what_the_device_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that one which comes to another drive's name is not overwritten by the second test."""
    identity = Identity("S1", "eui.01", 10**9, "259:0", "7")
    told: list[RunRequest] = []
    monkeypatch.setattr(commands, "survey", lambda *_: (DutInfo(DRIVE, "simulated"), identity))
    monkeypatch.setattr(commands, "conduct", lambda request, *_: told.append(request))
    monkeypatch.setattr(commands, "_finish", lambda *_: None)
    asked = Campaign(("tp", "lat"), RunRequest("", DRIVE, consent="S1"), now_text())
    commands.run_campaign(asked, tmp_path / "set", commands.How(1, True))
    assert [(request.test, request.consent, request.seen) for request in told] == [
        ("tp", "S1", identity),
        ("lat", "S1", identity),
    ]
    assert "seen" not in {name for name, value in asked.to_json()["request"].items() if value is not None}


def test_reports_that_were_cut_off_are_made_up_for(
    cli: Cli, tmp_path: Path, finished: tuple[Path, list[dict[str, Any]]]
) -> None:
    folder = tmp_path / "set"
    shutil.copytree(finished[0], folder)
    for name in ("report.pdf", "histograms.hlog"):
        (folder / "tp" / name).unlink()
    assert cli("resume", "set").returncode == 0
    assert (folder / "tp" / "report.pdf").exists()


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_closed_pipe_does_not_end_a_campaign(tmp_path: Path, jobs: str) -> None:
    process = start_cli(tmp_path, "run", "tp", "lat", DRIVE, *QUICK, "--jobs", jobs, "--json", "--out", "set")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    process.stdout = None
    process.communicate(timeout=PATIENCE_S)
    for test in ("tp", "lat"):
        assert run_json(tmp_path / "set" / test)["state"] == "complete"


def test_sigterm_interrupts_and_a_lost_terminal_does_not(tmp_path: Path) -> None:
    process = started(tmp_path)
    process.send_signal(signal.SIGHUP)
    time.sleep(0.5)
    assert process.poll() is None
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130
    assert run_json(tmp_path / "set" / "xsr")["state"] == "interrupted"


def test_killed_with_its_children_gone_too(tmp_path: Path) -> None:
    """kill -9 of the campaign: no process stays behind, and the folder says what is missing."""
    process = started(tmp_path, "--jobs", "2")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.kill()
    process.communicate(timeout=PATIENCE_S)
    end = time.monotonic() + 20
    while any(_alive(child) for child in children) and time.monotonic() < end:
        time.sleep(0.1)
    assert not any(_alive(child) for child in children)
    assert run_json(tmp_path / "set" / "xsr")["state"] == "interrupted"
    report = build_campaign(tmp_path / "set")
    assert not report.complete
    assert any(line.startswith("xsr: ") for line in report.missing)


def _alive(pid: str) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_a_test_whose_process_dies_fails_alone(tmp_path: Path) -> None:
    process = started(tmp_path, "--jobs", "2")
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    for child in children:
        command = Path(f"/proc/{child}/cmdline").read_bytes()
        if b"spawn_main" in command:
            os.kill(int(child), signal.SIGKILL)
    output, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 1
    last = json.loads(output.splitlines()[-1])
    assert last["event"] == "campaign_result"
    assert last["tests"]["tp"]["state"] == "complete"
    assert last["tests"]["xsr"]["state"] == "running", "as a killed process leaves it"
    assert any("xsr" in line for line in last["missing"])


def test_put_aside_counts_up(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / "tp").mkdir()
        assert put_aside(tmp_path, "tp") == tmp_path / f"tp.ended-{number}"
    assert put_aside(tmp_path, "tp") is None
