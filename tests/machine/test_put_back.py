"""A run seen from outside: by the image on the host and by the drives' own tools, not by flashgauge's reading.

Other namespaces keep every byte when one is formatted; the write cache is back after every end of a run.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import disclosure_kinds, run_json
from machine import drives
from machine.drives import Drive
from machine.qemu import Machine
from machine.runs import cut_off, journal_lines, settings, typed, wait_until

pytestmark = pytest.mark.machine

STAMP = b"precious data of somebody else.." * 128  # 4 KiB


def nvme_cache(machine: Machine, drive: Drive) -> bool:
    """The drive's own word: feature 6, the Volatile Write Cache."""
    return "Current value:0x00000001" in machine.sh(f"nvme get-feature {machine.disk(drive)} -f 6").replace(" 0x", "0x")


def sata_cache(machine: Machine, drive: Drive) -> bool:
    return "(on)" in machine.sh(f"hdparm -W {machine.disk(drive)}")


def scsi_cache(machine: Machine, drive: Drive) -> bool:
    """WCE, bit 2 of the third byte of the caching mode page: its current value."""
    page = machine.sh(f"sg_modes --page=8 {machine.disk(drive)}").partition("page_control: current")[2]
    third = re.search(r"^ 00 +[08]8 12 (\w\w)", page, re.MULTILINE)
    assert third is not None, page
    return bool(int(third[1], 16) & 4)


def records(machine: Machine) -> list[str]:
    """Of drives to be put back."""
    return machine.sh("ls /var/lib/flashgauge/*.json 2>/dev/null || true").split()


def put_back_by_hand(machine: Machine) -> str:
    """The first of the commands that the record of the run under way would tell."""
    code = """
from flashgauge.rig import records
(file,) = records.all_records()
print(records.read_record(file).by_hand(file).split(";")[0])
"""
    return machine.run("python", code, check=True).stdout.strip()


def stamped(machine: Machine, drive: Drive) -> None:
    """The whole drive filled with what must be gone after a purge, and must not be when another is purged."""
    disk, code = machine.disk(drive), "open(DISK, 'wb').write(STAMP * COUNT)"
    constants = f"DISK, STAMP, COUNT = {disk!r}, {STAMP!r}, {drive.size_bytes // len(STAMP)}"
    machine.run("python", f"{constants}\n{code}", check=True)


def stamps_left(machine: Machine, drive: Drive) -> int:
    """Counted on the host, in the image."""
    machine.sh("sync")
    data = drives.image(machine.folder, drive).read_bytes()
    assert len(data) == drive.size_bytes
    return data.count(STAMP[:32]) * 32 // len(STAMP)


@pytest.mark.clause("3.2")
def test_format_is_chosen_erases_this_namespace_and_is_verified(machine: Machine) -> None:
    """QEMU's drive can format and has no sanitize. The controller's other namespace keeps every byte."""
    for drive in (drives.FOUR_K, drives.SIBLING):
        stamped(machine, drive)
    before = stamps_left(machine, drives.SIBLING)
    assert before == drives.SIBLING.size_bytes // len(STAMP)
    path = machine.disk(drives.FOUR_K)
    # Little is written after the purge: what remains of the stamps is what the purge left.
    run = settings(wipc_capacities="0.01", active_range_percent="4")
    # The consent is typed at a terminal: the serial is that of both namespaces, and the path says which.
    code, shown = typed(machine, drives.FOUR_K.serial, "run", "iops", path, *run, "--out", "one-namespace")
    assert code == 0, shown
    assert f"{path} (0.0671089 GB, QEMU NVMe Ctrl, serial {drives.FOUR_K.serial})" in shown
    facts = run_json(machine.out / "one-namespace")
    assert "Format" in facts["purge_method"]
    assert "samples" in facts["purge_method"]
    assert not {"purge_by_discard", "purge_not_run"} & disclosure_kinds(machine.out / "one-namespace")
    assert stamps_left(machine, drives.FOUR_K) == 0
    assert stamps_left(machine, drives.SIBLING) == before


@pytest.mark.clause("3.7")
@pytest.mark.parametrize(
    ("drive", "is_on", "end"),
    [
        pytest.param(drives.MAIN, nvme_cache, signal.SIGKILL, id="NVMe, kill -9"),
        pytest.param(drives.SATA, sata_cache, signal.SIGINT, id="SATA, Ctrl-C"),
        pytest.param(drives.SCSI, scsi_cache, signal.SIGTERM, id="SCSI, terminated"),
    ],
)
def test_the_cache_is_off_for_the_run_and_back_after_it(
    machine: Machine, drive: Drive, is_on: Callable[[Machine, Drive], bool], end: signal.Signals
) -> None:
    folder, path = machine.out / f"cache-{drive.name}", machine.disk(drive)
    queue = f"cat /sys/block/{Path(path).name}/queue/write_cache"
    assert is_on(machine, drive)
    slow = ("--purge", "none", *settings(point_s="3"))
    run = machine.start_flashgauge("run", "iops", path, "--consent", drive.serial, *slow, "--out", folder.name)
    wait_until("a step done", lambda: journal_lines(folder) >= 1)
    assert not is_on(machine, drive)
    assert len(records(machine)) == 1
    assert machine.sh(queue) == "write through"
    by_hand = put_back_by_hand(machine)
    run.signal(end)
    result = run.wait()
    assert result.returncode == (-signal.SIGKILL if end == signal.SIGKILL else 130), result.stderr
    wait_until("on again", lambda: is_on(machine, drive))  # after kill -9 by the guardian, which needs a moment
    wait_until("the kernel's view too", lambda: machine.sh(queue) == "write back")
    wait_until("nothing is left to put back", lambda: records(machine) == [])
    assert run_json(folder)["write_cache"].startswith("disabled (read back from the drive")
    assert "write_cache_state" not in disclosure_kinds(folder)
    cut_off(folder, "running" if end == signal.SIGKILL else "interrupted", 1)
    if drive is drives.MAIN:  # the command that is told where nobody can put it back
        machine.sh(by_hand.replace("--value=1", "--value=0"))
        assert not is_on(machine, drive)
        machine.sh(by_hand)
        assert is_on(machine, drive)
