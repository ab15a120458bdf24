"""The log of every I/O: complete, true, whole after a kill, and bounded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from typer.testing import CliRunner

from conftest import run_cli
from flashgauge import iolog
from flashgauge._core import Session
from flashgauge.cli import app
from flashgauge.disclosure import Kind
from flashgauge.iolog import COLUMNS, IoLogWriter, read_io_log
from flashgauge.runfolder import read_journal
from flashgauge.steps import Stimulus, Stop

GIB = 1 << 30
PROGRAM = Path(sys.executable).parent / "flashgauge"


def run_step(session: Session, stimulus: Stimulus, stop: Stop) -> dict[str, Any]:
    session.start(stimulus.to_json(), stop.to_json(), 10**9, False)
    while (raw := session.wait(1.0)) is None:
        pass
    return raw


def simulated(threads: int = 4, **parameters: object) -> Session:
    return Session.simulated("sata-enterprise", json.dumps({"capacity_bytes": GIB, **parameters}), 1, threads, 8)


def test_every_io_is_in_the_log_as_it_was(tmp_path: Path) -> None:
    """A prime number of I/Os; counts, bytes, latencies and range are those of the measurement."""
    stimulus = Stimulus("random", ((4096, 3), (8192, 1)), 65, 3, 8, (25.0, 50.0))
    with closing(simulated()) as session:
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        raw = run_step(session, stimulus, Stop(ios=10_007))
        other = run_step(session, Stimulus("sequential", ((1 << 20, 1),), 0, 1, 2), Stop(bytes=64 << 20))
    result = writer.finish()
    log = read_io_log(tmp_path).collect()
    assert log.schema == pl.Schema(COLUMNS)
    assert (result.rows, result.dropped, log.height) == (10_007 + 64, 0, 10_007 + 64)
    first, second = log.filter(pl.col("step") == 1), log.filter(pl.col("step") == 2)
    for name, of in (("read", first.filter(pl.col("write") == 0)), ("write", first.filter(pl.col("write") == 1))):
        latency = of["completed_ns"] - of["submitted_ns"]
        assert of.height == raw[name]["ios"]
        assert of["bytes"].sum() == raw[name]["bytes"]
        assert latency.sum() == raw[name]["latency_sum_ns"]
        assert latency.max() == raw[name]["latency_max_ns"]
    assert (first["intended_ns"] == first["submitted_ns"]).all(), "a closed loop"
    assert first["thread"].unique().sort().to_list() == [0, 1, 2]
    sectors = GIB // 512
    assert first["lba"].min() >= sectors // 4  # type: ignore[operator]
    assert (first["lba"] + first["bytes"] // 512).max() <= sectors // 2  # type: ignore[operator]
    assert set(first["bytes"].unique()) == {4096, 8192}
    assert second["bytes"].sum() == other["write"]["bytes"] == 64 << 20
    assert second.sort("submitted_ns", "lba")["lba"].to_list() == [n * 2048 for n in range(64)]
    assert (log["errno"] == 0).all()


def test_queue_depth_by_the_log_is_the_one_asked_for(tmp_path: Path) -> None:
    """At no time more are outstanding than asked for, and until the last are issued never fewer."""
    with closing(simulated()) as session:
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        run_step(session, Stimulus("random", ((4096, 1),), 100, 2, 7), Stop(ios=5003))
    writer.finish()
    log = read_io_log(tmp_path).collect()
    # At equal times the one that returns comes first, since the next is issued in its place.
    begins = log.select(at="submitted_ns", change=pl.lit(1))
    ends = log.select(at="completed_ns", change=pl.lit(-1))
    outstanding = pl.concat([begins, ends]).sort("at", "change")["change"].cum_sum()
    assert outstanding.max() == 14
    # A thread has issued its share when the other has not yet.
    last = log.group_by("thread").agg(pl.col("submitted_ns").max())["submitted_ns"].min()
    while_issuing = pl.concat([begins, ends]).filter(pl.col("at") < last).group_by("at").agg(pl.col("change").sum())
    assert while_issuing.sort("at")["change"].cum_sum().min() == 14


def test_an_open_loop_has_its_schedule_in_the_log(tmp_path: Path) -> None:
    """I/Os are due evenly, whatever the device does, and are issued then or later."""
    stimulus = Stimulus("random", ((4096, 1),), 100, 1, 2, rate_iops=10_000)
    with closing(simulated()) as session:
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        raw = run_step(session, stimulus, Stop(ios=1009))
    writer.finish()
    log = read_io_log(tmp_path).collect().sort("intended_ns")
    assert log.height == 1009
    assert log["intended_ns"].diff().drop_nulls().unique().to_list() == [100_000]
    assert (log["submitted_ns"] >= log["intended_ns"]).all()
    latency = log["completed_ns"] - log["intended_ns"]
    assert latency.sum() == raw["read"]["latency_sum_ns"], "from when it was due"


def test_failed_ios_are_in_the_log(tmp_path: Path) -> None:
    with closing(simulated(fault_read_error_rate=0.01)) as session:
        run_step(session, Stimulus("sequential", ((1 << 20, 1),), 0, 1, 8), Stop(bytes=GIB))
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        raw = run_step(session, Stimulus("random", ((4096, 1),), 100, 1, 8), Stop(ios=2003))
    writer.finish()
    log = read_io_log(tmp_path).collect()
    failed = log.filter(pl.col("errno") != 0)
    assert log.height == 2003
    assert failed.height == sum(error["ios"] for error in raw["errors"]) > 0
    assert failed["errno"].unique().to_list() == [raw["errors"][0]["errno"]]


def test_files_are_of_bounded_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iolog, "ROWS_PER_FILE", 50_000)
    with closing(simulated()) as session:
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        run_step(session, Stimulus("random", ((4096, 1),), 100, 4, 8), Stop(ios=300_007))
    result = writer.finish()
    heights = [pl.read_parquet(path).height for path in sorted((tmp_path / "io-log").iterdir())]
    assert sum(heights) == result.rows == 300_007 and len(heights) == result.files
    assert max(heights) < 50_000 + 2**15, "a file, and a batch at most"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(28, "No space left on device"), "No space left on device"),
        (MemoryError(), "MemoryError"),
        (pl.exceptions.ComputeError("too long\nhere"), "ComputeError: too long"),
        (pl.exceptions.PanicException("lost its head"), "PanicException: lost its head"),
    ],
)
def test_a_log_that_cannot_be_written_is_told_and_holds_nothing_up(
    error: BaseException, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More rows than may wait: the simulation would stand still if nobody took them."""

    def full(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(pl.DataFrame, "write_parquet", full)
    with closing(simulated()) as session:
        writer = IoLogWriter(session.log_ios(), tmp_path / "io-log")
        raw = run_step(session, Stimulus("random", ((4096, 1),), 100, 4, 8), Stop(ios=2_000_003))
    result = writer.finish()
    assert raw["submitted_ios"] == 2_000_003
    assert (result.rows, result.dropped, result.error) == (0, 2_000_003, said)
    assert list((tmp_path / "io-log").iterdir()) == []


def test_a_run_with_a_log(tmp_path: Path) -> None:
    """Steps of the log are the journal's lines."""
    run = tmp_path / "run"
    settings = [f"--set={setting}" for setting in ("point_s=0.02", "max_rounds=5", "wipc_capacities=0.1")]
    arguments = ["run", "tp", "sim:sata-enterprise?capacity=1GiB", "--io-log", "--json", "--out", str(run), *settings]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    entries, _ = read_journal(run)
    log = read_io_log(run).filter(pl.col("step") > 0).collect()
    by_step: dict[int, int] = dict(log.group_by("step").len().rows())
    for entry in entries:
        # All that the step issued, hand-over included.
        assert by_step.get(entry.sequence + 1, 0) == entry.measurement.submitted_ios, entry.label
    written = json.loads((run / "run.json").read_text())
    assert written["io_log"]["rows"] == read_io_log(run).select(pl.len()).collect().item()
    assert written["io_log"]["dropped"] == 0


def test_on_a_device_the_log_begins_with_the_first_step(tmp_path: Path, loop_device: str) -> None:
    """Not with the reads before it, by which the host's part of a latency is measured."""
    settings = ("point_s=0.01", "wipc_capacities=0.05", "max_rounds=5", "block_sizes_kib=1024,64,4", "thread_count=1")
    options = [part for text in (*settings, "queue_depth=1", "read_percents=100,65,0") for part in ("--set", text)]
    arguments = ("run", "iops", loop_device, *options, "--consent", Path(loop_device).name, "--io-log", "--out", "run")
    result = run_cli(tmp_path, *arguments)
    assert result.returncode == 0, result.stderr
    entries, _ = read_journal(tmp_path / "run")
    log = read_io_log(tmp_path / "run").collect()
    for number in (1, 2, len(entries)):
        m, rows = entries[number - 1].measurement, log.filter(pl.col("step") == number)
        assert rows.height == m.submitted_ios, f"step {number}"
    assert log["step"].max() == len(entries)


def test_an_incomplete_log_is_disclosed_and_no_result_suffers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    # The report writes Parquet files too: only the log's are refused.
    monkeypatch.setattr(iolog.IoLogWriter, "_write_file", full)
    run = tmp_path / "run"
    settings = [f"--set={setting}" for setting in ("point_s=0.02", "max_rounds=5", "wipc_capacities=0.1")]
    arguments = ["run", "tp", "sim:sata-enterprise?capacity=1GiB", "--io-log", "--json", "--out", str(run), *settings]
    result = CliRunner().invoke(app, arguments)
    assert result.exit_code == 0, result.output
    written = json.loads((run / "run.json").read_text())
    assert written["state"] == "complete"
    assert written["io_log"]["rows"] == 0 and written["io_log"]["dropped"] > 1000
    (told,) = [disclosure for disclosure in written["disclosures"] if disclosure["kind"] == Kind.IO_LOG_INCOMPLETE]
    assert "No space left on device" in told["message"] and not told["invalidates"]


def test_a_killed_run_leaves_its_log(tmp_path: Path) -> None:
    """kill -9: all files are whole, and of what was logged no more than the last second or two is missing."""
    run = tmp_path / "run"
    target = f"file:{tmp_path / 'disk.img'}?size=64MiB"
    settings = ["--set=point_s=600", "--set=wipc_capacities=0.5", "--set=block_sizes_kib=128"]
    command = [str(PROGRAM), "run", "tp", target, "--io-log", "--json", "--out", str(run), *settings]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        try:
            deadline = time.monotonic() + 60
            while len(list((run / "io-log").glob("*.parquet"))) < 3:
                if process.poll() is not None:
                    message = process.stderr.read() if process.stderr else ""
                    pytest.skip(f"no run on a file here: {message}")
                assert time.monotonic() < deadline, "three files, one a second"
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
    log = read_io_log(run).collect()
    assert log.height > 0
    assert (log["completed_ns"] >= log["submitted_ns"]).all()
    assert log["step"].max() == 2, "the step under way is in the log, though not in the journal"
    assert len(read_journal(run)[0]) == 1


def test_a_run_without_a_log_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="--io-log"):
        read_io_log(tmp_path)
