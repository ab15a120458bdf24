"""The file target: what it creates, what it refuses, what it never loses without consent."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from flashgauge._core import DeviceError, TargetError
from flashgauge.disclosure import Kind, is_valid_pts_result
from flashgauge.rig import file as file_rig
from flashgauge.rig import purge_discard
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.file import FileRig
from flashgauge.rig.identify import Roots
from flashgauge.rig.open import open_rig
from flashgauge.rig.target import parse_target

NEEDS = SessionNeeds(max_threads=2, max_queue_depth=16, max_block_bytes=1 << 20, seed=7)
MIB = 1 << 20


class HeldSession:
    """Stands for the engine's session: holds the path open, as that does."""

    last: HeldSession

    def __init__(self, path: str, range_bytes: int, *rest: object) -> None:
        self.range_bytes, self.rest, self.closed = range_bytes, rest, False
        self._file = open(path, "r+b")  # noqa: SIM115 - held until close
        HeldSession.last = self

    block = classmethod(lambda cls, *arguments: cls(*arguments))

    def close(self) -> None:
        self.closed = True
        self._file.close()


@pytest.fixture(autouse=True)
def _session(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_rig, "Session", HeldSession)


@contextmanager
def opened(text: str, consent: str | None = None) -> Iterator[FileRig]:
    rig = open_rig(parse_target(text), NEEDS, consent)
    assert isinstance(rig, FileRig)
    try:
        yield rig
    finally:
        rig.close()
        rig.close()


def refused(text: str, consent: str | None = None) -> str:
    with pytest.raises(TargetError) as error, opened(text, consent):
        pass
    assert "\n" not in str(error.value)
    return str(error.value)


def test_missing_file_is_created_at_its_size_and_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    with opened(f"file:{path}?size=5MiB") as rig:
        assert path.stat().st_size == 5 * MIB
        assert path.stat().st_blocks * 512 >= 5 * MIB  # allocated, not sparse
        assert (rig.dut.kind, rig.dut.capacity_bytes) == ("file", 5 * MIB)
        assert rig.dut.interface is not None
        assert rig.dut.interface.startswith("file on ")
        description = rig.description()
        assert (description["created"], description["kept"]) == (True, True)
        assert HeldSession.last.rest == (7, 2, 16, MIB, False, False)
    assert HeldSession.last.closed
    assert path.exists()


def test_file_is_no_device(tmp_path: Path) -> None:
    with opened(f"file:{tmp_path}/t.bin?size=4MiB") as rig:
        disclosures = rig.disclosures()
    assert [item.kind for item in disclosures] == [Kind.NOT_DEVICE_LEVEL]
    assert not is_valid_pts_result(disclosures)


@pytest.mark.clause("3.7")
def test_write_cache_under_a_file_is_disclosed(tmp_path: Path) -> None:
    with opened(f"file:{tmp_path}/t.bin?size=4MiB") as rig:
        for enabled in (True, False):
            prepared = rig.set_write_cache(enabled)
            assert "not known" in prepared.state
            assert [(item.kind, item.clause) for item in prepared.disclosures] == [(Kind.WRITE_CACHE_STATE, "3.7")]


@pytest.mark.clause("3.2")
def test_purge_frees_the_blocks_of_the_range_only(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(b"x" * 6 * MIB)
    with opened(f"file:{path}?size=4MiB", "t.bin") as rig:
        prepared = rig.purge(print)
    assert path.stat().st_blocks * 512 >= 6 * MIB  # freed and reserved again: the run cannot be short of space
    data = path.read_bytes()
    assert len(data) == 6 * MIB
    assert data[4 * MIB :] == b"x" * 2 * MIB
    if prepared.disclosures[0].kind is Kind.PURGE_BY_DISCARD:  # else the file system cannot, and that is disclosed
        assert data[: 4 * MIB] == bytes(4 * MIB)
        assert not prepared.disclosures[0].invalidates
    assert prepared.disclosures[0].clause == "3.2"


@pytest.mark.clause("3.2")
def test_purge_that_the_file_system_cannot_do_is_disclosed() -> None:
    # Files of /proc know no fallocate: nothing is changed here, of anyone's.
    with Path("/proc/self/comm").open("r+b", buffering=0) as file:
        prepared = purge_discard.punch_file(file.fileno(), "comm", 4096)
    assert prepared.state.startswith("not run (the file system cannot")
    assert [(item.kind, item.clause) for item in prepared.disclosures] == [(Kind.PURGE_NOT_RUN, "3.2")]
    assert not is_valid_pts_result(list(prepared.disclosures))


@pytest.mark.clause("3.2")
def test_purge_that_fails_is_an_error() -> None:
    reader, writer = os.pipe()
    try:
        with pytest.raises(DeviceError) as error:
            purge_discard.punch_file(writer, "pipe", 4096)
        assert error.value.errno == errno.ESPIPE
    finally:
        os.close(reader)
        os.close(writer)


def test_file_with_contents_needs_consent_by_name(tmp_path: Path) -> None:
    path = tmp_path / "precious.img"
    path.write_bytes(b"precious" * MIB)
    for consent in (None, "", "precious", str(path), "PRECIOUS.IMG"):
        text = refused(f"file:{path}", consent)
        assert text.endswith("--consent precious.img")
        assert f"{8 * MIB} bytes" in text
    assert path.read_bytes() == b"precious" * MIB
    with opened(f"file:{path}", "precious.img") as rig:
        assert rig.dut.capacity_bytes == 8 * MIB
        assert rig.description()["created"] is False


def test_empty_file_is_filled_without_consent_and_emptied_again_on_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "empty"
    path.touch()
    with opened(f"file:{path}?size=4MiB"):
        assert path.stat().st_size == 4 * MIB
    os.truncate(path, 0)
    monkeypatch.setattr(HeldSession, "__init__", _fail)
    with pytest.raises(DeviceError), opened(f"file:{path}?size=4MiB"):
        pass
    assert path.stat().st_size == 0


def _fail(*_: object) -> None:
    raise DeviceError(errno.EIO, "the engine did not start")


def test_created_file_goes_when_the_session_does_not_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HeldSession, "__init__", _fail)
    with pytest.raises(DeviceError), opened(f"file:{tmp_path}/t.bin?size=4MiB"):
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("interruption", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()])
def test_partial_file_goes_when_the_disk_is_full_or_the_operator_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interruption: BaseException
) -> None:
    def partly(descriptor: int, offset: int, length: int) -> None:
        os.ftruncate(descriptor, length // 2)
        raise interruption

    monkeypatch.setattr(os, "posix_fallocate", partly)
    with pytest.raises((TargetError, KeyboardInterrupt)) as error, opened(f"file:{tmp_path}/t.bin?size=4MiB"):
        pass
    if isinstance(error.value, TargetError):
        assert "No space left on device" in str(error.value)
        assert "smaller size" in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_file_larger_than_the_disk_is_refused_before_filling_it(tmp_path: Path) -> None:
    assert "No space left" in refused(f"file:{tmp_path}/t.bin?size=900PB")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("", "say how large to create it"),
        ("?size=1MiB", "the test needs at least .size=2097152"),
        ("?size=lots", "not a size"),
        ("?sise=8MiB", "no option sise"),
        ("?size=8MiB&seed=1", "no option seed"),
    ],
)
def test_missing_file_with_a_wrong_query(tmp_path: Path, query: str, message: str) -> None:
    with pytest.raises(TargetError, match=message), opened(f"file:{tmp_path}/t.bin{query}"):
        pass
    assert list(tmp_path.iterdir()) == []


def test_size_over_that_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(bytes(4 * MIB))
    assert "the file has only 4194304 bytes" in refused(f"file:{tmp_path}/t.bin?size=5MiB", "t.bin")
    assert (tmp_path / "t.bin").stat().st_size == 4 * MIB


def test_targets_that_are_no_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "self").symlink_to("self")
    assert "which file?" in refused("file:")
    assert "a folder" in refused(f"file:{tmp_path}?size=4MiB")
    assert "no folder" in refused(f"file:{tmp_path}/none/t.bin?size=4MiB")
    assert "not a regular file" in refused(f"file:{tmp_path}/fifo?size=4MiB")
    assert "not a regular file" in refused("file:/dev/null?size=4MiB")
    assert "give the path of a file" in refused(f"file:{tmp_path}/self?size=4MiB")


def test_link_is_followed_and_both_ends_are_named(tmp_path: Path) -> None:
    (tmp_path / "real.bin").write_bytes(bytes(4 * MIB))
    (tmp_path / "link.bin").symlink_to("real.bin")
    text = refused(f"file:{tmp_path}/link.bin", "link.bin")
    assert f"{tmp_path}/link.bin -> {tmp_path}/real.bin" in text
    assert text.endswith("--consent real.bin")


def test_file_of_another_run_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    path.write_bytes(bytes(4 * MIB))
    with path.open("rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert "another run uses it" in refused(f"file:{path}", "t.bin")
    with opened(f"file:{path}", "t.bin"), path.open("rb") as other, suppress(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        pytest.fail("the rig does not hold its lock")


def test_file_open_for_writing_elsewhere_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "disk.img"
    path.write_bytes(bytes(4 * MIB))
    script = "import sys; f = open(sys.argv[1], 'r+b'); print(flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", script, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        text = refused(f"file:{path}", "disk.img")
        process.communicate(b"")
    assert f"open for writing by process {process.pid}" in text
    with opened(f"file:{path}", "disk.img"):
        pass


def test_swap_file_and_loop_backing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "swap file"
    path.write_bytes(bytes(4 * MIB))
    roots = Roots(sys=tmp_path / "sys", proc=tmp_path / "proc")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/swaps").write_text(f"Filename Type\n{str(path).replace(' ', chr(92) + '040')} file 4096 0 -2\n")
    with pytest.raises(TargetError, match="active swap"):
        file_rig.open_file(parse_target(f"file:{path}"), NEEDS, "swap file", roots)
    (tmp_path / "proc/swaps").unlink()
    (tmp_path / "sys/class/block/loop5/loop").mkdir(parents=True)
    (tmp_path / "sys/class/block/loop5/loop/backing_file").write_text(f"{path}\n")
    with pytest.raises(TargetError, match="behind loop5: losetup -d /dev/loop5 first"):
        file_rig.open_file(parse_target(f"file:{path}"), NEEDS, "swap file", roots)


def test_replaced_file_is_not_purged(tmp_path: Path) -> None:
    path = tmp_path / "t.bin"
    with opened(f"file:{path}?size=4MiB") as rig:
        path.unlink()
        with pytest.raises(DeviceError, match="start again"):
            rig.purge(print)
        path.write_bytes(b"y" * 4 * MIB)
        with pytest.raises(DeviceError, match="replaced or shortened"):
            rig.purge(print)
        assert path.read_bytes() == b"y" * 4 * MIB
