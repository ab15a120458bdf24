"""The write cache's state against the state the test asks for."""

from __future__ import annotations

from pathlib import Path

import pytest

from flashgauge.disclosure import Kind
from flashgauge.rig import writecache
from flashgauge.rig.identify import BlockDevice, Roots


@pytest.mark.clause("3.7")
@pytest.mark.parametrize(
    ("found", "asked", "state", "disclosed"),
    [
        ("write back", True, "enabled (the kernel reports write back)", None),
        ("write back", False, "enabled (the kernel reports write back)", "nvme set-feature -f 6 -V 0"),
        ("write through", False, "disabled or absent (the kernel reports write through)", None),
        ("write through", True, "disabled or absent (the kernel reports write through)", "hdparm -W 1"),
        (None, True, "not known (the kernel does not report it)", "read it from the drive"),
        (None, False, "not known (the kernel does not report it)", "read it from the drive"),
    ],
)
def test_write_cache_against_what_was_asked(found: str | None, asked: bool, state: str, disclosed: str | None) -> None:
    prepared = writecache.compare(found, asked)
    assert prepared.state == state
    assert [(item.kind, item.clause) for item in prepared.disclosures] == (
        [(Kind.WRITE_CACHE_STATE, "3.7")] if disclosed else []
    )
    assert all(str(disclosed) in item.advice for item in prepared.disclosures)


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("reported", ["write back", "write through", None])
def test_state_is_what_the_kernel_reports(tmp_path: Path, reported: str | None) -> None:
    if reported is not None:
        (tmp_path / "queue").mkdir()
        (tmp_path / "queue/write_cache").write_text(f"{reported}\n")
    assert writecache.state(BlockDevice("/dev/x", "/dev/x", tmp_path, Roots())) == reported
