"""Purge by a drive's own commands, against stand-ins for the tools (fake_tools.py says what of them was recorded).

No SATA or SAS drive, and no NVMe sanitize, has met this code; NVMe format has, in QEMU (tests/machine).
"""

from __future__ import annotations

import errno
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockdevices import MIB, filled, loop_on
from drives import Drive, made_up, start, wait_for
from flashgauge._core import DeviceError, TargetError
from flashgauge.cli import devices
from flashgauge.disclosure import Kind
from flashgauge.rig import keeper, listing, purge, purge_verify, records, tools, underway
from flashgauge.rig.base import Prepared
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.keeper import Keeper

SIZE = 16 * MIB
SANITIZE_WORD = 1 << 12 | 1 << 13 | 1 << 15
SECURITY_WORD = 1 << 0 | 1 << 5
# Which made-up drive takes the method.
CAPABLE: dict[str, tuple[str, dict[str, Any]]] = {
    "nvme-format": ("nvme", {}),
    "nvme-format-crypto": ("nvme", {"ctrl": {"fna": 4}}),
    "nvme-sanitize": ("nvme", {"ctrl": {"sanicap": 3}, "looks": 3}),
    "nvme-sanitize-crypto": ("nvme", {"ctrl": {"sanicap": 3}, "looks": 3}),
    "ata-sanitize": ("ata", {"word59": SANITIZE_WORD, "looks": 3}),
    "ata-sanitize-crypto": ("ata", {"word59": SANITIZE_WORD, "looks": 3}),
    "ata-security-erase": ("ata", {"word128": SECURITY_WORD, "erase_times": [2, 1]}),
    "scsi-format": ("scsi", {"takes": {"0x4": True}, "looks": 3}),
    "scsi-sanitize": ("scsi", {"takes": {"0x48,2": True}, "looks": 3}),
    "scsi-sanitize-crypto": ("scsi", {"takes": {"0x48,3": True}, "looks": 3}),
}
# What each must have said to the drive.
COMMANDS = {
    "nvme-format": "--namespace-id=1 --lbaf=0 --ms=0 --pi=0 --pil=0 --ses=1 --timeout=14400000 --force",
    "nvme-format-crypto": "--ses=2",
    "nvme-sanitize": "nvme sanitize {dev}/nvme0 --sanact=2 --ause",
    "nvme-sanitize-crypto": "nvme sanitize {dev}/nvme0 --sanact=4 --ause",
    "ata-sanitize": "hdparm --yes-i-know-what-i-am-doing --sanitize-block-erase {dev}/sda",
    "ata-sanitize-crypto": "hdparm --yes-i-know-what-i-am-doing --sanitize-crypto-scramble {dev}/sda",
    "ata-security-erase": "hdparm --user-master u --security-erase-enhanced flashgauge {dev}/sda",
    "scsi-format": "sg_format --format --format --format --early --quick {dev}/sdb",
    "scsi-sanitize": "sg_sanitize --block --ause --early --quick {dev}/sdb",
    "scsi-sanitize-crypto": "sg_sanitize --crypto --ause --early --quick {dev}/sdb",
}
Make = Callable[..., Drive]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Makes a drive and puts its tools first on PATH; a drive without `data` answers questions only."""
    monkeypatch.setattr(underway, "POLL_S", 0.01)
    monkeypatch.setattr(keeper, "RETRY_S", 0.05)

    def made(kind: str, data: str | None = None, **state: Any) -> Drive:
        drive = made_up(tmp_path / "drive", kind, data, **state)
        monkeypatch.setenv("PATH", str(drive.folder), prepend=os.pathsep)
        return drive

    return made


@pytest.fixture
def data(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """A loop device for the drive's data, and the file behind it."""
    file = filled(tmp_path / "disk.img", SIZE)
    with loop_on(file) as path:
        yield path, str(file)


def capable(make: Make, data: tuple[str, str], method: str, **state: Any) -> Drive:
    kind, own = CAPABLE[method]
    return make(kind, data[0], **{"image": data[1], **own, **state})


def purged(device: BlockDevice, method: str = "auto", tell: Callable[[str], None] = print) -> Prepared:
    kept = Keeper(device)
    try:
        return purge.run(purge.choose(device, method), device, lambda: None, kept, tell)
    finally:
        assert kept.release() is None


@pytest.mark.clause("3.2")
@pytest.mark.parametrize("method", CAPABLE)
def test_each_method_purges_and_is_verified(make: Make, data: tuple[str, str], method: str) -> None:
    drive = capable(make, data, method)
    told: list[str] = []
    prepared = purged(drive.device, method, told.append)
    what = next(entry.what for entry in purge.METHODS if entry.name == method)
    assert prepared.state.startswith(f"{what}; verified: the old data is gone from 64 of 64 samples (64 zeros)")
    assert prepared.disclosures == ()
    command = COMMANDS[method].format(dev=drive.device.roots.dev)
    assert len(drive.calls(command)) == 1, drive.calls()
    assert Path(data[0]).read_bytes() == bytes(SIZE)
    assert any(text.startswith(method) for text in told)
    assert drive.state.get("password") is None
    assert records.all_records() == []


@pytest.mark.clause("3.2")
@pytest.mark.parametrize(
    ("fill", "state"), [(0xFF, "64 ones"), (0x5A, "64 other")], ids=["ones", "anything but the old data"]
)
def test_a_drive_may_return_anything_but_the_old_data(make: Make, data: tuple[str, str], fill: int, state: str) -> None:
    drive = capable(make, data, "nvme-format", fill=fill)
    assert state in purged(drive.device).state


@pytest.mark.clause("3.2")
@pytest.mark.parametrize("method", CAPABLE)
def test_a_purge_that_leaves_the_data_stops_the_run(make: Make, data: tuple[str, str], method: str) -> None:
    drive = capable(make, data, method, image=None)
    with pytest.raises(DeviceError, match=f"{method} left 64 of 64 samples as they were: the drive is not purged"):
        purged(drive.device, method)
    assert drive.state.get("password") is None


@pytest.mark.parametrize("method", [name for name in CAPABLE if "sanitize" in name or name == "scsi-format"])
def test_a_failure_in_the_drive_is_explained(make: Make, data: tuple[str, str], method: str) -> None:
    drive = capable(make, data, method, ends_in="failure")
    if method != "scsi-format" and drive.state.get("word59") is None:
        drive.set(ends_in=None)
        purged(drive.device, method)
        drive.set(ends_in="failure", looks=3)
    with pytest.raises(DeviceError, match=rf"{method} failed.* try it again"):
        purged(drive.device, method)


def test_a_sanitize_is_followed_and_its_estimate_told(make: Make, data: tuple[str, str]) -> None:
    drive = capable(make, data, "nvme-sanitize", estimates=[0xFFFFFFFF, 90, 2], looks=6)
    told: list[str] = []
    prepared = purged(drive.device, "nvme-sanitize", told.append)
    assert "nvme-sanitize: about 90 s by the drive's own estimate" in told
    assert "nvme-sanitize: 50 %" in told
    assert prepared.state.endswith("; the drive's sanitize log: completed")
    assert len(drive.calls("sanitize-log")) >= 6


@pytest.mark.parametrize("method", ["nvme-sanitize", "ata-sanitize", "scsi-sanitize"])
def test_one_that_an_earlier_run_has_left_is_waited_for(make: Make, data: tuple[str, str], method: str) -> None:
    drive = capable(make, data, method, busy=True, busy_code=0x1B, looks=4, action=2)
    told: list[str] = []
    purged(drive.device, method, told.append)
    assert any("begun earlier: " in text for text in told)
    start = next(
        at for at, call in enumerate(drive.calls()) if COMMANDS[method].format(dev=drive.device.roots.dev) in call
    )
    looks = [call for call in drive.calls()[:start] if any(word in call for word in ("-log", "-status", "requests"))]
    assert len(looks) >= 4, "it was over before a new one was started"


@pytest.mark.parametrize("method", ["nvme-sanitize", "ata-sanitize", "scsi-sanitize"])
def test_it_is_waited_for_before_the_drive_is_looked_at(make: Make, method: str) -> None:
    kind, own = CAPABLE[method]
    drive = make(kind, **{**own, "busy": True, "busy_code": 0x1B, "looks": 4, "action": 2})
    told: list[str] = []
    purge.wait_for_earlier(drive.device, told.append)
    assert re.match(r"a .*sanitize begun earlier: (50|49) %$", told[0])
    assert not drive.state["busy"]


def test_a_drive_that_does_not_answer_is_left_to_the_checks(make: Make) -> None:
    drive = make("nvme", fail={"nvme": [1, "failed to open /dev/nvme0: Permission denied\n"]})
    purge.wait_for_earlier(drive.device, print)
    assert drive.calls("id-ctrl")


def test_a_drive_whose_last_sanitize_failed_gets_a_new_one(make: Make, data: tuple[str, str]) -> None:
    drive = capable(make, data, "ata-sanitize", ends_in="failure")
    # Its data cannot be written; so it is not stamped, and the new one's status is all there is.
    original = underway.until_done

    def cured(*arguments: Any) -> None:
        drive.set(ends_in=None)
        original(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("flashgauge.rig.purge_ata.until_done", cured)
        prepared = purged(drive.device, "ata-sanitize")
    assert "not verified: the drive took no writes before it" in prepared.state
    assert "; there are now 64 zeros" in prepared.state, "what its places hold is read all the same"
    assert [(item.kind, item.clause) for item in prepared.disclosures] == [(Kind.PURGE_NOT_VERIFIED, "3.2")]
    assert "Completed Without Error" in prepared.state


def test_a_drive_that_never_ends_is_given_up(
    make: Make, data: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    drive = capable(make, data, "scsi-format", looks=10**6)
    monkeypatch.setattr(underway, "UNKNOWN_LIMIT_S", 0.5)
    with pytest.raises(DeviceError, match=r"scsi-format has not ended after .* the drive goes on with it") as error:
        purged(drive.device, "scsi-format")
    assert error.value.errno == errno.ETIMEDOUT


@pytest.mark.parametrize(
    ("kind", "state", "method", "reason"),
    [
        ("nvme", {"ctrl": {"oacs": 0}}, "nvme-format", "the drive has no Format command (oacs)"),
        ("nvme", {}, "nvme-format-crypto", "the drive has no cryptographic erase (fna)"),
        ("nvme", {}, "nvme-sanitize", "the drive has no such sanitize (sanicap)"),
        ("nvme", {"ctrl": {"sanicap": 2}, "namespaces": [1, 2]}, "nvme-sanitize", "it would erase namespace 2 too"),
        ("nvme", {"ctrl": {"fna": 1}, "elsewhere": [3, 4]}, "nvme-format", "it would erase namespaces 3, 4 too (fna)"),
        ("nvme", {"ctrl": {"fna": 2}, "namespaces": [1, 2]}, "nvme-format", "it would erase namespace 2 too (fna)"),
        ("nvme", {"fail": {"nvme id-ctrl": [1, "Permission denied\n"]}}, "nvme-format", "nvme0): Permission denied"),
        ("nvme", {}, "ata-sanitize", "no ATA drive"),
        ("ata", {}, "ata-sanitize", "the drive has no such sanitize command (IDENTIFY DEVICE word 59)"),
        ("ata", {"word59": SANITIZE_WORD, "frozen_sanitize": True}, "ata-sanitize", "frozen until its power is cycled"),
        ("ata", {}, "ata-security-erase", "the drive has no security feature set"),
        ("ata", {"word128": SECURITY_WORD | 8}, "ata-security-erase", "suspend the machine and wake it"),
        ("ata", {"word128": SECURITY_WORD, "password": "theirs"}, "ata-security-erase", "a user password already"),
        ("ata", {"word128": SECURITY_WORD | 16}, "ata-security-erase", "its security count has expired"),
        ("ata", {"fail": {"hdparm --Istdout": [5, "No such device\n"]}}, "ata-sanitize", "No such device"),
        ("scsi", {"takes": {"0x4": False}}, "scsi-format", "the drive does not take the command"),
    ],
)
def test_what_a_drive_cannot_do_is_refused_with_the_reason(
    make: Make, kind: str, state: dict[str, Any], method: str, reason: str
) -> None:
    drive = make(kind, **state)
    entry = next(entry for entry in purge.METHODS if entry.name == method)
    assert reason in str(entry.supported(drive.device).reason)
    # Asking is reading: nothing that changes a drive was run.
    questions = ("nvme id-ctrl", "nvme list-ns", "nvme sanitize-log", "hdparm --Istdout", "hdparm --sanitize-status")
    assert all(call.startswith((*questions, "sg_opcodes")) for call in drive.calls())


def test_other_namespaces_do_not_matter_to_a_format_of_one(make: Make) -> None:
    drive = make("nvme", namespaces=[1, 2, 3])
    assert purge.choose(drive.device).method is not None
    assert purge.choose(drive.device).method.name == "nvme-format"  # type: ignore[union-attr]


@pytest.mark.parametrize(("method", "fna"), [("nvme-format", 2), ("nvme-format-crypto", 6), ("nvme-sanitize", 0)])
def test_a_namespace_made_since_the_choice_is_not_erased(
    make: Make, data: tuple[str, str], method: str, fna: int
) -> None:
    """A test may purge several times, hours apart."""
    drive = capable(make, data, method, ctrl={"fna": fna, "sanicap": 3})
    choice, kept = purge.choose(drive.device, method), Keeper(drive.device)
    purge.run(choice, drive.device, lambda: None, kept, print)
    drive.set(namespaces=[1, 2])
    with pytest.raises(DeviceError, match=f"{method} is not possible any more: it would erase namespace 2 too"):
        purge.run(choice, drive.device, lambda: None, kept, print)
    assert len(drive.calls("nvme format") + drive.calls("nvme sanitize /")) == 1


@pytest.mark.parametrize(
    ("kind", "state", "chosen"),
    [
        ("nvme", {"ctrl": {"sanicap": 3}}, "nvme-format"),
        ("nvme", {"ctrl": {"oacs": 0, "sanicap": 3}}, "nvme-sanitize"),
        ("nvme", {"ctrl": {"oacs": 0, "sanicap": 1}}, "nvme-sanitize-crypto"),
        ("nvme", {"ctrl": {"oacs": 0}}, "discard"),
        ("ata", {"word59": SANITIZE_WORD, "word128": SECURITY_WORD}, "ata-sanitize"),
        ("ata", {"word128": SECURITY_WORD}, "ata-security-erase"),
        ("ata", {"word128": SECURITY_WORD | 8}, "discard"),
        ("scsi", {"takes": {"0x4": True, "0x48,2": True}}, "scsi-format"),
        ("scsi", {"takes": {"0x4": False, "0x48,2": True}}, "scsi-sanitize"),
        ("scsi", {}, "discard"),
    ],
)
def test_the_choice_is_the_first_that_the_drive_supports(
    make: Make, kind: str, state: dict[str, Any], chosen: str
) -> None:
    choice = purge.choose(make(kind, **state).device)
    assert choice.method is not None
    assert choice.method.name == chosen
    assert all(name.startswith(kind) for name in choice.passed_over)


def test_one_device_listed_is_asked_for_its_methods(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = make("nvme", ctrl={"fna": 4})
    monkeypatch.setattr(listing, "_ask_all", lambda *_: {"nvme0n1": ((), None)})
    (listed,) = listing.list_one(drive.device).devices
    assert listed.purge_methods == ("nvme-format", "nvme-format-crypto", "discard")
    assert listed.purge_methods_complete


@pytest.mark.parametrize(("kind", "state", "said"), [("nvme", {"cache": 0}, "off"), ("ata", {"cache": 1}, "on")])
def test_one_device_listed_is_asked_for_its_cache(
    make: Make, monkeypatch: pytest.MonkeyPatch, kind: str, state: dict[str, Any], said: str
) -> None:
    drive = make(kind, **state)
    monkeypatch.setattr(listing, "_ask_all", lambda *_: {drive.device.name: ((), None)})
    (listed,) = listing.list_one(drive.device).devices
    assert (listed.drive_write_cache, listed.write_cache) == (said, "write back")
    assert devices._cache_text(listed) == f"{said} (read from the drive); write back (the kernel's word)"


@pytest.mark.clause("3.2")
@pytest.mark.parametrize(("unreadable", "verified"), [(64, False), (60, True)])
def test_a_drive_that_cannot_be_read_after_it_is_not_called_purged(
    make: Make, data: tuple[str, str], monkeypatch: pytest.MonkeyPatch, unreadable: int, verified: bool
) -> None:
    """After a cryptographic erase places may be unreadable; all of them would be so on a dead drive too."""
    drive = capable(make, data, "nvme-format-crypto")
    real, calls = purge_verify._state, iter(range(64))
    monkeypatch.setattr(
        purge_verify, "_state", lambda *given: "unreadable" if next(calls) < unreadable else real(*given)
    )
    prepared = purged(drive.device, "nvme-format-crypto")
    if verified:
        assert "verified: the old data is gone from 4 of 64 samples (60 unreadable, 4 zeros)" in prepared.state
        assert prepared.disclosures == ()
        return
    assert "not verified: none of 64 samples can be read" in prepared.state
    (found,) = prepared.disclosures
    assert (found.kind, found.clause) == (Kind.PURGE_NOT_VERIFIED, "3.2")


def test_a_missing_tool_names_its_package(make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    drive = make("nvme")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(tools, "SYSTEM_FOLDERS", ())
    with pytest.raises(TargetError, match="nvme is not installed: install the package nvme-cli"):
        purge.choose(drive.device, "nvme-format")
    choice = purge.choose(drive.device)
    assert choice.method is not None
    assert choice.method.name == "discard"
    assert "nvme is not installed" in choice.passed_over["nvme-format"]


def test_a_tool_that_does_not_answer_is_killed(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drive = make("nvme", hang={"nvme id-ctrl": 60})
    began_s = time.monotonic()
    with pytest.raises(DeviceError, match=r"nvme: no answer within 0\.5 s") as error:
        tools.run("nvme", "id-ctrl", limit_s=0.5)
    assert (error.value.errno, time.monotonic() - began_s < 10) == (errno.ETIMEDOUT, True)
    with pytest.raises(ProcessLookupError):
        os.kill(int((drive.folder / "hanging").read_text()), 0)


def test_versions_are_those_the_tools_give(make: Make) -> None:
    assert purge.tool_versions(make("nvme").device) == {"nvme": "2.3"}


def test_discard_as_the_last_choice_says_why(make: Make, data: tuple[str, str]) -> None:
    drive = make("ata", data[0], word128=SECURITY_WORD | 8)
    prepared = purged(drive.device)
    (found,) = prepared.disclosures
    assert found.kind is Kind.PURGE_BY_DISCARD
    assert "ata-security-erase: its security is frozen" in found.message


def test_the_format_and_protection_of_the_namespace_are_kept(make: Make, data: tuple[str, str]) -> None:
    # Format 0x13: upper bit 5 of FLBAS. Metadata as an extended LBA, protection type 1 in the first bytes.
    drive = capable(make, data, "nvme-format", ns={"flbas": 0x20 | 0x10 | 0x3, "dps": 0x9})
    purged(drive.device)
    assert drive.calls("--lbaf=19 --ms=1 --pi=1 --pil=1 --ses=1")


def test_a_format_that_changes_the_namespace_is_an_error(make: Make, data: tuple[str, str]) -> None:
    drive = capable(make, data, "nvme-format", ns_after={"flbas": 1})
    with pytest.raises(DeviceError, match=r"nvme-format changed the namespace \(flbas\)"):
        purged(drive.device)


def test_a_scsi_drives_protection_is_kept(make: Make, data: tuple[str, str]) -> None:
    drive = capable(make, data, "scsi-format")
    (drive.device.disk / "device/scsi_disk/0:0:0:0/protection_type").write_text("2\n")
    purged(drive.device)
    assert drive.calls("--early --quick --fmtpinfo=3")


@pytest.mark.parametrize("method", ["nvme-format", "nvme-sanitize", "ata-sanitize", "scsi-format", "scsi-sanitize"])
def test_a_command_that_is_refused_is_one_line(make: Make, data: tuple[str, str], method: str) -> None:
    beginning = "nvme format" if method == "nvme-format" else COMMANDS[method].split("{dev}")[0]
    text = "NVMe status: Invalid Command Opcode: A reserved coded value(0x4001)\n"
    drive = capable(make, data, method, fail={beginning: [1, text]})
    with pytest.raises(DeviceError, match=rf"{method} (not started|failed): NVMe status: Invalid Command Opcode"):
        purged(drive.device, method)


class TestSecurityErase:
    """A password is set for it; it must be gone whatever happens."""

    def test_failure_clears_the_password(self, make: Make, data: tuple[str, str]) -> None:
        drive = capable(make, data, "ata-security-erase", ends_in="failure", disables_after=2)
        with pytest.raises(DeviceError, match=r"ata-security-erase failed \(SG_IO: bad/missing sense data"):
            purged(drive.device)
        assert drive.state["password"] is None
        assert len(drive.calls("--security-disable flashgauge")) == 3, "tried until it obeyed"

    def test_a_password_that_cannot_be_cleared_is_told_with_the_command(
        self, make: Make, data: tuple[str, str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        drive = capable(make, data, "ata-security-erase", ends_in="failure", disables_after=10**6)
        monkeypatch.setattr("flashgauge.rig.purge_ata.UNKNOWN_LIMIT_S", 0.5)
        drive.set(erase_times=[0, 0])
        kept = Keeper(drive.device)
        commands = [
            f"hdparm --user-master u --security-{what} flashgauge {drive.device.roots.dev}/sda"
            for what in ("unlock", "disable")
        ]
        command = " && ".join(commands)
        with pytest.raises(DeviceError, match=f"its password is still set .*: {command}$"):
            purge.run(purge.choose(drive.device), drive.device, lambda: None, kept, print)
        assert command in str(kept.release()), "the guardian has tried too"
        (record,) = records.all_records()
        assert records.read_record(record).password  # type: ignore[union-attr]
        # The next run on the drive cures it.
        drive.set(disables_after=0)
        done = keeper.overdue(drive.device)
        assert done == "the temporary ATA password was cleared"
        assert (drive.state["password"], records.all_records()) == (None, [])

    def test_a_drive_that_takes_no_password_is_not_erased(self, make: Make, data: tuple[str, str]) -> None:
        drive = capable(make, data, "ata-security-erase", refuses_password=True)
        with pytest.raises(DeviceError, match="the drive takes no password"):
            purged(drive.device)
        assert not drive.calls("--security-erase")

    def test_ctrl_c_in_the_middle_clears_the_password(self, make: Make, data: tuple[str, str]) -> None:
        drive = capable(make, data, "ata-security-erase", hang={"--security-erase": 1.5}, ends_in="failure")

        def interrupt() -> None:
            wait_for(lambda: (drive.folder / "hanging").exists())
            os.kill(os.getpid(), signal.SIGINT)

        told: list[str] = []
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(KeyboardInterrupt):
            purged(drive.device, tell=told.append)
        thread.join()
        assert drive.state["password"] is None
        assert drive.calls("--security-disable flashgauge")
        assert any("not finished; the drive's temporary password is being cleared" in text for text in told)

    def test_kill_9_in_the_middle_clears_the_password(self, make: Make, data: tuple[str, str]) -> None:
        drive = capable(make, data, "ata-security-erase", hang={"--security-erase": 2}, ends_in="failure")
        process = start(drive, "purge.run(purge.choose(device), device, lambda: None, kept, print)")
        wait_for(lambda: (drive.folder / "hanging").exists())
        assert drive.state["password"] == "flashgauge"
        process.kill()
        process.wait()
        wait_for(lambda: drive.state["password"] is None)
        wait_for(lambda: records.all_records() == [])

    def test_kill_9_before_the_password_is_set_clears_it_after(self, make: Make, data: tuple[str, str]) -> None:
        """The command that sets it goes on without its run: the guardian waits for its end."""
        drive = capable(make, data, "ata-security-erase", hang={"--security-set-pass": None})
        process = start(drive, "purge.run(purge.choose(device), device, lambda: None, kept, print)")
        wait_for(lambda: (drive.folder / "hanging").exists())
        process.kill()
        process.wait()
        time.sleep(1.0)
        assert len(records.all_records()) == 1
        (drive.folder / "released").touch()
        wait_for(lambda: records.all_records() == [])
        assert drive.calls("--security-disable flashgauge")
        assert drive.state["password"] is None
