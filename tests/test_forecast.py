"""What is left of a test, forecast at every point of scripted runs: never more at least, never less at most."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flashgauge.measurement import Measurement
from flashgauge.spec.forecast import (
    Remaining,
    Supposed,
    at_last,
    bounds,
    dry_run,
    kinds_of_steps,
    never,
    remaining,
    soonest,
    stripped,
)
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS, Spec
from flashgauge.steps import Idle, IoStep, Measure, Precondition, RoundJudged
from scripted import (
    TB,
    Played,
    Reply,
    Script,
    block_bytes,
    parameters_of,
    play,
    restless,
    round_of,
    saturating,
    settling,
    steady,
)

# Short runs of at most ten or eleven rounds, in which every kind of step is there.
_DEMAND: dict[str, object] = {
    "round_spacing_minutes": 2,
    "pc_max_rounds": 10,
    "max_rounds": 10,
    "thread_counts": "32, 1",
    "queue_depths": "32, 8, 1",
    "prewrite_max_minutes": 12,
    "final_prewrite_minutes": 3,
}
SHORT: dict[str, dict[str, object]] = {
    "iops": {"read_percents": "100, 65, 0", "block_sizes_kib": "1024, 64, 4", "max_rounds": 10},
    "tp": {"max_rounds": 10},
    "lat": {"max_rounds": 10},
    "wsat": {"round_spacing_minutes": 3, "max_minutes": 28},
    "hir": {"round_spacing_minutes": 2, "wait_accesses": 3, "baseline_accesses": 2, "max_rounds": 11},
    "xsr": {"group_1_minutes": 20, "group_2_minutes": 10, "group_3_minutes": 20},
    "cbw": _DEMAND,
    "dirth": _DEMAND,
}
SPACING = {test: int(str(settings.get("round_spacing_minutes", 30))) for test, settings in SHORT.items()}
MOST_ROUNDS = {test: 11 if test == "hir" else 10 for test in SHORT}
DEMAND_TESTS = ["cbw", "dirth"]
STEADY_TESTS = [test for test in TESTS if test != "xsr"]
every_test = pytest.mark.parametrize("test", list(TESTS))


def spec_of(test: str, **changes: object) -> Callable[[], Spec]:
    parameters = parameters_of(test, settings={**SHORT[test], **changes})
    return lambda: TESTS[test].spec(parameters, 4 * TB)


def run(test: str, script: Script, **changes: object) -> Played:
    return play(test, script, {**SHORT[test], **changes})


def points(played: Played, judged_only: bool = False) -> Iterator[tuple[int, Remaining, str]]:
    """(steps with I/O answered so far, what is then left, where) at the begin and after each of them."""
    done, where = 0, "the begin"
    if not judged_only:
        yield 0, remaining(played.steps), where
    for i, step in enumerate(played.steps):
        if isinstance(step, Precondition | Measure):
            done, where = done + 1, str(step.label)
        if isinstance(step, RoundJudged) if judged_only else isinstance(step, Precondition | Measure):
            yield done, remaining(played.steps[i + 1 :]), where


def assert_bounds(test: str, played: Played, every: int = 1, judged_only: bool = False, **changes: object) -> None:
    """Least <= actual <= most, of seconds and of bytes."""
    for done, actual, where in list(points(played, judged_only))[::every]:
        least, most = bounds(spec_of(test, **changes), played.answers[:done])
        message = f"after {where} ({done} steps): {least} <= {actual} <= {most}"
        assert least.seconds <= actual.seconds + 1e-6, message
        assert actual.seconds <= most.seconds + 1e-6, message
        assert least.fill_bytes <= actual.fill_bytes <= most.fill_bytes, message


def by_round(test: str, factor: Callable[[int], float], iops: float = 10_000.0) -> Script:
    """The same in every step but for the rounds' factor; its ART moves with it. TP: so many I/Os of 4 KiB."""

    def script(step: IoStep) -> Reply:
        number = round_of(step.label, SPACING[test])
        times = 1.0 if number is None else factor(number)
        per_io = 4096 / block_bytes(step.stimulus) if test == "tp" else 1.0
        return Reply(iops * times * per_io, art_ms=1e4 / iops / times)

    return script


def slow(step: IoStep) -> Reply:
    """Few points are alike, and 10 % of the capacity are never reached."""
    total = step.stimulus.thread_count * step.stimulus.queue_depth
    return Reply(10.0 * total, art_ms=0.01 * total)


# Bounds before anything is measured


@every_test
@pytest.mark.parametrize("settles", [5, 6, "last", None])
def test_the_first_forecast_holds(test: str, settles: int | str | None) -> None:
    """Whatever the drive does: from steady at once to never."""
    base = saturating if test in DEMAND_TESTS else steady()
    number = MOST_ROUNDS[test] if isinstance(settles, str) else settles
    played = run(test, settling(number, base, SPACING[test]))
    least, most = bounds(spec_of(test))
    actual = remaining(played.steps)
    assert least.seconds <= actual.seconds <= most.seconds
    assert least.fill_bytes == actual.fill_bytes == most.fill_bytes


@pytest.mark.parametrize("test", DEMAND_TESTS)
def test_the_longest_run_has_a_histogram_at_midiops(test: str) -> None:
    """A drive with IOPS between MinIOPS and MaxIOPS takes 70 minutes more for it."""
    played = run(test, settling(None, slow, SPACING[test]))
    assert len(played.outcome.chosen.middle) == 1
    _, most = bounds(spec_of(test))
    assert remaining(played.steps).seconds <= most.seconds


# Bounds at every point of a run


@every_test
def test_forecasts_hold_all_through_a_run(test: str) -> None:
    """A drive of its own rate, the same in every step but for the rounds that are not steady: the rounds done count
    towards the window of those to come."""
    for settles in (5, MOST_ROUNDS[test], None):
        played = run(test, by_round(test, lambda number, settles=settles: restless(number, settles)))
        assert_bounds(test, played, every=23 if test in DEMAND_TESTS else 5)


@pytest.mark.parametrize("test", STEADY_TESTS)
def test_a_run_that_looks_steady_may_still_go_on(test: str) -> None:
    """Four rounds with the same 1 000 000 IOPS and 0.01 ms may be followed by any other: the most holds."""
    wild_later = by_round(test, lambda number: 1.0 if number <= 4 or number % 2 == 0 else 3.0, iops=1e6)
    assert_bounds(test, run(test, wild_later), every=2 if test in DEMAND_TESTS else 1, judged_only=True)


@pytest.mark.parametrize("test", DEMAND_TESTS)
def test_a_slow_last_point_does_not_make_all_prewrites_long(test: str) -> None:
    """T1Q1 ends a round: what it writes says nothing of the next pre-write, at T32Q32."""

    def script(step: IoStep) -> Reply:
        moves = restless(step.label.round or 0, 7) if step.label.purpose == "demand" else 1.0
        reply = saturating(step)
        return Reply(reply.iops * moves, reply.art_ms)

    assert_bounds(test, run(test, script), judged_only=True)


def test_a_drive_that_slows_down_takes_longer_to_write_4_capacities() -> None:
    """WSAT begins fresh out of the box, where a drive is fastest: that is the very thing it shows."""

    def script(step: IoStep) -> float:
        number = step.label.number
        moves = 1.5 if (round_of(step.label, SPACING["wsat"]) or 0) % 2 else 1.0
        return moves * (4_000_000.0 if number is not None and number <= 5 else 500_000.0)

    assert_bounds("wsat", run("wsat", script), judged_only=True)


def test_a_drive_that_falters_writes_4_capacities_no_sooner_for_it() -> None:
    """What it did in its slowest minutes is not the soonest it can do."""

    def script(step: IoStep) -> float:
        moves = 1.5 if (round_of(step.label, SPACING["wsat"]) or 0) % 2 else 1.0
        return moves * (2_000_000.0 if step.label.number in {2, 3} else 9_000_000.0)

    played = run("wsat", script)
    assert played.outcome.stop == "written"
    assert_bounds("wsat", played, judged_only=True)


@pytest.mark.parametrize("test", ["lat", "wsat"])
def test_a_histogram_of_many_nines_takes_as_long_as_the_drive_needs(test: str) -> None:
    """After a round the rate is known: 1.5 x 10^8 I/Os at 10 000 IOPS are 15 000 s."""
    script = settling(9, steady(10_000.0), SPACING[test])
    assert_bounds(test, run(test, script, nines=8), judged_only=True, nines=8)


@pytest.mark.parametrize(("window", "max_rounds"), [(3, 25), (10, 25), (5, 26)])
def test_the_longest_hir_is_found_whatever_the_window_and_the_rounds(window: int, max_rounds: int) -> None:
    """Steady in the last round, it is longest; with a window of 10 that takes 10 steady rounds. An odd number of
    restless rounds ends with one that is like the steady ones after it."""
    changes = {"window_rounds": window, "max_rounds": max_rounds}
    last_restless = max_rounds - window

    def factor(number: int) -> float:
        return 3.0 if number <= last_restless and (last_restless - number) % 2 == 0 else 1.0

    played = run("hir", by_round("hir", factor), **changes)
    assert (played.outcome.steady, played.outcome.rounds.last_round) == (True, max_rounds)
    _, most = bounds(spec_of("hir", **changes))
    assert remaining(played.steps).seconds <= most.seconds


# Bounds that are of use


def test_the_rate_measured_narrows_the_time_of_many_nines() -> None:
    """15 000 s at 10 000 IOPS; a quarter more or less than that is allowed for. A round takes 9 minutes."""
    played = run("lat", steady(10_000.0), nines=8)
    after_one_round = next(done for done, _, _ in points(played, judged_only=True))
    least, most = bounds(spec_of("lat", nines=8), played.answers[:after_one_round])
    assert 15_000 / 1.25 <= least.seconds - 4 * 9 * 60 <= 15_000
    assert 15_000 <= most.seconds - (MOST_ROUNDS["lat"] - 1) * 9 * 60 <= 15_000 * 1.25


def test_the_rate_measured_narrows_the_time_to_write_4_capacities() -> None:
    """A twentieth of them in the first minute, at most twice as much in each of the next: ten minutes are left."""
    played = run("wsat", steady(4 * 4 * TB / 20 / 60 / 4096))
    least, most = bounds(spec_of("wsat"), played.answers[:1])
    assert (least.seconds, most.seconds) == ((10 + 20) * 60, (27 + 20) * 60)
    at_the_begin, _ = bounds(spec_of("wsat"))
    assert at_the_begin.seconds == (1 + 20) * 60


# Hours


def test_the_most_of_hir_is_steady_at_the_last_moment() -> None:
    """Never steady, it would end after 25 rounds (11.2 3.2)."""
    spec = lambda: TESTS["hir"].spec(parameters_of("hir"), TB)  # noqa: E731
    least, most = bounds(spec)
    waits_s = sum(360 * (5 + wait_s) + 1800 for wait_s in (5, 10, 15, 25, 50))
    # Never steady takes 721 minutes, which is less than steady at once with all its waits.
    assert least.seconds == 721 * 60
    assert most.seconds == 721 * 60 + waits_s
    assert most.seconds == remaining(play("hir", settling(25, steady())).steps).seconds


@every_test
def test_least_and_most_of_a_whole_test(test: str) -> None:
    """Hours by the standard's numbers, which a reader can check."""
    spec = lambda: TESTS[test].spec(parameters_of(test), 4 * TB)  # noqa: E731
    least, most = bounds(spec)
    minutes = {
        "iops": (5 * 56, 25 * 56),
        "tp": (2 * 5 * 2, 2 * 25 * 2),
        "lat": (5 * 9 + 20, 25 * 9 + 20),
        "wsat": (1 + 20, 360 + 20),  # a drive may write 4 capacities in the first minute
        "hir": (721, 721 + 5 * 30 + 30 * (2 + 3 + 4 + 6 + 11)),
        "xsr": (22 * 60, 22 * 60),
        "cbw": (121 + 5 * (5 + 49) + 2 * 70, 721 + 25 * (30 + 49) + 3 * 70),
    }
    minutes["dirth"] = minutes["cbw"]
    fills = {"iops": 2, "tp": 4, "lat": 2, "wsat": 0, "hir": 0, "xsr": 0, "cbw": 2, "dirth": 2}
    assert least.fill_bytes == most.fill_bytes == fills[test] * 4 * TB
    assert most.seconds == minutes[test][1] * 60
    assert least.seconds == minutes[test][0] * 60


# The machinery


@every_test
def test_nothing_is_left_at_the_end(test: str) -> None:
    played = run(test, steady())
    least, most = bounds(spec_of(test), played.answers)
    assert least == most == Remaining(0.0, 0, 0)


@every_test
def test_what_follows_the_answers_is_what_followed_in_the_run(test: str) -> None:
    """Answered with the rest of the run itself, the dry run repeats it."""
    played = run(test, steady())

    class Replay(Supposed):
        def __init__(self, answers: list[Measurement]) -> None:
            drive = never()
            super().__init__(drive.rates, drive.steady)
            self.answers = iter(answers)

        def judge(self, judged: RoundJudged) -> None:
            """The verdicts are the run's."""

        def answer(self, step: IoStep) -> Measurement:
            return next(self.answers)

    for done in range(0, len(played.answers), 9):
        ahead = dry_run(spec_of(test)(), Replay(played.answers[done:]), played.answers[:done])
        assert [step for step in ahead if isinstance(step, Precondition | Measure)] == played.asked[done:]
        if done:
            last = played.asked[done - 1]
            after = played.steps[max(i for i, step in enumerate(played.steps) if step is last) + 1 :]
            assert ahead == after


@pytest.mark.parametrize("test", STEADY_TESTS)
def test_the_drives_made_up_are_steady_when_they_say(test: str) -> None:
    """As soon as a round is judged; never; in the last round of each phase and in none before it."""
    most = MOST_ROUNDS[test]
    phases = {"tp": ["SEQ 128 KiB", "SEQ 1024 KiB"], "cbw": ["pre-conditioning", "demand variation"]}
    phases["dirth"] = phases["cbw"]
    lasts = dict.fromkeys(phases.get(test, [""]), most)

    def steady_rounds(drive: Supposed) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {phase: [] for phase in lasts}
        for step in dry_run(spec_of(test)(), drive):
            if isinstance(step, RoundJudged) and step.verdicts and all(v.steady for v in step.verdicts.values()):
                found[step.phase].append(step.round)
        return found

    drive = never()
    if test != "wsat":  # a drive may write its 4 capacities before the fifth round, the fast one does
        assert steady_rounds(soonest()) == {phase: [5] for phase in lasts}
    assert steady_rounds(drive) == {phase: [] for phase in lasts}
    assert drive.last_rounds == lasts, "learned on the way"
    assert steady_rounds(at_last(lasts)) == {phase: [last] for phase, last in lasts.items()}


def test_the_sum_of_what_is_left() -> None:
    steps = run("hir", steady()).steps
    found = remaining(steps)
    io_s = sum(step.stop.seconds or 0 for step in steps if isinstance(step, Measure | Precondition))
    assert found.seconds == io_s + 3 * (5 + 10 + 15 + 25 + 50)
    assert found.steps == 9 + 5 * (3 + 2)
    assert remaining([Idle(3.0)]) == Remaining(3.0, 0, 0)
    assert remaining([]) == Remaining(0.0, 0, 0)


def test_stripped_answers_lead_to_the_same_steps() -> None:
    played = run("cbw", saturating)
    answers = [stripped(answer) for answer in played.answers]
    assert all(answer.intervals.read_ios == () for answer in answers)
    assert bounds(spec_of("cbw"), answers) == (Remaining(0.0, 0, 0),) * 2


@every_test
@pytest.mark.parametrize("device_class", DeviceClass)
def test_kinds_of_steps_are_all_that_a_run_can_ask_for(test: str, device_class: DeviceClass) -> None:
    """The session is opened for the largest of them; a run of any drive may need no more."""
    parameters = parameters_of(test, device_class, SHORT[test])
    kinds = kinds_of_steps(lambda: TESTS[test].spec(parameters, 4 * TB))
    assert len({(step.stimulus.to_json(), step.stop.to_json()) for step in kinds}) == len(kinds)
    stimuli = {step.stimulus for step in kinds}
    base = saturating if test in DEMAND_TESTS else steady()
    for settles in (5, 6, None):
        script = settling(settles, base, SPACING[test])
        for step in play(test, script, SHORT[test], device_class=device_class).asked:
            as_writes = step.label.purpose.endswith("IOPS pre-write")  # at a point which the drive chooses
            assert step.stimulus in stimuli or as_writes, step.label
            needs = (step.stimulus.thread_count, step.stimulus.queue_depth, max(step.stimulus.block_sizes))
            most = [
                max(values)
                for values in zip(*((s.thread_count, s.queue_depth, max(s.block_sizes)) for s in stimuli), strict=True)
            ]
            assert all(need <= limit for need, limit in zip(needs, most, strict=True))
