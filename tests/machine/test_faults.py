"""Drives that go away, fail, or come back under another's name, and a program that is killed.

After each: what was measured is in the journal, the message is one clear line, the exit code is right, and no other
drive was written to.
"""

from __future__ import annotations

import errno
import itertools
import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from conftest import disclosure_kinds, one_line, run_cli, run_json
from flashgauge.runfolder import read_journal
from machine import drives
from machine.drives import Drive
from machine.qemu import Machine
from machine.runs import cut_off, journal_lines, settings, wait_until, writes

pytestmark = pytest.mark.machine

ONE, OTHER = drives.SPARE
# Neither purge nor cache is changed where they are not what is looked at; test_purge has them.
QUICK = ("--purge", "none", *settings(write_cache_enabled="true"))
# Steps of seconds, so that one of them is under way when the fault comes.
SLOW = ("--purge", "none", *settings(write_cache_enabled="true", point_s="3"))
CACHE_OFF = ("--purge", "none", *settings())
# One in each MiB, but at both ends, where member signatures are looked for before the run: a drive that cannot be read
# there is refused.
BAD_SECTORS = range(4096, 122880, 2048)


def iops(path: str, drive: Drive, out: str, *more: str) -> tuple[str, ...]:
    """Arguments of a shortened run in /out/OUT."""
    return ("run", "iops", path, "--consent", drive.serial, *(more or QUICK), "--out", out)


@contextmanager
def plugged(machine: Machine, port: int, serial: str, node: str) -> Iterator[str]:
    """A drive in a port, pulled out afterwards unless the test did."""
    path = machine.plug(port, serial, node)
    try:
        yield path
    finally:
        if any(device["name"] == f"port{port}-drive" for device in machine.qmp("qom-list", path="/machine/peripheral")):
            machine.pull(port)


_nodes = itertools.count()


@contextmanager
def failing(machine: Machine, kind: str, sectors: Iterable[int]) -> Iterator[str]:
    """A drive that fails I/Os of this kind that hold one of these sectors, by QEMU's blkdebug."""
    node = f"failing-{next(_nodes)}"
    rules = [{"event": "none", "iotype": kind, "sector": sector, "errno": errno.EIO} for sector in sectors]
    machine.qmp("blockdev-add", driver="blkdebug", **{"node-name": node, "image": ONE.name, "inject-error": rules})
    try:
        with plugged(machine, 2, ONE.serial, node) as path:
            yield path
    finally:
        machine.qmp("blockdev-del", **{"node-name": node})


def cache_is_on_again(machine: Machine, path: str, folder: Path) -> None:
    assert run_json(folder)["write_cache"].startswith("disabled (read back from the drive")
    assert machine.sh(f"nvme get-feature {path} -f 6").replace(" 0x", "0x").endswith("Current value:0x00000001")


def test_a_drive_pulled_out_in_the_middle_of_a_step(machine: Machine) -> None:
    folder = machine.out / "pulled"
    with plugged(machine, 2, ONE.serial, ONE.name) as path:
        run = machine.start_flashgauge(*iops(path, ONE, "pulled", *SLOW))
        wait_until("two steps done", lambda: journal_lines(folder) >= 2)
        machine.pull(2)
        result = run.wait()
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("flashgauge: the device failed ")
    entries = cut_off(folder, "failed", 2)
    failed = entries[-1].measurement
    assert failed.errors
    assert not any(entry.measurement.errors for entry in entries[:-1])
    assert {"io_errors", "interrupted"} <= disclosure_kinds(folder)


def test_a_read_that_fails_stops_the_run(machine: Machine) -> None:
    folder = machine.out / "read-error"
    with failing(machine, "read", BAD_SECTORS) as path:
        result = machine.flashgauge(*iops(path, ONE, "read-error", *CACHE_OFF))
        cache_is_on_again(machine, path, folder)
    assert result.returncode == 1
    message = result.stderr.splitlines()[-1]
    assert message.startswith("flashgauge: the device failed ")
    assert "the first a read at sector " in message
    entries = cut_off(folder, "failed", 2)
    assert not entries[0].measurement.errors  # writes do not fail
    assert {error.operation for error in entries[-1].measurement.errors} == {"read"}
    assert message.removeprefix("flashgauge: ") in run_json(folder)["error"]


def test_a_write_that_fails_stops_the_run(machine: Machine) -> None:
    """One bad sector in the first MiB: the sequential pre-conditioning meets it at once."""
    folder = machine.out / "write-error"
    with failing(machine, "write", [1000]) as path:
        result = machine.flashgauge(*iops(path, ONE, "write-error", *CACHE_OFF))
        cache_is_on_again(machine, path, folder)
    assert result.returncode == 1
    assert "the first a write at sector 768" in result.stderr.splitlines()[-1]  # the 128 KiB I/O that holds it
    (entry,) = cut_off(folder, "failed", 1)
    assert {error.operation for error in entry.measurement.errors} == {"write"}


def test_a_run_that_keeps_going_counts_the_errors(machine: Machine) -> None:
    folder = machine.out / "keep-going"
    with failing(machine, "read", BAD_SECTORS) as path:
        result = machine.flashgauge(*iops(path, ONE, "keep-going", "--keep-going", *QUICK))
    assert result.returncode == 0, result.stderr
    assert run_json(folder)["state"] == "complete"
    entries, torn = read_journal(folder)
    assert not torn
    errors = [error for entry in entries for error in entry.measurement.errors]
    assert errors
    assert {error.operation for error in errors} == {"read"}
    assert "io_errors" in disclosure_kinds(folder)
    assert run_cli(machine.out, "report", "--html", folder).returncode == 0


def test_a_program_that_is_killed_leaves_its_journal_and_frees_the_drive(machine: Machine) -> None:
    folder = machine.out / "killed"
    path = machine.disk(drives.MAIN)
    run = machine.start_flashgauge(*iops(path, drives.MAIN, "killed", *SLOW))
    wait_until("two steps done", lambda: journal_lines(folder) >= 2)
    # Meanwhile a second run on the same drive is refused.
    second = one_line(machine.flashgauge(*iops(path, drives.MAIN, "second")), 2)
    assert "open for writing" in second
    assert not (machine.out / "second").exists()
    run.signal(signal.SIGKILL)
    assert run.wait().returncode == -signal.SIGKILL
    cut_off(folder, "running", 2)
    machine.run("python", f"import os; os.open({path!r}, os.O_RDONLY | os.O_EXCL)", check=True)


def test_interrupted_as_by_ctrl_c(machine: Machine) -> None:
    folder = machine.out / "interrupted"
    path = machine.disk(drives.MAIN)
    run = machine.start_flashgauge(*iops(path, drives.MAIN, "interrupted", *SLOW))
    wait_until("two steps done", lambda: journal_lines(folder) >= 2)
    run.signal(signal.SIGINT)
    result = run.wait()
    assert result.returncode == 130
    assert "interrupted" in result.stderr
    cut_off(folder, "interrupted", 2)


def test_another_drive_under_the_name_consented_to_is_not_written(machine: Machine) -> None:
    """Two controllers, pulled out and put back in the other order: each gets the other's name."""
    with plugged(machine, 2, ONE.serial, ONE.name) as first, plugged(machine, 3, OTHER.serial, OTHER.name) as second:
        machine.pull(2)
        machine.pull(3)
        now_other = machine.plug(3, OTHER.serial, OTHER.name)
        now_one = machine.plug(2, ONE.serial, ONE.name)
        assert (now_other, now_one) == (first, second), "the kernel did not exchange the names"
        before = writes(machine)
        line = one_line(machine.flashgauge(*iops(first, ONE, "exchanged")), 2)
        assert f"--consent {ONE.serial} is not its serial" in line
        assert OTHER.serial in line
        assert not (machine.out / "exchanged").exists()
        assert writes(machine) == before


# What the program does from consent to purge, with a pause that the test fills.
PAUSED = """
import pathlib, time
from flashgauge._core import DeviceError
from flashgauge.rig import identify, safety
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.block import BlockRig

def pause():
    pathlib.Path("/run/paused").touch()
    while not pathlib.Path("/run/go-on").exists():
        time.sleep(0.1)

needs = SessionNeeds(1, 1, 4096, 1)
cleared = safety.clear(identify.find_block(PATH), PATH, SERIAL, 1 << 20)
try:
    if WHEN == "before opening":
        pause()
        rig = BlockRig(cleared, needs)
    else:
        rig = BlockRig(cleared, needs)
        pause()
        rig.purge(print)
except DeviceError as error:
    print(error)
"""


@pytest.mark.parametrize("when", ["before opening", "before the purge"])
def test_a_drive_exchanged_after_consent_is_not_written(machine: Machine, when: str) -> None:
    """The path leads to another drive than the one consented to: by the kernel's numbering while nothing was open,
    by a node of the same name once it was."""
    machine.sh("rm -f /run/paused /run/go-on")
    with plugged(machine, 2, ONE.serial, ONE.name) as path:
        code = f"PATH, SERIAL, WHEN = {path!r}, {ONE.serial!r}, {when!r}\n{PAUSED}"
        paused = machine.start("python", code)
        wait_until("paused", lambda: machine.run("test", "-e", "/run/paused").returncode == 0)
        machine.pull(2)
        with plugged(machine, 3, OTHER.serial, OTHER.name) as other:
            if other != path:
                machine.sh(f"rm -f {path}; mknod {path} b $(cat /sys/class/block/{Path(other).name}/dev | tr : ' ')")
            before = writes(machine)
            machine.sh("touch /run/go-on")
            result = paused.wait()
            assert result.returncode == 0, result.stderr
            assert "not the device consented to" in result.stdout
            assert OTHER.serial in result.stdout
            assert writes(machine) == before
            if other != path:
                machine.sh(f"rm {path}")


def test_a_drive_renumbered_between_two_steps_is_not_written(machine: Machine) -> None:
    """The run is stopped; meanwhile its drive is pulled out, and its name is given to another one."""
    folder = machine.out / "renumbered"
    with plugged(machine, 2, ONE.serial, ONE.name) as path:
        run = machine.start_flashgauge(*iops(path, ONE, "renumbered", *SLOW))
        wait_until("two steps done", lambda: journal_lines(folder) >= 2)
        run.signal(signal.SIGSTOP)
        machine.pull(2)
        with plugged(machine, 3, OTHER.serial, OTHER.name) as other:
            assert other != path, "the kernel keeps the name of what is held open"
            machine.sh(f"rm -f {path}; mknod {path} b $(cat /sys/class/block/{Path(other).name}/dev | tr : ' ')")
            before = writes(machine)[Path(other).name]
            run.signal(signal.SIGCONT)
            result = run.wait()
            assert writes(machine)[Path(other).name] == before
            machine.sh(f"rm {path}")
    assert result.returncode == 1
    assert "not the device consented to" in result.stderr.splitlines()[-1]
    cut_off(folder, "failed", 2)
