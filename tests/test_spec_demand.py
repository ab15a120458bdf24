"""CBW and DIRTH as generators, fed with scripted answers: pre-writes, 49 combinations, operating points, histograms."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from math import sqrt

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flashgauge._core import Histogram
from flashgauge.disclosure import Kind
from flashgauge.spec.demand import shares_hold
from flashgauge.spec.operating_points import Average, Chosen, PointLog, TcQd, choose
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, Disclose, IoStep, LbaGroup, Measure, Precondition, Purge, SetWriteCache
from scripted import TB, Played, Reply, Script, answer, play, restless, saturating, settling, steady

DEMANDS = (32, 16, 8, 6, 4, 2, 1)
# 13.2 and 14.2 number the same steps differently.
BOTH = pytest.mark.parametrize("test", ["cbw", "dirth"])
CLAUSE = {
    "cbw": ("13.2 3.2.2", "13.2 4.3.3", "13.2 6", "13.2 2.1"),
    "dirth": ("14.2 2.2.2", "14.2 3.3.3", "14.2 5", "14.2 3.3"),
}
# The same test without what lasts and does not matter for most tests here.
SHORT = {"round_spacing_minutes": 1, "final_prewrite_minutes": 1}
FEW_POINTS = {"thread_counts": "32, 1", "queue_depths": "32, 1"}


def point_of(step: IoStep) -> TcQd:
    return step.stimulus.thread_count, step.stimulus.queue_depth


def phases(pc: int | None, rounds: int | None, base: Script = saturating) -> Script:
    """Pre-conditioning that settles in round `pc`, demand variation in round `rounds`."""

    def script(step: IoStep) -> Reply:
        preconditioning = step.label.purpose == "pre-conditioning"
        return settling(pc if preconditioning else rounds, base, spacing=1)(step)  # type: ignore[return-value]

    return script


# Order


@BOTH
@pytest.mark.clause("13.2")
@pytest.mark.clause("14.2")
@pytest.mark.clause("3.2")
@pytest.mark.clause("3.7")
@pytest.mark.parametrize("device_class", DeviceClass)
def test_order_of_the_phases(test: str, device_class: DeviceClass) -> None:
    """The cache is off and the ActiveRange 100 % in both classes."""
    played = play(test, saturating, device_class=device_class)
    assert played.steps[:2] == [Purge(), SetWriteCache(False)]
    assert {step.stimulus.active_range_percent for step in played.asked} == {(0.0, 100.0)}
    purposes = [step.label.purpose for step in played.asked]
    order = [purpose for i, purpose in enumerate(purposes) if i == 0 or purpose != purposes[i - 1]]
    points = [name for point in ("Max", "Min", "Mid") for name in (f"{point}IOPS pre-write", f"{point}IOPS histogram")]
    assert order == ["wipc", "pre-conditioning", *(["pre-write", "demand"] * 5), *points]
    assert [judged.phase for judged in played.judged()] == ["pre-conditioning"] * 5 + ["demand variation"] * 5


@BOTH
@pytest.mark.clause("13.1")
@pytest.mark.clause("14.1")
@pytest.mark.clause("4.2")
def test_independent_preconditioning(test: str) -> None:
    (step,) = play(test, saturating, {**SHORT, **FEW_POINTS}).of("wipc")
    assert (step.stop.bytes, step.stop.keep_loaded) == (8 * TB, True)
    stimulus = step.stimulus
    assert (stimulus.access, stimulus.block_sizes, stimulus.read_percent) == ("sequential", ((128 * KIB, 1),), 0)
    settings = {"wipc_thread_count": 2, "wipc_queue_depth": 8, "active_range_percent": 50}
    (step,) = play(test, saturating, {**SHORT, **FEW_POINTS, **settings}).of("wipc")
    assert point_of(step) == (2, 8)
    assert step.stimulus.active_range_percent == (0.0, 50.0)


# The patterns


@pytest.mark.clause("13.2.2.1")
@pytest.mark.clause("13.2.2.1.2")
@pytest.mark.clause("13.2.2.1.3")
@pytest.mark.clause("13.2.2.1.4")
def test_the_composite_pattern() -> None:
    """One pattern for everything after the independent pre-conditioning; pre-writes are the same without reads."""
    played = play("cbw", saturating, SHORT)
    tables = {"block_sizes", "groups", "access"}
    patterns = {tuple(getattr(s.stimulus, name) for name in sorted(tables)) for s in played.asked[1:]}
    ((access, sizes, groups),) = patterns
    assert access == "groups"
    kib = {0.5: 4, 1: 1, 1.5: 1, 2: 1, 2.5: 1, 3: 1, 3.5: 1, 4: 67, 8: 10, 16: 7, 32: 3, 64: 3}
    assert sizes == tuple((int(size * KIB), share) for size, share in kib.items())
    assert sum(share for _, share in sizes) == 100
    assert groups == (LbaGroup(0, 5, 50), LbaGroup(5, 20, 30), LbaGroup(20, 100, 20))
    for step in played.asked:
        assert step.stimulus.read_percent == (0 if isinstance(step, Precondition) else 40)


@pytest.mark.clause("14.2")
@pytest.mark.parametrize(
    ("settings", "access", "kib", "reads"),
    [
        ({}, "random", 8, 65),
        ({"workload": "write-intensive"}, "random", 4, 0),
        ({"workload": "read-intensive"}, "random", 4, 100),
        ({"workload": "vod"}, "sequential", 128, 90),
        ({"workload": "meta-data"}, "sequential", 0.5, 50),
        ({"workload": "custom"}, "random", 8, 65),
        ({"workload": "custom", "custom_block_kib": 16, "custom_read_percent": 30}, "random", 16, 30),
        ({"custom_block_kib": 16, "custom_read_percent": 30}, "random", 8, 65),
    ],
)
def test_the_pattern_of_dirth_is_the_operators_choice(
    settings: dict[str, object], access: str, kib: float, reads: int
) -> None:
    """A custom one (RW1, BS1) only when asked for; its pre-conditioning and pre-writes are writes."""
    played = play("dirth", saturating, {**SHORT, **FEW_POINTS, **settings})
    for step in played.asked[1:]:
        assert (step.stimulus.access, step.stimulus.block_sizes) == (access, ((int(kib * KIB), 1),))
        assert step.stimulus.read_percent == (0 if isinstance(step, Precondition) else reads)


# Pre-conditioning


@BOTH
@pytest.mark.clause("13.2.3.1")
@pytest.mark.clause("13.2.3.2")
@pytest.mark.clause("14.2.2.1")
@pytest.mark.clause("14.2.2.2")
@pytest.mark.parametrize(("settles", "minutes"), [(5, 121), (6, 151), (25, 721), (None, 721)])
def test_preconditioning(test: str, settles: int | None, minutes: int) -> None:
    changes = {**FEW_POINTS, "max_rounds": 5, "final_prewrite_minutes": 1}
    played = play(test, settling(settles, saturating), changes)
    steps = played.of("pre-conditioning")
    assert [step.label.number for step in steps] == list(range(1, minutes + 1))
    assert {(point_of(step), step.stimulus.read_percent, step.stop.seconds) for step in steps} == {((32, 32), 0, 60.0)}
    settled = played.outcome.preconditioning
    assert (settled.steady, settled.last_round) == (settles is not None, settles or 25)


@BOTH
@pytest.mark.clause("13.2.3.2")
@pytest.mark.clause("14.2.2.2")
@pytest.mark.clause("13.2.4.3.3")
@pytest.mark.clause("14.2.3.3.3")
@pytest.mark.parametrize("pc", [5, None])
@pytest.mark.parametrize("rounds", [5, 6, 25, None])
def test_without_steady_state_the_test_goes_on_and_says_so(test: str, pc: int | None, rounds: int | None) -> None:
    """Each phase for itself; the operating points come from the last five rounds either way."""
    few = {"thread_counts": "32, 1", "queue_depths": "32, 6, 2, 1"}
    played = play(test, phases(pc, rounds), {**SHORT, **few})
    outcome = played.outcome
    assert (outcome.preconditioning.steady, outcome.preconditioning.last_round) == (pc is not None, pc or 25)
    assert (outcome.rounds.steady, outcome.rounds.last_round) == (rounds is not None, rounds or 25)
    assert outcome.rounds.first_round == (rounds or 25) - 4
    assert outcome.steady is (pc is not None and rounds is not None)
    said = [(one.kind, one.clause) for one in played.disclosures()]
    wanted = CLAUSE[test][:1] * (pc is None) + CLAUSE[test][1:2] * (rounds is None)
    assert said == [(Kind.STEADY_STATE_NOT_REACHED, clause) for clause in wanted]
    assert played.asked[-1].label.purpose == "MidIOPS histogram"


@BOTH
def test_the_phase_that_moved_is_named(test: str) -> None:
    """More rounds are no cure: 25 is the maximum, and the test goes on after them."""
    first, second = play(test, phases(None, None), {**SHORT, "thread_counts": "32, 1"}).disclosures()
    assert first.message.startswith("pre-conditioning: ")
    assert second.message.startswith("demand variation: ")
    for said in (first, second):
        assert said.advice.startswith("the standard goes on after 25 rounds; see ")
        assert "--set" not in said.advice


# Pre-writes between the rounds


def prewrites(test: str, minute_share: float | list[float], **settings: object) -> Played:
    """The pre-write writes this share of the user capacity in each (whole) minute."""

    def script(step: IoStep) -> Reply:
        if step.label.purpose != "pre-write":
            return Reply(1000.0)
        shares = minute_share if isinstance(minute_share, list) else [minute_share]
        share = shares[min(step.label.number or 1, len(shares)) - 1]
        return Reply(1000.0, written_bytes=round(share * TB * (step.stop.seconds or 0) / 60))

    return play(test, script, {**SHORT, **FEW_POINTS, **settings}, capacity_bytes=TB)


def seconds_of_prewrite(played: Played, number: int = 1) -> list[float]:
    return [step.stop.seconds or 0 for step in played.of("pre-write") if step.label.round == number]


@BOTH
@pytest.mark.clause("13.2.4.2")
@pytest.mark.clause("14.2.3.2")
@pytest.mark.parametrize(
    ("percent_a_minute", "whole_minutes", "cut_s"),
    [
        (50.0, 5, 0),  # 10 % at once: 5 minutes all the same
        (2.0, 5, 0),  # 10 % with the fifth minute
        (1.9, 5, 60 * 0.5 / 1.9),
        (1.25, 8, 0),
        (1.2, 8, 20),
        (0.4, 25, 0),
        (0.34, 29, 60 * 0.14 / 0.34),
        (1 / 3, 30, 0),
        (0.1, 30, 0),  # 3 % in all: the time ends it
        (0.0, 30, 0),
    ],
)
def test_how_long_a_prewrite_is(test: str, percent_a_minute: float, whole_minutes: int, cut_s: float) -> None:
    """At least 5 minutes; then 10 % of the capacity or 30 minutes, whichever is first. The last minute is cut."""
    found = seconds_of_prewrite(prewrites(test, percent_a_minute / 100))
    assert found[:whole_minutes] == [60.0] * whole_minutes
    rest = found[whole_minutes:]
    assert sum(rest) == pytest.approx(cut_s, abs=1.0)
    assert len(rest) == (cut_s > 0)


@BOTH
@pytest.mark.clause("13.2.4.2")
@pytest.mark.clause("14.2.3.2")
def test_a_rest_is_never_less_than_a_second(test: str) -> None:
    """Some bytes left by a drive that became a little slower are a second of writing, not a step without an I/O."""
    slower = [0.016] * 6 + [0.016 * (1 - 1e-6)]
    assert seconds_of_prewrite(prewrites(test, slower)) == [60.0] * 6 + [pytest.approx(15), 1.0]
    assert seconds_of_prewrite(prewrites(test, [0.016] * 6 + [0.0])) == [60.0] * 6 + [pytest.approx(15)] + [60.0] * 23


@BOTH
@pytest.mark.clause("13.2.4.2")
@pytest.mark.clause("14.2.3.2")
@settings(max_examples=30, deadline=None)
@given(shares=st.lists(st.floats(0, 0.05), min_size=30, max_size=30))
def test_no_prewrite_is_shorter_or_longer_than_allowed(test: str, shares: list[float]) -> None:
    played = prewrites(test, shares)
    found = seconds_of_prewrite(played)
    assert found[:5] == [60.0] * 5
    assert 300 <= sum(found) <= 1800
    written = [answer.written_bytes for answer in played.answers_of("pre-write")[: len(found)]]
    assert len(found) == 30 or sum(written) >= TB // 10
    if len(written) > 5:
        assert sum(written[:-1]) < TB // 10, "not a step more than needed"


@BOTH
@pytest.mark.clause("13.2.4.2")
@pytest.mark.clause("14.2.3.2")
def test_a_prewrite_precedes_every_round_and_is_writes_at_t32q32(test: str) -> None:
    played = prewrites(test, 0.02)
    assert [(s.label.round, s.label.number) for s in played.of("pre-write")] == [
        (number, minute) for number in range(1, 6) for minute in range(1, 6)
    ]
    kinds = {(type(s), point_of(s), s.stimulus.read_percent) for s in played.of("pre-write")}
    assert kinds == {(Precondition, (32, 32), 0)}
    other = prewrites(test, 0.02, prewrite_min_minutes=2, prewrite_max_minutes=3, prewrite_capacity_percent=1)
    assert seconds_of_prewrite(other) == [60.0, 60.0]


# The combinations


@BOTH
@pytest.mark.clause("13.2.4.1")
@pytest.mark.clause("13.2.4.3")
@pytest.mark.clause("14.2.3.1")
@pytest.mark.clause("14.2.3.3")
def test_49_combinations_a_round(test: str) -> None:
    """In decreasing total OIO from 1024 to 1, the higher thread count first where it is equal."""
    played = play(test, saturating, SHORT)
    for number in range(1, 6):
        steps = [step for step in played.of("demand") if step.label.round == number]
        points = [point_of(step) for step in steps]
        assert sorted(points) == sorted((tc, qd) for tc in DEMANDS for qd in DEMANDS)
        assert (points[0], points[-1]) == ((32, 32), (1, 1))
        for (tc, qd), (next_tc, next_qd) in pairwise(points):
            assert tc * qd > next_tc * next_qd or (tc * qd == next_tc * next_qd and tc > next_tc)
        assert {(type(step), step.stop.seconds) for step in steps} == {(Measure, 60.0)}
        assert [(step.label.thread_count, step.label.queue_depth) for step in steps] == points


@BOTH
@pytest.mark.clause("13.2.4.3.3")
@pytest.mark.clause("14.2.3.3.3")
def test_only_t32q32_is_tracked(test: str) -> None:
    def script(step: IoStep) -> Reply:
        moves = step.label.purpose == "demand" and point_of(step) != (32, 32)
        return Reply(1000.0 * (restless(step.label.round or 0, None) if moves else 1.0))

    played = play(test, script, SHORT)
    assert played.outcome.rounds.last_round == 5
    assert set(played.judged("demand variation")[-1].values) == {"IOPS of T32Q32"}


# Operating points


LIMIT_MS = 5.0
POINTS = [(tc, qd) for tc in DEMANDS for qd in DEMANDS]


def chosen(table: dict[TcQd, tuple[float, float]], mid_points: int = 1, same: float = 1.0) -> Chosen:
    """`table`: point -> (IOPS, ART in ms)."""
    averages = {point: Average(*values) for point, values in table.items()}
    return choose(averages, max_art_ms=LIMIT_MS, same_iops_percent=same, mid_points=mid_points)


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
@pytest.mark.parametrize(
    ("table", "maximum"),
    [
        # The highest IOPS of those below 5 ms.
        ({(32, 32): (900, 6.0), (16, 16): (800, 4.0), (1, 1): (100, 0.1)}, (16, 16)),
        # Exactly 5 ms is not below it.
        ({(32, 32): (900, 5.0), (16, 16): (800, 4.999), (1, 1): (100, 0.1)}, (16, 16)),
        ({(32, 32): (900, 4.9999), (16, 16): (800, 4.0), (1, 1): (100, 0.1)}, (32, 32)),
        # Equal IOPS: the lowest total OIO; equal too: the higher thread count.
        ({(32, 32): (900, 4.0), (4, 4): (900, 1.0), (8, 8): (900, 2.0), (1, 1): (100, 0.1)}, (4, 4)),
        ({(1, 16): (900, 1.0), (16, 1): (900, 1.0), (4, 4): (900, 1.0), (1, 1): (100, 0.1)}, (16, 1)),
        # Within 1 % counts as equal, 1 % and a bit does not.
        ({(32, 32): (1000, 4.0), (4, 4): (990, 1.0), (1, 1): (100, 0.1)}, (4, 4)),
        ({(32, 32): (1000, 4.0), (4, 4): (989.9, 1.0), (1, 1): (100, 0.1)}, (32, 32)),
        # Equal total OIO within that: more IOPS.
        ({(4, 4): (1000, 1.0), (16, 1): (995, 1.0), (1, 1): (100, 0.1)}, (4, 4)),
        # 1 % of the highest below the limit, not of the highest of all.
        ({(32, 32): (1000, 9.0), (8, 8): (950, 3.0), (4, 4): (945, 2.0), (1, 1): (100, 0.1)}, (4, 4)),
    ],
)
def test_maxiops(table: dict[TcQd, tuple[float, float]], maximum: TcQd) -> None:
    assert chosen(table).maximum == maximum
    assert chosen(table).minimum == (1, 1)


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_no_point_below_5_ms() -> None:
    found = chosen({(32, 32): (900, 50.0), (4, 4): (500, 9.0), (1, 1): (100, 5.0)})
    assert (found.maximum, found.minimum, found.middle) == ((32, 32), (1, 1), ((4, 4),))
    (problem,) = found.problems
    assert "no combination has an ART below 5 ms" in problem


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
@pytest.mark.parametrize(
    ("table", "middle"),
    [
        ({(8, 8): (1000, 1), (4, 4): (560, 1), (2, 2): (530, 1), (1, 1): (100, 1)}, (4, 4)),
        # Equally near: the lowest total OIO; then the higher thread count.
        ({(8, 8): (1000, 1), (4, 4): (600, 1), (2, 2): (500, 1), (1, 1): (100, 1)}, (2, 2)),
        ({(8, 8): (1000, 1), (1, 4): (500, 1), (4, 1): (600, 1), (1, 1): (100, 1)}, (4, 1)),
        # An ART above the limit does not matter in the middle.
        ({(8, 8): (1000, 1), (32, 32): (550, 80), (4, 4): (300, 1), (1, 1): (100, 1)}, (32, 32)),
    ],
)
def test_midiops_is_nearest_to_halfway(table: dict[TcQd, tuple[float, float]], middle: TcQd) -> None:
    assert chosen(table).middle == (middle,)


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_several_midiops_divide_the_range_equally() -> None:
    table = {(1, qd): (100.0 * qd, 0.1) for qd in range(1, 17)}
    found = chosen(table, mid_points=4)
    assert found.middle == ((1, 4), (1, 7), (1, 10), (1, 13))
    assert [name for name, _ in found.named()] == ["MaxIOPS", "MinIOPS", *(f"MidIOPS {n}" for n in range(1, 5))]
    assert not found.problems


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
@pytest.mark.parametrize(
    ("table", "mid_points", "found_points"),
    [
        ({(32, 32): (1000, 9.0), (4, 4): (100, 1.0), (1, 1): (100, 1.0)}, 1, 0),  # MaxIOPS is no more than MinIOPS
        ({(4, 4): (1000, 1.0), (2, 2): (1000, 0.5), (1, 1): (100, 1.0)}, 1, 0),
        ({(4, 4): (1000, 1.0), (2, 2): (500, 0.5), (1, 1): (100, 1.0)}, 3, 1),
        ({(1, 1): (100, 1.0)}, 1, 0),
    ],
)
def test_nothing_between(table: dict[TcQd, tuple[float, float]], mid_points: int, found_points: int) -> None:
    found = chosen(table, mid_points)
    assert len(found.middle) == found_points
    (problem,) = found.problems
    assert f"for MidIOPS {found_points + 1}" in problem


tables = st.dictionaries(
    st.sampled_from(POINTS),
    st.tuples(st.integers(1, 60).map(lambda n: n * 50.0), st.sampled_from([0.1, 1.0, 4.9, 5.0, 5.1, 80.0])),
    max_size=49,
).map(lambda table: {(1, 1): (50.0, 0.1), **table})


def slow_choice(table: dict[TcQd, tuple[float, float]], mid_points: int, same: float) -> tuple[TcQd, list[TcQd], int]:
    """The same by going through all points in the order of preference, one rule after the other."""
    rows = [(iops, art, tc * qd, -tc, (tc, qd)) for (tc, qd), (iops, art) in table.items()]
    fast = [row for row in rows if row[1] < LIMIT_MS]
    problems = not fast
    rows_max = fast or rows
    highest = sorted(row[0] for row in rows_max)[-1]
    maximum = None
    for row in sorted(rows_max, key=lambda row: (row[2], -row[0], row[3])):
        if maximum is None and row[0] >= highest - highest * same / 100:
            maximum = row
    assert maximum is not None
    low, high, taken = table[1, 1][0], maximum[0], []
    for number in range(1, mid_points + 1):
        target = low + (high - low) * number / (mid_points + 1)
        best = None
        for row in sorted(rows, key=lambda row: (row[2], row[3])):
            inside = low < row[0] < high and row[4] not in taken
            if inside and (best is None or abs(row[0] - target) < abs(best[0] - target)):
                best = row
        if best is None:
            return maximum[4], taken, problems + 1
        taken.append(best[4])
    return maximum[4], taken, int(problems)


@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
@settings(max_examples=120, deadline=None)
@given(tables, st.integers(1, 4), st.sampled_from([0.0, 1.0, 10.0]))
def test_the_choice_is_that_of_a_plain_search(
    table: dict[TcQd, tuple[float, float]], mid_points: int, same: float
) -> None:
    found = chosen(table, mid_points, same)
    maximum, middle, problems = slow_choice(table, mid_points, same)
    assert (found.maximum, found.minimum, len(found.problems)) == (maximum, (1, 1), problems)
    assert sorted(found.middle) == sorted(middle)


@settings(max_examples=50, deadline=None)
@given(tables, st.integers(2, 4))
def test_several_midiops_come_in_order_of_their_iops(table: dict[TcQd, tuple[float, float]], mid_points: int) -> None:
    """`Chosen.named`: "middle ones from the lowest IOPS up"."""
    rates = [table[point][0] for point in chosen(table, mid_points).middle]
    assert rates == sorted(rates)


@settings(max_examples=50, deadline=None)
@given(tables, st.integers(1, 4))
def test_no_point_is_chosen_twice_in_the_middle(table: dict[TcQd, tuple[float, float]], mid_points: int) -> None:
    found = chosen(table, mid_points)
    assume(found.middle)
    assert len(set(found.middle)) == len(found.middle)
    assert not {found.maximum, found.minimum} & set(found.middle)


def test_averages_of_a_point() -> None:
    """IOPS: the mean of the rounds. ART: of all I/Os, so a round with more of them weighs more. Only the rounds asked
    for count."""
    (step,) = [s for s in play("dirth", saturating, SHORT).of("demand") if point_of(s) == (1, 1)][:1]
    log = PointLog()
    for number, iops, art_ms in ((1, 9e6, 999.0), (2, 1000.0, 1.0), (3, 3000.0, 2.0)):
        log.add(number, (1, 1), answer(step, Reply(iops, art_ms)))
    found = log.averages([2, 3])
    assert set(found) == {(1, 1)}
    assert found[1, 1].iops == pytest.approx(2000)
    assert found[1, 1].art_ms == pytest.approx((1.0 * 1000 + 2.0 * 3000) / 4000)
    log.add(4, (1, 1), dataclasses.replace(answer(step, 0.0), window_ns=0))
    assert log.averages([4])[1, 1] == Average(0.0, 0.0)


# Histograms


@BOTH
@pytest.mark.clause("13.2.7")
@pytest.mark.clause("14.2.6")
def test_an_hour_of_writes_and_ten_minutes_at_each_point(test: str) -> None:
    """Maximum, minimum, middle; both at the point itself."""
    played = play(test, saturating, {"round_spacing_minutes": 1})
    after = played.asked[-3 * 61 :]
    assert after[0].label.purpose == "MaxIOPS pre-write"
    for name, point in (("MaxIOPS", (32, 1)), ("MinIOPS", (1, 1)), ("MidIOPS", (6, 2))):
        writes, histogram = played.of(f"{name} pre-write"), played.of(f"{name} histogram")
        assert [step.label.number for step in writes] == list(range(1, 61))
        assert {(type(s), point_of(s), s.stop.seconds, s.stimulus.read_percent) for s in writes} == {
            (Precondition, point, 60.0, 0)
        }
        reads = 40 if test == "cbw" else 65
        assert [(type(s), point_of(s), s.stop.seconds, s.stimulus.read_percent) for s in histogram] == [
            (Measure, point, 600.0, reads)
        ]
    assert (played.outcome.chosen.maximum, played.outcome.chosen.middle) == ((32, 1), ((6, 2),))


@BOTH
@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
def test_the_points_come_from_the_measurement_window(test: str) -> None:
    """In rounds 1 and 2 other points were the best."""

    def script(step: IoStep) -> Reply:
        reply = saturating(step)
        if step.label.purpose == "demand" and (step.label.round or 0) <= 2:
            return Reply(1e9 if point_of(step) in {(1, 2), (32, 32)} else reply.iops, art_ms=0.001)
        return reply

    played = play(test, script, SHORT)
    assert played.outcome.rounds.first_round == 3
    assert (played.outcome.chosen.maximum, played.outcome.chosen.middle) == ((32, 1), ((6, 2),))


@BOTH
@pytest.mark.clause("13.2.6")
@pytest.mark.clause("14.2.5")
@pytest.mark.parametrize("fast_round", [1, 3, 5])
def test_all_rounds_of_the_window_count(test: str, fast_round: int) -> None:
    """T8Q1 is the best by what it did in one of the five."""

    def script(step: IoStep) -> Reply:
        if step.label.purpose == "demand" and point_of(step) == (8, 1):
            return Reply(200_000.0 if step.label.round == fast_round else 90_000.0)
        return saturating(step)

    played = play(test, script, SHORT)
    assert played.outcome.chosen.maximum == (8, 1)


@BOTH
def test_problems_with_the_points_are_disclosed(test: str) -> None:
    """A drive with the same IOPS at any demand, and slow."""
    played = play(test, lambda step: Reply(100.0, art_ms=10.0 * point_of(step)[0] * point_of(step)[1]), SHORT)
    said = played.disclosures()
    assert [(one.kind, one.clause) for one in said] == [(Kind.NO_OPERATING_POINT, CLAUSE[test][2])] * 2
    assert "ART below 5 ms" in said[0].message
    assert "between MinIOPS and MaxIOPS" in said[1].message
    assert [step.label.purpose for step in played.asked[-2:]] == ["MinIOPS pre-write", "MinIOPS histogram"]


@BOTH
def test_several_midiops_each_get_a_histogram(test: str) -> None:
    played = play(test, saturating, {**SHORT, "mid_points": 3})
    purposes = [step.label.purpose for step in played.asked[-6:]]
    assert purposes == [f"MidIOPS {n} {what}" for n in (1, 2, 3) for what in ("pre-write", "histogram")]
    rates = [saturating(step).iops for step in played.asked[-6::2]]
    assert rates == sorted(rates)


@pytest.mark.clause("13.2.7.mrt")
@pytest.mark.clause("14.2.6.mrt")
@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 24 * 3600 * 10**9), min_size=1, max_size=20))
def test_the_capture_reaches_the_mrt_whatever_it_is(latencies_ns: list[int]) -> None:
    """From a nanosecond to a day: every response time is in the histogram, the last bucket holds the longest."""
    histogram = Histogram()
    for latency_ns in latencies_ns:
        histogram.record(latency_ns)
    buckets = histogram.buckets()
    assert sum(count for _, count in buckets) == len(latencies_ns)
    assert max(latencies_ns) <= buckets[-1][0] <= max(latencies_ns) * 1.001 + 1
    assert Histogram.decode(histogram.encode()).buckets() == buckets, "and so from the journal"


# Shares


@pytest.mark.clause("13.2.2.1.3")
@pytest.mark.clause("13.2.2.1.4")
@pytest.mark.parametrize(
    ("which", "of", "wrong", "what"),
    [
        ("demand", (32, 32), "size_ios", "block sizes"),
        ("demand", (1, 1), "group_ios", "LBA groups"),
        ("MinIOPS histogram", (1, 1), "group_ios", "LBA groups"),
        ("MaxIOPS histogram", (32, 1), "size_ios", "block sizes"),
    ],
)
def test_wrong_shares_are_disclosed_for_their_period(which: str, of: TcQd, wrong: str, what: str) -> None:
    """One block size or group got a tenth of the I/Os too many, in one period."""

    def script(step: IoStep) -> Reply:
        reply = saturating(step)
        if step.label.purpose == which and point_of(step) == of and step.label.round in {None, 3}:
            right = getattr(answer(step, reply), wrong)
            moved = sum(right) // 10
            return dataclasses.replace(reply, **{wrong: (right[0] + moved, *right[1:-1], right[-1] - moved)})
        return reply

    (said,) = play("cbw", script, SHORT).disclosures()
    assert (said.kind, said.clause, said.invalidates) == (Kind.SHARES_OFF, CLAUSE["cbw"][3], True)
    assert what in said.message
    assert which in said.message


@pytest.mark.clause("13.2.2.1.3")
@pytest.mark.clause("13.2.2.1.4")
def test_shares_that_chance_allows_are_not_disclosed() -> None:
    """Five standard deviations off, everywhere."""

    def script(step: IoStep) -> Reply:
        reply = saturating(step)
        if not step.stimulus.groups:
            return reply
        right = answer(step, reply).group_ios
        moved = int(5 * sqrt(sum(right) * 0.2 * 0.8))
        return dataclasses.replace(reply, group_ios=(right[0] + moved, right[1], right[2] - moved))

    assert not play("cbw", script, SHORT).disclosures()


@pytest.mark.clause("14.2")
def test_one_block_size_has_no_shares_to_check() -> None:
    assert not play("dirth", steady(), SHORT).answers[-1].size_ios


def test_dirth_with_the_composite_checks_its_shares_too() -> None:
    def script(step: IoStep) -> Reply:
        reply = saturating(step)
        return (
            dataclasses.replace(reply, group_ios=(1000, 0, 0)) if step.label.purpose == "MidIOPS histogram" else reply
        )

    (said,) = play("dirth", script, {**SHORT, "workload": "composite"}).disclosures()
    assert (said.kind, said.clause) == (Kind.SHARES_OFF, CLAUSE["dirth"][3])


@settings(max_examples=120, deadline=None)
@given(
    weights=st.lists(st.integers(1, 70), min_size=2, max_size=12),
    total=st.integers(10**7, 10**9),
    off=st.one_of(st.sampled_from([-6.1, -5.9, 5.9, 6.1]), st.floats(-10, 10)),
    index=st.integers(0, 11),
)
def test_shares_hold_within_six_standard_deviations(weights: list[int], total: int, off: float, index: int) -> None:
    shares = [weight / sum(weights) for weight in weights]
    i = index % len(shares)
    sigma = sqrt(total * shares[i] * (1 - shares[i]))
    assume(abs(abs(off) - 6) > 0.05)
    counts = [total * share for share in shares]
    counts[i] += off * sigma
    # The others give or take as much in proportion: the sum stays, and none is further off than this one.
    rest = sum(share for j, share in enumerate(shares) if j != i)
    for j, share in enumerate(shares):
        if j != i:
            counts[j] -= off * sigma * share / rest
    assert shares_hold([round(count) for count in counts], shares) is (abs(off) < 6)


def test_no_ios_have_no_wrong_shares() -> None:
    assert shares_hold([0, 0, 0], [0.5, 0.3, 0.2])
    assert shares_hold([1, 0, 0], [0.5, 0.3, 0.2])
    assert not shares_hold([1000, 0, 0], [0.5, 0.3, 0.2])
    with pytest.raises(ValueError, match="zip"):
        shares_hold([3, 0], [1.0])


def test_disclosures_stand_after_their_step() -> None:
    """The driver tells of them in the order of the steps."""
    played = play("cbw", lambda step: Reply(1000.0, group_ios=(7000, 0, 0)) if step.stimulus.groups else 1000.0, SHORT)
    at = next(i for i, step in enumerate(played.steps) if isinstance(step, Disclose))
    before = played.steps[at - 1]
    assert isinstance(before, Measure)
    assert str(before.label) in played.steps[at].disclosure.message  # type: ignore[union-attr]
