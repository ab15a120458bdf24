"""The write cache set, read back and put back, against stand-ins for the tools (fake_tools.py says what of them was
recorded). The same on QEMU's NVMe, SATA and SCSI drives: tests/machine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from drives import Drive, made_up, start, wait_for
from flashgauge._core import DeviceError
from flashgauge.disclosure import Kind
from flashgauge.rig import identify, keeper, records, tools, writecache
from flashgauge.rig.base import Prepared
from flashgauge.rig.identify import BlockDevice, Roots
from flashgauge.rig.keeper import Keeper
from flashgauge.rig.nvme import Nvme

KINDS = ("nvme", "ata", "scsi")
SET = {"nvme": "nvme set-feature", "ata": "hdparm -W", "scsi": "sg_wr_mode"}
Make = Callable[..., Drive]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def made(kind: str, **state: Any) -> Drive:
        drive = made_up(tmp_path / "drive", kind, **state)
        monkeypatch.setenv("PATH", str(drive.folder), prepend=os.pathsep)
        return drive

    return made


def keeper_of(drive: Drive) -> Keeper:
    return Keeper(drive.device)


def view(drive: Drive) -> str | None:
    """The kernel's, which a made-up tree does not carry over from cache_type."""
    types = list(drive.device.disk.glob("device/scsi_disk/*/cache_type"))
    return identify.read_text(types[0] if types else drive.device.disk / "queue/write_cache")


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("asked", [False, True])
def test_the_cache_is_switched_read_back_and_put_back(make: Make, kind: str, asked: bool) -> None:
    drive = make(kind, cache=int(not asked))
    kept = keeper_of(drive)
    prepared = writecache.set_cache(drive.device, asked, kept.note_cache)
    assert drive.state["cache"] == int(asked)
    now, before = ("enabled", "disabled") if asked else ("disabled", "enabled")
    assert prepared.state.startswith(f"{now} (read back from the drive; {before} before the run, and again after it")
    assert prepared.disclosures == ()
    (file,) = records.all_records()
    assert keeper.left_over() == [], "its run is under way"
    record = records.read_record(file)
    assert record is not None
    assert (record.write_cache, record.serial) == (not asked, identify.serial(drive.device))
    assert kept.release() is None
    assert drive.state["cache"] == int(not asked)
    assert records.all_records() == []
    assert len(drive.calls(SET[kind])) == 2, "set once, put back once"
    assert not drive.calls("--save")


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_as_asked_is_left_alone(make: Make, kind: str) -> None:
    drive = make(kind, cache=1)
    kept = keeper_of(drive)
    prepared = writecache.set_cache(drive.device, True, kept.note_cache)
    assert prepared == Prepared("enabled (read back from the drive; as found)")
    assert (drive.calls(SET[kind]), records.all_records(), kept.release()) == ([], [], None)


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
def test_the_kernel_is_made_to_see_what_the_drive_has(make: Make, kind: str) -> None:
    drive = make(kind, cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    # "temporary": else the kernel would write the setting to the drive's saved page.
    assert view(drive) == ("write through" if kind == "nvme" else "temporary write through")
    if kind != "nvme":  # as the kernel does
        (drive.device.disk / "queue/write_cache").write_text("write through\n")
    assert kept.release() is None
    assert view(drive) == ("write back" if kind == "nvme" else "temporary write back")


@pytest.mark.clause("3.7")
def test_a_kernel_that_keeps_its_view_is_named(make: Make) -> None:
    drive = make("ata", cache=1)
    kept = keeper_of(drive)
    prepared = writecache.set_cache(drive.device, False, kept.note_cache)
    assert prepared.state.endswith("again after it; the kernel still treats it as write back)")
    assert prepared.disclosures == ()
    kept.release()


@pytest.mark.clause("3.7")
@pytest.mark.parametrize(("kind", "state"), [("nvme", {"ctrl": {"vwc": 0}}), ("ata", {}), ("scsi", {})])
@pytest.mark.parametrize("asked", [False, True])
def test_a_drive_without_a_volatile_cache_says_so(make: Make, kind: str, state: dict[str, Any], asked: bool) -> None:
    drive = make(kind, **{"cache": None, **state})
    prepared = writecache.set_cache(drive.device, asked, keeper_of(drive).note_cache)
    assert prepared.state == writecache.NONE
    assert "no volatile write cache" in prepared.state
    assert "power loss" in prepared.state
    assert [item.kind for item in prepared.disclosures] == ([Kind.WRITE_CACHE_STATE] if asked else [])


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
def test_a_drive_that_does_not_obey_is_disclosed(make: Make, kind: str) -> None:
    drive = make(kind, cache=1, obeys=False)
    kept = keeper_of(drive)
    prepared = writecache.set_cache(drive.device, False, kept.note_cache)
    assert prepared.state == "enabled (the drive does not let itself be switched)"
    (found,) = prepared.disclosures
    assert (found.kind, found.clause) == (Kind.WRITE_CACHE_STATE, "3.7")
    assert found.message.startswith("write cache should be disabled, it is enabled")
    assert kept.release() is None


@pytest.mark.clause("3.7")
def test_a_drive_that_refuses_is_disclosed_with_its_words(make: Make) -> None:
    text = "NVMe status: Feature Not Changeable: The Feature Identifier is not able to be changed(0x410e)\n"
    drive = make("nvme", cache=1, fail={"nvme set-feature": [1, text]})
    kept = keeper_of(drive)
    prepared = writecache.set_cache(drive.device, False, kept.note_cache)
    (found,) = prepared.disclosures
    assert "Feature Not Changeable" in found.message
    assert prepared.state.startswith("not known: set, but not read back (")
    assert kept.release() is None


@pytest.mark.clause("3.7")
def test_a_drive_that_cannot_be_asked_is_disclosed_with_the_reason(make: Make) -> None:
    drive = make("nvme", cache=1, fail={"nvme get-feature": [1, "get-feature: Permission denied\n"]})
    prepared = writecache.set_cache(drive.device, False, keeper_of(drive).note_cache)
    (found,) = prepared.disclosures
    assert prepared.state.startswith("enabled (the kernel reports write back), and not set (")
    assert "get-feature: Permission denied" in found.message
    assert not drive.calls("set-feature")


def test_unit_attentions_are_gone_over(make: Make) -> None:
    """A SCSI drive answers the first command after a change with the news of it."""
    drive = make("scsi", cache=1, attentions=3)
    kept = keeper_of(drive)
    assert writecache.set_cache(drive.device, False, kept.note_cache).state.startswith("disabled (read back")
    assert kept.release() is None
    drive.set(attentions=99)
    state = writecache.set_cache(drive.device, False, kept.note_cache).state
    assert "Sense key: Unit Attention" in state


@pytest.mark.clause("3.7")
def test_a_missing_tool_is_disclosed_with_its_package(
    make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    drive = make("ata")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "SYSTEM_FOLDERS", ())
    prepared = writecache.set_cache(drive.device, False, keeper_of(drive).note_cache)
    (found,) = prepared.disclosures
    assert "hdparm is not installed: install the package hdparm" in found.message
    assert prepared.state.startswith("enabled (the kernel reports write back)")


@pytest.mark.parametrize("value", ["get-feature:0x6 (Volatile Write Cache), Current value:0x000001", "x"])
def test_older_tools_are_read_too_and_others_refused(make: Make, value: str) -> None:
    """nvme-cli 1.x wrote six digits."""
    drive = make("nvme")
    (drive.folder / "nvme").unlink()
    (drive.folder / "nvme").write_text(f"#!/bin/sh\necho '{value}'\n")
    (drive.folder / "nvme").chmod(0o755)
    if value == "x":
        with pytest.raises(DeviceError, match="nvme get-feature says 'x'"):
            Nvme(drive.device).feature(6)
    else:
        assert Nvme(drive.device).feature(6) == 1


@pytest.mark.clause("3.7")
@pytest.mark.parametrize(
    ("found", "asked", "state", "disclosed"),
    [
        ("write back", True, "enabled (the kernel reports write back)", False),
        ("write back", False, "enabled (the kernel reports write back)", True),
        ("write through", False, "disabled or absent (the kernel reports write through)", False),
        ("write through", True, "disabled or absent (the kernel reports write through)", True),
        (None, True, "not known (the kernel does not report it)", True),
        (None, False, "not known (the kernel does not report it)", True),
    ],
)
def test_what_is_no_drive_goes_by_the_kernels_word(
    tmp_path: Path, found: str | None, asked: bool, state: str, disclosed: bool
) -> None:
    if found is not None:
        (tmp_path / "loop0/queue").mkdir(parents=True)
        (tmp_path / "loop0/queue/write_cache").write_text(f"{found}\n")
    device = BlockDevice("/dev/x", "/dev/x", tmp_path / "loop0", Roots())

    def note(*_: object) -> None:
        raise AssertionError("nothing is changed")

    prepared = writecache.set_cache(device, asked, note)
    assert prepared.state == state
    assert [(item.kind, item.clause) for item in prepared.disclosures] == (
        [(Kind.WRITE_CACHE_STATE, "3.7")] if disclosed else []
    )


CHANGED = "print(writecache.set_cache(device, False, kept.note_cache).state, flush=True)\n"


def guardian_of(process: subprocess.Popen[bytes]) -> int:
    """Process id of the only guardian that `process` has started."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        words = (identify.read_text(folder / "cmdline") or "").split("\0")
        parent = (identify.read_text(folder / "stat") or "").rpartition(")")[2].split()
        if "flashgauge.rig.guardian" in words and parent[1:2] == [str(process.pid)]:
            found.append(int(folder.name))
    assert len(found) == 1
    return found[0]


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
def test_after_kill_9_the_guardian_puts_the_cache_back(make: Make, kind: str) -> None:
    drive = make(kind, cache=1)
    process = start(drive, CHANGED + "import time; time.sleep(600)")
    wait_for(lambda: drive.state["cache"] == 0)
    process.kill()
    process.wait()
    wait_for(lambda: drive.state["cache"] == 1)
    wait_for(lambda: records.all_records() == [])


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM, signal.SIGINT])
def test_the_guardian_outlives_what_ends_the_run(make: Make, number: signal.Signals) -> None:
    """The terminal closes, and the signal reaches the guardian too: it still puts the cache back."""
    drive = make("nvme", cache=1)
    process = start(drive, CHANGED + "import time; time.sleep(600)")
    wait_for(lambda: drive.state["cache"] == 0)
    guardian = guardian_of(process)
    assert os.getsid(guardian) == guardian != os.getsid(process.pid)
    os.kill(guardian, number)
    time.sleep(0.2)
    assert drive.state["cache"] == 0, "the run is still there"
    os.kill(process.pid, number)
    process.wait()
    wait_for(lambda: drive.state["cache"] == 1)


@pytest.mark.clause("3.7")
def test_an_ordinary_end_leaves_no_process(make: Make) -> None:
    drive = make("nvme", cache=1)
    process = start(drive, CHANGED + "import os, sys, time; time.sleep(2); sys.exit(kept.release() or os.listdir('/'))")
    wait_for(lambda: drive.state["cache"] == 0)
    guardian = guardian_of(process)
    process.wait()
    assert drive.state["cache"] == 1, "put back before the run ended"
    assert not Path(f"/proc/{guardian}").exists()


def test_a_killed_guardian_is_no_reason_to_leave_the_cache_off(make: Make) -> None:
    drive = make("nvme", cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    assert kept._guardian is not None
    kept._guardian.kill()
    assert kept.release() is None
    assert drive.state["cache"] == 1


@pytest.mark.clause("3.7")
def test_what_a_crash_of_the_machine_has_left_is_put_back_by_the_next_run(make: Make) -> None:
    drive = make("ata", cache=0)
    identity = identify.identity(drive.device)
    device = drive.device
    roots = {name: str(path) for name, path in vars(device.roots).items()}
    record = records.Record(
        device.path, identity.serial, identity.wwid, "before the crash", True, "write back", roots=roots
    )
    records.write_record(records.record_file(drive.device), record)
    (told,) = keeper.left_over()
    assert "left with its write cache changed by a run that ended with its machine" in told
    assert keeper.overdue(device) == "the write cache was enabled again"
    assert keeper.left_over() == []
    assert (drive.state["cache"], records.all_records()) == (1, [])
    assert keeper.overdue(device) is None, "once"


def test_a_guardian_at_work_is_waited_for(make: Make) -> None:
    """The run after a kill -9 must not take the cache it finds for the drive's own state."""
    drive = make("nvme", cache=1, hang={"set-feature /dev/null": 0})
    process = start(drive, CHANGED + "import time; time.sleep(600)")
    wait_for(lambda: drive.state["cache"] == 0)
    drive.set(hang={"nvme set-feature": 1.5})
    process.kill()
    process.wait()
    keeper.overdue(drive.device)
    assert drive.state["cache"] == 1
    assert len(drive.calls("nvme set-feature")) == 2, "the guardian's, and nobody else's"


def test_a_drive_that_cannot_be_put_back_is_told(make: Make) -> None:
    drive = make("nvme", cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    drive.set(obeys=False)
    assert "its write cache cannot be put back; power-cycle it" in str(kept.release())
    (file,) = records.all_records()
    assert "power-cycle it" in str(json.loads(file.read_text())["error"])


def test_a_drive_that_is_gone_keeps_its_record(make: Make) -> None:
    drive = make("nvme", cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    (drive.device.roots.sys / "class/block" / drive.device.name).unlink()
    assert kept.release() is None, "its run has failed for that already"
    (file,) = records.all_records()
    reason = str(json.loads(file.read_text())["error"])
    assert "is gone, and was not put back; a power cycle resets its write cache" in reason


def test_no_change_without_a_record(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("FLASHGAUGE_STATE", str(tmp_path / "file"))
    drive = make("nvme", cache=1)
    prepared = writecache.set_cache(drive.device, False, keeper_of(drive).note_cache)
    assert drive.state["cache"] == 1
    assert len(prepared.disclosures) == 1


def test_a_record_that_cannot_be_read_is_one_line(make: Make) -> None:
    drive = make("nvme")
    file = records.record_file(drive.device)
    file.write_text("{")
    with pytest.raises(DeviceError, match="put the drive in order, remove it"):
        keeper.overdue(drive.device)


@pytest.mark.parametrize("kind", KINDS)
def test_a_command_that_outlives_its_run_is_put_right_after_its_end(make: Make, kind: str) -> None:
    """The run is killed before its command has reached the drive: the guardian must not be the first."""
    drive = make(kind, cache=1, hang={SET[kind]: None})
    process = start(drive, CHANGED)
    wait_for(lambda: (drive.folder / "hanging").exists())
    process.kill()
    process.wait()
    asked = len(drive.calls())
    time.sleep(1.0)
    assert len(drive.calls()) == asked, "the guardian waits"
    (drive.folder / "released").touch()
    wait_for(lambda: len(drive.calls(SET[kind])) == 2)
    wait_for(lambda: records.all_records() == [])
    assert drive.state["cache"] == 1


def test_a_folder_for_records_that_is_relative(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The guardian works in another folder than its run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FLASHGAUGE_STATE", "here")
    drive = make("nvme", cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    assert [file.parent for file in records.all_records()] == [tmp_path / "here"]
    assert kept.release() is None
    assert (drive.state["cache"], records.all_records()) == (1, [])


def test_a_relative_home_for_records_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("FLASHGAUGE_STATE")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    assert records.state_folder() == tmp_path / ".local/state/flashgauge"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert records.state_folder() == tmp_path / "state/flashgauge"


def test_a_guardian_without_a_record_is_not_ready(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "flashgauge.rig.guardian", str(tmp_path / "none.json")]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, b"")


def test_the_command_to_put_an_nvme_cache_back_goes_to_the_controller(make: Make) -> None:
    """A namespace's node would have the namespace's number sent along, which the feature does not take."""
    drive = make("nvme")
    record = replace(records.new_record(drive.device), write_cache=True)
    command = f"nvme set-feature {drive.device.roots.dev}/nvme0 --feature-id=6 --value=1; rm x"
    assert record.by_hand(Path("x")) == command


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_that_a_reset_has_given_back_is_disclosed(make: Make, kind: str) -> None:
    drive = make(kind, cache=1)
    kept = keeper_of(drive)
    writecache.set_cache(drive.device, False, kept.note_cache)
    assert writecache.look_again(drive.device, False) == ()
    drive.set(cache=1)
    (found,) = writecache.look_again(drive.device, False)
    assert (found.kind, found.clause) == (Kind.WRITE_CACHE_STATE, "3.7")
    assert found.message.startswith("write cache should be disabled, it is enabled at the end of the run")
    drive.set(fail={"": [1, "no answer\n"]})
    (found,) = writecache.look_again(drive.device, False)
    assert "it is not known at the end of the run (" in found.message
    drive.set(fail={})
    assert kept.release() is None


@pytest.mark.parametrize("name", ["vwc", "oacs", "sanicap", "fna"])
def test_an_nvme_cli_without_a_field_is_named(make: Make, name: str) -> None:
    drive = Nvme(make("nvme", ctrl={name: None}).device)
    with pytest.raises(DeviceError, match=rf"nvme id-ctrl has no {name}; update nvme-cli"):
        drive.capability(name)
