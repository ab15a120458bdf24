"""Purge by a drive's own command, and the write cache switched and put back, on QEMU's controllers."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from conftest import disclosure_kinds, one_line, run_json
from machine import drives
from machine.drives import Drive
from machine.qemu import Machine
from machine.runs import SHORT, settings, wait_until

pytestmark = pytest.mark.machine

# Steps of seconds, so that one of them is under way when the run is killed.
SLOW = settings(point_s="3")
CACHED = (drives.MAIN, drives.SATA, drives.SCSI)

ASK = """
import json
from flashgauge.rig import identify, records, writecache
device = identify.find_block(PATH)
cache = writecache.cache_of(device)
print(json.dumps([cache.read(), writecache.kernel_view(device), len(records.all_records())]))
"""


def cache(machine: Machine, path: str) -> tuple[bool, str, int]:
    """The drive's cache, the kernel's view of it, and the number of drives to be put back."""
    enabled, view, records = json.loads(machine.run("python", f"PATH = {path!r}\n{ASK}", check=True).stdout)
    return enabled, view, records


@pytest.mark.clause("3.2")
@pytest.mark.clause("3.7")
def test_format_as_the_purge_and_the_cache_off_and_on_again(machine: Machine) -> None:
    disk = machine.disk(drives.MAIN)
    before = cache(machine, disk)
    result = machine.flashgauge("run", "iops", disk, "--consent", drives.MAIN.serial, *SHORT, "--out", "formatted")
    assert result.returncode == 0, result.stderr
    run = run_json(machine.out / "formatted")
    assert run["purge_method"] == (
        "NVMe Format, user data erase; verified: the old data is gone from 64 of 64 samples (64 zeros)"
    )
    assert run["write_cache"] == "disabled (read back from the drive; enabled before the run, and again after it)"
    assert {"purge_by_discard", "purge_not_run", "write_cache_state"} & disclosure_kinds(
        machine.out / "formatted"
    ) == set()
    assert run["software"]["nvme"]
    assert before == cache(machine, disk) == (True, "write back", 0)


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("drive", CACHED, ids=lambda drive: drive.name)
def test_the_cache_is_put_back_after_kill_9(machine: Machine, drive: Drive) -> None:
    disk = machine.disk(drive)
    before = cache(machine, disk)
    assert before == (True, "write back", 0)
    arguments = ("run", "iops", disk, "--consent", drive.serial, "--purge", "none", *SLOW)
    process = machine.start_flashgauge(*arguments, "--out", f"killed-{drive.name}")
    file = machine.out / f"killed-{drive.name}/run.json"
    wait_until("the cache is off", lambda: file.exists() and bool(run_json(file.parent)["write_cache"]))
    assert cache(machine, disk) == (False, "write through", 1)
    process.signal(signal.SIGKILL)
    process.wait()
    wait_until("the cache is put back", lambda: cache(machine, disk) == before)


@pytest.mark.clause("3.2")
def test_a_format_of_scsi_that_erases_nothing_is_found_out(machine: Machine) -> None:
    """QEMU's disk takes FORMAT UNIT and leaves the data. Its tests call it a drive: it is no virtio disk to them."""
    code = """
from flashgauge.rig import identify, keeper, purge, purge_method, purge_scsi
purge_method.POLL_S = 0.1
purge_scsi.whole_drive = lambda device: None
device = identify.find_block(PATH)
kept = keeper.Keeper(device)
try:
    purge.run(purge.choose(device, "scsi-format"), device, lambda: None, kept, lambda text: None)
except OSError as error:
    print(error.strerror)
"""
    path = machine.disk(drives.SCSI)
    told = machine.run("python", f"PATH = {path!r}\n{code}", check=True).stdout
    assert "scsi-format left 64 of 64 samples as they were: the drive is not purged" in told


def test_a_method_the_drive_does_not_have_is_refused(machine: Machine) -> None:
    arguments = ("--consent", drives.MAIN.serial, "--purge", "nvme-sanitize")
    result = machine.flashgauge("run", "iops", machine.disk(drives.MAIN), *arguments, "--out", "refused-method")
    assert "--purge nvme-sanitize cannot be used: the drive has no such sanitize (sanicap)" in one_line(result, 2)
    assert not Path(machine.out / "refused-method").exists()
