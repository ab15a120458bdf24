"""--purge on the command line: refused where it means nothing, recorded, and kept by a campaign."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from conftest import SHORT, Cli, disclosure_kinds, one_line, run_json

DRIVE = "sim:sata-enterprise?capacity=1GB"


@pytest.mark.clause("3.2")
def test_none_is_recorded_and_invalidates(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", "iops", DRIVE, *SHORT, "--purge", "none", "--out", "unpurged")
    assert result.returncode == 0, result.stderr
    run = run_json(tmp_path / "unpurged")
    assert run["purge_method"] == "not run (as asked for with --purge none)"
    assert "purge_not_run" in disclosure_kinds(tmp_path / "unpurged")
    assert "INVALID AS A PTS RESULT" in cli("show", tmp_path / "unpurged").stdout


@pytest.mark.parametrize(
    ("target", "method", "message"),
    [
        (DRIVE, "nvme-format", "--purge nvme-format is for drives; here there are: auto, none"),
        (DRIVE, "discard", "--purge discard is for drives"),
        ("file:image?size=64MiB", "ata-sanitize", "here there are: auto, discard, none"),
        (DRIVE, "shred", "--purge shred: there are: auto, nvme-format, nvme-sanitize"),
    ],
)
def test_what_means_nothing_is_refused(cli: Cli, tmp_path: Path, target: str, method: str, message: str) -> None:
    assert message in one_line(cli("run", "iops", target, *SHORT, "--purge", method, "--out", "refused"), 2)
    assert list(tmp_path.iterdir()) == []


def test_a_campaign_keeps_it_and_resume_can_change_it(cli: Cli, tmp_path: Path) -> None:
    result = cli("run", "iops", "tp", DRIVE, *SHORT, "--purge", "none", "--out", "both")
    assert result.returncode == 0, result.stderr
    assert json.loads((tmp_path / "both/campaign.json").read_text())["request"]["purge"] == "none"
    (tmp_path / "both/tp").rename(tmp_path / "both/tp.ended-1")
    result = cli("resume", tmp_path / "both", "--purge", "auto")
    assert result.returncode == 0, result.stderr
    methods = [run_json(tmp_path / "both" / test)["purge_method"] for test in ("iops", "tp")]
    assert methods == ["not run (as asked for with --purge none)", "simulated: returned to fresh out of the box"]
