"""The latency test as a generator, fed with scripted answers: ART decides, then a histogram that is long enough."""

from __future__ import annotations

import re

import pytest

from flashgauge.disclosure import Kind
from flashgauge.spec.lat import TRACKING, histogram_seconds
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, Disclose, IoStep, Measure, Precondition, Purge, RoundJudged, SetWriteCache
from scripted import TB, Played, Reply, play, restless, settling, steady

TRACKED = (0, 4 * KIB)


def by_art(settles: int | None, iops: float = 5000.0, **settings: object) -> Played:
    """The ART of 4 KiB writes settles in round `settles`; IOPS never move."""

    def script(step: IoStep) -> Reply:
        tracked = (step.label.read_percent, step.label.block_bytes) == TRACKED and step.label.round is not None
        return Reply(iops, art_ms=0.2 * (restless(step.label.round or 0, settles) if tracked else 1.0))

    return play("lat", script, settings)


@pytest.mark.clause("9.2")
@pytest.mark.clause("3.2")
def test_order_of_the_steps() -> None:
    played = play("lat", steady())
    kinds = [type(step) for step in played.steps]
    assert kinds == [Purge, SetWriteCache, Precondition, *([*[Measure] * 9, RoundJudged] * 5), Measure]


@pytest.mark.clause("9.2.3.1")
def test_a_round() -> None:
    steps = play("lat", steady()).of("round")
    points = [(s.label.round, s.stimulus.read_percent, s.stimulus.block_sizes[0][0] / KIB) for s in steps]
    assert points == [(n, read, kib) for n in range(1, 6) for read in (100, 65, 0) for kib in (8, 4, 0.5)]
    assert {(s.stimulus.access, s.stop.seconds) for s in steps} == {("random", 60.0)}


@pytest.mark.clause("9.2.2.1")
@pytest.mark.clause("3.6")
@pytest.mark.clause("2.1.1")
@pytest.mark.parametrize(
    ("device_class", "active_range"), [(DeviceClass.ENTERPRISE, 100.0), (DeviceClass.CLIENT, 75.0)]
)
def test_one_io_at_a_time_in_all_steps(device_class: DeviceClass, active_range: float) -> None:
    for step in play("lat", steady(), device_class=device_class).asked:
        assert (step.stimulus.thread_count, step.stimulus.queue_depth) == (1, 1)
        assert step.stimulus.active_range_percent == (0.0, active_range)


@pytest.mark.clause("9.2.2.2")
@pytest.mark.clause("4.2")
def test_independent_preconditioning() -> None:
    (step,) = play("lat", steady(), capacity_bytes=TB).of("wipc")
    assert (step.stop.bytes, step.stop.keep_loaded) == (2 * TB, True)
    assert step.stimulus.block_sizes == ((128 * KIB, 1),)
    assert (step.stimulus.access, step.stimulus.read_percent) == ("sequential", 0)


@pytest.mark.clause("9.2.3.1.1.1.3")
@pytest.mark.clause("4.3")
@pytest.mark.parametrize("settles", [5, 6, 25, None])
def test_the_art_of_4_kib_writes_decides(settles: int | None) -> None:
    played = by_art(settles)
    assert (played.outcome.steady, played.outcome.rounds.last_round) == (settles is not None, settles or 25)
    last = played.judged()[-1]
    assert (set(last.values), last.unit) == ({TRACKING}, "ms")
    assert last.values[TRACKING][-1] == pytest.approx(0.2 * restless(last.round, settles))


@pytest.mark.clause("9.2.3.1.1.1.3")
def test_nothing_else_decides() -> None:
    """IOPS of the tracked point and ART of all others do as they like."""

    def script(step: IoStep) -> Reply:
        wild = restless(step.label.round or 0, None)
        tracked = (step.label.read_percent, step.label.block_bytes) == TRACKED
        return Reply(5000.0 * wild, art_ms=0.2 if tracked else 0.2 * wild)

    assert play("lat", script).outcome.rounds.last_round == 5


@pytest.mark.clause("9.3")
def test_without_steady_state_the_report_says_so_and_the_histogram_follows() -> None:
    played = by_art(None)
    (said,) = played.disclosures()
    assert (said.kind, said.clause) == (Kind.STEADY_STATE_NOT_REACHED, "9.3")
    assert isinstance(played.steps[-2], Disclose)
    assert played.asked[-1].label.purpose == "histogram"


@pytest.mark.clause("9.3")
@pytest.mark.parametrize("max_rounds", [5, 25, 60])
def test_the_advice_is_more_rounds_than_there_were(max_rounds: int) -> None:
    """9.2 3: one may go on after 25."""
    played = play("lat", settling(None, steady()), {"max_rounds": max_rounds})
    (said,) = played.disclosures()
    advised = re.search(r"--set max_rounds=(\d+)", said.advice)
    assert advised is not None
    assert int(advised[1]) > max_rounds


@pytest.mark.clause("9.2.3.3")
@pytest.mark.parametrize("settles", [5, 7, None])
def test_twenty_minutes_of_4_kib_writes_after_the_rounds(settles: int | None) -> None:
    played = by_art(settles)
    (step,) = played.of("histogram")
    assert played.asked[-1] is step
    assert isinstance(step, Measure)
    assert step.stop.seconds == 1200
    assert (step.stimulus.read_percent, step.stimulus.block_sizes) == (0, ((4 * KIB, 1),))
    assert (step.label.read_percent, step.label.block_bytes, step.label.round) == (0, 4 * KIB, None)
    assert (played.outcome.histogram_s, played.outcome.resolved) == (1200, True)


@pytest.mark.clause("9.2.3.3.3")
@pytest.mark.parametrize(
    ("nines", "iops", "seconds"),
    [
        (5, 10, 1200),  # 9.2 3.3.3 is of more than five
        (6, 1000, 1500),
        (6, 10_000, 1200),  # 150 s would do
        (7, 1000, 15_000),
        (9, 100_000, 15_000),
    ],
)
def test_more_nines_take_a_longer_histogram(nines: int, iops: float, seconds: float) -> None:
    """1.5 x 10^nines I/Os at the measured rate, never less than 20 minutes."""
    played = by_art(5, iops, nines=nines)
    assert played.asked[-1].stop.seconds == pytest.approx(seconds)
    assert played.outcome.histogram_s == pytest.approx(seconds)
    if nines > 5:
        assert played.outcome.resolved
        assert played.answers[-1].ios >= 1.5 * 10**nines * 0.999


@pytest.mark.clause("9.2.3.3.3")
def test_the_rate_is_that_of_the_window() -> None:
    """Rounds before it were ten times as fast."""

    def script(step: IoStep) -> Reply:
        early = step.label.round is not None and step.label.round <= 2
        return Reply(10_000.0 if early else 1000.0, art_ms=2.0 if early else 0.2)

    played = play("lat", script, {"nines": 7})
    assert played.outcome.rounds.first_round == 3
    assert played.asked[-1].stop.seconds == pytest.approx(1.5e7 / 1000)


@pytest.mark.clause("9.2.3.3.3")
def test_a_drive_without_an_io_gets_the_least_histogram() -> None:
    assert histogram_seconds(1200, 9, 1.5, 0.0) == 1200
    played = play("lat", steady(1e-9), {"nines": 9, "wipc_capacities": 0.001, "max_rounds": 5}, capacity_bytes=TB)
    assert played.asked[-1].stop.seconds == 1200
    assert not played.outcome.steady, "an ART of nothing is no steady state"


@pytest.mark.clause("9.2.3.3.3")
@pytest.mark.parametrize(
    ("iops", "nines", "few"), [(83.3, 5, True), (83.4, 5, False), (8.33, 4, True), (8.34, 4, False)]
)
def test_too_few_ios_for_the_nines_are_disclosed(iops: float, nines: int, few: bool) -> None:
    """100 000 I/Os in 1200 s are the least for five nines, a tenth of them for four (9.1: "higher or lower")."""
    played = by_art(5, iops, nines=nines)
    assert played.outcome.resolved is not few
    assert [(said.kind, said.clause) for said in played.disclosures()] == [(Kind.FEW_IOS, "9.2 3.3.3")] * few
    if few and nines == 5:
        (said,) = played.disclosures()
        assert "99,960 I/Os" in said.message
        assert "100,000" in said.message
        assert not said.invalidates
