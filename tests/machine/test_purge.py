"""A purge that erases nothing, and one that the drive does not have, on QEMU's controllers."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import one_line
from machine import drives
from machine.qemu import Machine

pytestmark = pytest.mark.machine


@pytest.mark.clause("3.2")
def test_a_format_of_scsi_that_erases_nothing_is_found_out(machine: Machine) -> None:
    """QEMU's disk takes FORMAT UNIT and leaves the data. Its tests call it a drive: it is no virtio disk to them."""
    code = """
from flashgauge.rig import identify, keeper, purge, purge_scsi, underway
underway.POLL_S = 0.1
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
