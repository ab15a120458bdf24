"""The whole set of tests at its true durations on the simulated drive; run by `make e2e-full`, which takes a while."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from flashgauge.measurement import Measurement
from flashgauge.report.replay import replay
from flashgauge.runfolder import Entry, read_journal, read_run
from flashgauge.spec.hir import HirParameters, baseline_purpose, wait_purpose
from flashgauge.spec.operating_points import PointLog
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS
from flashgauge.spec.workloads import COMPOSITE
from flashgauge.spec.xsr import group_purpose

PROGRAM = Path(sys.executable).parent / "flashgauge"
DRIVE = "sim:sata-enterprise?capacity=8GiB"
# A drive that collects while it is idle, with so little spare capacity that this shows.
IDLE_DRIVE = (
    "sim:sata-enterprise?capacity=24GB&over_provisioning=0.07&idle_collect_after_ms=100&idle_collect_free_percent=90"
)

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`flashgauge run all` at full length, as many tests at a time as there are processors."""
    folder = tmp_path_factory.mktemp("full") / "set"
    began = time.monotonic()
    jobs = str(os.cpu_count() or 1)
    command = [PROGRAM, "run", "all", DRIVE, "--jobs", jobs, "--json", "--out", folder]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    ends = [event for line in done.stdout.splitlines() if (event := json.loads(line))["event"] == "result"]
    for event in ends:
        print(f"{event['test']}: {event['elapsed_s']:.0f} s")
    print(f"the whole set with --jobs {jobs}: {time.monotonic() - began:.0f} s")
    return folder


def entries_of(folder: Path) -> list[Entry]:
    entries, torn = read_journal(folder)
    assert not torn
    return entries


def of(entries: list[Entry], purpose: str) -> Iterator[Measurement]:
    return (entry.measurement for entry in entries if entry.label.purpose == purpose)


@pytest.mark.parametrize("test", TESTS)
def test_complete_and_valid(full: Path, test: str) -> None:
    shown = subprocess.run([PROGRAM, "show", full / test, "--json"], capture_output=True, text=True, check=True)
    facts = json.loads(shown.stdout)
    assert facts["state"] == "complete"
    assert facts["valid_pts_result"] is True
    assert [item["kind"] for item in facts["disclosures"] if item["kind"] != "steady_state_not_reached"] == [
        "simulated"
    ]
    for name in ("report.html", "report.pdf"):
        assert (full / test / name).stat().st_size > 50_000


def test_little_s_law_holds_at_every_step(full: Path) -> None:
    """Total OIO = completion rate x mean latency, where a step is long enough for its ends not to matter."""
    checked = 0
    for test in TESTS:
        spec = TESTS[test].spec(
            TESTS[test].parameters(DeviceClass.ENTERPRISE), read_run(full / test).dut.capacity_bytes
        )
        entries = iter(entries_of(full / test))
        answer = None
        while True:
            try:
                step = spec.send(answer)
            except StopIteration:
                break
            answer = None
            if not hasattr(step, "stimulus"):
                continue
            m = answer = next(entries).measurement
            total_oio = step.stimulus.thread_count * step.stimulus.queue_depth
            if step.stop.seconds and m.ios > 5000 * total_oio and m.art_ns:
                assert m.iops * m.art_ns / 1e9 == pytest.approx(total_oio, rel=0.002), step.label
                checked += 1
    assert checked > 1000


def test_wsat_falls_from_fresh_to_a_lower_plateau(full: Path) -> None:
    minutes = list(of(entries_of(full / "wsat"), "minute"))
    fresh = minutes[0].intervals.write_ios[:20]
    settled = minutes[-1].iops
    assert min(fresh) > 1.2 * settled
    assert max(fresh) < 1.1 * min(fresh), "a plateau"
    capacity = read_run(full / "wsat").dut.capacity_bytes
    written = sum(m.written_bytes for m in minutes)
    assert 4 * capacity <= written < 4 * capacity + 2 * minutes[-1].written_bytes


def test_hir_is_flat_without_idle_collection(full: Path) -> None:
    entries = entries_of(full / "hir")
    for wait_s in HirParameters.standard(DeviceClass.ENTERPRISE).waits_s:
        bursts = [m.iops for m in of(entries, wait_purpose(wait_s))]
        baseline = [m.iops for m in of(entries, baseline_purpose(wait_s))]
        assert len(bursts) == len(baseline) == 360
        assert sum(bursts) / sum(baseline) == pytest.approx(1.0, abs=0.02), wait_s


def test_hir_is_a_staircase_with_idle_collection(tmp_path: Path) -> None:
    folder = tmp_path / "hir"
    subprocess.run([PROGRAM, "run", "hir", IDLE_DRIVE, "--out", folder], check=True, capture_output=True)
    entries = entries_of(folder)
    gains = []
    for wait_s in HirParameters.standard(DeviceClass.ENTERPRISE).waits_s:
        bursts = sum(m.iops for m in of(entries, wait_purpose(wait_s)))
        # The second half: what was collected in the last idle time is used up by then.
        baseline = sum([m.iops for m in of(entries, baseline_purpose(wait_s))][180:]) * 2
        gains.append(bursts / baseline)
    print("gains of the wait states:", [f"{gain:.2f}" for gain in gains])
    assert gains[0] > 1.05
    assert all(later >= 0.99 * earlier for earlier, later in pairwise(gains))


def test_xsr_third_group_starts_lower_and_recovers(full: Path) -> None:
    entries = entries_of(full / "xsr")
    first, third = (list(of(entries, group_purpose(group))) for group in (1, 3))
    settled = sum(m.mb_per_s for m in first[-120:]) / 120
    ten_s = [sum(third[0].intervals.write_bytes[i : i + 10]) / 10 / 1e6 for i in (0, 50)]
    assert ten_s[0] < 0.9 * settled
    assert third[-1].mb_per_s > 0.95 * settled


def test_dirth_response_time_bends_up_where_iops_flatten(full: Path) -> None:
    run, entries = read_run(full / "dirth"), entries_of(full / "dirth")
    outcome = replay(run, entries, False).outcome
    log = PointLog()
    for entry in entries:
        label = entry.label
        if label.purpose == "demand" and label.round and label.thread_count and label.queue_depth:
            log.add(label.round, (label.thread_count, label.queue_depth), entry.measurement)
    averages = log.averages(range(outcome.rounds.first_round, outcome.rounds.last_round + 1))
    top, most, least = averages[outcome.chosen.maximum], averages[32, 32], averages[1, 1]
    assert top.iops > 3 * least.iops
    assert most.iops < 1.1 * top.iops, "past the knee IOPS flatten"
    assert most.art_ms > 4 * top.art_ms, "and the response time goes up"
    assert top.art_ms < 5


def test_cbw_shares_match_the_tables(full: Path) -> None:
    entries = entries_of(full / "cbw")
    periods = [entry.measurement for entry in entries if entry.label.purpose == "demand"]
    for counts, shares in (
        ([m.size_ios for m in periods], [weight / 100 for _, weight in COMPOSITE.blocks]),
        ([m.group_ios for m in periods], [group.probability_percent / 100 for group in COMPOSITE.groups]),
    ):
        total = sum(map(sum, counts))
        for index, share in enumerate(shares):
            assert sum(count[index] for count in counts) / total == pytest.approx(share, abs=0.0005)
