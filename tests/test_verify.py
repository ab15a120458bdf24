"""What a run wrote is read back: the option of `run`, the command, and what both say of damage."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from flashgauge import execute, report
from flashgauge._core import Verifier
from flashgauge.cli import app
from flashgauge.report.model import Table
from flashgauge.verification import Findings, VerificationError

MIB = 1 << 20
SETTINGS = ("point_s=0.05", "max_rounds=5", "block_sizes_kib=128", "wipc_capacities=1", "queue_depth=4")


def flashgauge(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def run_tp(disk: Path, folder: Path, *options: str) -> Result:
    settings = [f"--set={setting}" for setting in SETTINGS]
    target = f"file:{disk}?size=16MiB"
    return flashgauge("run", "tp", target, "--json", "--out", str(folder), *settings, *options)


@pytest.fixture(scope="module")
def verified(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A disk and the folder of a run on it that was verified."""
    folder = tmp_path_factory.mktemp("verify", numbered=True)
    disk, run = folder / "disk.img", folder / "run"
    result = run_tp(disk, run, "--verify")
    if "direct I/O" in str(result.exception) or "io_uring" in str(result.exception):
        pytest.skip(str(result.exception))
    assert result.exit_code == 0, result.output
    return disk, run


def test_a_run_is_verified_at_its_end(verified: tuple[Path, Path]) -> None:
    _, run = verified
    written = json.loads((run / "run.json").read_text())
    found = Findings.from_json(written["verification"])
    assert written["state"] == "complete" and written["verifiable"] is True
    assert (found.sectors, found.intact, found.bad) == (16 * MIB // 512, 16 * MIB // 512, 0)
    assert found.known > 0.9 * found.sectors
    assert written["written_ranges"] == [[0, 16 * MIB]]
    items = (item for section in report.build(run).sections for item in section.items)
    conduct = next(item for item in items if isinstance(item, Table) and item.name == "conduct")
    assert "no mismatch" in str({row[0]: row[1] for row in conduct.rows}["Read back and verified"])


def test_the_command_reads_back_later(verified: tuple[Path, Path]) -> None:
    result = flashgauge("verify", str(verified[1]), "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.output)
    assert (found["bad"], found["intact"], found["known"]) == (0, 16 * MIB // 512, 0)
    assert "could not be told" in flashgauge("verify", str(verified[1])).output, "the ledger is gone with the run"


@pytest.mark.parametrize(
    ("known", "limit"),
    [
        (1000, ""),
        (997, "; in 3 sectors an older write in place of the last one could not be told"),
        (0, "; an older write in place of the last one could not be told"),
    ],
)
def test_the_sentence_says_how_far_it_goes(known: int, limit: str) -> None:
    assert str(Findings(1000, 900, 100, known=known)).endswith(f"no mismatch{limit}")
    assert str(Findings(1000, 899, 100, 1, known=known, first_bad_lba=7)).endswith(f"the first at LBA 7{limit}")


def test_damage_is_found_and_an_error(verified: tuple[Path, Path]) -> None:
    disk, run = verified
    before = disk.read_bytes()
    data = bytearray(before)
    data[5 * 512 + 300] ^= 1
    data[100 * 512 : 108 * 512] = data[200 * 512 : 208 * 512]
    data[300 * 512 : 302 * 512] = bytes(1024)
    try:
        disk.write_bytes(data)
        result = flashgauge("verify", str(run), "--json")
        found = json.loads(result.output)
        assert isinstance(result.exception, VerificationError)
        told = str(result.exception)
        assert (found["corrupt"], found["misdirected"], found["unwritten"], found["bad"]) == (1, 8, 2, 9)
        assert found["first_bad_lba"] == 5
        assert "9 of 32,768 sectors" in told and "first at LBA 5" in told
    finally:
        disk.write_bytes(before)


def test_what_the_run_has_not_written_is_not_judged(verified: tuple[Path, Path], tmp_path: Path) -> None:
    """As on a drive that was not purged, of which a test leaves a part alone."""
    disk, run = verified
    before = disk.read_bytes()
    shutil.copytree(run, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    described = json.loads(record.read_text())
    described["written_ranges"] = [[0, 4 * MIB], [8 * MIB, 12 * MIB]]
    record.write_text(json.dumps(described))
    try:
        disk.write_bytes(before[: 4 * MIB] + b"\xa5" * 4 * MIB + before[8 * MIB : 12 * MIB] + b"\x5a" * 4 * MIB)
        result = flashgauge("verify", str(tmp_path / "run"), "--json")
        found = json.loads(result.output)
        assert (found["sectors"], found["intact"], found["bad"]) == (8 * MIB // 512, 8 * MIB // 512, 0)
        del described["written_ranges"]  # a run folder from before they were noted
        record.write_text(json.dumps(described))
        assert isinstance(flashgauge("verify", str(tmp_path / "run")).exception, VerificationError)
    finally:
        disk.write_bytes(before)


def test_a_run_that_wrote_without_stamps_cannot_be_verified(tmp_path: Path) -> None:
    result = run_tp(tmp_path / "disk.img", tmp_path / "run")
    if "direct I/O" in str(result.exception) or "io_uring" in str(result.exception):
        pytest.skip(str(result.exception))
    assert result.exit_code == 0, result.output
    result = flashgauge("verify", str(tmp_path / "run"))
    assert "--verify" in str(result.exception) and isinstance(result.exception, ValueError)


def test_a_simulated_drive_holds_no_data(tmp_path: Path) -> None:
    result = flashgauge("run", "tp", "sim:sata-enterprise?capacity=1GiB", "--verify", "--out", str(tmp_path / "run"))
    assert "holds no data" in str(result.exception)
    assert not (tmp_path / "run").exists()


def test_data_changed_during_a_run_fails_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run is over and reported, the departure disclosed, and the exit code is 1."""
    disk = tmp_path / "disk.img"

    def damaged(verifier: Verifier) -> Findings:
        # The run's own writes reach the file past the page cache, as this must.
        with disk.open("r+b") as file:
            file.seek(7 * 512)
            file.write(bytes(512))
        return original(verifier)

    original = execute.read_back
    monkeypatch.setattr(execute, "read_back", damaged)
    result = run_tp(disk, tmp_path / "run", "--verify")
    if "direct I/O" in str(result.exception) or "io_uring" in str(result.exception):
        pytest.skip(str(result.exception))
    assert isinstance(result.exception, VerificationError), result.output
    written = json.loads((tmp_path / "run" / "run.json").read_text())
    assert written["verification"]["lost"] == 1 and written["verification"]["first_bad_lba"] == 7
    assert [d["kind"] for d in written["disclosures"] if d["kind"] == "data_mismatch"] == ["data_mismatch"]
    assert not report.build(tmp_path / "run").valid
    assert (tmp_path / "run" / "report.html").exists()


def test_findings_add_up() -> None:
    one, other = Findings(sectors=3, corrupt=1, first_bad_lba=9), Findings(sectors=2, lost=1, first_bad_lba=4)
    both = one.plus(other).plus(Findings(sectors=5, intact=5))
    assert (both.sectors, both.bad, both.first_bad_lba, both.intact) == (10, 2, 4, 5)
    assert Findings.from_json(both.to_json()) == both
