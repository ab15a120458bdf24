"""Steps as fio job files: read by the installed fio, and what fio then does."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from flashgauge import fiorange
from flashgauge.cli import app
from flashgauge.fioexport import NOMINAL_BYTES, export
from flashgauge.fiojob import MOST_FIO_JOBS, Group, grouped, job_files
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS
from flashgauge.steps import KIB, Idle, Label, LbaGroup, Measure, Precondition, Purge, Step, Stimulus, Stop
from scripted import play, settling, steady

MIB = KIB * KIB
FILE_BYTES = 32 * MIB
COMPOSITE_GROUPS = (LbaGroup(0, 5, 50), LbaGroup(5, 20, 30), LbaGroup(20, 100, 20))

needs_fio = pytest.mark.skipif(shutil.which("fio") is None, reason="fio is not installed: apt-get install fio")


def measure(stimulus: Stimulus, stop: Stop, number: int | None = None, purpose: str = "round") -> Measure:
    return Measure(stimulus, stop, Label(purpose, number=number))


def one_job(step: Step, capacity_bytes: int | None = FILE_BYTES) -> dict[str, str]:
    """The options of the only job."""
    (text,) = job_files("a test", [step], capacity_bytes, FILE_BYTES)
    jobs = sections(text)
    assert len(jobs) == 1
    return jobs[0]


def sections(text: str) -> list[dict[str, str]]:
    """Options of each job, `global` left out."""
    jobs = re.split(r"^\[(?!global)[^]]+\]$", text, flags=re.M)[1:]
    lines = [[line for line in job.splitlines() if line and not line.startswith("#")] for job in jobs]
    return [dict(line.partition("=")[::2] for line in job) for job in lines]


def fio(text: str, folder: Path, *options: str, device: Path | None = None) -> str:
    job = folder / "steps.fio"
    job.write_text(text)
    command = ["fio", *options, str(job)]
    environment = {**os.environ, "DUT": str(device or folder / "disk.img")}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, cwd=folder)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def run_fio(steps: Sequence[Step], folder: Path, capacity_bytes: int | None = FILE_BYTES) -> list[dict]:
    disk = folder / "disk.img"
    disk.write_bytes(bytes(FILE_BYTES))
    (text,) = job_files("a test", steps, capacity_bytes, FILE_BYTES)
    # Beside the options under test: a log of every I/O of each job.
    text = re.sub(r"^stonewall$", "stonewall\nwrite_iolog=${DUT}.log.$jobname", text, flags=re.M)
    text = re.sub(r"^\[(\d{4})-[^]]+\]$", r"[job\1]", text, flags=re.M)
    text = re.sub(r"\$jobname", "X", text)
    for number in range(1, len(sections(text)) + 1):
        text = text.replace("write_iolog=${DUT}.log.X", f"write_iolog=log-{number}", 1)
    try:
        out = fio(text, folder, "--output-format=json")
    except AssertionError as error:
        if "io_uring" in str(error) and "engine" in str(error):
            pytest.skip("this fio has no io_uring")
        raise
    return json.loads(out[out.index("{") :])["jobs"]


def logged(folder: Path, number: int = 1) -> list[tuple[str, int, int]]:
    """(operation, offset, bytes) of a job's I/Os."""
    words = [line.split() for line in (folder / f"log-{number}").read_text().splitlines()]
    return [(w[-3], int(w[-2]), int(w[-1])) for w in words if len(w) >= 4 and w[-3] in {"read", "write"}]


# Whole tests


@needs_fio
@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("device_class", list(DeviceClass))
@pytest.mark.parametrize("target", [None, "sim:sata-enterprise"])
def test_fio_reads_the_job_file_of_every_test(
    test: str, device_class: DeviceClass, target: str | None, tmp_path: Path
) -> None:
    _, parts = export(test, target, device_class, {})
    (tmp_path / "disk.img").write_bytes(bytes(4096))
    for text in parts:
        assert fio(text, tmp_path, "--parse-only") == ""
        shown = fio(text, tmp_path, "--showcmd")
        assert shown.count("--name=") == len(sections(text)), "each job is read"
        assert shown.count("--stonewall") == len(sections(text))


@pytest.mark.parametrize("test", list(TESTS))
@pytest.mark.parametrize("device_class", list(DeviceClass))
def test_every_step_is_in_the_file(test: str, device_class: DeviceClass) -> None:
    """All seconds, bursts, and threads of the plan; nothing twice."""
    steps = play(test, settling(5, steady()), device_class=device_class).steps
    groups = [item for item in grouped(steps) if isinstance(item, Group)]
    numbers = [number for group in groups for number in range(group.first, group.last + 1)]
    io_steps = [step for step in steps if isinstance(step, Precondition | Measure)]
    assert numbers == list(range(1, len(io_steps) + 1))
    for group in groups:
        for step in io_steps[group.first - 1 : group.last]:
            assert (step.stimulus, step.stop) == (group.step.stimulus, group.step.stop)
    texts = job_files(test, steps, None, NOMINAL_BYTES)
    assert sum(len(sections(text)) for text in texts) == len(groups)
    assert sum(text.count(" is purged: ") for text in texts) == sum(isinstance(step, Purge) for step in steps)
    idle_s = sum(step.seconds for step in steps if isinstance(step, Idle))
    assert idle_s == pytest.approx(sum(group.count * group.idle_s for group in groups))


def test_a_file_never_has_more_jobs_than_fio_takes() -> None:
    stimulus = Stimulus("random", ((4096, 1),), 0, 1000, 1)
    steps = [measure(stimulus, Stop(seconds=1), purpose=f"no {n}") for n in range(9)]
    parts = job_files("a test", steps, FILE_BYTES, FILE_BYTES)
    assert [len(sections(text)) for text in parts] == [4, 4, 1]
    assert all(sum(int(job["numjobs"]) for job in sections(text)) <= MOST_FIO_JOBS for text in parts)
    assert all(f"Part {number} of 3" in text for number, text in enumerate(parts, 1))


# One step


def test_every_part_of_a_stimulus_is_exported() -> None:
    """A field that is added to the stimulus must be thought of here."""
    known = {
        "access", "block_sizes", "read_percent", "thread_count", "queue_depth", "active_range_percent", "groups",
        "entropy_percent", "alignment_bytes", "sequential_percent", "rate_iops", "arrivals",
    }  # fmt: skip
    assert {field.name for field in dataclasses.fields(Stimulus)} == known


def test_bursts_and_idle_times_are_one_job() -> None:
    stimulus = Stimulus("random", ((4096, 1),), 0, 4, 32)
    burst = Stop(seconds=5, then_idle=True)
    steps: list[Step] = []
    for number in range(1, 4):
        steps += [measure(stimulus, burst, number, "wait 10 s"), Idle(10.0)]
    steps += [measure(stimulus, Stop(seconds=5), 1, "baseline")]
    (text,) = job_files("hir", steps, None, FILE_BYTES)
    waits, baseline = sections(text)
    assert (waits["thinktime"], waits["thinktime_iotime"], waits["runtime"]) == ("10s", "5s", "45s")
    assert "thinktime" not in baseline and baseline["runtime"] == "5s"


def test_idling_that_no_job_can_hold_is_said() -> None:
    stimulus = Stimulus("random", ((4096, 1),), 0, 1, 1)
    burst = Stop(seconds=1, then_idle=True)
    one, other = measure(stimulus, burst, 1), measure(stimulus, burst, 2)
    (text,) = job_files("a test", [one, Idle(1.0), other, Idle(2.0)], None, FILE_BYTES)
    first, second = sections(text)
    assert first["thinktime"] == "1s" and second["thinktime"] == "2s", "unlike idle times are jobs of their own"
    (text,) = job_files("a test", [measure(stimulus, Stop(seconds=1)), Idle(3.0)], None, FILE_BYTES)
    assert "idles for 3 s" in text


def test_ranges_of_several_threads_are_disjoint_and_within() -> None:
    stimulus = Stimulus("sequential", ((128 * KIB, 1),), 0, 3, 8, (10.0, 75.0))
    step = measure(stimulus, Stop(bytes=2 * FILE_BYTES))
    job = one_job(step)
    offset, size = int(job["offset"]), int(job["size"])
    assert offset % 4096 == 0 and size % (128 * KIB) == 0
    assert int(job["offset_increment"]) == size
    assert offset >= 0.1 * FILE_BYTES and offset + 3 * size <= 0.75 * FILE_BYTES
    assert 3 * int(job["io_size"]) >= 2 * FILE_BYTES > 3 * int(job["io_size"]) - 3 * 128 * KIB


def test_shares_stand_for_bytes_where_the_device_is_not_known() -> None:
    whole = Stimulus("sequential", ((128 * KIB, 1),), 0, 1, 32)
    job = one_job(measure(whole, Stop(bytes=2 * FILE_BYTES)), None)
    assert (job["size"], job["loops"]) == ("100%", "2")
    job = one_job(measure(whole, Stop(bytes=FILE_BYTES // 4)), None)
    assert (job["size"], job["io_size"]) == ("100%", "25%") and "loops" not in job
    part = dataclasses.replace(whole, active_range_percent=(0.0, 33.3))
    (text,) = job_files("a test", [measure(part, Stop(seconds=1))], None, FILE_BYTES)
    assert "size=33%" in text and "33.3 % of the device" in text


def test_groups_are_zones_exactly_also_where_they_overlap() -> None:
    def of(*groups: LbaGroup, capacity: int | None = FILE_BYTES) -> str:
        stimulus = Stimulus("groups", ((4096, 1),), 0, 1, 1, groups=groups)
        return one_job(measure(stimulus, Stop(seconds=1)), capacity)["random_distribution"]

    assert of(*COMPOSITE_GROUPS) == "zoned:50/5:30/15:20/80"
    assert of(LbaGroup(10, 20, 100)) == "zoned:0/10:100/10:0/80"
    assert of(LbaGroup(0, 50, 50), LbaGroup(0, 100, 50)) == "zoned:75/50:25/50"
    kind, _, parts = of(LbaGroup(0, 12.5, 90), LbaGroup(12.5, 100, 10)).partition(":")
    assert kind == "zoned_abs"
    assert parts == f"90/{FILE_BYTES // 8}:10/{FILE_BYTES // 8 * 7}"
    assert of(LbaGroup(0, 12.5, 90), LbaGroup(12.5, 100, 10), capacity=None) in {
        "zoned:90/12:10/88",
        "zoned:90/13:10/87",
    }


def test_what_fio_cannot_is_said() -> None:
    stimulus = Stimulus("random", ((4096, 1), (8192, 2)), 33.3, 2, 1)
    (text,) = job_files("a test", [measure(stimulus, Stop(ios=7))], FILE_BYTES, FILE_BYTES)
    for said in ("33.3 % reads are 33 %", "shares here are rounded", "aligns all sizes to 4096", "7 I/Os over all"):
        assert said in text, said


@needs_fio
def test_a_fixed_rate_is_split_over_threads_and_directions(tmp_path: Path) -> None:
    stimulus = Stimulus("random", ((4096, 1),), 75, 2, 8, rate_iops=400, arrivals="poisson")
    job = one_job(measure(stimulus, Stop(seconds=1)))
    assert (job["rate_iops"], job["rate_process"]) == ("150,50", "poisson")
    (text,) = job_files("a test", [measure(stimulus, Stop(seconds=1))], None, FILE_BYTES)
    assert fio(text, tmp_path, "--parse-only") == ""
    assert text.count("fio's rate") == 1 and text.count("\nrate_iops=") == text.count("\nrate_process=") == 1
    assert "latency begins when it is issued" in text


@needs_fio
@pytest.mark.parametrize("weights", [(3, 3, 2), (1, 1, 1), (1,) * 7, (1, 2, 1000), (1,) * 60 + (900,)])
def test_shares_of_block_sizes_sum_to_100(weights: tuple[int, ...], tmp_path: Path) -> None:
    sizes = [4096 * (n + 1) for n in range(len(weights))]
    stimulus = Stimulus("random", tuple(zip(sizes, weights, strict=True)), 0, 1, 1)
    (text,) = job_files("a test", [measure(stimulus, Stop(seconds=1))], None, FILE_BYTES)
    split = [part.split("/") for part in sections(text)[0]["bssplit"].split(":")]
    assert [int(size) for size, _ in split] == sizes
    percents = [int(percent) for _, percent in split]
    assert sum(percents) == 100 and min(percents) >= 1
    shares = [100 * weight / sum(weights) for weight in weights]
    if min(shares) >= 1:  # smaller ones take from the others
        assert all(abs(whole - share) < 1 for whole, share in zip(percents, shares, strict=True))
    assert fio(text, tmp_path, "--parse-only") == ""


@needs_fio
@pytest.mark.parametrize("block", [4 * KIB, 128 * KIB])
def test_what_fio_writes_is_new_throughout(block: int, tmp_path: Path) -> None:
    """Not the same buffers with a few bytes of each sector changed."""
    stimulus = Stimulus("sequential", ((block, 1),), 0, 1, 4)
    run_fio([measure(stimulus, Stop(bytes=FILE_BYTES // 2))], tmp_path)
    written = (tmp_path / "disk.img").read_bytes()[: FILE_BYTES // 2]
    assert len({written[at : at + 64] for at in range(0, len(written), 64)}) == len(written) // 64


# What fio does


@needs_fio
def test_fio_issues_the_ios_of_the_step(tmp_path: Path) -> None:
    """A prime number of I/Os in the step's sizes, mix and range, and random ones that do not repeat."""
    sizes = ((4 * KIB, 60), (8 * KIB, 30), (16 * KIB, 10))
    stimulus = Stimulus("random", sizes, 65, 1, 8, (25.0, 75.0), alignment_bytes=4096)
    (job,) = run_fio([measure(stimulus, Stop(ios=4001))], tmp_path)
    assert job["read"]["total_ios"] + job["write"]["total_ios"] == 4001
    ios = logged(tmp_path)
    assert len(ios) == 4001
    for size, percent in sizes:
        assert 100 * sum(b == size for *_, b in ios) / 4001 == pytest.approx(percent, abs=4)
    assert 100 * sum(op == "read" for op, *_ in ios) / 4001 == pytest.approx(65, abs=4)
    offsets = [offset for _, offset, _ in ios]
    assert all(offset % 4096 == 0 for offset in offsets)
    assert min(offsets) >= FILE_BYTES // 4 and max(o + b for _, o, b in ios) <= FILE_BYTES * 3 // 4
    assert min(offsets) < 0.26 * FILE_BYTES and max(offsets) > 0.74 * FILE_BYTES, "the whole range"
    run_fio([measure(stimulus, Stop(ios=4001))], tmp_path)
    assert [offset for _, offset, _ in logged(tmp_path)] != offsets, "randrepeat is off"


@needs_fio
@pytest.mark.parametrize("groups", [COMPOSITE_GROUPS, (LbaGroup(0, 12.5, 60), LbaGroup(12.5, 100, 40))])
def test_fio_hits_the_groups_with_their_shares(groups: tuple[LbaGroup, ...], tmp_path: Path) -> None:
    stimulus = Stimulus("groups", ((4096, 1),), 0, 1, 8, (0.0, 50.0), groups=groups)
    run_fio([measure(stimulus, Stop(ios=5003))], tmp_path)
    ios = logged(tmp_path)
    for group in groups:
        low, high = (FILE_BYTES / 2 * end / 100 for end in (group.start_percent, group.end_percent))
        hits = sum(low - 4096 <= offset < high for _, offset, _ in ios)
        assert 100 * hits / len(ios) == pytest.approx(group.probability_percent, abs=4)


@needs_fio
@pytest.mark.parametrize("capacity_bytes", [FILE_BYTES, None])
def test_fio_writes_the_range_once_for_each_capacity(capacity_bytes: int | None, tmp_path: Path) -> None:
    stimulus = Stimulus("sequential", ((128 * KIB, 1),), 0, 4, 4)
    step = Precondition(stimulus, Stop(bytes=2 * FILE_BYTES, keep_loaded=True), Label("wipc"))
    (job,) = run_fio([step], tmp_path, capacity_bytes)
    assert job["write"]["io_bytes"] == 2 * FILE_BYTES
    assert job["write"]["total_ios"] == 2 * FILE_BYTES // (128 * KIB)


@needs_fio
def test_fio_takes_its_time(tmp_path: Path) -> None:
    """Two jobs one after the other; the bursts of the first are apart, and their idle times in the job's."""
    stimulus = Stimulus("random", ((4096, 1),), 100, 1, 1)
    burst = Stop(seconds=0.2, then_idle=True)
    steps: list[Step] = []
    for number in (1, 2, 3):
        steps += [measure(stimulus, burst, number, "wait"), Idle(0.3)]
    steps.append(measure(stimulus, Stop(seconds=0.4), purpose="baseline"))
    bursts, baseline = run_fio(steps, tmp_path)
    # A busy machine makes everything longer, nothing shorter.
    assert bursts["job_runtime"] >= 1480 and baseline["job_runtime"] >= 380
    words = [line.split() for line in (tmp_path / "log-1").read_text().splitlines()]
    at_us = [int(word[0]) for word in words if len(word) == 5]
    assert sum(after - before >= 280_000 for before, after in pairwise(at_us)) >= 2, "the last is followed by the end"


# The command


def test_the_command_prints_a_tests_file() -> None:
    result = CliRunner().invoke(app, ["export-fio", "iops", "--set", "point_s=1", "--set", "max_rounds=5"])
    assert result.exit_code == 0, result.output
    jobs = sections(result.output)
    assert len(jobs) == 1 + 5 * 56
    assert {job["runtime"] for job in jobs[1:]} == {"1s"}
    assert "SNIA PTS" in result.output and "DESTROYED" in result.output


def test_the_command_writes_the_files_of_a_run(tmp_path: Path) -> None:
    run = tmp_path / "run"
    target = "sim:sata-enterprise?capacity=1GiB"
    settings = [f"--set={setting}" for setting in ("point_s=0.05", "max_rounds=5")]
    done = CliRunner().invoke(app, ["run", "tp", target, "--out", str(run), "--json", *settings])
    assert done.exit_code == 0, done.output
    result = CliRunner().invoke(app, ["export-fio", str(run), "--out", str(tmp_path / "fio")])
    assert result.exit_code == 0, result.output
    (path,) = (tmp_path / "fio").iterdir()
    assert result.output.strip() == str(path)
    jobs = sections(path.read_text())
    entries = (run / "journal.jsonl").read_text().splitlines()
    assert len(jobs) == len(entries), "a job for each step the run had"
    assert {job["size"] for job in jobs} == {str(1 << 30)}
    again = CliRunner().invoke(app, ["export-fio", str(run), "--out", str(tmp_path / "fio")])
    assert again.exit_code and "nothing is overwritten" in str(again.exception)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere"], "not a run folder"),
        (["nowhere", "sim:sata-enterprise"], "no test"),
        (["iops", "--set", "nothing=1"], "no parameter"),
        (["iops", "sim:none"], "no preset"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(app, ["export-fio", *arguments])
    assert isinstance(result.exception, ValueError)
    assert said in str(result.exception)


def test_the_active_range_is_the_cores() -> None:
    """4 KiB boundaries inside the percentages; the device's end as it is."""
    stimulus = Stimulus("random", ((4096, 1),), 0, 1, 1, (33.3, 66.6))
    assert fiorange.active_range(stimulus, 1000 * 512) == (336 * 512, 664 * 512)
    assert fiorange.active_range(dataclasses.replace(stimulus, active_range_percent=(0.0, 100.0)), 999 * 512) == (
        0,
        999 * 512,
    )
