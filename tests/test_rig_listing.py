"""`flashgauge devices`: what is listed, what is hidden, and that a device in use is left alone."""

from __future__ import annotations

import json
import os
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from blockdevices import MIB, filled, tool
from conftest import PATIENCE_S, Cli, one_line, start_cli
from flashgauge.cli import devices as command
from flashgauge.rig import listing, records, safety
from flashgauge.rig.listing import Listed, list_devices, list_one
from trees import Tree

SDA = "sys/devices/pci0000:00/ata1/block/sda"


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def listed(tree: Tree) -> dict[str, Listed]:
    return {device.name: device for device in list_devices(tree.roots).devices}


def test_disks_are_listed_with_their_partitions_below(tree: Tree) -> None:
    found = listed(tree)
    assert list(found) == ["sda", "sdb"]
    sda, sdb = found["sda"], found["sdb"]
    assert (sda.dut.serial, sda.dut.model, sda.dut.capacity_bytes) == ("S-1", "TESTDISK", 16 * MIB)
    assert [Path(part.path).name for part in sda.partitions] == ["sda1", "sda2"]
    assert (sda.may_be_tested, sda.refusals, sda.consent) == (True, (), "S-1")
    assert sdb.may_be_tested is False
    assert [refusal.kind for refusal in sdb.refusals] == ["system disk", "mounted"]


def test_a_partition_asked_for_is_shown(tree: Tree) -> None:
    (one,) = list_one(tree.device("sda2")).devices
    assert (one.name, one.stands_for, one.partitions) == ("sda2", "a part of a drive", ())


def test_what_sysfs_tells_of_a_drive(tree: Tree) -> None:
    identify_page = bytearray(572)
    for word, value in ((59, 1 << 12 | 1 << 13 | 1 << 15), (128, 1)):
        identify_page[60 + 2 * word : 62 + 2 * word] = value.to_bytes(2, "little")
    tree.write(f"{SDA}/device/vpd_pg89", bytes(identify_page))
    tree.write(f"{SDA}/device/wwid", "naa.500\n")
    tree.write(f"{SDA}/device/hwmon/hwmon3/temp1_input", "41000\n")
    tree.write(f"{SDA}/removable", "1\n")
    tree.write(f"{SDA}/diskseq", "7\n")
    for name, text in {
        "logical_block_size": "512",
        "physical_block_size": "4096",
        "write_cache": "write back",
        "rotational": "0",
        "discard_max_bytes": "2147450880",
    }.items():
        tree.write(f"{SDA}/queue/{name}", f"{text}\n")
    tree.write("sys/devices/pci0000:00/numa_node", "1\n")
    links = tree.roots.dev / "disk/by-id"
    links.mkdir(parents=True)
    (links / "ata-TESTDISK_S-1").symlink_to("../../sda")
    sda = listed(tree)["sda"]
    assert (sda.wwid, sda.temperature_c, sda.numa_node, sda.removable) == ("naa.500", 41.0, 1, True)
    assert (sda.dut.logical_block_bytes, sda.physical_block_bytes) == (512, 4096)
    assert (sda.write_cache, sda.media) == ("write back", "solid state")
    assert sda.purge_methods == (
        "ata-sanitize",
        "ata-sanitize-crypto",
        "ata-security-erase",
        "discard",
    )
    assert sda.purge_methods_complete
    assert sda.links == (str(links / "ata-TESTDISK_S-1"),)
    assert not listed(tree)["sdb"].purge_methods_complete, "a SCSI drive would have to be asked"


@pytest.mark.parametrize("name", ["loop3", "ram0", "zram0", "nbd5"])
def test_made_up_devices_are_listed_once_something_is_behind_them(tree: Tree, name: str) -> None:
    tree.disk(name, "7:3", None, "virtual/block")
    assert name in listed(tree)
    tree.write(f"sys/devices/virtual/block/{name}/size", "0\n")
    assert name not in listed(tree)


def test_an_empty_card_reader_is_listed_and_refused(tree: Tree) -> None:
    tree.write(f"{SDA}/size", "0\n")
    assert [refusal.kind for refusal in listed(tree)["sda"].refusals] == ["no medium"]


def test_hidden_paths_of_a_multipath_namespace_are_not_listed(tree: Tree) -> None:
    tree.disk("nvme0c0n1", "259:1", None, "nvme")
    tree.write("sys/devices/nvme/nvme0c0n1/hidden", "1\n")
    assert "nvme0c0n1" not in listed(tree)


def test_drives_come_first_and_count_as_people_do(tree: Tree) -> None:
    for number, name in enumerate(("dm-0", "nvme10n1", "nvme2n1", "sdaa", "loop1")):
        tree.disk(name, f"259:{number}", None, "nvme")
    assert list(listed(tree)) == ["nvme2n1", "nvme10n1", "sda", "sdb", "sdaa", "dm-0", "loop1"]


def test_other_namespaces_of_the_drive_are_named(tree: Tree) -> None:
    tree.disk("nvme0n1", "259:0", "N", "nvme/nvme0")
    tree.disk("nvme0n2", "259:1", "N", "nvme/nvme0")
    assert listed(tree)["nvme0n1"].other_namespaces == ("nvme0n2",)


def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of all that is opened from now on."""
    names: list[str] = []
    real_open = os.open

    def open_and_tell(path: str, *arguments: int) -> int:
        names.append(Path(path).name)
        return real_open(path, *arguments)

    monkeypatch.setattr(os, "open", open_and_tell)
    return names


def test_a_device_in_use_is_not_opened(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    names = opened(monkeypatch)
    assert listed(tree)["sdb"].may_be_tested is False
    assert "sda" in names, "what is free is searched for signatures"
    assert not {"sdb", "sdb1"} & set(names)


def test_a_drive_that_a_program_has_open_is_not_asked_its_temperature(tree: Tree) -> None:
    """It may be under test: the kernel answers with a command to the drive."""
    tree.write(f"{SDA}/device/hwmon/hwmon3/temp1_input", "41000\n")
    assert listed(tree)["sda"].temperature_c == 41.0
    (tree.roots.proc / "77/fd").mkdir(parents=True)
    (tree.roots.proc / "77/fd/9").symlink_to("/dev/sda")
    tree.write("proc/77/fdinfo/9", "pos: 0\nflags: 02140002\n")
    tree.write("proc/77/comm", "flashgauge\n")
    sda = listed(tree)["sda"]
    assert sda.refusals[0].text == "open for writing (/dev/sda by process 77 flashgauge): stop that process first"
    assert sda.temperature_c is None


def two_namespaces(tree: Tree) -> None:
    for number in (1, 2):
        tree.disk(f"nvme0n{number}", f"259:{number}", "N", "nvme/nvme0")
        where = f"sys/devices/nvme/nvme0/nvme0n{number}"
        folder = tree.roots.sys.parent / where / "device"
        for file in folder.glob("*"):
            file.unlink()
        folder.rmdir()
        folder.symlink_to("..")
    tree.write("sys/devices/nvme/nvme0/serial", "N\n")
    tree.write("sys/devices/nvme/nvme0/subsysnqn", "nqn.test\n")
    tree.write("sys/devices/nvme/nvme0/hwmon2/temp1_input", "41000\n")


def test_a_namespace_of_a_drive_under_test_is_not_touched(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command to it is one to the controller that is measured."""
    two_namespaces(tree)
    assert listed(tree)["nvme0n2"].temperature_c == 41.0
    lock = records.RunLock(tree.device("nvme0n1"))
    names = opened(monkeypatch)
    other = listed(tree)["nvme0n2"]
    lock.release()
    assert (other.may_be_tested, other.temperature_c) == (False, None)
    assert [refusal.kind for refusal in other.refusals] == ["under test"]
    assert "nvme0n2" not in names


def test_a_namespace_beside_one_that_is_open_for_writing_is_not_touched(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    two_namespaces(tree)
    (tree.roots.proc / "77/fd").mkdir(parents=True)
    (tree.roots.proc / "77/fd/9").symlink_to("/dev/nvme0n1")
    tree.write("proc/77/fdinfo/9", "pos: 0\nflags: 02140002\n")
    names = opened(monkeypatch)
    other = listed(tree)["nvme0n2"]
    assert (other.may_be_tested, other.temperature_c) == (None, None)
    assert "the same drive is open for writing (/dev/nvme0n1 by process 77" in other.refusals[0].text
    assert "nvme0n2" not in names


def test_what_the_kernel_holds_is_not_read(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(safety, "_busy", lambda device: True)
    names = opened(monkeypatch)
    assert [refusal.kind for refusal in listed(tree)["sda"].refusals] == ["claimed"]
    assert "sda" not in names


def test_a_drive_that_does_not_answer_holds_up_nobody(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    dead, real_gather = threading.Event(), safety.gather

    def gather(device: object, *arguments: object, **options: bool) -> object:
        if device.name == "sda":  # type: ignore[attr-defined]
            dead.wait(30)
        return real_gather(device, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(safety, "gather", gather)
    monkeypatch.setattr(listing, "ANSWER_S", 0.5)
    began_s = time.monotonic()
    found = listed(tree)
    dead.set()
    assert time.monotonic() - began_s < 10
    assert (found["sda"].may_be_tested, [refusal.kind for refusal in found["sda"].refusals]) == (None, ["no answer"])
    assert found["sdb"].may_be_tested is False


def test_without_leave_to_read_it_says_what_is_not_known(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", denied)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    found = list_devices(tree.roots)
    assert [device.may_be_tested for device in found.devices] == [None, False]
    assert "run as root" in found.devices[0].refusals[0].text
    assert any("programs have open" in line for line in found.not_seen)


def text_of(renderable: object, width: int) -> list[str]:
    console = Console(width=width, color_system=None, markup=False, highlight=False)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get().splitlines()


def test_the_table_fits_100_columns_and_cuts_nothing(tree: Tree) -> None:
    serial, name = "S4EVNX0R123456789AB0", "nvme12n34"
    tree.disk(name, "259:9", serial, "nvme")
    tree.write(f"sys/devices/nvme/{name}/device/model", "SAMSUNG MZWLJ1T9HBJR-00007 OF MANY WORDS\n")
    link = "NVMe, PCIe 3.0 x2 (the drive can PCIe 4.0 x4)"
    # The tree's own /dev is somewhere deep.
    real = [
        replace(one, dut=replace(one.dut, target=f"/dev/{one.name}", interface=link))
        for one in list_devices(tree.roots).devices
    ]
    lines = text_of(command._table(tuple(real)), 100)
    assert max(map(len, lines)) <= 100
    for whole in (f"/dev/{name}", serial, "S-1", "16.8 MB", "WORDS", "PCIe 3.0 x2 of"):
        assert any(whole in line for line in lines), whole
    assert not any("…" in line for line in lines)


def test_hundreds_of_devices_are_quick(tree: Tree) -> None:
    for number in range(300):
        tree.disk(f"sdx{number}", f"65:{number}", f"SER{number}")
    began_s = time.monotonic()
    found = list_devices(tree.roots)
    took_s = time.monotonic() - began_s
    print(f"{len(found.devices)} devices in {took_s:.2f} s")
    assert all(device.may_be_tested for device in found.devices if device.name.startswith("sdx"))
    assert took_s < listing.ANSWER_S


def test_one_device_from_outside(cli: Cli, tmp_path: Path, loop_device: str) -> None:
    shown = cli("devices", loop_device)
    assert shown.returncode == 0, shown.stderr
    for part in (loop_device, "stands for a file", "134,217,728 bytes", f"--consent {Path(loop_device).name}"):
        assert part in shown.stdout
    (facts,) = json.loads(cli("devices", loop_device, "--json").stdout)["devices"]
    assert (facts["path"], facts["capacity_bytes"], facts["may_be_tested"]) == (loop_device, 128 * MIB, True)
    assert (facts["refusals"], facts["contents"]) == ([], [])
    tool("mkfs.ext4", "-q", "-L", "precious", loop_device)
    assert f'{Path(loop_device).name}: ext4 "precious"' in cli("devices", loop_device).stdout


@pytest.mark.parametrize(
    ("target", "message"),
    [("sim:sata-enterprise", "not a block device"), ("/dev/null", "character device"), ("/dev/nosuch", "no such")],
)
def test_what_is_no_device_is_one_line(cli: Cli, target: str, message: str) -> None:
    assert message in one_line(cli("devices", target), 2)


def test_a_regular_file_is_sent_to_the_right_form(cli: Cli, tmp_path: Path) -> None:
    file = filled(tmp_path / "disk.img", MIB)
    assert f"write file:{file}" in one_line(cli("devices", file), 2)


def test_a_device_under_test_is_listed_as_in_use_and_its_run_goes_on(
    cli: Cli, tmp_path: Path, loop_device: str
) -> None:
    settings = ("point_s=0.2", "wipc_capacities=0.05", "max_rounds=5", "block_sizes_kib=1024,64,4", "thread_count=1")
    options = [part for text in (*settings, "queue_depth=1", "read_percents=100,65,0") for part in ("--set", text)]
    name = Path(loop_device).name
    run = start_cli(tmp_path, "run", "iops", loop_device, *options, "--consent", name, "--json", "--out", "run")
    assert run.stdout is not None
    try:
        while json.loads(run.stdout.readline())["event"] != "step":
            pass
        (facts,) = json.loads(cli("devices", loop_device, "--json").stdout)["devices"]
        _, errors = run.communicate(timeout=PATIENCE_S)
    finally:
        run.kill()
        run.wait()
    assert facts["may_be_tested"] is False
    assert [refusal["kind"] for refusal in facts["refusals"]] == ["open"]
    assert "flashgauge" in facts["refusals"][0]["text"]
    assert run.returncode == 0, errors


def test_a_drive_that_may_not_be_opened_is_not_asked_for_its_temperature(
    tree: Tree, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An ordinary user does not see whether root's run is on it."""
    tree.write(f"{SDA}/device/hwmon/hwmon3/temp1_input", "41000\n")
    monkeypatch.setattr(safety, "_look", lambda *_: ([], safety.Refusal("permission", "run as root")))
    sda = listed(tree)["sda"]
    assert (sda.may_be_tested, sda.temperature_c) == (None, None)
