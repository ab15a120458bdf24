"""What the host adds to a latency, and when that is not known."""

from __future__ import annotations

import itertools
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from blockdevices import MIB, filled
from flashgauge import hostoverhead
from flashgauge._core import Session
from flashgauge.hostoverhead import BlockReads, HostOverhead, measure


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostoverhead, "SECONDS", 0.01)


class Played:
    """A session whose reads were these."""

    def __init__(self, ios: int, latency_sum_ns: int, errors: list[dict[str, Any]] | None = None) -> None:
        self._raw = {"read": {"ios": ios, "latency_sum_ns": latency_sum_ns}, "errors": errors or []}

    def check(self, *_: str) -> None: ...

    def start(self, *_: Any) -> None: ...

    def wait(self, _seconds: float) -> dict[str, Any]:
        return self._raw


def found(session: Any, *reads: BlockReads | None) -> HostOverhead | str:
    steps = itertools.chain(reads)
    return measure(session, lambda: next(steps))


def test_the_difference_is_the_hosts() -> None:
    overhead = found(Played(2000, 170_000_000), BlockReads(7, 1000), BlockReads(2007, 1160))
    assert isinstance(overhead, HostOverhead)
    assert (overhead.ns, overhead.error_ns) == (5000, 500)
    assert str(overhead) == "5.0 us of 85.0 us (to 0.5 us; mean of 2,000 reads of 4 KiB at T1Q1)"


@pytest.mark.parametrize(
    ("played", "reads", "reason"),
    [
        (Played(10, 1000), (None,), "the kernel does not count the device's I/Os one by one"),
        (Played(10, 1000), (BlockReads(0, 0), BlockReads(11, 0)), "the device had other I/Os meanwhile"),
        (Played(0, 0), (BlockReads(0, 0), BlockReads(0, 0)), "the device had other I/Os meanwhile"),
        (Played(1, 9, [{"errno": 5}]), (BlockReads(0, 0), BlockReads(1, 0)), "reads failed"),
    ],
)
def test_why_it_is_not_known(played: Played, reads: tuple[BlockReads | None, ...], reason: str) -> None:
    assert found(played, *reads) == reason


def test_a_session_for_smaller_blocks_cannot(tmp_path: Path) -> None:
    target = str(filled(tmp_path / "small.img", MIB))
    with closing(Session.block(target, MIB, 1, 1, 1, 512, False)) as session:
        reason = found(session, BlockReads(0, 0))
    assert isinstance(reason, str) and reason.startswith("4 KiB cannot be read: "), reason
