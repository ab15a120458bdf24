"""Block devices for real: loop devices on files of the test, made and taken down by it. No other device is touched."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from flashgauge._core import DeviceError, Session, TargetError
from flashgauge.disclosure import Kind, is_valid_pts_result
from flashgauge.rig import block, identify, keeper, purge, purge_discard, safety
from flashgauge.rig import held as held_module
from flashgauge.rig.base import Prepared, Rig, SessionNeeds
from flashgauge.rig.open import open_rig
from flashgauge.rig.target import parse_target

MIB = 1 << 20
NEEDS = SessionNeeds(max_threads=1, max_queue_depth=4, max_block_bytes=MIB, seed=1)
PATTERN = b"flashgauge-test!" * 256


class HeldSession:
    """Holds the device as the engine's session does: O_DIRECT and exclusively."""

    def __init__(self, path: str, range_bytes: int, *rest: object) -> None:
        exclusive = os.O_EXCL if rest[-2] else 0
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC | exclusive)
        except OSError as error:
            raise DeviceError(error.errno, f"{path}: {error.strerror}") from error
        self.range_bytes, self.rest = range_bytes, rest

    block = classmethod(lambda cls, *arguments: cls(*arguments))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def tool(*command: str, **environment: str) -> str:
    """Output of a command; the test is skipped where it is not installed."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@contextmanager
def attached(file: Path, *options: str) -> Iterator[str]:
    """A loop device on `file`, detached afterwards."""
    if os.geteuid() != 0:
        pytest.skip("loop devices need root")
    try:
        path = tool("losetup", "--find", "--show", *options, str(file))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device to be had: {error.stderr}")
    try:
        yield path
    finally:
        detach(path, file.parent)


def detach(path: str, folder: Path) -> None:
    """Detach a loop device, if it still is on a file of the test's folder (/dev, for one on a loop device)."""
    backing = Path(f"/sys/class/block/{Path(path).name}/loop/backing_file")
    if backing.exists() and backing.read_text().startswith(f"{folder}/"):
        subprocess.run(["losetup", "--detach", path], check=True)


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[str]:
    """A loop device of 16 MiB, full of PATTERN."""
    file = tmp_path / "disk.img"
    file.write_bytes(PATTERN * (16 * MIB // len(PATTERN)))
    with attached(file) as path:
        yield path


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block, "Session", HeldSession)


def open_block(path: str, consent: str | None) -> Rig:
    return open_rig(parse_target(path), NEEDS, consent)


def refused(path: str) -> str:
    """The refusal, with the right consent given; the device must be unchanged by it."""
    before = Path(path).read_bytes()[: 16 * MIB]
    with pytest.raises(TargetError) as error:
        open_block(path, Path(path).name)
    assert Path(path).read_bytes()[: 16 * MIB] == before
    assert ": refused: " in str(error.value)
    return str(error.value)


@pytest.mark.usefixtures("held")
def test_consent_missing_wrong_and_right(loop: str) -> None:
    name = Path(loop).name
    for wrong in (None, "", "loop", f"{name}x", loop):
        with pytest.raises(TargetError, match=f"no serial number.*to consent add --consent {name}$"):
            open_block(loop, wrong)
    rig = open_block(loop, name)
    try:
        assert (rig.dut.kind, rig.dut.capacity_bytes, rig.dut.serial) == ("block", 16 * MIB, None)
        assert rig.session.range_bytes == 16 * MIB
        queue = rig.description()["queue"]
        assert queue["logical_block_size"] == "512"
        assert set(queue) >= {"scheduler", "nomerges", "rotational", "discard_max_bytes", "physical_block_size"}
        assert rig.telemetry.health().reason == "no drive's health log is behind it"
        assert [item.kind for item in rig.disclosures()] == [Kind.NOT_DEVICE_LEVEL]
        assert not is_valid_pts_result(rig.disclosures())
    finally:
        rig.close()
    rig.close()
    with Path(loop).open("rb") as file:
        assert file.read(len(PATTERN)) == PATTERN  # opening alone destroys nothing


def test_the_engines_own_session_opens_it(loop: str) -> None:
    rig = open_block(loop, Path(loop).name)
    assert isinstance(rig.session, Session)
    try:
        with pytest.raises(OSError, match="busy") as error:
            os.open(loop, os.O_RDONLY | os.O_EXCL)
        assert error.value.errno == errno.EBUSY
        assert rig.purge(print).disclosures[0].kind is Kind.PURGE_BY_DISCARD
    finally:
        rig.close()
    os.close(os.open(loop, os.O_RDONLY | os.O_EXCL))


@pytest.mark.usefixtures("held")
def test_second_run_on_the_same_device_is_refused(loop: str) -> None:
    rig = open_block(loop, Path(loop).name)
    try:
        assert "the kernel holds it exclusively" in refused(loop)
    finally:
        rig.close()


@pytest.mark.usefixtures("held")
def test_link_to_the_device_is_named_with_it(loop: str, tmp_path: Path) -> None:
    (tmp_path / "by-id").symlink_to(loop)
    with pytest.raises(TargetError, match=f"^{tmp_path}/by-id -> {loop} "):
        open_block(str(tmp_path / "by-id"), None)


@pytest.mark.usefixtures("held")
def test_mounted_device_is_refused(loop: str, tmp_path: Path) -> None:
    tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    point = tmp_path / "mounted here"
    point.mkdir()
    tool("mount", loop, str(point))
    try:
        assert f"mounted ({loop} at {point}): umount first" in refused(loop)
    finally:
        subprocess.run(["umount", str(point)], check=True)
    open_block(loop, Path(loop).name).close()


@pytest.mark.usefixtures("held")
def test_disk_and_sibling_of_a_mounted_partition_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "parted.img"
    with file.open("wb") as image:
        image.truncate(64 * MIB)
    point = tmp_path / "point"
    point.mkdir()
    with attached(file, "--partscan") as loop:
        first, second = f"{loop}p1", f"{loop}p2"
        # Not by a partition table: not every kernel reads every kind.
        for number, start in (("1", "2048"), ("2", "40960")):
            tool("addpart", loop, number, start, "32768")
        tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", first)
        tool("mount", first, str(point))
        try:
            for path in (loop, first, second):
                with pytest.raises(TargetError, match=f"refused: mounted \\({first} at {point}\\)"):
                    open_block(path, Path(loop).name)
        finally:
            subprocess.run(["umount", str(point)], check=True)
        rig = open_block(second, Path(second).name)
        assert rig.dut.capacity_bytes == 16 * MIB
        assert "part of a drive" in rig.disclosures()[0].message
        rig.close()


@pytest.mark.usefixtures("held")
def test_active_swap_is_refused(loop: str) -> None:
    tool("mkswap", loop)
    try:
        tool("swapon", loop)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no swap here: {error.stderr}")
    try:
        assert "active swap" in refused(loop)
    finally:
        subprocess.run(["swapoff", loop], check=True)


@pytest.mark.usefixtures("held")
def test_member_of_a_mapping_is_refused(loop: str) -> None:
    name = f"flashgauge-test-{os.getpid()}"
    try:
        tool("dmsetup", "create", name, "--table", f"0 {16 * MIB // 512} linear {loop} 0")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no device mapper here: {error.stderr.splitlines()[0]}")
    try:
        assert "held (" in refused(loop)
    finally:
        subprocess.run(["dmsetup", "remove", name], check=True)


@pytest.mark.usefixtures("held")
def test_device_behind_another_loop_device_is_refused(loop: str) -> None:
    with attached(Path(loop)) as upper:
        assert f"behind a loop device ({Path(upper).name})" in refused(loop)


@pytest.mark.usefixtures("held")
def test_device_open_for_writing_is_refused(loop: str) -> None:
    script = 'exec 3<>"$1"; echo; read -r _'
    with subprocess.Popen(["sh", "-c", script, "sh", loop], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text = refused(loop)
        process.communicate(b"\n")
    assert f"open for writing ({loop} by process {process.pid} sh)" in text


@pytest.mark.usefixtures("held")
def test_signature_is_refused(loop: str) -> None:
    with Path(loop).open("r+b") as device:
        device.seek(512)
        device.write(b"LABELONE" + bytes(16) + b"LVM2 001")
    assert f"{Path(loop).name}: LVM" in refused(loop)


@pytest.mark.usefixtures("held")
def test_read_only_device_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "ro.img"
    file.write_bytes(bytes(MIB))
    with attached(file, "--read-only") as loop:
        assert "read-only" in refused(loop)


@pytest.mark.usefixtures("held")
def test_too_small_device_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "small.img"
    file.write_bytes(bytes(MIB // 2))
    with attached(file) as loop, pytest.raises(TargetError, match="too small, the test needs 1048576 bytes"):
        open_block(loop, Path(loop).name)


def test_file_target_on_a_block_device_is_sent_to_the_right_form(loop: str) -> None:
    with pytest.raises(TargetError, match=f"to test it write {loop}, without file:"):
        open_block(f"file:{loop}?size=1MiB", Path(loop).name)


@pytest.mark.usefixtures("held")
@pytest.mark.clause("3.2")
def test_purge_discards_while_the_session_holds_the_device(loop: str) -> None:
    rig = open_block(loop, Path(loop).name)
    try:
        prepared = rig.purge(print)
    finally:
        rig.close()
    assert prepared.state == (
        "discard of the whole device (BLKDISCARD); verified: the old data is gone from 64 of 64 samples (64 zeros)"
    )
    assert [(item.kind, item.clause, item.invalidates) for item in prepared.disclosures] == [
        (Kind.PURGE_BY_DISCARD, "3.2", False)
    ]
    assert Path(loop).read_bytes() == bytes(16 * MIB)  # a loop device punches its file; others promise nothing


def purged(path: str, method: str = "auto") -> Prepared:
    """Purge without a session."""
    device = identify.find_block(path)
    kept = keeper.Keeper(device)
    return purge.run(purge.choose(device, method), device, lambda: None, kept, print)


@pytest.mark.clause("3.2")
def test_purge_in_several_calls_reaches_the_end(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(purge_discard, "CHUNK_BYTES", 7 * MIB)
    purged(loop)
    assert Path(loop).read_bytes() == bytes(16 * MIB)


@pytest.mark.clause("3.2")
@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EIO])
def test_purge_that_fails(loop: str, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def fails(*_: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "ioctl", fails)
    if code == errno.EIO:
        with pytest.raises(DeviceError, match=f"{loop}: discard: Input/output error; choose another --purge, or none"):
            purged(loop)
        return
    prepared = purged(loop)
    assert prepared.state == "not run (the device takes no discard)"
    assert [(item.kind, item.clause) for item in prepared.disclosures] == [(Kind.PURGE_NOT_RUN, "3.2")]
    assert not is_valid_pts_result(list(prepared.disclosures))


@pytest.mark.clause("3.2")
def test_a_discard_that_does_nothing_is_found_out(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fcntl, "ioctl", lambda *_: 0)
    with pytest.raises(DeviceError, match="discard left 64 of 64 samples as they were: the drive is not purged"):
        purged(loop)


@pytest.mark.clause("3.2")
def test_device_without_discard_is_not_purged(tmp_path: Path) -> None:
    device = identify.BlockDevice("/dev/none", "/dev/none", tmp_path, identify.Roots())
    choice = purge.choose(device)
    assert (choice.method, choice.reason) == (None, "the device takes no discard")
    kept = keeper.Keeper(device)
    prepared = purge.run(choice, device, lambda: None, kept, print)
    assert prepared.disclosures[0].kind is Kind.PURGE_NOT_RUN


@pytest.mark.clause("3.2")
def test_purge_none_is_disclosed_and_leaves_everything(loop: str) -> None:
    prepared = purged(loop, "none")
    assert prepared.state == "not run (as asked for with --purge none)"
    assert not is_valid_pts_result(prepared.disclosures)
    assert Path(loop).read_bytes()[: len(PATTERN)] == PATTERN


@pytest.mark.parametrize("method", ["nvme-format", "ata-security-erase", "scsi-format"])
def test_a_drives_method_is_refused_for_what_is_no_drive(loop: str, method: str) -> None:
    with pytest.raises(TargetError, match=f"--purge {method} cannot be used: no (NVMe|ATA|SCSI) drive"):
        open_rig(parse_target(loop), NEEDS, Path(loop).name, purge_method=method)


@pytest.mark.usefixtures("held")
def test_device_exchanged_after_consent_is_not_purged(loop: str, tmp_path: Path) -> None:
    cleared = safety.clear(identify.find_block(loop), loop, Path(loop).name, MIB)
    other = tmp_path / "other.img"
    other.write_bytes(PATTERN * (16 * MIB // len(PATTERN)))
    detach(loop, tmp_path)
    try:
        tool("losetup", loop, str(other))  # as large, under the same name
    except subprocess.CalledProcessError as error:
        pytest.skip(f"someone else took the loop device: {error.stderr}")
    with pytest.raises(DeviceError, match=r"not the device consented to .*diskseq"):
        block.BlockRig(cleared, NEEDS)
    os.close(os.open(loop, os.O_RDONLY | os.O_EXCL))  # the claim was given back
    assert other.read_bytes()[: len(PATTERN)] == PATTERN


@pytest.mark.usefixtures("held")
def test_device_exchanged_during_the_run_is_not_purged(
    loop: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rig = open_block(loop, Path(loop).name)

    def gone(*_: object) -> identify.BlockDevice:
        raise TargetError("no such device")

    try:
        monkeypatch.setattr(identify, "find_block", gone)
        with pytest.raises(DeviceError, match="went away after consent"):
            rig.purge(print)
    finally:
        rig.close()
    assert Path(loop).read_bytes()[: len(PATTERN)] == PATTERN


@pytest.mark.usefixtures("held")
@pytest.mark.clause("3.7")
def test_write_cache_of_a_device_is_read_from_the_kernel(loop: str) -> None:
    rig = open_block(loop, Path(loop).name)
    try:
        reported = Path(f"/sys/class/block/{Path(loop).name}/queue/write_cache").read_text().strip()
        assert reported in rig.set_write_cache(True).state
        # Exactly one of the two states is met, whichever the kernel reports.
        assert len(rig.set_write_cache(True).disclosures) + len(rig.set_write_cache(False).disclosures) == 1
    finally:
        rig.close()


@pytest.mark.usefixtures("held")
def test_memory_device_made_for_the_test() -> None:
    control = Path("/sys/class/zram-control")
    if os.geteuid() != 0 or not control.exists():
        pytest.skip("a zram device of its own needs root and the zram module")
    number = (control / "hot_add").read_text().strip()
    try:
        path = f"/dev/zram{number}"
        with pytest.raises(TargetError, match="its size is 0"):
            open_block(path, f"zram{number}")
        Path(f"/sys/block/zram{number}/disksize").write_text(str(16 * MIB))
        rig = open_block(path, f"zram{number}")
        try:
            assert rig.dut.logical_block_bytes == 4096
            assert "stands for memory" in rig.disclosures()[0].message
            assert rig.purge(print).disclosures[0].kind is Kind.PURGE_BY_DISCARD
        finally:
            rig.close()
    finally:
        (control / "hot_remove").write_text(number)


def test_a_look_at_the_device_takes_no_longer_than_a_gap_may(loop: str) -> None:
    """The driver looks while the step before is under way, or when the device is idle anyway."""
    rig = open_block(loop, Path(loop).name)
    try:
        times_s = []
        for _ in range(200):
            began_s = time.perf_counter()
            rig.check()
            times_s.append(time.perf_counter() - began_s)
    finally:
        rig.close()
    print(f"a look takes {statistics.median(times_s) * 1e6:.0f} us, the longest {max(times_s) * 1e6:.0f} us")
    assert statistics.median(times_s) < 1e-3


@pytest.mark.usefixtures("held")
def test_device_that_changed_its_size_is_found(loop: str, tmp_path: Path) -> None:
    rig = open_block(loop, Path(loop).name)
    try:
        os.truncate(tmp_path / "disk.img", 20 * MIB)
        tool("losetup", "--set-capacity", loop)
        with pytest.raises(DeviceError, match=f"size_bytes was {16 * MIB}, is {20 * MIB}"):
            rig.check()
        with pytest.raises(DeviceError, match="size_bytes was"):
            rig.purge(print)
    finally:
        rig.close()
    assert Path(loop).read_bytes()[: len(PATTERN)] == PATTERN


@pytest.mark.usefixtures("held")
def test_medium_exchanged_under_the_open_descriptor_is_found(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel gives a drive a new number with each medium; the path and all else may be as before."""
    rig = open_block(loop, Path(loop).name)
    real_ioctl, asked = fcntl.ioctl, []

    def ioctl(descriptor: int, request: int, *arguments: bytes) -> object:
        answer = real_ioctl(descriptor, request, *arguments)
        assert isinstance(answer, bytes)
        asked.append(request)
        return (int.from_bytes(answer, sys.byteorder) + 1).to_bytes(8, sys.byteorder)

    try:
        rig.check()
        monkeypatch.setattr(fcntl, "ioctl", ioctl)
        with pytest.raises(DeviceError, match="the drive or its medium was exchanged; start again"):
            rig.check()
        assert asked == [held_module.BLKGETDISKSEQ]
    finally:
        rig.close()


@pytest.mark.parametrize("code", [errno.ENOTTY, errno.EINVAL])
def test_kernel_without_numbers_of_media_is_no_exchange(loop: str, monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    def none(*_: object) -> bytes:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(fcntl, "ioctl", none)
    cleared = safety.clear(identify.find_block(loop), loop, Path(loop).name, MIB)
    held_module.Held(cleared).close()


@pytest.mark.usefixtures("held")
def test_claim_of_a_passing_look_is_waited_out(loop: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`flashgauge devices`, typed by somebody else, claims each free device for some microseconds."""
    real_block, tries = HeldSession.block, []

    def once_busy(*arguments: object) -> object:
        tries.append(arguments)
        if len(tries) == 1:
            raise DeviceError(errno.EBUSY, "busy")
        return real_block(*arguments)

    monkeypatch.setattr(HeldSession, "block", once_busy)
    open_block(loop, Path(loop).name).close()
    assert len(tries) == 2


@pytest.mark.usefixtures("held")
def test_device_mounted_in_another_namespace_is_refused(loop: str, tmp_path: Path) -> None:
    """As in a container: this namespace's own table does not have it."""
    tool("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", loop)
    point = tmp_path / "inside"
    point.mkdir()
    script = 'mount "$1" "$2" && echo mounted && read -r _'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", loop, str(point)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        if process.stdout.readline() != b"mounted\n":
            pytest.skip("no mount namespaces here")
        assert not os.path.ismount(point)
        text = refused(loop)
        process.communicate(b"\n")
    assert f"mounted ({loop} at {point}): umount first" in text
    open_block(loop, Path(loop).name).close()
