"""The whole enterprise IOPS test at its full length on the simulated drive: slow, run by `make e2e`."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from flashgauge.report.replay import replay
from flashgauge.runfolder import read_journal, read_run

PROGRAM = Path(sys.executable).parent / "flashgauge"
# Average IOPS of an Intel SSD DC S3700 200 GB (Myce, 32 threads, queue depth 1): read percent, IOPS of RND 4 KiB.
PUBLISHED = {0: 33885.13, 65: 53609.9, 100: 76240.21}


@pytest.mark.slow
def test_full_length_run_is_valid_and_near_the_published_figures(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    target = "sim:sata-enterprise?capacity=24GB"
    done = subprocess.run(
        [PROGRAM, "run", "iops", target, "--json", "--out", folder], capture_output=True, text=True, check=True
    )
    result = json.loads(done.stdout.splitlines()[-1])
    assert result["valid_pts_result"] is True
    assert result["steady"] is True
    assert [item["kind"] for item in result["disclosures"]] == ["simulated"]
    entries, _ = read_journal(folder)
    replayed = replay(read_run(folder), entries, False)
    window = range(replayed.outcome.first_round, replayed.outcome.last_round + 1)
    for read_percent, published in PUBLISHED.items():
        iops = [
            entry.measurement.iops
            for entry in entries
            if entry.label.round in window
            and (entry.label.read_percent, entry.label.block_bytes) == (read_percent, 4096)
        ]
        assert len(iops) == 5
        assert sum(iops) / 5 == pytest.approx(published, rel=0.25)
