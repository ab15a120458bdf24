"""The IOPS test on block devices of the machine, through io_uring: end to end, gaplessness, and failing devices."""

from __future__ import annotations

import json
import os
import signal
import stat
import statistics
import subprocess
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from blockdevices import MIB, BlockTrace, filled, loop_on, queue_setting, tracefs_at
from conftest import PATIENCE_S, Cli, disclosure_kinds, one_line, run_cli, run_json, start_cli
from flashgauge.driver import Driver
from flashgauge.measurement import Measurement
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.open import open_rig
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import HostInfo, Run, RunFolder, read_journal
from flashgauge.spec.iops import IopsParameters, iops
from flashgauge.spec.parameters import DeviceClass, changed
from flashgauge.steps import Label, Measure, Precondition, Step, Stimulus, Stop

GAP_LIMIT_NS = 1_000_000
Request = tuple[int, int, int]  # time in ns, +1 for an issue or -1 for a completion, sectors
# What is outstanding when a step ends must come back before the next one's window opens: little of it keeps a
# shortened run short. These two are the operator's choice, and no departure from the standard.
LIGHT = {"thread_count": "2", "queue_depth": "4"}
SETTINGS = {"point_s": "0.01", "wipc_capacities": "0.25", "max_rounds": "5"}
# A zram device takes nothing below its 4 KiB block; the mixes and sizes that remain hold the tracking variables.
ZRAM_SETTINGS = SETTINGS | {"block_sizes_kib": "1024,64,4", "read_percents": "100,65,0"}


def settings(values: dict[str, str]) -> list[str]:
    return [part for name, value in values.items() for part in ("--set", f"{name}={value}")]


def run_on(cwd: Path, device: str, values: dict[str, str], *more: str) -> subprocess.CompletedProcess[str]:
    return run_cli(
        cwd, "run", "iops", device, "--consent", Path(device).name, *settings(LIGHT | values), "--out", "run", *more
    )


def check_run(folder: Path, points: int, values: dict[str, str]) -> None:
    """What any finished, shortened run on a device must show."""
    run = run_json(folder)
    assert run["state"] == "complete"
    changed = {item["message"].split()[0] for item in run["disclosures"] if item["kind"] == "parameter_changed"}
    assert changed == set(values)
    assert {"not_device_level", "purge_by_discard"} <= disclosure_kinds(folder)
    entries, torn = read_journal(folder)
    assert not torn
    assert len(entries) == 1 + points * 5 or (len(entries) - 1) % points == 0
    for entry in entries:
        m = entry.measurement
        assert m.stop_reason == "complete"
        assert not m.errors
        assert m.ios > 0
        assert m.submitted_ios == m.ios + m.handover_ios
    gaps = [entry.measurement.gap_ns for entry in entries[2:]]  # the loop itself: from its second point on
    known = [gap for gap in gaps if gap is not None]
    assert len(known) == len(gaps)
    print(f"gaps: median {statistics.median(known) / 1e3:.1f} us, largest {max(known) / 1e3:.1f} us of {len(known)}")
    assert statistics.median(known) < GAP_LIMIT_NS
    shown = run_cli(folder.parent, "show", folder)
    assert shown.returncode == 0, shown.stderr
    assert "INVALID AS A PTS RESULT" in shown.stdout
    assert "parameter changed" in shown.stdout
    assert "INVALID AS A PTS RESULT" in (folder / "report.html").read_text()


@pytest.mark.clause("7.2")
@pytest.mark.clause("3.2")
def test_iops_on_a_loop_device(tmp_path: Path, loop_device: str) -> None:
    """All 7 mixes x 8 block sizes, through io_uring, with purge and pre-conditioning."""
    result = run_on(tmp_path, loop_device, SETTINGS)
    assert result.returncode == 0, result.stderr
    check_run(tmp_path / "run", 56, SETTINGS)
    run = run_json(tmp_path / "run")
    assert run["dut"]["kind"] == "block"
    assert run["dut"]["capacity_bytes"] == 128 * MIB
    assert "BLKDISCARD" in run["purge_method"]
    # Given back: free for the next, and not refused as in use.
    os.close(os.open(loop_device, os.O_RDONLY | os.O_EXCL))


@pytest.mark.clause("7.2")
def test_iops_on_a_zram_device(tmp_path: Path, zram_device: str) -> None:
    result = run_on(tmp_path, zram_device, ZRAM_SETTINGS)
    assert result.returncode == 0, result.stderr
    check_run(tmp_path / "run", 9, ZRAM_SETTINGS)


def test_blocks_smaller_than_the_devices_are_wrong_input(tmp_path: Path, zram_device: str) -> None:
    """512-byte I/Os on a device with 4 KiB blocks: known before anything is destroyed, so it must be said before."""
    with Path(zram_device).open("r+b") as device:
        device.write(b"precious" * 512)
    line = one_line(run_on(tmp_path, zram_device, SETTINGS), 2)
    assert "4096" in line
    assert Path(zram_device).open("rb").read(8) == b"precious"  # noqa: SIM115
    assert not (tmp_path / "run").exists()


def test_preconditioning_of_any_length_is_whole_blocks_of_the_device(tmp_path: Path, zram_device: str) -> None:
    """0.05 of 128 MiB is no multiple of 4 KiB: the last I/O must not be cut to what the device cannot take."""
    parameters = changed(IopsParameters.standard(DeviceClass.ENTERPRISE), {"wipc_capacities": "0.05"})

    def spec() -> Generator[Step, Measurement | None, None]:
        inner = iops(parameters, 128 * MIB)
        yield next(step for step in inner if isinstance(step, Precondition))

    rig = open_rig(parse_target(zram_device), SessionNeeds(4, 32, MIB, 1), Path(zram_device).name)
    run = Run("iops", "enterprise", rig.dut, HostInfo(), {}, [], 1, {}, "2026-01-01T00:00:00+00:00")
    try:
        with RunFolder(tmp_path / "run", run) as folder:
            Driver(rig, folder, Quiet(), gap_limit_ms=1.0).run(spec())
    finally:
        rig.close()
    (entry,) = read_journal(tmp_path / "run")[0]
    assert entry.measurement.write.bytes % 4096 == 0
    assert entry.measurement.write.bytes == pytest.approx(0.05 * 128 * MIB, abs=4096)


def test_device_smaller_than_the_test_needs(tmp_path: Path, cli: Cli) -> None:
    with loop_on(filled(tmp_path / "small.img", 2 * MIB)) as path:
        line = one_line(cli("run", "iops", path, "--consent", Path(path).name, "--out", "run"), 2)
    assert "too small" in line
    assert not (tmp_path / "run").exists()


class Quiet:
    """An observer that says nothing."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *_: None


# (TC, QD, block bytes, read percent): neighbours, also around the end, have nothing in common.
SHAPES = [(4, 32, 4096, 100), (1, 1, 65536, 0), (2, 16, 131072, 65), (4, 8, 16384, 35), (3, 2, 1048576, 95)]
LARGEST_WHOLE = 131072  # bytes of a request that no queue splits
EDGE_NS = 10_000_000  # how far around a change of step to look for a time without requests


def changing_steps(count: int, seconds: float) -> list[Measure]:
    return [
        Measure(
            Stimulus("random", ((size, 1),), read, threads, depth),
            Stop(seconds=seconds),
            Label("round", number, read, size),
        )
        for number in range(count)
        for threads, depth, size, read in [SHAPES[number % len(SHAPES)]]
    ]


def changes(requests: list[Request], sizes: list[int]) -> list[int]:
    """When the first request of each step but the first was issued: told by its size, not by any clock of ours.

    Sizes of neighbours differ, and requests are whole but for the largest, which a queue may split.
    """
    found = []
    wanted = iter(sizes[1:])
    size = next(wanted)
    for at, change, sectors in requests:
        if change > 0 and (sectors * 512 == size or min(sectors * 512, size) > LARGEST_WHOLE):
            found.append(at)
            if (size := next(wanted, 0)) == 0:
                break
    return found


def idle_spans(requests: list[Request]) -> list[tuple[int, int]]:
    """(begin, end) in ns of every time nothing was in flight between the first request and the last."""
    spans, in_flight, idle_since = [], 0, None
    for at, change, _ in requests:
        if change > 0 and in_flight == 0 and idle_since is not None:
            spans.append((idle_since, at))
        in_flight += change
        assert in_flight >= 0, "the trace completes more than was issued"
        idle_since = at if in_flight == 0 else None
    return spans


@pytest.mark.clause("6.9")
@pytest.mark.clause("4")
def test_device_is_never_idle_between_20_steps_by_the_kernels_own_record(tmp_path: Path, loop_device: str) -> None:
    """Independent of the engine's own gap, and of its clock: what the block layer saw issued and completed.

    Around each change of step, the longest time without a request in flight is the gap. The driver journals and
    fsyncs the step before right there; a device that waits for the host would show it. At queue depth 1 the time
    between an I/O and the next is in it too, so the figure errs upwards.
    """
    steps = changing_steps(21, seconds=0.1)

    def spec() -> Generator[Step, Measurement | None, None]:
        for step in steps:  # noqa: UP028 - the driver sends; a list's iterator takes nothing
            yield step

    needs = SessionNeeds(max_threads=4, max_queue_depth=32, max_block_bytes=MIB, seed=5)
    with tracefs_at(tmp_path / "tracing") as tracefs:
        rig = open_rig(parse_target(loop_device), needs, Path(loop_device).name)
        run = Run("iops", "enterprise", rig.dut, HostInfo(), {}, [], 5, {}, "2026-01-01T00:00:00+00:00")
        with BlockTrace(tracefs, loop_device) as trace:
            try:
                with RunFolder(tmp_path / "run", run) as folder:
                    Driver(rig, folder, Quiet(), gap_limit_ms=1.0).run(spec())
            finally:
                rig.close()
            assert trace.lost() == 0
            requests = trace.requests()
    measured = [entry.measurement for entry in read_journal(tmp_path / "run")[0]]
    assert len(measured) == 21

    # The trace has seen the run: at least every byte that the measurements count was issued and came back.
    issued_bytes = 512 * sum(sectors for _, change, sectors in requests if change > 0)
    assert issued_bytes >= sum(m.read.bytes + m.write.bytes for m in measured)
    assert sum(change for _, change, _ in requests) == 0

    spans = idle_spans(requests)
    at_changes = changes(requests, [step.stimulus.block_sizes[0][0] for step in steps])
    assert len(at_changes) == 20
    longest = [
        max((end - begin for begin, end in spans if end > at - EDGE_NS and begin < at + EDGE_NS), default=0)
        for at in at_changes
    ]
    own = [m.gap_ns for m in measured[1:] if m.gap_ns is not None]
    print(
        f"{len(requests)} events; longest idle at each of 20 changes, by the kernel: "
        f"median {statistics.median(longest) / 1e3:.0f} us, largest {max(longest) / 1e3:.0f} us; "
        f"by the engine: median {statistics.median(own) / 1e3:.0f} us, largest {max(own) / 1e3:.0f} us"
    )
    assert statistics.median(longest) < GAP_LIMIT_NS
    assert len(own) == 20
    assert statistics.median(own) < GAP_LIMIT_NS


@pytest.mark.clause("6.1")
@pytest.mark.parametrize(("threads", "block_bytes"), [(1, 4096), (3, 4096), (1, 131072)])
@pytest.mark.parametrize("read_percent", [0, 100])
def test_neighbours_reach_the_device_in_the_size_that_was_asked_for(
    tmp_path: Path, loop_device: str, threads: int, block_bytes: int, read_percent: int
) -> None:
    """By the kernel's own record, with its default of merging neighbours that it gets together."""
    rig = open_rig(parse_target(loop_device), SessionNeeds(threads, 32, MIB, 1), Path(loop_device).name)
    try:
        with (
            queue_setting(loop_device, "scheduler", "none"),
            queue_setting(loop_device, "nomerges", "0"),
            tracefs_at(tmp_path / "trace") as tracefs,
            BlockTrace(tracefs, loop_device) as trace,
        ):
            stimulus = Stimulus("sequential", ((block_bytes, 1),), read_percent, threads, 32)
            rig.session.start(stimulus.to_json(), Stop(ios=1009).to_json(), 10**9, True)
            while rig.session.wait(0.1) is None:
                pass
            sizes = [sectors * 512 for _, change, sectors in trace.requests() if change > 0]
            assert trace.lost() == 0
            assert {check.name: check.advice for check in rig.host_checks(True)}["merging"] == ""
    finally:
        rig.close()
    assert set(sizes) == {block_bytes}
    assert len(sizes) == 1009


class Lines:
    """A run under way that tells of its steps as JSON lines."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def until(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            event = json.loads(line)
            if wanted(event):
                return event
        raise AssertionError(f"the run ended before that: {self.process.communicate()}")

    def end(self) -> subprocess.CompletedProcess[str]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        return subprocess.CompletedProcess(self.process.args, self.process.returncode, out, err)


def check_sum(m: Measurement) -> None:
    """No I/O is lost in an error. Errors of bridge I/Os, which no step submitted, are told with the step after."""
    succeeded = m.ios + m.handover_ios
    assert succeeded <= m.submitted_ios <= succeeded + m.error_ios <= m.submitted_ios + m.bridge_ios + 8


def broken_while_running(tmp_path: Path, target: str, consent: str, breaks: Callable[[], object]) -> str:
    """Start a run, break the device in the middle of its first round; returns the error line. Checks what is left."""
    values = settings(LIGHT | ZRAM_SETTINGS | {"point_s": "0.2"})
    arguments = ("run", "iops", target, "--consent", consent, *values, "--json", "--out", "run")
    process = start_cli(tmp_path, *arguments)
    try:
        lines = Lines(process)
        lines.until(lambda event: event["event"] == "step" and event["label"]["round"] == 1)
        breaks()
        result = lines.end()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    line = one_line(result, 1)
    run = run_json(tmp_path / "run")
    assert run["state"] == "failed"
    assert run["error"]
    assert {"io_errors", "interrupted"} <= disclosure_kinds(tmp_path / "run")
    entries, torn = read_journal(tmp_path / "run")
    assert not torn
    last = entries[-1].measurement
    assert last.stop_reason == "io_error"
    assert last.error_ios > 0
    check_sum(last)
    shown = run_cli(tmp_path, "show", "run")
    assert shown.returncode == 0, shown.stderr
    assert "io errors" in shown.stdout
    facts = json.loads(run_cli(tmp_path, "show", "run", "--json").stdout)
    assert facts["missing"]
    assert facts["valid_pts_result"] is False
    print(line)
    return line


def test_device_that_fails_writes_stops_the_run(tmp_path: Path, zram_device: str) -> None:
    """A zram device out of memory fails writes with EIO; data that does not compress makes sure of it."""
    limit = Path(f"/sys/block/{Path(zram_device).name}/mem_limit")
    line = broken_while_running(tmp_path, zram_device, Path(zram_device).name, lambda: limit.write_text("4K"))
    assert "a write at sector" in line
    os.close(os.open(zram_device, os.O_RDONLY | os.O_EXCL))


def test_device_that_fails_at_once_stops_in_the_preconditioning(tmp_path: Path, zram_device: str) -> None:
    Path(f"/sys/block/{Path(zram_device).name}/mem_limit").write_text("1M")
    line = one_line(run_on(tmp_path, zram_device, ZRAM_SETTINGS), 1)
    assert "wipc" in line
    assert "io_errors" in disclosure_kinds(tmp_path / "run")


def test_run_goes_on_after_errors_only_when_told_to(tmp_path: Path, zram_device: str) -> None:
    Path(f"/sys/block/{Path(zram_device).name}/mem_limit").write_text("2M")
    few = ZRAM_SETTINGS | {"thread_count": "1", "queue_depth": "2", "wipc_capacities": "0.0625"}
    result = run_on(tmp_path, zram_device, few, "--keep-going")
    assert result.returncode == 0, result.stderr
    run = run_json(tmp_path / "run")
    assert run["state"] == "complete"
    assert "io_errors" in disclosure_kinds(tmp_path / "run")
    entries, _ = read_journal(tmp_path / "run")
    failed = [entry.measurement for entry in entries if entry.measurement.errors]
    assert failed
    for m in failed:
        check_sum(m)
        assert all(error.operation == "write" for error in m.errors)
    facts = json.loads(run_cli(tmp_path, "show", "run", "--json").stdout)
    assert facts["valid_pts_result"] is False


def test_loop_device_whose_file_is_cut_off(tmp_path: Path) -> None:
    """As when the disk below disappears: reads fail past the file's new end."""
    file = filled(tmp_path / "disk.img", 64 * MIB)
    with loop_on(file, "--direct-io=on") as path:
        # In a loop: the run's own writes make the file longer again.
        broken_while_running(tmp_path, path, Path(path).name, lambda: os.truncate(file, 0))


def test_file_that_is_cut_off(tmp_path: Path) -> None:
    file = filled(tmp_path / "target.bin", 64 * MIB)
    broken_while_running(tmp_path, f"file:{file}", file.name, lambda: os.truncate(file, 4 * MIB))


def test_file_that_vanishes_before_the_run(tmp_path: Path, cli: Cli) -> None:
    line = one_line(cli("run", "iops", f"file:{tmp_path}/gone.bin", "--out", "run"), 2)
    assert "no such file" in line
    assert not (tmp_path / "run").exists()


def changed_while_running(tmp_path: Path, device: str, changes: Callable[[], object]) -> str:
    """Start a run, change what the device is in the middle of a step; returns the error line. The step under way is
    journaled if it ended by itself; what follows is not begun."""
    values = settings(LIGHT | ZRAM_SETTINGS | {"point_s": "2.5"})
    arguments = ("run", "iops", device, "--consent", Path(device).name, *values, "--json", "--out", "run")
    process = start_cli(tmp_path, *arguments)
    try:
        lines = Lines(process)
        lines.until(lambda event: event["event"] == "step" and event["label"]["round"] == 1)
        changes()
        result = lines.end()
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()
    line = one_line(result, 1)
    run = run_json(tmp_path / "run")
    assert run["state"] == "failed"
    assert line.removeprefix("flashgauge: ") in run["error"]
    entries, torn = read_journal(tmp_path / "run")
    assert not torn
    # One step for the pre-conditioning, one that was told of, and at most the one that was under way and another.
    assert 2 <= len(entries) <= 4
    assert all(entry.measurement.stop_reason == "complete" for entry in entries)
    os.close(os.open(device, os.O_RDONLY | os.O_EXCL))
    print(line)
    return line


def test_device_that_changes_its_size_within_a_step_ends_the_run(tmp_path: Path, loop_device: str) -> None:
    """As a namespace that is resized, or a medium exchanged: what is measured is no longer what was consented to."""

    def grow() -> None:
        os.truncate(tmp_path / "disk.img", 160 * MIB)
        subprocess.run(["losetup", "--set-capacity", loop_device], check=True)

    line = changed_while_running(tmp_path, loop_device, grow)
    assert f"not the device consented to (size_bytes was {128 * MIB}, is {160 * MIB})" in line


def test_path_that_is_given_to_another_device_ends_the_run_and_spares_that(tmp_path: Path, loop_device: str) -> None:
    """A renumbered drive: its old name leads to another one now. The run holds its own drive open, and never writes to
    what came to its name."""
    node = tmp_path / "drive"
    os.mknod(node, 0o600 | stat.S_IFBLK, os.stat(loop_device).st_rdev)
    with loop_on(filled(tmp_path / "other.img", 128 * MIB)) as other:
        before = Path(other).read_bytes()

        def renumber() -> None:
            os.mknod(tmp_path / "new", 0o600 | stat.S_IFBLK, os.stat(other).st_rdev)
            (tmp_path / "new").rename(node)

        values = settings(LIGHT | ZRAM_SETTINGS | {"point_s": "2.5"})
        name = Path(loop_device).name
        process = start_cli(tmp_path, "run", "iops", str(node), "--consent", name, *values, "--json", "--out", "run")
        try:
            lines = Lines(process)
            lines.until(lambda event: event["event"] == "step" and event["label"]["round"] == 1)
            renumber()
            line = one_line(lines.end(), 1)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        assert "not the device consented to (" in line
        assert "major_minor was" in line
        assert Path(other).read_bytes() == before
