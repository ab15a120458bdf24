"""The IOPS test as a generator, fed with scripted measurements: order, nesting, steady state, limits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from fakes import GB, measurement
from flashgauge.disclosure import Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.iops import TRACKING, IopsParameters, iops
from flashgauge.spec.parameters import DeviceClass, ParameterError, changed, departures, table
from flashgauge.spec.rounds import Settled
from flashgauge.steps import KIB, Label, Measure, Precondition, Purge, RoundJudged, SetWriteCache, Step

ENTERPRISE = IopsParameters.standard(DeviceClass.ENTERPRISE)
CLIENT = IopsParameters.standard(DeviceClass.CLIENT)


def played(parameters: IopsParameters, answer: Callable[[Label], float]) -> tuple[list[Step], Settled]:
    """All steps of the test and its outcome, when test points give `answer` IOPS."""
    spec, steps = iops(parameters, 200 * GB), []
    reply: Measurement | None = None
    while True:
        try:
            step = spec.send(reply) if reply else next(spec)
        except StopIteration as stop:
            return steps, stop.value
        steps.append(step)
        reply = None
        if isinstance(step, Precondition | Measure):
            reply = measurement(answer(step.label))


@pytest.mark.clause("7.2.3.2.1")
@pytest.mark.clause("7.2")
@pytest.mark.clause("3.2")
def test_order_of_the_steps() -> None:
    steps, outcome = played(ENTERPRISE, lambda label: 1000.0)
    assert steps[0] == Purge()
    assert steps[1] == SetWriteCache(False)
    assert isinstance(steps[2], Precondition)
    points = [(s.label.round, s.label.read_percent, s.label.block_bytes) for s in steps if isinstance(s, Measure)]
    wanted = [
        (round_number, read, int(kib * KIB))
        for round_number in range(1, 6)
        for read in (100, 95, 65, 50, 35, 5, 0)
        for kib in (1024, 128, 64, 32, 16, 8, 4, 0.5)
    ]
    assert points == wanted
    assert outcome == Settled(True, 1, 5, outcome.verdicts)
    assert set(outcome.verdicts) == {"RND 4 KiB RW0", "RND 64 KiB RW65", "RND 1024 KiB RW100"}


@pytest.mark.clause("7.2.2.2")
@pytest.mark.clause("7.2")
@pytest.mark.clause("3.5")
def test_independent_preconditioning_is_twice_the_capacity_in_sequence() -> None:
    (wipc,) = [step for step in played(ENTERPRISE, lambda label: 1.0)[0] if isinstance(step, Precondition)]
    assert wipc.stop.bytes == 400 * GB
    assert wipc.stop.keep_loaded, "clause 4: no delay between pre-conditioning and test"
    assert wipc.stimulus.access == "sequential"
    assert wipc.stimulus.block_sizes == ((128 * KIB, 1),)
    assert wipc.stimulus.read_percent == 0
    assert wipc.stimulus.entropy_percent == 100


@pytest.mark.clause("2.1.1")
@pytest.mark.clause("3.6")
@pytest.mark.clause("3.7")
@pytest.mark.parametrize(
    ("parameters", "threads", "depth", "cache", "active_range"),
    [(ENTERPRISE, 4, 32, False, 100.0), (CLIENT, 2, 16, True, 75.0)],
)
@pytest.mark.clause("7.2.2.1")
def test_classes(parameters: IopsParameters, threads: int, depth: int, cache: bool, active_range: float) -> None:
    steps, _ = played(parameters, lambda label: 1.0)
    assert steps[1] == SetWriteCache(cache)
    for step in steps:
        if isinstance(step, Precondition | Measure):
            # 3.6: the same thread count and OIO per thread in all steps of a test.
            assert (step.stimulus.thread_count, step.stimulus.queue_depth) == (threads, depth)
        if isinstance(step, Measure):
            assert step.stimulus.access == "random"
            assert step.stimulus.active_range_percent == (0.0, active_range)
            assert step.stop.seconds == 60
        if isinstance(step, Precondition):
            assert step.stimulus.active_range_percent == (0.0, 100.0), "7.1: 100 % of the LBAs are pre-conditioned"


@pytest.mark.clause("7.2.3.2.1.2.2")
@pytest.mark.clause("7.2")
@pytest.mark.parametrize("late", list(TRACKING))
def test_every_tracking_variable_must_be_steady(late: str) -> None:
    """One variable that settles in round 3 only holds the end back to round 7."""

    def answer(label: Label) -> float:
        moving = (label.read_percent, label.block_bytes) == TRACKING[late] and (label.round or 0) < 3
        return 2000.0 if moving else 1000.0

    steps, outcome = played(ENTERPRISE, answer)
    assert (outcome.steady, outcome.first_round, outcome.last_round) == (True, 3, 7)
    rounds = [step for step in steps if isinstance(step, RoundJudged)]
    assert [judged.round for judged in rounds] == [1, 2, 3, 4, 5, 6, 7]
    assert [bool(judged.verdicts) for judged in rounds] == [False] * 4 + [True] * 3
    assert not rounds[5].verdicts[late].steady
    assert all(verdict.steady for name, verdict in rounds[5].verdicts.items() if name != late)


@pytest.mark.clause("7.1")
@pytest.mark.clause("7.2")
def test_a_variable_outside_the_three_does_not_matter() -> None:
    def answer(label: Label) -> float:
        return 1000.0 * (label.round or 1) if (label.read_percent, label.block_bytes) == (50, 8 * KIB) else 1000.0

    assert played(ENTERPRISE, answer)[1].last_round == 5


@pytest.mark.clause("7.3")
@pytest.mark.clause("7.2")
def test_at_most_25_rounds_then_the_last_five() -> None:
    steps, outcome = played(ENTERPRISE, lambda label: 1000.0 * 1.5 ** (label.round or 0))
    assert (outcome.steady, outcome.first_round, outcome.last_round) == (False, 21, 25)
    assert sum(isinstance(step, Measure) for step in steps) == 25 * 56
    assert not any(verdict.steady for verdict in outcome.verdicts.values())


def test_steady_in_the_last_round_counts() -> None:
    outcome = played(ENTERPRISE, lambda label: 1000.0 * 1.5 ** min(label.round or 0, 21))[1]
    assert (outcome.steady, outcome.first_round, outcome.last_round) == (True, 21, 25)


def test_each_change_is_a_disclosure_with_its_clause() -> None:
    used = changed(ENTERPRISE, {"point_s": "1", "thread_count": "8", "block_sizes_kib": "1024, 64, 4"})
    found = {d.message.split()[0]: d for d in departures(used, ENTERPRISE)}
    assert set(found) == {"point_s", "block_sizes_kib"}, "the thread count is the operator's choice"
    assert all(d.kind is Kind.PARAMETER_CHANGED and d.invalidates for d in found.values())
    assert found["point_s"].clause == "7.2 3.2.1.2"


def test_more_than_25_rounds_is_allowed_fewer_are_a_departure() -> None:
    assert not departures(changed(ENTERPRISE, {"max_rounds": "40"}), ENTERPRISE)
    assert departures(changed(ENTERPRISE, {"max_rounds": "10"}), ENTERPRISE)


def test_classes_have_their_own_standard() -> None:
    assert not departures(CLIENT, IopsParameters.standard(DeviceClass.CLIENT))
    assert {d.message.split()[0] for d in departures(CLIENT, ENTERPRISE)} == {
        "write_cache_enabled",
        "active_range_percent",
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"point": "1"}, "no parameter"),
        ({"device_class": "client"}, "no parameter"),
        ({"point_s": "fast"}, "not a number"),
        ({"point_s": "0"}, "least allowed"),
        ({"point_s": "NaN"}, "finite"),
        ({"thread_count": "2.5"}, "whole number"),
        ({"thread_count": "true"}, "whole number"),
        ({"max_rounds": "4"}, "least allowed"),
        ({"write_cache_enabled": "maybe"}, "on or off"),
        ({"active_range_percent": "101"}, "most allowed"),
        ({"read_percents": "100, 65"}, "leaves out"),
        ({"read_percents": ""}, "empty"),
        ({"block_sizes_kib": "1024, 64, 4, 4"}, "twice"),
        ({"block_sizes_kib": "1024, 64, 4, 0.7"}, "multiples of 0.5"),
    ],
)
def test_wrong_settings_say_why(settings: dict[str, str], message: str) -> None:
    with pytest.raises((ParameterError, ValueError), match=message):
        changed(ENTERPRISE, settings)


def test_the_parameter_table_names_clauses() -> None:
    rows = {row["name"]: row for row in table(ENTERPRISE)}
    assert rows["wipc_capacities"] == {
        "name": "wipc_capacities",
        "value": 2.0,
        "clause": "7.2 2.2",
        "meaning": "user capacities written before the loop",
    }
    assert "device_class" not in rows
