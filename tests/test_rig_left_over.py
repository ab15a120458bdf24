"""What a run has left in a drive, and which drive that is: after a crash, among twins, without a serial, locked, in the
middle of a format. Against stand-ins for the tools (fake_tools.py)."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from blockdevices import MIB, filled, loop_on
from drives import Drive, again, made_up, start, wait_for
from fakes import FakeObserver, FakeRig, FakeSession, measurement, run_folder
from flashgauge._core import DeviceError, TargetError
from flashgauge.cli import consent
from flashgauge.driver import Driver
from flashgauge.execute import RunRequest
from flashgauge.rig import (
    identify,
    keeper,
    listing,
    open,
    purge,
    records,
    safety,
    smart,
    tools,
    underway,
    writecache,
)
from flashgauge.rig.base import Prepared, SessionNeeds, Tell
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.target import Target
from flashgauge.rig.telemetry import HostTelemetry
from flashgauge.rig.underway import LeftUnderWay
from flashgauge.rig.uses import read_uses
from flashgauge.steps import Purge

Make = Callable[..., Drive]
SECURITY_WORD = 1 << 0 | 1 << 5
SET = {"nvme": "nvme set-feature", "ata": "hdparm -W", "scsi": "sg_wr_mode"}
NEEDS = SessionNeeds(1, 1, 4096, 1)


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    monkeypatch.setattr(underway, "POLL_S", 0.01)
    monkeypatch.setattr(keeper, "RETRY_S", 0.05)

    def made(kind: str, data: str | None = None, **state: Any) -> Drive:
        drive = made_up(tmp_path / "drive", kind, data, **state)
        monkeypatch.setenv("PATH", str(drive.folder), prepend=os.pathsep)
        return drive

    return made


@pytest.fixture
def data(tmp_path: Path) -> Iterator[str]:
    with loop_on(filled(tmp_path / "disk.img", 16 * MIB)) as path:
        yield path


def left(device: BlockDevice, **changes: Any) -> Path:
    """A record as a run leaves it that ends with its machine."""
    file = records.record_file(device)
    records.write_record(file, replace(records.new_record(device), **changes))
    return file


def opened(monkeypatch: pytest.MonkeyPatch, drive: Drive, consent_name: str) -> None:
    """open_rig of the made-up drive: what it does before anything is opened for writing."""
    monkeypatch.setattr(identify, "find_block", lambda *_: drive.device)
    monkeypatch.setattr(open, "BlockRig", lambda cleared, *_: cleared)
    open.open_rig(Target(drive.device.path, "block", drive.device.path), NEEDS, consent_name)


class TestPassword:
    """A power cut in the middle of a security erase: the drive is locked, and answers no read."""

    def locked(self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch) -> Drive:
        drive = make("ata", data, word128=SECURITY_WORD, password="flashgauge", locked=True)
        left(drive.device, password=True, password_s=1.0, boot_id="before the power cut", diskseq="3")
        real = os.open

        def read(path: str, *arguments: int) -> int:
            if path == data and drive.state["locked"] and not arguments[0] & os.O_EXCL:
                raise OSError(5, "Input/output error")
            return real(path, *arguments)

        monkeypatch.setattr(os, "open", read)
        return drive

    def test_it_is_cleared_before_the_drive_is_read(
        self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        drive = self.locked(make, data, monkeypatch)
        opened(monkeypatch, drive, "FG0001")
        assert (drive.state["password"], drive.state["locked"], records.all_records()) == (None, False, [])
        assert "put right now: the temporary ATA password was cleared" in capsys.readouterr().err
        unlock, disable = (drive.calls(f"--security-{word}") for word in ("unlock", "disable"))
        assert (len(unlock), len(disable)) == (1, 1)

    def test_not_without_consent(self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
        drive = self.locked(make, data, monkeypatch)
        with pytest.raises(TargetError, match="is not its serial"):
            opened(monkeypatch, drive, "another's")
        assert drive.calls() == []

    def test_the_question_is_asked_all_the_same(
        self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        drive = self.locked(make, data, monkeypatch)
        monkeypatch.setattr(identify, "find_block", lambda *_: drive.device)
        monkeypatch.setattr("sys.stdin", Typed("FG0001\n"))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        asked = consent.asked_consent(RunRequest("iops", drive.device.path), False)
        assert (asked.consent, asked.seen) == ("FG0001", identify.identity(drive.device))
        assert "cannot be read: an earlier run may have left its password" in capsys.readouterr().err

    def test_a_frozen_drive_is_told_how_to_thaw_at_once(self, make: Make) -> None:
        drive = make("ata", word128=SECURITY_WORD | 8, password="flashgauge", locked=True)
        with pytest.raises(
            DeviceError, match=r"frozen by the firmware: suspend and wake .*--security-unlock flashgauge"
        ):
            keeper.clear_password(drive.device, 3600)
        assert not drive.calls("--security-disable")

    def test_behind_a_bridge_the_record_is_kept(self, make: Make) -> None:
        drive = make("ata", word128=SECURITY_WORD, password="flashgauge")
        file = left(drive.device, password=True)
        (drive.device.disk / "device/vendor").write_text("JMicron\n")
        with pytest.raises(DeviceError, match=r"no ATA command reaches the drive here.*--security-disable flashgauge"):
            keeper.overdue(drive.device)
        record = records.read_record(file)
        assert record is not None
        assert record.password
        assert "no ATA command" in str(record.error)


class Typed:
    """Standard input of an operator at a terminal."""

    def __init__(self, line: str) -> None:
        self._line = line

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        return self._line


class TestFormatUnderWay:
    """An NVMe drive does not stop a format, and is not to be asked anything before its end."""

    def test_ctrl_c_waits_for_its_end(self, make: Make, data: str, tmp_path: Path) -> None:
        drive = make("nvme", data, image=str(tmp_path / "disk.img"), hang={"nvme format": None})
        process, told = purging(drive, tmp_path)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "nvme-format: interrupted; waiting for its end" in told.read_text())
        assert process.poll() is None
        release(drive)
        assert process.wait(60) == 1
        assert "KeyboardInterrupt" in told.read_text()
        assert not records.command_under_way(drive.device)
        assert drive.calls("nvme")[-1].startswith("nvme format")

    @pytest.mark.parametrize("how", ["Ctrl-C twice", "kill -9"])
    def test_one_left_alone_is_waited_for_by_the_next_run(
        self, make: Make, data: str, tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drive = make("nvme", data, image=str(tmp_path / "disk.img"), hang={"nvme format": None})
        process, told = purging(drive, tmp_path, cache_off=True)
        if how == "kill -9":
            process.kill()
        else:
            process.send_signal(signal.SIGINT)
            wait_for(lambda: "Ctrl-C again leaves it alone" in told.read_text())
            process.send_signal(signal.SIGINT)
        process.wait(60)
        assert records.command_under_way(drive.device), "the drive goes on"
        (refusal,), temperature = listing._ask(drive.device, read_uses(drive.device.roots))
        assert (refusal, temperature) == (listing.PURGING, None)
        before = len(drive.calls())

        def waited(text: str) -> None:
            assert drive.calls()[before:] == [], "nothing is asked before the end"
            release(drive)

        monkeypatch.setattr(open, "_Once", lambda prefix: waited)
        opened(monkeypatch, drive, "FG0001")
        assert drive.calls()[before:], "asked after the end"
        assert Path(data).read_bytes() == bytes(16 * MIB), "it was over before the next run asked"
        wait_for(lambda: drive.state["cache"] == 1 and records.all_records() == [])

    def test_the_drive_is_asked_nothing_when_its_run_has_left_it(self, make: Make, tmp_path: Path) -> None:
        """The health log of the run's end is not worth a reset in the middle of a format."""
        drive = make("nvme", hang={"nvme format": None})
        source = smart.health_source(drive.device)
        assert isinstance(source, smart.HealthSource)

        class Rig(FakeRig):
            def purge(self, tell: Tell) -> Prepared:
                with records.command_lock(drive.device) as lock:
                    tools.Command("nvme", "format", "/dev/nvme0", keep=lock)
                wait_for(lambda: (drive.folder / "hanging").exists())
                raise LeftUnderWay

        rig = Rig(FakeSession(lambda number: measurement(1.0)))
        rig.telemetry = HostTelemetry(drive_health=source)
        folder = run_folder(tmp_path / "run")
        with pytest.raises(KeyboardInterrupt):
            Driver(rig, folder, FakeObserver(), gap_limit_ms=1.0).run(iter([Purge()]))  # type: ignore[arg-type]
        assert [call.split()[1] for call in drive.calls("nvme ")] == ["smart-log", "format"]
        assert "a format is under way" in folder.run.health["not_read"]
        release(drive)
        records.wait_for_command(drive.device, limit_s=30)


def purging(drive: Drive, folder: Path, *, cache_off: bool = False) -> tuple[subprocess.Popen[bytes], Path]:
    """A process that purges the drive, in whose middle the tool hangs; and the file with what it tells, and its end.
    `cache_off`: it has switched the write cache off before, as a run has that purges once more."""
    told = folder / "told"
    told.touch()
    code = (
        f"tell = lambda text: print(text, file=open({str(told)!r}, 'a'), flush=True)\n"
        f"{'writecache.set_cache(device, False, kept.note_cache)' * cache_off}\n"
        "try:\n"
        "    purge.run(purge.choose(device), device, lambda: None, kept, tell)\n"
        "except BaseException as error:\n"
        "    tell(repr(error))\n"
        "    raise SystemExit(1)\n"
        "finally:\n"
        "    kept.release()"
    )
    process = start(drive, code)
    wait_for(lambda: (drive.folder / "hanging").exists())
    return process, told


def release(drive: Drive) -> None:
    """The drive comes to the end of what it does."""
    (drive.folder / "released").touch()


class TestSecurityEraseInterrupted:
    """The first Ctrl-C waits for the erase and clears the password; the second leaves that to the guardian."""

    def test_the_second_ctrl_c_ends_the_program_and_the_guardian_clears_the_password(
        self, make: Make, data: str, tmp_path: Path
    ) -> None:
        drive = make("ata", data, word128=SECURITY_WORD, hang={"--security-erase": None}, ends_in="failure")
        process, told = purging(drive, tmp_path)
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "Ctrl-C again leaves it alone" in told.read_text())
        assert process.poll() is None, "it waits for the erase"
        process.send_signal(signal.SIGINT)
        process.wait(60)
        assert "left to the guardian" in told.read_text()
        assert len(records.all_records()) == 1
        release(drive)
        wait_for(lambda: drive.state["password"] is None)
        wait_for(lambda: records.all_records() == [])


class TestSanitizeUnderWay:
    """It goes on in the drive, which takes no setting before its end."""

    @pytest.mark.parametrize(
        ("kind", "looks", "state"),
        [
            ("nvme", "sanitize-log", {"ctrl": {"sanicap": 3}, "action": 2}),
            ("ata", "--sanitize-status", {"word59": 1 << 12 | 1 << 15}),
            ("scsi", "sg_requests", {"busy_code": 0x1B}),
        ],
    )
    def test_the_cache_is_put_back_after_its_end(
        self, make: Make, kind: str, looks: str, state: dict[str, Any]
    ) -> None:
        drive = make(kind, cache=0, busy=True, looks=3, **state)
        assert keeper.put_back_file(left(drive.device, write_cache=True)) == "the write cache was enabled again"
        calls = drive.calls()
        put_back = next(at for at, call in enumerate(calls) if call in drive.calls(SET[kind]))
        assert len([call for call in calls[:put_back] if looks in call]) >= 4, calls

    def test_ctrl_c_leaves_it_to_the_guardian(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, data: str, tmp_path: Path
    ) -> None:
        """And not the operator waiting for it, though a setting is to be put back."""
        drive = make("scsi", data, cache=1, takes={"0x48,2": True}, image=str(tmp_path / "disk.img"))
        kept = Keeper(drive.device)
        writecache.set_cache(drive.device, False, kept.note_cache)
        drive.set(looks=10**6)

        def interrupted(seconds: float) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt), monkeypatch.context() as patch:
            patch.setattr(underway, "time", SimpleNamespace(sleep=interrupted, monotonic=time.monotonic))
            purge.run(purge.choose(drive.device, "scsi-sanitize"), drive.device, lambda: None, kept, print)
        assert re.match(r"process \d+ puts the drive back when that takes commands again", str(kept.release()))
        drive.set(looks=0)
        wait_for(lambda: drive.state["cache"] == 1 and records.all_records() == [])


class TestSanitizeFailed:
    """The drive takes no I/O but a new sanitize: it cannot be searched for signatures."""

    def failed(self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch, **state: Any) -> Drive:
        drive = make("nvme", data, ctrl={"sanicap": 3}, action=2, **state)
        real = os.open

        def read(path: str, *arguments: int) -> int:
            if path == data and not arguments[0] & os.O_EXCL:
                raise OSError(5, "Input/output error")
            return real(path, *arguments)

        monkeypatch.setattr(os, "open", read)
        return drive

    def test_a_drive_that_says_so_may_be_tested(self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
        opened(monkeypatch, self.failed(make, data, monkeypatch, ends_in="failure"), "FG0001")

    def test_another_that_cannot_be_read_may_not(self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(TargetError, match=r"cannot read .* \(Input/output error\)"):
            opened(monkeypatch, self.failed(make, data, monkeypatch), "FG0001")

    def test_the_question_is_asked_all_the_same(
        self, make: Make, data: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        drive = self.failed(make, data, monkeypatch, ends_in="failure")
        monkeypatch.setattr(identify, "find_block", lambda *_: drive.device)
        monkeypatch.setattr("sys.stdin", Typed("FG0001\n"))
        monkeypatch.setattr("sys.stderr.isatty", lambda: True)
        assert consent.asked_consent(RunRequest("iops", drive.device.path), False).consent == "FG0001"
        assert f"cannot read {data} (Input/output error)" in capsys.readouterr().err
        assert drive.calls() == [], "the drive is asked nothing before that"


class TestTwins:
    """Cheap bridges give all drives one serial and one WWID."""

    def test_the_one_whose_disk_number_the_record_has_is_put_back(self, make: Make) -> None:
        drive = make("scsi", cache=0)
        twin = again(drive, "sdc", diskseq="8")
        left(twin, write_cache=True)
        assert keeper.overdue(drive.device) is None
        assert drive.calls() == []
        assert keeper.overdue(twin) == "the write cache was enabled again"
        assert f"{twin.path}" in drive.calls("sg_wr_mode")[0]

    def test_the_guardian_finds_it_too(self, make: Make) -> None:
        drive = make("scsi", cache=1)
        twin = again(drive, "sda", diskseq="8")  # named before it
        kept = Keeper(drive.device)
        writecache.set_cache(drive.device, False, kept.note_cache)
        assert kept.release() is None
        calls = drive.calls("sg_wr_mode")
        assert (len(calls), [call for call in calls if twin.path in call]) == (2, [])

    def test_after_a_restart_nobody_knows_and_the_commands_are_told(self, make: Make) -> None:
        drive = make("scsi", cache=0)
        again(drive, "sdc", diskseq="8")
        file = left(drive.device, write_cache=True, boot_id="another boot")
        with pytest.raises(DeviceError, match=r"all have serial FG0001 .*find out which.*sdparm --set WCE=1 .*rm "):
            keeper.overdue(drive.device)
        assert file.exists()
        assert drive.calls() == []

    def test_two_runs_have_a_record_each(self, make: Make) -> None:
        drive = make("scsi", cache=1)
        twin = again(drive, "sdc", diskseq="8")
        assert records.record_file(drive.device) != records.record_file(twin)


class TestNameless:
    """Drives without serial and WWID are known by the kernel's number of the disk, within one boot."""

    def nameless(self, make: Make) -> Drive:
        drive = make("scsi", cache=0)
        for name in ("serial", "wwid"):
            (drive.device.disk / "device" / name).unlink()
        return drive

    def test_put_back_in_the_same_boot(self, make: Make) -> None:
        drive = self.nameless(make)
        left(drive.device, write_cache=True)
        assert keeper.overdue(drive.device) == "the write cache was enabled again"

    @pytest.mark.parametrize("change", [{"boot_id": "another boot"}, {"diskseq": "6"}])
    def test_another_boot_or_another_disk_is_left_alone_and_told(self, make: Make, change: dict[str, str]) -> None:
        drive = self.nameless(make)
        file = left(drive.device, write_cache=True, **change)
        assert keeper.overdue(drive.device) is None
        assert drive.calls() == []
        (told,) = keeper.left_over()
        assert f"put it back by hand: hdparm -W1 {drive.device.path} (SATA)" in told
        assert f"rm {file}" in told

    def test_one_that_nothing_tells_from_another_is_not_changed(self, make: Make) -> None:
        drive = self.nameless(make)
        drive.set(cache=1)
        (drive.device.disk / "diskseq").unlink()
        prepared = writecache.set_cache(drive.device, False, Keeper(drive.device).note_cache)
        assert "nothing tells it from another drive" in prepared.disclosures[0].message
        assert drive.state["cache"] == 1


class TestNamespaces:
    """One controller, one write cache: what a run on one namespace leaves, and does, concerns the others."""

    def test_what_a_run_on_one_has_left_is_put_back_by_a_run_on_the_other(self, make: Make) -> None:
        drive = make("nvme", cache=0)
        other = again(drive, "nvme0n2", nsid="2", diskseq="8")
        left(drive.device, write_cache=True)
        assert keeper.overdue(other) == "the write cache was enabled again"
        assert (drive.state["cache"], records.all_records()) == (1, [])

    def test_two_runs_at_a_time_are_refused(self, make: Make) -> None:
        drive = make("nvme", cache=1)
        other = again(drive, "nvme0n2", nsid="2", diskseq="8")
        lock = records.RunLock(drive.device)
        with pytest.raises(TargetError, match="refused: another run is under way on this drive"):
            records.RunLock(other)
        facts = safety.gather(other, read_uses(other.roots), touch=False)
        assert [refusal.kind for refusal in safety.refusals(facts)] == ["under test"]
        lock.release()
        records.RunLock(other).release()

    @pytest.mark.parametrize("lock", ["run", "command"])
    def test_somebody_who_looks_is_no_run(self, make: Make, monkeypatch: pytest.MonkeyPatch, lock: str) -> None:
        """A listing takes the lock for a moment, to see whether it is held."""
        drive = make("nvme")
        file = records._beside(drive.device, lock)
        file.touch()
        with file.open() as looking:
            fcntl.flock(looking, fcntl.LOCK_SH)
            monkeypatch.setattr(records.time, "sleep", lambda seconds: fcntl.flock(looking, fcntl.LOCK_UN))
            if lock == "run":
                records.RunLock(drive.device).release()
            else:
                with records.command_lock(drive.device):
                    assert records.command_under_way(drive.device)

    def test_a_run_of_root_is_seen_by_other_users(
        self, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        drive = make("nvme")
        monkeypatch.setattr(records, "ROOTS_FOLDER", records.state_folder())
        lock = records.RunLock(drive.device)
        monkeypatch.setenv("FLASHGAUGE_STATE", str(tmp_path / "of another user"))
        assert records.run_under_way(drive.device)
        lock.release()
        assert not records.run_under_way(drive.device)

    def test_another_drive_is_none_of_it(self, make: Make) -> None:
        drive = make("scsi")
        twin = again(drive, "sdc", diskseq="8")
        lock = records.RunLock(drive.device)
        records.RunLock(twin).release()
        lock.release()


class TestNotAllPutBack:
    """The record stays until everything is."""

    def test_a_record_with_nothing_in_it_is_no_news(self, make: Make) -> None:
        """A run that was killed after its erase has cleared the password, and before it could remove the record."""
        drive = make("ata")
        left(drive.device)
        assert keeper.left_over() == []
        assert keeper.overdue(drive.device) is None
        assert records.all_records() == []

    def test_a_cache_out_of_reach(self, make: Make) -> None:
        drive = make("scsi", cache=None)
        file = left(drive.device, write_cache=True)
        with pytest.raises(DeviceError, match="out of reach here: hdparm -W1"):
            keeper.overdue(drive.device)
        assert file.exists()

    def test_a_kernel_that_does_not_take_it_back(self, make: Make) -> None:
        drive = make("nvme", cache=0)
        file = left(drive.device, write_cache=True, kernel_cache="write back")
        view = drive.device.disk / "queue/write_cache"
        view.unlink()
        view.mkdir()  # a write fails, whoever makes it
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(writecache, "kernel_view", lambda device: "write through")
            with pytest.raises(DeviceError, match="does not take back that its cache is write back"):
                keeper.overdue(drive.device)
        record = records.read_record(file)
        assert record is not None
        assert (record.write_cache, record.kernel_cache) == (None, "write back"), "what is done is done"
        assert drive.state["cache"] == 1


class TestNode:
    """The node that a tool is given is looked at right before each command that changes something."""

    @pytest.mark.parametrize(
        ("kind", "change"),
        [
            ("nvme", lambda drive: writecache.NvmeCache(drive.device).set),
            ("ata", lambda drive: writecache.AtaCache(drive.device).set),
            ("scsi", lambda drive: writecache.ScsiCache(drive.device).set),
        ],
    )
    @pytest.mark.parametrize("what", ["another drive's node", "another drive behind the name", "no node"])
    def test_a_node_that_leads_elsewhere_is_not_used(self, make: Make, kind: str, change: Any, what: str) -> None:
        drive = make(kind, cache=1)
        set_cache = change(drive)
        device = drive.device
        node = device.roots.dev / ("nvme0" if kind == "nvme" else device.name)
        if what == "another drive's node":
            number = device.disk.parent / "dev" if kind == "nvme" else device.disk / "dev"
            number.write_text("259:0\n")
            set_cache = change(drive)
            node.unlink()
            node.symlink_to("/dev/null")  # a device node, and of another number
        elif what == "no node":
            node.unlink()
        else:
            (device.disk / "diskseq").write_text("8\n")
        with pytest.raises(DeviceError):
            set_cache(False)
        assert not drive.calls("set-feature") + drive.calls("-W") + drive.calls("sg_wr_mode")
        assert drive.state["cache"] == 1
