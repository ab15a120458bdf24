"""The write saturation test as a generator, fed with scripted answers: three ends, and the first of them counts."""

from __future__ import annotations

import json

import pytest

from fakes import measurement
from flashgauge._core import Histogram
from flashgauge.disclosure import Kind
from flashgauge.measurement import Direction, Measurement
from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, IoStep, Measure, Purge, SetWriteCache
from scripted import MINUTE_S, Played, Reply, Script, play, restless, round_of, settling, steady

NEVER_FULL = 10**18
IOPS = 1000.0
MINUTE_BYTES = round(IOPS * MINUTE_S) * 4 * KIB


def wsat(script: Script | None = None, *, capacity_bytes: int = NEVER_FULL, **settings: object) -> Played:
    return play("wsat", script or steady(IOPS), settings, capacity_bytes=capacity_bytes)


def never_steady(step: IoStep) -> Reply:
    """Tracking rounds move, but every minute writes the same."""
    number = round_of(step.label)
    return Reply(IOPS * (restless(number, None) if number else 1.0), written_bytes=MINUTE_BYTES)


@pytest.mark.clause("10.2")
@pytest.mark.clause("3.2")
@pytest.mark.parametrize(
    ("device_class", "threads", "depth", "active_range"),
    [(DeviceClass.ENTERPRISE, 4, 32, 100.0), (DeviceClass.CLIENT, 2, 16, 75.0)],
)
@pytest.mark.clause("10.2.2.1")
@pytest.mark.clause("2.1.1")
@pytest.mark.clause("3.6")
def test_the_stimulus_follows_the_purge(
    device_class: DeviceClass, threads: int, depth: int, active_range: float
) -> None:
    """No pre-conditioning of any kind; the same workload in all steps, the histogram included."""
    played = play("wsat", steady(IOPS), device_class=device_class, capacity_bytes=NEVER_FULL)
    assert played.steps[:2] == [Purge(), SetWriteCache(device_class is DeviceClass.CLIENT)]
    assert all(isinstance(step, Measure) for step in played.asked)
    (stimulus,) = {step.stimulus for step in played.asked}
    assert (stimulus.access, stimulus.block_sizes, stimulus.read_percent) == ("random", ((4 * KIB, 1),), 0)
    assert (stimulus.thread_count, stimulus.queue_depth) == (threads, depth)
    assert stimulus.active_range_percent == (0.0, active_range)
    assert [step.label.number for step in played.of("minute")] == list(range(1, 122))
    assert {step.stop.seconds for step in played.of("minute")} == {60.0}


# The three ends


@pytest.mark.clause("10.2.2.2")
@pytest.mark.parametrize(
    ("capacity_bytes", "minutes"),
    [
        (MINUTE_BYTES * 10 // 4, 10),  # exactly 4 capacities after minute 10
        (MINUTE_BYTES * 10 // 4 - 1, 10),
        (MINUTE_BYTES * 10 // 4 + 1, 11),  # 4 bytes less than 4 capacities after minute 10
        (MINUTE_BYTES // 4, 1),
        (1, 1),
        (MINUTE_BYTES * 31 // 4, 31),  # in a minute that is a round
        (MINUTE_BYTES * 32 // 4, 32),
    ],
)
def test_four_capacities_written(capacity_bytes: int, minutes: int) -> None:
    played = wsat(never_steady, capacity_bytes=capacity_bytes)
    outcome = played.outcome
    assert (outcome.stop, outcome.minutes, outcome.written_bytes) == ("written", minutes, minutes * MINUTE_BYTES)
    assert len(played.of("minute")) == minutes
    assert outcome.steady is None, "no departure"
    assert not played.disclosures()
    assert played.asked[-1].label.purpose == "histogram"
    rounds = 1 + (minutes - 1) // 30
    assert [judged.round for judged in played.judged()] == list(range(1, rounds + 1))
    assert (outcome.rounds.steady, outcome.rounds.first_round, outcome.rounds.last_round) == (False, 1, rounds)


@pytest.mark.clause("10.2.2.2")
def test_what_is_written_between_the_windows_counts() -> None:
    """All that went to the drive: the I/Os of the hand-over are in no window."""
    double = wsat(lambda step: Reply(IOPS, written_bytes=2 * MINUTE_BYTES), capacity_bytes=MINUTE_BYTES * 10 // 4)
    assert double.outcome.minutes == 5


@pytest.mark.clause("10.2.2.2")
def test_six_hours() -> None:
    played = wsat(never_steady)
    assert (played.outcome.stop, played.outcome.minutes) == ("time", 360)
    assert sum(step.stop.seconds or 0 for step in played.of("minute")) == 6 * 3600
    assert played.outcome.steady is None
    assert [judged.round for judged in played.judged()] == list(range(1, 13))
    assert (played.outcome.rounds.first_round, played.outcome.rounds.last_round) == (8, 12)


@pytest.mark.clause("10.2.2.2")
@pytest.mark.clause("10.3.2")
@pytest.mark.parametrize(("settles", "minutes"), [(5, 121), (6, 151), (12, 331)])
def test_steady_state(settles: int, minutes: int) -> None:
    played = wsat(settling(settles, steady(IOPS)))
    outcome = played.outcome
    assert (outcome.stop, outcome.minutes, outcome.steady) == ("steady", minutes, True)
    assert (outcome.rounds.first_round, outcome.rounds.last_round) == (settles - 4, settles)
    assert set(outcome.rounds.verdicts) == {"IOPS of RND 4 KiB RW0"}


@pytest.mark.clause("10.2.2.2")
def test_thirteen_rounds_do_not_fit_in_six_hours() -> None:
    assert wsat(settling(13, steady(IOPS))).outcome.stop == "time"


@pytest.mark.clause("10.2.2.2")
@pytest.mark.parametrize(
    ("capacity_bytes", "max_minutes", "settles", "stop"),
    [
        (MINUTE_BYTES * 121 // 4, 360, 5, "steady"),
        (NEVER_FULL, 121, 5, "steady"),
        (MINUTE_BYTES * 121 // 4, 121, 5, "steady"),
        (MINUTE_BYTES * 120 // 4, 360, 5, "written"),
        (NEVER_FULL, 120, 5, "time"),
        (MINUTE_BYTES * 50 // 4, 50, None, "written"),
        (MINUTE_BYTES * 31 // 4, 31, None, "written"),
    ],
)
def test_two_ends_in_the_same_minute(capacity_bytes: int, max_minutes: int, settles: int | None, stop: str) -> None:
    """Steady state is named first, then bytes; one minute sooner the other end is the first."""

    def script(step: IoStep) -> Reply:
        number = round_of(step.label)
        return Reply(IOPS * (restless(number, settles) if number else 1.0), written_bytes=MINUTE_BYTES)

    played = wsat(script, capacity_bytes=capacity_bytes, max_minutes=max_minutes)
    assert played.outcome.stop == stop
    assert played.outcome.minutes == min(121, max_minutes, capacity_bytes * 4 // MINUTE_BYTES)


@pytest.mark.clause("10.2.2.2")
@pytest.mark.parametrize(("spacing", "max_minutes", "rounds"), [(1, 400, 400), (2, 360, 180), (30, 1000, 34)])
def test_giving_up_on_steady_state_does_not_end_the_test(spacing: int, max_minutes: int, rounds: int) -> None:
    """No number of rounds is a fourth end of 10.2 2.2: however many there are, the other two are reached."""
    changes = {"round_spacing_minutes": spacing, "max_minutes": max_minutes}
    played = wsat(settling(None, steady(IOPS), spacing), **changes)
    assert (played.outcome.stop, played.outcome.minutes) == ("time", max_minutes)
    assert played.outcome.rounds.last_round == len(played.judged()) == rounds
    assert wsat(settling(rounds, steady(IOPS), spacing), **changes).outcome.stop == "steady", "also in the last one"


# Workloads


@pytest.mark.clause("10.2.2.2.1")
@pytest.mark.parametrize(
    ("workload", "access", "kib", "reads", "threads"),
    [
        ("write-intensive", "random", 4, 0, 4),
        ("read-intensive", "random", 4, 100, 4),
        ("mixed", "random", 8, 65, 4),
        ("vod", "sequential", 128, 90, 1),
        ("meta-data", "sequential", 0.5, 50, 1),
        ("composite", "groups", None, 40, 4),
    ],
)
def test_workloads(workload: str, access: str, kib: float | None, reads: int, threads: int) -> None:
    played = wsat(workload=workload)
    (stimulus,) = {step.stimulus for step in played.asked}
    assert (stimulus.access, stimulus.read_percent) == (access, reads)
    assert (stimulus.thread_count, stimulus.queue_depth) == (threads, 32)
    if kib is not None:
        assert stimulus.block_sizes == ((int(kib * KIB), 1),)
    assert played.asked[-1].label.block_bytes == (None if kib is None else kib * KIB)
    assert played.asked[-1].label.read_percent == reads
    assert not played.disclosures(), "a workload of 10.2 2.2.3 is no departure"


@pytest.mark.clause("10.2.2.2.1")
def test_reads_alone_never_fill_the_drive() -> None:
    """RW100 ends by time or steady state."""
    played = play("wsat", settling(None, steady(IOPS)), {"workload": "read-intensive"}, capacity_bytes=1000)
    assert (played.outcome.stop, played.outcome.written_bytes) == ("time", 0)


@pytest.mark.clause("10.2.2.1")
@pytest.mark.parametrize("device_class", DeviceClass)
@pytest.mark.parametrize("workload", ["vod", "meta-data"])
def test_sequential_workloads_have_a_demand_of_their_own(device_class: DeviceClass, workload: str) -> None:
    """10.2 2.1 leaves it to the operator. The tutorial has T1Q32 for sequential workloads in both classes."""

    def demands(settings: dict[str, object]) -> set[tuple[int, int]]:
        script = steady(IOPS)
        played = play("wsat", script, settings, device_class=device_class, capacity_bytes=NEVER_FULL)
        return {(step.stimulus.thread_count, step.stimulus.queue_depth) for step in played.asked}

    sequential = {"workload": workload}
    assert demands(sequential) == {(1, 32)}
    assert demands({**sequential, "thread_count": 3, "queue_depth": 5}) == {(1, 32)}, "those are of random ones"
    own = {"sequential_thread_count": 3, "sequential_queue_depth": 5}
    assert demands({**sequential, **own}) == {(3, 5)}
    assert demands(own) == {(4, 32) if device_class is DeviceClass.ENTERPRISE else (2, 16)}


@pytest.mark.clause("10.2.2.2.2")
def test_what_a_minute_records() -> None:
    """IOPS, ART, 5 9s and MRT, also from the journal: 200 000 writes of 0.1 ms, 4 of 9 ms."""
    histogram = Histogram()
    histogram.record(100_000, 200_000)
    histogram.record(9_000_000, 4)
    total_ns = 200_000 * 100_000 + 4 * 9_000_000
    writes = Direction(200_004, 200_004 * 4096, 200_004, 200_004 * 4096, total_ns, 9_000_000, histogram)
    minute = Measurement.from_json(json.loads(json.dumps(measurement(1.0, write=writes).to_json())))
    assert minute.iops == pytest.approx(200_004 / 60)
    assert minute.art_ns == pytest.approx(total_ns / 200_004)
    assert minute.mrt_ns == 9_000_000
    assert minute.histogram.quantile_ns(0.9999) == pytest.approx(100_000, rel=1e-3)
    assert minute.histogram.quantile_ns(0.99999) == pytest.approx(9_000_000, rel=1e-3)


# The histogram


@pytest.mark.clause("10.2.2.4")
@pytest.mark.parametrize("script", [steady(IOPS), never_steady])
def test_twenty_minutes_of_the_same_workload(script: Script) -> None:
    played = wsat(script)
    (step,) = played.of("histogram")
    assert played.asked[-1] is step
    assert step.stop.seconds == 1200
    assert step.stimulus == played.asked[0].stimulus
    assert (played.outcome.histogram_s, played.outcome.resolved) == (1200, True)


@pytest.mark.clause("10.2.2.4.3")
@pytest.mark.parametrize(("nines", "seconds"), [(5, 1200), (6, 1500), (7, 15_000), (9, 1_500_000)])
def test_more_nines_take_a_longer_histogram(nines: int, seconds: float) -> None:
    played = wsat(nines=nines)
    assert played.asked[-1].stop.seconds == pytest.approx(seconds)
    assert played.outcome.resolved
    assert played.outcome.histogram_s == pytest.approx(seconds)


@pytest.mark.clause("10.2.2.4.3")
def test_the_rate_is_that_of_the_last_minute() -> None:
    def script(step: IoStep) -> float:
        number = step.label.number
        return 100_000.0 if number is not None and number < 100 and round_of(step.label) is None else 1000.0

    assert wsat(script, nines=7).asked[-1].stop.seconds == pytest.approx(1.5e7 / 1000)


@pytest.mark.clause("10.2.2.4.3")
@pytest.mark.parametrize(("iops", "few"), [(83.3, True), (83.4, False)])
def test_too_few_ios_for_the_nines_are_disclosed(iops: float, few: bool) -> None:
    played = wsat(steady(iops))
    assert played.outcome.resolved is not few
    assert [(said.kind, said.clause) for said in played.disclosures()] == [(Kind.FEW_IOS, "10.2 2.4.3")] * few
