"""The command line from outside: what it refuses and how, what a run leaves behind, and that it repeats itself."""

from __future__ import annotations

import csv
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from blockdevices import MIB
from conftest import SHORT, Cli, one_line, run_cli, run_json
from flashgauge.cli import main
from flashgauge.driver import Driver
from flashgauge.execute import RunRequest, execute, prepare
from flashgauge.measurement import Measurement
from flashgauge.report.export import write_data
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.simulated import SimulatedRig
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import HostInfo, Run, RunFolder, read_journal
from flashgauge.spec.iops import TRACKING
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import Label, Measure, Step, Stimulus, Stop

SIM = "sim:sata-enterprise?capacity=1GB"
FILES = (
    "run.json",
    "journal.jsonl",
    "measurements.parquet",
    "intervals.parquet",
    "histograms.hlog",
    "report.html",
    "report.pdf",
)

# What was typed, and what the one line must name. Where a cure exists, it is what is looked for.
WRONG_RUNS = {
    "unknown test": (("nosuch", SIM), "iops"),
    "unknown preset": (("iops", "sim:nosuch"), "sata-enterprise"),
    "no preset": (("iops", "sim:"), "sim:sata-enterprise"),
    "no target at all": (("iops",), "TARGET"),
    "no kind of target": (("iops", "nvme0n1"), "/dev/NAME"),
    "capacity 0": (("iops", "sim:sata-enterprise?capacity=0"), "capacity"),
    "capacity negative": (("iops", "sim:sata-enterprise?capacity=-8GB"), "-8GB"),
    "capacity garbage": (("iops", "sim:sata-enterprise?capacity=many"), "many"),
    "capacity without a value": (("iops", "sim:sata-enterprise?capacity="), "not a size"),
    "capacity given twice": (("iops", "sim:sata-enterprise?capacity=1GB&capacity=2GB"), "twice"),
    "capacity too large to be": (("iops", "sim:sata-enterprise?capacity=999999999999PB"), "capacity"),
    "drive parameter unknown": (("iops", f"{SIM}&warp_factor=9"), "warp_factor"),
    "drive parameter garbage": (("iops", f"{SIM}&channels=several"), "channels"),
    "drive seed garbage": (("iops", f"{SIM}&seed=x"), "seed"),
    "seed negative": (("iops", SIM, "--seed", "-1"), "--seed"),
    "seed too large": (("iops", SIM, "--seed", str(2**64)), "seed"),
    "class unknown": (("iops", SIM, "--class", "toy"), "enterprise"),
    "option unknown": (("iops", SIM, "--fast"), "--fast"),
    "missing device": (("iops", "/dev/nosuch-device", "--consent", "x"), "lsblk"),
    "character device": (("iops", "/dev/null", "--consent", "null"), "character device"),
    "folder as device": (("iops", "/tmp", "--consent", "tmp"), "not a block device"),
    "missing file without size": (("iops", "file:missing.bin"), "size"),
    "file in a missing folder": (("iops", "file:none/missing.bin?size=64MiB"), "folder"),
    "file option unknown": (("iops", "file:new.bin?capacity=64MiB"), "size"),
    "set unknown": (("iops", SIM, "--set", "warp=9"), "point_s"),
    "set without =": (("iops", SIM, "--set", "point_s"), "NAME=VALUE"),
    "set without name": (("iops", SIM, "--set", "=1"), "NAME=VALUE"),
    "set twice": (("iops", SIM, "--set", "point_s=1", "--set", "point_s=2"), "twice"),
    "set garbage": (("iops", SIM, "--set", "point_s=soon"), "point_s"),
    "set too small": (("iops", SIM, "--set", "point_s=0"), "point_s"),
    "set negative": (("iops", SIM, "--set", "queue_depth=-1"), "queue_depth"),
    "set not whole": (("iops", SIM, "--set", "queue_depth=1.5"), "queue_depth"),
    "set not a number": (("iops", SIM, "--set", "point_s=NaN"), "point_s"),
    "set infinite": (("iops", SIM, "--set", "point_s=1e999"), "point_s"),
    "set over 100 %": (("iops", SIM, "--set", "active_range_percent=101"), "100"),
    "set too few rounds": (("iops", SIM, "--set", "max_rounds=4"), "max_rounds"),
    "set without a tracking variable": (("iops", SIM, "--set", "read_percents=100,0"), "RND 64 KiB RW65"),
    "set no sector multiple": (("iops", SIM, "--set", "wipc_block_kib=0.75"), "0.5 KiB"),
    "set empty list": (("iops", SIM, "--set", "read_percents="), "read_percents"),
    # Values no machine can do: they must not end in an overflow or a failed allocation.
    "set far too many capacities": (("iops", SIM, "--set", "wipc_capacities=1e300"), "wipc_capacities"),
    "set far too many threads": (("iops", SIM, "--set", "thread_count=4294967296"), "thread_count"),
    "set a range too small": (("iops", SIM, "--set", "active_range_percent=0.1"), "cannot do round 1"),
    "set a list in a list": (("iops", SIM, "--set", "read_percents=[1]"), "read_percents"),
}


@pytest.fixture
def within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Cli:
    """`flashgauge ARGUMENTS...` inside this process, which saves half a second per case."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "argv", ["flashgauge", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        told = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code or 0, told.out, told.err)

    monkeypatch.chdir(tmp_path)
    return call


@pytest.mark.parametrize("case", WRONG_RUNS)
def test_wrong_input_is_one_line_and_leaves_nothing(within: Cli, tmp_path: Path, case: str) -> None:
    arguments, named = WRONG_RUNS[case]
    result = within("run", *arguments)
    assert named in one_line(result, 2)
    assert not result.stdout
    assert not list(tmp_path.iterdir())


def test_queue_depth_that_no_machine_has_is_refused(cli: Cli, tmp_path: Path) -> None:
    """From outside: what fails below Python may take the whole process with it."""
    assert "queue_depth" in one_line(cli("run", "iops", SIM, "--set", "queue_depth=1000000000"), 2)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("case", ["unknown preset", "capacity 0", "missing device", "option unknown"])
def test_wrong_input_from_outside(cli: Cli, tmp_path: Path, case: str) -> None:
    """The same as a user sees it: the exit code of the process, and no traceback from below Python either."""
    arguments, named = WRONG_RUNS[case]
    result = cli("run", *arguments)
    assert named in one_line(result, 2)
    assert not result.stdout
    assert not list(tmp_path.iterdir())


def test_folder_as_file_target(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    assert "a folder" in one_line(cli("run", "iops", "file:folder?size=64MiB"), 2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["folder"]


def test_file_smaller_than_the_test_needs(cli: Cli, tmp_path: Path) -> None:
    """1 MiB blocks do not fit, nor does one for each of the four threads; a file made for the run goes again."""
    file = tmp_path / "small.bin"
    file.write_bytes(b"x" * 4096)
    assert "too small" in one_line(cli("run", "iops", "file:small.bin", "--consent", "small.bin"), 2)
    assert file.read_bytes() == b"x" * 4096
    assert "too small" in one_line(cli("run", "iops", "file:new.bin?size=3MiB"), 2)
    assert [entry.name for entry in tmp_path.iterdir()] == ["small.bin"]


def test_file_with_contents_needs_consent_by_its_name(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "precious.bin"
    file.write_bytes(b"precious" * MIB)
    assert "--consent precious.bin" in one_line(cli("run", "iops", "file:precious.bin"), 2)
    wrong = one_line(cli("run", "iops", "file:precious.bin", "--consent", "yes"), 2)
    assert "yes" in wrong
    assert "--consent precious.bin" in wrong
    assert file.read_bytes() == b"precious" * MIB
    assert [entry.name for entry in tmp_path.iterdir()] == ["precious.bin"]


def test_block_device_needs_consent_by_its_name(cli: Cli, tmp_path: Path, loop_device: str) -> None:
    name = Path(loop_device).name
    before = Path(loop_device).open("rb").read(MIB)  # noqa: SIM115
    assert f"--consent {name}" in one_line(cli("run", "iops", loop_device), 2)
    assert f"--consent {name}" in one_line(cli("run", "iops", loop_device, "--consent", "yes"), 2)
    assert Path(loop_device).open("rb").read(MIB) == before  # noqa: SIM115
    assert not (tmp_path / "runs").exists()


def test_out_that_exists_is_never_written_to(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "file").write_text("mine")
    assert "never overwritten" in one_line(cli("run", "iops", SIM, *SHORT, "--out", "old"), 2)
    assert "never overwritten" in one_line(cli("run", "iops", SIM, *SHORT, "--out", "file"), 2)
    assert not list((tmp_path / "old").iterdir())
    assert (tmp_path / "file").read_text() == "mine"


def test_out_that_cannot_be_made(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    line = one_line(cli("run", "iops", SIM, *SHORT, "--out", "file/run"), 2)
    assert "file" in line
    if os.geteuid() == 0:
        # Root writes through permissions; /proc refuses even root.
        one_line(cli("run", "iops", SIM, *SHORT, "--out", "/proc/flashgauge-test/run"), 2)
    else:
        (tmp_path / "locked").mkdir(mode=0o500)
        assert "denied" in one_line(cli("run", "iops", SIM, *SHORT, "--out", "locked/run"), 2)


@pytest.mark.parametrize("command", ["show", "report"])
def test_what_is_no_run_folder(within: Cli, tmp_path: Path, command: str) -> None:
    assert "nosuch" in one_line(within(command, "nosuch"), 2)
    (tmp_path / "empty").mkdir()
    assert "no run.json" in one_line(within(command, "empty"), 2)
    assert not list((tmp_path / "empty").iterdir())
    (tmp_path / "file").write_text("")
    assert "not a folder" in one_line(within(command, "file"), 2)
    for number, broken in enumerate(("", "{", "[]", '{"format_version": 99}', '{"format_version": 1}', "null")):
        folder = tmp_path / f"broken{number}"
        folder.mkdir()
        (folder / "run.json").write_text(broken)
        assert "run.json" in one_line(within(command, str(folder)), 2)


@pytest.mark.parametrize("command", ["show", "report"])
def test_corruption_in_the_middle_of_the_journal_is_named(
    within: Cli, tmp_path: Path, finished_run: Path, command: str
) -> None:
    """A torn end is what a crash leaves; a damaged middle is not, and no figure may be made of it."""
    lines = (finished_run / "journal.jsonl").read_bytes().splitlines(keepends=True)
    damaged = {
        "cut": [*lines[:4], lines[4][: len(lines[4]) // 2] + b"\n", *lines[5:]],
        "garbage": [*lines[:4], b"\x00\xff\xfe\n", *lines[5:]],
        "missing": [*lines[:4], *lines[5:]],
        "no object": [*lines[:4], b"7\n", *lines[5:]],
        "twice": [*lines[:5], *lines[4:]],
    }
    for name, content in damaged.items():
        folder = tmp_path / name.replace(" ", "-")
        folder.mkdir()
        shutil.copy(finished_run / "run.json", folder)
        (folder / "journal.jsonl").write_bytes(b"".join(content))
        line = one_line(within(command, str(folder)), 2)
        assert "journal.jsonl" in line, name
        assert "line 5" in line or "line 6" in line, (name, line)


def test_help_and_version(within: Cli) -> None:
    for arguments in (("--help",), ("run", "--help"), ("show", "--help"), ("report", "--help")):
        result = within(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert "Usage" in result.stdout
    version = within("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert version.stdout.startswith("flashgauge ")
    assert "2.0.1" in version.stdout


@pytest.mark.clause("5")
def test_a_run_leaves_every_file_and_says_that_it_was_shortened(finished_run: Path) -> None:
    for name in FILES:
        assert (finished_run / name).stat().st_size > 0, name
    run = run_json(finished_run)
    assert run["state"] == "complete"
    changed = [item["message"] for item in run["disclosures"] if item["kind"] == "parameter_changed"]
    assert {message.split()[0] for message in changed} == {"point_s", "wipc_capacities", "max_rounds"}
    assert all(item["invalidates"] for item in run["disclosures"] if item["kind"] == "parameter_changed")
    assert "INVALID AS A PTS RESULT" in (finished_run / "report.html").read_text()
    entries, torn = read_journal(finished_run)
    assert not torn
    frame = pl.read_parquet(finished_run / "measurements.parquet")
    assert frame.height == len(entries)
    assert frame["read_ios"].to_list() == [entry.measurement.read.ios for entry in entries]


@pytest.mark.clause("7.2")
def test_json_is_one_object_per_line(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", "iops", SIM, *SHORT, "--json", "--out", "run")
    assert (result.returncode, result.stderr) == (0, "")
    events = [json.loads(line) for line in result.stdout.splitlines()]
    assert all(isinstance(event, dict) for event in events)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "begin"
    assert kinds[-1] == "result"
    rounds = [event["round"] for event in events if event["event"] == "round"]
    assert rounds == list(range(1, len(rounds) + 1))
    assert kinds.count("step") == 1 + 56 * len(rounds)
    points = [event for event in events if event["event"] == "step" and event["label"]["round"] == 1]
    assert {(p["label"]["read_percent"], p["label"]["block_bytes"]) for p in points} >= set(TRACKING.values())
    assert all(point["iops"] > 0 for point in points)
    facts = events[-1]
    assert facts["state"] == "complete"
    assert facts["valid_pts_result"] is False
    assert not facts["missing"]
    assert all((tmp_path / path).exists() for path in facts["reports"])


def test_show_and_report_work_from_a_folder_moved_elsewhere(cli: Cli, tmp_path: Path, finished_run: Path) -> None:
    moved = tmp_path / "somewhere else" / "run"
    moved.parent.mkdir()
    moved.mkdir()
    for name in ("run.json", "journal.jsonl"):
        shutil.copy(finished_run / name, moved)

    shown = cli("show", moved)
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "INVALID AS A PTS RESULT" in shown.stdout
    assert "sata-enterprise" in shown.stdout
    assert all(name in shown.stdout for name in TRACKING)
    facts = json.loads(cli("show", moved, "--json").stdout)
    assert facts["state"] == "complete"
    assert facts["valid_pts_result"] is False
    assert sorted(entry.name for entry in moved.iterdir()) == ["journal.jsonl", "run.json"]  # show writes nothing

    reported = cli("report", moved, "--csv")
    assert (reported.returncode, reported.stderr) == (0, "")
    paths = [tmp_path / line for line in reported.stdout.splitlines()]
    assert paths
    assert all(path.exists() for path in paths), reported.stdout
    tables = list(moved.rglob("*.csv"))
    assert any("7-3" in table.name for table in tables)
    for table in tables:
        with table.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > 1, table
        assert {len(row) for row in rows} == {len(rows[0])}, table
    assert not (moved / "report.html").exists()  # only what was asked for

    assert cli("report", moved, "--html", "--pdf").returncode == 0
    assert (moved / "report.pdf").read_bytes().startswith(b"%PDF")
    assert "</html>" in (moved / "report.html").read_text()


class Silent:
    """An observer that only counts."""

    def __init__(self) -> None:
        self.ios = 0

    def step_done(self, step: Step, measurement: Measurement) -> None:
        self.ios += measurement.ios

    def __getattr__(self, name: str) -> object:
        return lambda *_: None


def run_here(folder: Path, target: str = SIM, **more: Any) -> dict[str, Any]:
    """The shortened run of `finished_run`, in this process and without its reports; returns run.json."""
    settings = dict(text.split("=") for text in SHORT[1::2])
    request = RunRequest("iops", target, out=folder, settings=settings, **more)
    execute(request, prepare(request), Silent())
    return run_json(folder)


@pytest.mark.clause("6.rng")
def test_equal_seeds_give_equal_journals_and_others_do_not(tmp_path: Path, finished_run: Path) -> None:
    """To the last bit, and from process to process: the journal holds no wall time, only the drive's virtual clock."""
    journal = (finished_run / "journal.jsonl").read_bytes()
    assert run_json(finished_run)["seed"] == 1
    assert run_here(tmp_path / "same", seed=1)["seed"] == 1
    assert (tmp_path / "same/journal.jsonl").read_bytes() == journal
    assert run_here(tmp_path / "other", f"{SIM}&seed=2")["seed"] == 2
    assert (tmp_path / "other/journal.jsonl").read_bytes() != journal


@pytest.mark.clause("3.6")
@pytest.mark.clause("3.7")
def test_client_class(tmp_path: Path) -> None:
    run = run_here(tmp_path / "run", device_class=DeviceClass.CLIENT)
    wanted = {"thread_count": 2, "queue_depth": 16, "write_cache_enabled": True, "active_range_percent": 75.0}
    assert run["device_class"] == "client"
    assert {name: run["parameters"][name] for name in wanted} == wanted
    assert run["write_cache"].startswith("enabled")
    # The class's own values are the standard's: none of them is a departure.
    changed = {item["message"].split()[0] for item in run["disclosures"] if item["kind"] == "parameter_changed"}
    assert changed == {"point_s", "wipc_capacities", "max_rounds"}


@pytest.mark.clause("5")
@pytest.mark.parametrize(("threads", "depth", "read_percent"), [(1, 1, 100), (4, 32, 65), (3, 7, 0)])
def test_10007_ios_asked_are_10007_in_every_layer(tmp_path: Path, threads: int, depth: int, read_percent: int) -> None:
    """A prime number, so that no layer can get it right by rounding to its threads, batches or intervals."""
    stimulus = Stimulus("random", ((4096, 3), (512, 1)), read_percent, threads, depth)
    label = Label("round", 1, read_percent, 4096)

    def spec() -> Generator[Step, Measurement | None, Measurement | None]:
        # Twice, so that an I/O left over from the first would turn up in the second.
        yield Measure(stimulus, Stop(ios=10_007), label)
        return (yield Measure(stimulus, Stop(ios=10_007), label))

    target = parse_target("sim:sata-enterprise?capacity=1GB")
    rig = SimulatedRig(target, SessionNeeds(threads, depth, 4096, seed=3))
    observer = Silent()
    run = Run("iops", "enterprise", rig.dut, HostInfo(), {}, [], 3, {}, "2026-01-01T00:00:00+00:00")
    with RunFolder(tmp_path / "run", run) as folder:
        returned = Driver(rig, folder, observer, gap_limit_ms=1.0).run(spec())
    rig.close()

    assert observer.ios == 2 * 10_007
    assert returned is not None
    entries, torn = read_journal(tmp_path / "run")
    assert (len(entries), torn) == (2, False)
    for entry in entries:
        m = entry.measurement
        assert m.submitted_ios == 10_007  # workload and engine
        assert m.read.ios + m.write.ios == m.ios == 10_007  # recorder
        assert m.read.histogram.count + m.write.histogram.count == m.histogram.count == 10_007
        assert m.read.window_ios + m.write.window_ios + m.late_ios == 10_007
        assert sum(m.intervals.read_ios) + sum(m.intervals.write_ios) == m.read.window_ios + m.write.window_ios
        assert sum(m.intervals.read_bytes) + sum(m.intervals.write_bytes) == m.read.window_bytes + m.write.window_bytes
        assert m.error_ios == 0
        # Known sizes: 512 bytes and 4 KiB make up the bytes exactly, in about the asked shares.
        sectors = (m.read.bytes + m.write.bytes) // 512
        large, rest = divmod(sectors - 10_007, 7)
        assert rest == 0
        assert large / 10_007 == pytest.approx(0.75, abs=0.03)
        if read_percent in (0, 100):
            assert (m.read.ios if read_percent else m.write.ios) == 10_007
    assert entries[1].measurement.to_json() | {"host": None} == returned.to_json() | {"host": None}
    write_data(tmp_path / "run")
    frame = pl.read_parquet(tmp_path / "run/measurements.parquet")
    assert (frame["read_ios"] + frame["write_ios"]).to_list() == [10_007, 10_007]
    assert frame["submitted_ios"].to_list() == [10_007, 10_007]


def test_every_io_of_a_run_is_in_its_report(tmp_path: Path, finished_run: Path) -> None:
    """Each cell of plot 7-3 against the journal, summed anew: average over the window's rounds of I/Os per second."""
    run_cli(tmp_path, "report", shutil.copytree(finished_run, tmp_path / "run"), "--csv")
    entries, _ = read_journal(finished_run)
    window = entries[-5 * 56 :]
    (table,) = (tmp_path / "run").rglob("plot-7-3.csv")
    with table.open(newline="") as file:
        rows = list(csv.reader(file))
    cells = [float(cell) for row in rows[1:] for cell in row[1:]]
    counted: dict[tuple[int | None, int | None], list[float]] = {}
    for entry in window:
        m = entry.measurement
        ios = m.read.window_ios + m.write.window_ios
        counted.setdefault((entry.label.read_percent, entry.label.block_bytes), []).append(ios / (m.window_ns / 1e9))
    wanted = [sum(values) / len(values) for values in counted.values()]
    assert sorted(cells) == pytest.approx(sorted(wanted), rel=1e-12)


def test_a_closed_pipe_does_not_end_a_run(tmp_path: Path) -> None:
    """`flashgauge run ... --json | head -1`: a run of hours must not die with the terminal that watched it."""
    folder = tmp_path / "run"
    command = [
        str(Path(sys.executable).parent / "flashgauge"),
        "run",
        "iops",
        SIM,
        *SHORT,
        "--json",
        "--out",
        str(folder),
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == ""
    assert process.returncode == 0
    assert run_json(folder)["state"] == "complete"
    assert (folder / "report.pdf").exists()
