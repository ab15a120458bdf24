"""The host idle recovery test as a generator, fed with scripted answers: bursts that end, baselines that do not."""

from __future__ import annotations

from itertools import groupby

import pytest

from flashgauge.disclosure import Kind
from flashgauge.spec.hir import baseline_purpose, wait_purpose
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, Disclose, Idle, Measure, Precondition, Purge, SetWriteCache
from scripted import Played, play, settling, steady

WAITS_S = (5.0, 10.0, 15.0, 25.0, 50.0)
# The same test with fewer accesses, where their number does not matter.
FEW = {"wait_accesses": 3, "baseline_accesses": 2}


@pytest.fixture(scope="module")
def whole() -> Played:
    return play("hir", steady())


@pytest.mark.clause("11.2")
@pytest.mark.clause("11.1")
@pytest.mark.clause("3.2")
@pytest.mark.clause("3.6")
@pytest.mark.clause("2.1.1")
@pytest.mark.clause("11.2.2.2")
@pytest.mark.parametrize(
    ("device_class", "threads", "depth", "active_range"),
    [(DeviceClass.ENTERPRISE, 4, 32, 100.0), (DeviceClass.CLIENT, 2, 16, 75.0)],
)
def test_both_classes(device_class: DeviceClass, threads: int, depth: int, active_range: float) -> None:
    """RND 4 KiB writes and nothing else."""
    played = play("hir", steady(), FEW, device_class=device_class)
    assert played.steps[:2] == [Purge(), SetWriteCache(device_class is DeviceClass.CLIENT)]
    (stimulus,) = {step.stimulus for step in played.asked}
    assert (stimulus.access, stimulus.block_sizes, stimulus.read_percent) == ("random", ((4 * KIB, 1),), 0)
    assert (stimulus.thread_count, stimulus.queue_depth) == (threads, depth)
    assert stimulus.active_range_percent == (0.0, active_range)


@pytest.mark.clause("3.7")
@pytest.mark.parametrize("device_class", DeviceClass)
@pytest.mark.parametrize("enabled", [False, True])
def test_the_other_cache_state_is_an_option(device_class: DeviceClass, enabled: bool) -> None:
    """11.2 2.1: of both classes."""
    played = play("hir", steady(), {**FEW, "write_cache_enabled": enabled}, device_class=device_class)
    assert played.steps[:2] == [Purge(), SetWriteCache(enabled)]
    assert not any(isinstance(step, SetWriteCache) for step in played.steps[2:])


@pytest.mark.clause("11.2.3")
@pytest.mark.clause("11.2.3.2")
@pytest.mark.parametrize(("settles", "minutes"), [(5, 121), (6, 151), (25, 721)])
def test_minutes_until_steady(settles: int, minutes: int) -> None:
    played = play("hir", settling(settles, steady()), FEW)
    steps = played.of("pre-conditioning")
    assert [step.label.number for step in steps] == list(range(1, minutes + 1))
    assert all(isinstance(step, Precondition) and step.stop.seconds == 60 for step in steps)
    assert played.asked[: len(steps)] == steps
    assert (played.outcome.steady, played.outcome.rounds.last_round) == (True, settles)
    assert set(played.judged()[-1].values) == {"IOPS of RND 4 KiB RW0"}
    assert len(played.of("wait 5 s")) == 3
    assert not played.disclosures()


@pytest.mark.clause("11.2.3.2")
def test_without_steady_state_the_test_is_stopped() -> None:
    played = play("hir", settling(None, steady()))
    assert {step.label.purpose for step in played.asked} == {"pre-conditioning"}
    assert len(played.asked) == 721
    assert not any(isinstance(step, Idle) for step in played.steps)
    (said,) = played.disclosures()
    assert isinstance(played.steps[-1], Disclose)
    assert (said.kind, said.clause) == (Kind.STEADY_STATE_NOT_REACHED, "11.2 3.2")
    assert said.message.startswith("pre-conditioning: ")
    assert said.advice.startswith("the standard ends the test here; see ")
    assert "--set" not in said.advice, "more rounds are no cure: 25 is the maximum"
    assert not played.outcome.steady


@pytest.mark.clause("11.2.4")
@pytest.mark.clause("11.2.4.2")
def test_five_wait_states_each_with_a_return_to_baseline(whole: Played) -> None:
    after = [step for step in whole.asked if step.label.purpose != "pre-conditioning"]
    groups = [(purpose, len(list(steps))) for purpose, steps in groupby(after, lambda step: step.label.purpose)]
    assert groups == [
        group for wait_s in WAITS_S for group in ((wait_purpose(wait_s), 360), (baseline_purpose(wait_s), 360))
    ]


@pytest.mark.clause("11.2.4")
@pytest.mark.parametrize("wait_s", WAITS_S)
def test_a_burst_ends_and_idling_follows_it(whole: Played, wait_s: float) -> None:
    """Access A and access B, 360 times: nothing is sent after the 5 s."""
    at = [
        i
        for i, step in enumerate(whole.steps)
        if isinstance(step, Measure) and step.label.purpose == wait_purpose(wait_s)
    ]
    for number, i in enumerate(at, 1):
        step = whole.steps[i]
        assert isinstance(step, Measure)
        assert (step.stop.seconds, step.stop.then_idle, step.label.number) == (5.0, True, number)
        assert whole.steps[i + 1] == Idle(wait_s)
    assert len(at) == 360


@pytest.mark.clause("11.2.4.2")
@pytest.mark.parametrize("wait_s", WAITS_S)
def test_a_baseline_is_1800_seconds_without_a_pause(whole: Played, wait_s: float) -> None:
    steps = whole.of(baseline_purpose(wait_s))
    assert [step.label.number for step in steps] == list(range(1, 361))
    assert all(step.stop.seconds == 5 and not step.stop.then_idle for step in steps)
    assert sum(step.stop.seconds or 0 for step in steps) == 1800
    first = whole.steps.index(steps[0])
    assert whole.steps[first : first + 360] == steps
    assert all(answer.idle_ns == 0 for answer in whole.answers_of(baseline_purpose(wait_s))[1:])


@pytest.mark.clause("11.2.4")
def test_only_bursts_are_followed_by_idling(whole: Played) -> None:
    for step, after in zip(whole.steps, whole.steps[1:], strict=False):
        bursts = isinstance(step, Measure) and step.stop.then_idle
        assert bursts is isinstance(after, Idle)


@pytest.mark.clause("11.2.4")
def test_other_waits_in_the_order_given() -> None:
    played = play("hir", steady(), {**FEW, "waits_s": "7, 0.5"})
    assert [step.seconds for step in played.steps if isinstance(step, Idle)] == [7.0] * 3 + [0.5] * 3
