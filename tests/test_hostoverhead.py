"""What the host adds to a latency, when that is not known, and how a run keeps out of the engine's way."""

from __future__ import annotations

import itertools
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from blockdevices import MIB, filled
from fakes import FakeObserver
from flashgauge import hostoverhead
from flashgauge._core import Session
from flashgauge.execute import NICE, RunRequest, _may_have, execute, prepare
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


def found(session: Any, *reads: BlockReads | str) -> HostOverhead | str:
    """`reads`: what the counters say one after another, the last for ever."""
    steps = itertools.chain(reads, itertools.repeat(reads[-1]))
    return measure(session, lambda: next(steps))


def test_the_difference_is_the_hosts() -> None:
    before = BlockReads(7, 1000)
    overhead = found(Played(2000, 170_000_000), before, BlockReads(2007, 1160))
    assert isinstance(overhead, HostOverhead)
    assert (overhead.ns, overhead.error_ns) == (5000, 500)
    assert str(overhead) == "5.0 us of 85.0 us (mean of 2,000 reads of 4 KiB at T1Q1, known to 0.50 us)"


def test_a_difference_that_the_counters_cannot_tell_is_less_than_that() -> None:
    overhead = found(Played(60, 486_000_000), BlockReads(0, 0), BlockReads(60, 487))
    assert str(overhead).startswith("less than 33 us of 8100.0 us (mean of 60 reads")


BAD_READ = [{"operation": "read", "errno": 5, "first_lba": 80, "ios": 1}]


@pytest.mark.parametrize(
    ("played", "reads", "reason"),
    [
        (Played(10, 1000), ("it is a tape",), "it is a tape"),
        (
            Played(10, 1000),
            (BlockReads(0, 0), BlockReads(11, 0)),
            "the device had other I/Os meanwhile",
        ),
        (Played(0, 0), (BlockReads(0, 0),), "the device had other I/Os meanwhile"),
        (Played(1, 9, BAD_READ), (BlockReads(0, 0), BlockReads(1, 0)), "a read at sector 80 failed (errno 5)"),
    ],
)
def test_why_it_is_not_known(played: Played, reads: tuple[BlockReads | str, ...], reason: str) -> None:
    assert found(played, *reads) == reason


def test_a_session_for_smaller_blocks_cannot(tmp_path: Path) -> None:
    target = str(filled(tmp_path / "small.img", MIB))
    with closing(Session.block(target, MIB, 1, 1, 1, 512, False)) as session:
        reason = found(session, BlockReads(0, 0))
    assert isinstance(reason, str) and reason.startswith("4 KiB cannot be read: "), reason


class Watching(FakeObserver):
    """Remembers the priority at which the run prepares and steps."""

    def __init__(self) -> None:
        super().__init__()
        self.preparing_at: list[int] = []
        self.stepping_at: list[int] = []

    def begin(self, *_: Any) -> None: ...

    def preparing(self, what: str) -> None:
        self.preparing_at.append(os.getpriority(os.PRIO_PROCESS, 0))

    def step_started(self, step: Any) -> None:
        self.stepping_at.append(os.getpriority(os.PRIO_PROCESS, 0))


@pytest.mark.parametrize("kind", ["file", "sim"])
def test_a_run_has_less_weight_than_its_engine(tmp_path: Path, kind: str) -> None:
    target = f"file:{filled(tmp_path / 'disk.img', 16 * MIB)}" if kind == "file" else "sim:sata-enterprise?capacity=1GB"
    short = {"point_s": "0.01", "wipc_capacities": "0.05", "max_rounds": "5", "thread_count": "1", "queue_depth": "1"}
    before = os.getpriority(os.PRIO_PROCESS, 0)
    request = RunRequest("iops", target, out=tmp_path / "run", settings=short, consent="disk.img")
    seen = Watching()
    execute(request, prepare(request), seen)
    assert seen.preparing_at[0] == before, "the engine's threads and the host's ceilings have the weight of any other"
    gives_way = kind == "file" and _may_have(before)
    assert set(seen.stepping_at) == {min(before + NICE, 19) if gives_way else before}
    assert os.getpriority(os.PRIO_PROCESS, 0) == before
