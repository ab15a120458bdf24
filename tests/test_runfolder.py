"""The run folder: round trips, atomic replacement, and what a crash may leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes import measurement, run_folder
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import HostUsage, IoErrors
from flashgauge.runfolder import RunFolderError, read_journal, read_run
from flashgauge.steps import Label


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    path = tmp_path / "run"
    first = measurement(123.0, gap_ns=None, errors=(IoErrors("write", 5, 2, 77),), host=HostUsage(1.5, None, 2.5))
    with run_folder(path) as folder:
        folder.append("precondition", Label("wipc"), first)
        folder.append("measure", Label("round", 1, 65, 4096), measurement(9.0))
        folder.disclose(Disclosure(Kind.SIMULATED, "1.3", "m", "a"))
        folder.update(purge_method="discard", write_cache="disabled")
        run = folder.run
    assert read_run(path) == run
    entries, torn = read_journal(path)
    assert not torn
    assert [(e.sequence, e.kind, e.label) for e in entries] == [
        (0, "precondition", Label("wipc")),
        (1, "measure", Label("round", 1, 65, 4096)),
    ]
    again = entries[0].measurement
    assert again.errors == first.errors
    assert again.host == first.host
    assert again.intervals == first.intervals
    assert again.write.histogram.buckets() == first.write.histogram.buckets()
    assert again.to_json() == first.to_json()


def test_a_run_folder_is_never_overwritten(tmp_path: Path) -> None:
    run_folder(tmp_path / "run").close()
    with pytest.raises(FileExistsError):
        run_folder(tmp_path / "run")


def test_a_journal_cut_anywhere_opens(tmp_path: Path) -> None:
    path = tmp_path / "run"
    with run_folder(path) as folder:
        for number in range(1, 4):
            folder.append("measure", Label("round", number), measurement(number))
    journal = path / "journal.jsonl"
    whole = journal.read_bytes()
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(0, len(whole) + 1, 7):
        journal.write_bytes(whole[:cut])
        entries, torn = read_journal(path)
        assert len(entries) == sum(end < cut for end in ends)
        assert torn is (cut > 0 and whole[cut - 1] != ord("\n"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda lines: [lines[0], b"{broken", lines[2]], "line 2"),
        (lambda lines: [lines[0], lines[2]], "a line is missing"),
        (lambda lines: [b"{}", *lines[1:]], "line 1"),
        (lambda lines: [b"[]", *lines[1:]], "line 1"),
        (lambda lines: [b"\xff\xfe", *lines[1:]], "line 1"),
    ],
)
def test_a_damaged_journal_says_where(tmp_path: Path, damage: object, message: str) -> None:
    path = tmp_path / "run"
    with run_folder(path) as folder:
        for number in range(1, 4):
            folder.append("measure", Label("round", number), measurement(number))
    lines = (path / "journal.jsonl").read_bytes().splitlines()
    (path / "journal.jsonl").write_bytes(b"\n".join(damage(lines)) + b"\n")  # type: ignore[operator]
    with pytest.raises(RunFolderError, match=message):
        read_journal(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [(None, "not a run folder"), ("{", "run.json"), ('{"format_version": 99}', "format version"), ("[]", "run.json")],
)
def test_an_unreadable_run_says_why(tmp_path: Path, content: str | None, message: str) -> None:
    if content is not None:
        (tmp_path / "run.json").write_text(content)
    with pytest.raises(RunFolderError, match=message):
        read_run(tmp_path)


def test_run_json_is_replaced_whole(tmp_path: Path) -> None:
    """A reader at any moment sees one version or the other; a crash leaves at most a temporary file beside it."""
    path = tmp_path / "run"
    with run_folder(path) as folder:
        (path / "run.json.new").write_text("{torn")
        assert read_run(path).state == "running"
        folder.update(state="complete")
    assert json.loads((path / "run.json").read_text())["state"] == "complete"
    assert not (path / "run.json.new").exists()
