"""A whole shortened run on what the kernel makes up: null_blk and scsi_debug."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from conftest import disclosure_kinds, run_cli, run_json
from flashgauge.runfolder import read_journal
from machine.qemu import Machine
from machine.runs import POINTS, ROUNDS, settings, wait_until

pytestmark = pytest.mark.machine


@contextmanager
def module(machine: Machine, *words: str) -> Iterator[None]:
    machine.sh(f"modprobe {' '.join(words)}")
    try:
        yield
    finally:
        machine.sh(f"udevadm settle 2>/dev/null || true; modprobe --remove {words[0]}")


def whole_run(machine: Machine, path: str, consent: str, out: str, *more: str) -> None:
    """From purge to report; the journal has every step, and the device counts as no drive."""
    result = machine.flashgauge("run", "iops", path, "--consent", consent, *more, "--out", out)
    assert result.returncode == 0, result.stderr
    folder = machine.out / out
    assert run_json(folder)["state"] == "complete"
    entries, torn = read_journal(folder)
    assert (len(entries), torn) == (1 + ROUNDS * POINTS, False)
    assert all(entry.measurement.ios > 0 and not entry.measurement.errors for entry in entries)
    assert "not_device_level" in disclosure_kinds(folder)
    assert run_cli(machine.out, "report", "--html", folder).returncode == 0


def test_null_blk(machine: Machine) -> None:
    """It keeps nothing and takes no discard: there is no purge, and that is disclosed."""
    with module(machine, "null_blk", "nr_devices=1", "gb=1"):
        whole_run(machine, "/dev/nullb0", "nullb0", "null-blk", *settings(wipc_capacities="0.01"))
    folder = machine.out / "null-blk"
    assert "purge_not_run" in disclosure_kinds(folder)
    assert run_json(folder)["purge_method"] == "not run (the device takes no discard)"


def test_scsi_debug(machine: Machine) -> None:
    """Memory behind the SCSI disk driver: purged by discard, its cache switched and put back by the real sg3_utils."""
    disks = "ls /sys/bus/pseudo/drivers/scsi_debug/adapter0/host*/target*/*/block 2>/dev/null || true"
    with module(machine, "scsi_debug", "dev_size_mb=32", "lbpu=1"):
        wait_until("the disk is there", lambda: bool(machine.sh(disks)))
        name = machine.sh(disks)
        serial = machine.sh(f"tail -c +5 /sys/block/{name}/device/vpd_pg80").strip("\0 ")
        whole_run(machine, f"/dev/{name}", serial, "scsi-debug", *settings(wipc_capacities="0.02"))
        assert machine.sh(f"cat /sys/block/{name}/queue/write_cache") == "write back"
    run = run_json(machine.out / "scsi-debug")
    assert run["purge_method"].startswith("discard of the whole device (BLKDISCARD); verified: the old data is gone")
    assert run["write_cache"] == "disabled (read back from the drive; enabled before the run, and again after it)"
    assert "purge_by_discard" in disclosure_kinds(machine.out / "scsi-debug")
