"""The shapes that the tests exist to show, on a small simulated drive with short minutes: physics, not arithmetic.

The whole set at full length has the same assertions, and more: tests/test_full_set.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fakes import FakeObserver
from flashgauge.execute import RunRequest, execute, prepare
from flashgauge.report.replay import Replay, replay
from flashgauge.runfolder import Run, read_journal, read_run
from flashgauge.spec.hir import baseline_purpose, wait_purpose
from flashgauge.spec.operating_points import PointLog
from flashgauge.spec.registry import Spec
from flashgauge.spec.workloads import COMPOSITE
from flashgauge.spec.xsr import group_purpose

DRIVE = "sim:sata-enterprise?capacity=1GB"
HIR = {
    "minute_s": "1",
    "round_spacing_minutes": "20",
    "access_s": "0.5",
    "waits_s": "0.5, 1, 2.5, 5",
    "wait_accesses": "20",
    "baseline_accesses": "40",
}
DEMAND = {
    "minute_s": "0.5",
    "round_spacing_minutes": "10",
    "point_s": "0.5",
    "prewrite_max_minutes": "5",
    "final_prewrite_minutes": "2",
    "histogram_s": "1",
    "thread_counts": "32, 8, 2, 1",
    "queue_depths": "32, 8, 2, 1",
}


class Silent(FakeObserver):
    """Nobody looks."""

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None: ...


def conducted(folder: Path, test: str, settings: dict[str, str], drive: str = DRIVE) -> Replay:
    """The test run without reports, and replayed."""
    request = RunRequest(test, drive, out=folder, settings=settings)
    execute(request, prepare(request), Silent())
    entries, torn = read_journal(folder)
    assert not torn
    replayed = replay(read_run(folder), entries, torn)
    assert replayed.outcome is not None
    return replayed


def iops_of(replayed: Replay, purpose: str) -> list[float]:
    return [entry.measurement.iops for entry in replayed.entries if entry.label.purpose == purpose]


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


@pytest.mark.clause("10.2.2.2")
def test_wsat_falls_from_fresh_to_a_plateau(tmp_path: Path) -> None:
    replayed = conducted(tmp_path / "run", "wsat", {"minute_s": "0.25", "histogram_s": "1"})
    minutes = iops_of(replayed, "minute")
    # A fresh drive writes 1 + over-provisioning of its capacity before it must collect.
    capacity = replayed.entries[0].measurement.written_bytes
    written = [capacity]
    for entry in replayed.entries[1:]:
        written.append(written[-1] + entry.measurement.written_bytes)
    fresh = [iops for iops, total in zip(minutes, written, strict=False) if total < 1.2e9]
    settled = minutes[-5:]
    assert len(fresh) > 10
    assert max(fresh) < 1.05 * min(fresh)
    assert mean(fresh) > 1.2 * mean(settled)
    assert max(settled) < 1.15 * min(settled)
    assert replayed.outcome.stop == "written"
    assert replayed.outcome.written_bytes >= 4e9


@pytest.mark.clause("11.2.4")
def test_hir_is_flat_where_nothing_is_collected_in_idle_time(tmp_path: Path) -> None:
    # Bursts of 0.5 s would gain 1.5 % from the write buffer alone, which is empty after idle time.
    times = {"access_s": "2.5", "waits_s": "2.5, 5, 12.5, 25", "wait_accesses": "10", "baseline_accesses": "10"}
    # 250 s at the steady rate write the drive 34 times.
    replayed = conducted(tmp_path / "run", "hir", {**HIR, "round_spacing_minutes": "50", **times})
    for wait_s in (2.5, 5.0, 12.5, 25.0):
        gain = mean(iops_of(replayed, wait_purpose(wait_s))) / mean(iops_of(replayed, baseline_purpose(wait_s)))
        print("gain:", wait_s, gain)
        assert gain == pytest.approx(1.0, abs=0.02), wait_s


@pytest.mark.clause("11.2.4")
def test_hir_is_a_staircase_where_it_is(tmp_path: Path) -> None:
    # Little spare capacity, so that a fresh drive is much faster than a worn one, and bursts that fit into it.
    drive = f"{DRIVE}&over_provisioning=0.07&idle_collect_after_ms=1&idle_collect_free_percent=90"
    waits_s = (0.05, 0.1, 0.15, 0.25)
    times = {"access_s": "0.05", "waits_s": ", ".join(map(str, waits_s))}
    replayed = conducted(tmp_path / "run", "hir", {**HIR, **times, "baseline_accesses": "200"}, drive)
    gains = []
    for wait_s in waits_s:
        # The first bursts use what little is free, the first of the accesses back to back what the last idle time left.
        bursts = iops_of(replayed, wait_purpose(wait_s))[5:]
        gains.append(mean(bursts) / mean(iops_of(replayed, baseline_purpose(wait_s))[100:]))
    print("gains:", gains)
    assert gains[0] > 1.5
    assert gains == sorted(gains)
    assert gains[-1] > 1.5 * gains[0]


@pytest.mark.clause("12.2.4")
def test_xsr_starts_lower_and_recovers(tmp_path: Path) -> None:
    minutes = {f"group_{group}_minutes": "60" for group in (1, 2, 3)}
    replayed = conducted(tmp_path / "run", "xsr", {"minute_s": "0.25", **minutes})
    rates = [
        [entry.measurement.mb_per_s for entry in replayed.entries if entry.label.purpose == group_purpose(group)]
        for group in (1, 3)
    ]
    settled = mean(rates[0][-20:])
    assert rates[1][0] < 0.9 * settled
    assert mean(rates[1][-20:]) == pytest.approx(settled, rel=0.02)


@pytest.mark.clause("12.2.4")
def test_random_writes_after_a_sequential_fill_swing_before_they_settle(tmp_path: Path) -> None:
    """With 50 % spare. By an independent simulation, write amplification is 1 until half a drive write, has a dip of
    1.625 at 1.15 and a peak of 1.74 at 1.4, and settles at 1.707: rates of +5 and -2 %. A tenth of a drive write is
    12,000 I/Os here: its rate has an error of about 1 %."""
    minutes = {"minute_s": "0.1", "group_1_minutes": "60", "group_2_minutes": "250", "group_3_minutes": "5"}
    replayed = conducted(tmp_path / "run", "xsr", minutes, "sim:sata-enterprise?capacity=1GB&over_provisioning=0.5")
    group = [entry.measurement for entry in replayed.entries if entry.label.purpose == group_purpose(2)]
    written, rates = 0.0, []
    for measurement in group:
        written += measurement.written_bytes / 1e9
        rates.append((written, measurement.mb_per_s))

    def between(low: float, high: float) -> float:
        return mean([rate for w, rate in rates if low <= w < high])

    settled = between(3, 9)
    swing = {w / 10: between(w / 10 - 0.05, w / 10 + 0.05) / settled for w in range(1, 25)}
    print({w: round(rate, 3) for w, rate in swing.items()})
    assert min(swing[w] for w in (0.1, 0.2, 0.3, 0.4)) > 1.3
    assert swing[0.6] < 0.9
    assert max(swing[w] for w in (1.1, 1.2)) > 1.03
    assert min(swing[w] for w in (1.3, 1.4, 1.5)) < 0.99
    assert swing[2.4] == pytest.approx(1, abs=0.02)


@pytest.mark.clause("14.2.3.3")
def test_dirth_response_time_bends_up_past_the_knee(tmp_path: Path) -> None:
    replayed = conducted(tmp_path / "run", "dirth", DEMAND)
    log = PointLog()
    for entry in replayed.entries:
        label = entry.label
        if label.purpose == "demand" and label.round and label.thread_count and label.queue_depth:
            log.add(label.round, (label.thread_count, label.queue_depth), entry.measurement)
    rounds = replayed.outcome.rounds
    points = log.averages(range(rounds.first_round, rounds.last_round + 1))
    top, most, least = points[replayed.outcome.chosen.maximum], points[32, 32], points[1, 1]
    assert top.iops > 3 * least.iops
    assert most.iops < 1.1 * top.iops
    assert most.art_ms > 4 * top.art_ms
    assert top.art_ms < 5


@pytest.mark.clause("13.2.2.1.3")
@pytest.mark.clause("13.2.2.1.4")
def test_cbw_keeps_the_shares_of_its_tables(tmp_path: Path) -> None:
    replayed = conducted(tmp_path / "run", "cbw", DEMAND)
    periods = [entry.measurement for entry in replayed.entries if entry.label.purpose == "demand"]
    sizes = [sum(counts) for counts in zip(*(m.size_ios for m in periods), strict=True)]
    groups = [sum(counts) for counts in zip(*(m.group_ios for m in periods), strict=True)]
    for counts, shares in (
        (sizes, [weight / 100 for _, weight in COMPOSITE.blocks]),
        (groups, [group.probability_percent / 100 for group in COMPOSITE.groups]),
    ):
        for count, share in zip(counts, shares, strict=True):
            assert count / sum(counts) == pytest.approx(share, abs=0.003)
    reads = sum(m.read.ios for m in periods) / sum(m.ios for m in periods)
    assert reads == pytest.approx(0.4, abs=0.003)
