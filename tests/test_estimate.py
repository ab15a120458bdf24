"""The time left of a run, on the host's clock: bounds that hold, in real and in virtual time, within steps as well."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from flashgauge.estimate import Estimator, TimeLeft
from flashgauge.spec.registry import TESTS, Spec
from flashgauge.steps import Idle, IoStep, Measure, Precondition, RoundJudged
from scripted import TB, Played, Reply, block_bytes, parameters_of, play, restless, round_of

# Fewer rounds than 25 where there is much to ask in each of them: the estimator is asked at every moment.
SHORT: dict[str, dict[str, object]] = {
    "iops": {"read_percents": "100, 65, 0", "block_sizes_kib": "1024, 64, 4", "max_rounds": 12},
    "tp": {"max_rounds": 12},
    "lat": {"max_rounds": 12},
    "wsat": {"round_spacing_minutes": 3, "max_minutes": 60},
    "hir": {"round_spacing_minutes": 2, "wait_accesses": 3, "baseline_accesses": 2},
    "xsr": {"group_1_minutes": 20, "group_2_minutes": 10, "group_3_minutes": 20},
    # Writes only: every point writes at the same rate.
    "dirth": {
        "workload": "write-intensive",
        "round_spacing_minutes": 2,
        "pc_max_rounds": 12,
        "max_rounds": 12,
        "final_prewrite_minutes": 2,
        "thread_counts": "32, 1",
        "queue_depths": "32, 1",
    },
}
SPACING = {test: int(str(settings.get("round_spacing_minutes", 30))) for test, settings in SHORT.items()}
FILL_BYTES_PER_S = 1.5e9
QUARTERS = (0.25, 0.5, 0.75)


def script_of(test: str, settles: int | None = 5) -> Callable[[IoStep], Reply]:
    """A drive like the one of the forecast's own answers, so that what is seen here is the estimator's."""

    def script(step: IoStep) -> Reply:
        size = block_bytes(step.stimulus)
        if step.stop.bytes is not None:
            return Reply(FILL_BYTES_PER_S / size)
        number = round_of(step.label, SPACING[test])
        factor = 1.0 if number is None else restless(number, settles)
        per_io = 4096 / size if test == "tp" else 1.0
        return Reply((1e6 + 1) * factor * per_io, art_ms=0.01 / factor, written_bytes=245 * 10**9)

    return script


def spec_of(test: str) -> Callable[[], Spec]:
    parameters = parameters_of(test, settings=SHORT[test])
    return lambda: TESTS[test].spec(parameters, TB)


@dataclass(frozen=True)
class Moment:
    """What the estimator said at a moment of the run, and where that was."""

    at_s: float
    left: TimeLeft | None
    where: str


def host_seconds(step: IoStep, played_s: float, slowness: float) -> float:
    """On the host's clock; a fill is ten times as slow to simulate as time is."""
    return played_s * slowness * (10 if step.stop.bytes is not None and slowness != 1 else 1)


def followed(
    test: str, played: Played, *, slowness: float = 1.0, virtual_time: bool = False
) -> tuple[list[Moment], float]:
    """The run on a clock of its own, told to an estimator as the driver does: idle time is told to no one. What it
    said, and when the run ended."""
    estimator, moments, now_s = Estimator(spec_of(test), virtual_time), [], 0.0
    answers = iter(played.answers)

    def look(where: str) -> None:
        moments.append(Moment(now_s, estimator.left(now_s), where))

    look("the begin")
    for step in played.steps:
        if isinstance(step, Precondition | Measure):
            measurement = next(answers)
            takes_s = host_seconds(step, measurement.window_s, slowness)
            began_s = now_s
            estimator.started(step, now_s)
            look(f"begin of {step.label}")
            for share in QUARTERS:
                now_s = began_s + share * takes_s
                size = step.stimulus.block_sizes[0][0]
                estimator.progress(round(share * measurement.ios), size)
                look(f"{share} of {step.label}")
            now_s = began_s + takes_s
            estimator.done(step, measurement, now_s)
            look(f"end of {step.label}")
        elif isinstance(step, Idle):
            began_s = now_s
            for share in (*QUARTERS, 1.0):
                now_s = began_s + share * step.seconds * slowness
                look(f"{share} of idling")
        elif isinstance(step, RoundJudged):
            estimator.judged()
            look(f"round {step.round}")
    return moments, now_s


def assert_holds(moments: list[Moment], end_s: float, slack_s: float = 0.01) -> None:
    """But for the part of an I/O by which a fill's progress is rounded."""
    for moment in moments:
        if moment.left is not None:
            actual_s = end_s - moment.at_s
            message = f"{moment.where}: {moment.left.least_s} <= {actual_s} <= {moment.left.most_s}"
            assert moment.left.least_s <= actual_s + slack_s, message
            assert actual_s <= moment.left.most_s + slack_s, message


# Real time


@pytest.mark.parametrize("settles", [5, 9, None])
@pytest.mark.parametrize("test", [test for test in SHORT if test != "hir"])
def test_in_real_time_the_bounds_hold_at_every_moment(test: str, settles: int | None) -> None:
    played = play(test, script_of(test, settles), SHORT[test], capacity_bytes=TB)
    moments, end_s = followed(test, played)
    assert_holds(moments, end_s)
    known = [moment for moment in moments if moment.left is not None]
    # Without a fill before, all is known from the begin; else once some of it is done.
    assert known[0].where == ("the begin" if test in {"wsat", "xsr"} else "0.25 of wipc, 128 KiB")
    assert len(known) > 0.8 * len(moments)


@pytest.mark.parametrize("settles", [5, None])
def test_idle_time_that_has_passed_is_not_ahead(settles: int | None) -> None:
    """Also from the begin of a burst to its end: the idle time before it (5 to 50 s) is over."""
    played = play("hir", script_of("hir", settles), SHORT["hir"], capacity_bytes=TB)
    assert_holds(*followed("hir", played))


def test_while_the_host_idles_the_time_runs_down() -> None:
    played = play("hir", script_of("hir"), SHORT["hir"], capacity_bytes=TB)
    moments, _ = followed("hir", played)
    for before, after in pairwise(moments):
        if before.where.endswith("of idling") and after.where.endswith("of idling"):
            assert before.left is not None
            assert after.left is not None
            assert before.left.least_s - after.left.least_s == pytest.approx(after.at_s - before.at_s)


def test_a_fill_is_judged_by_its_own_progress() -> None:
    """A quarter of the bytes in 10 s: three quarters take 30 s."""
    spec = spec_of("tp")
    wipc = next(step for step in play("tp", script_of("tp"), capacity_bytes=TB).asked if step.stop.bytes)
    estimator = Estimator(spec, virtual_time=False)
    assert estimator.left(0.0) is None
    estimator.started(wipc, 0.0)
    assert estimator.left(5.0) is None, "nothing is known of the device's speed yet"
    size = wipc.stimulus.block_sizes[0][0]
    ios = (wipc.stop.bytes or 0) // size
    estimator.progress(ios // 4, size)
    left = estimator.left(10.0)
    assert left is not None
    # Half of a fill is a quarter of both: 30 s and the other block size's 40 s; 20 minutes of rounds at least.
    assert left.least_s == pytest.approx(30 + 40 + 20 * 60)
    assert left.most_s == pytest.approx(30 + 40 + 48 * 60)
    estimator.progress(2 * ios, size)
    left = estimator.left(40.0)
    assert left is not None, "more than all is all"
    assert left.least_s == pytest.approx(40 + 20 * 60)


def test_progress_of_a_timed_step_is_its_time() -> None:
    played = play("xsr", script_of("xsr"), SHORT["xsr"], capacity_bytes=TB)
    estimator = Estimator(spec_of("xsr"), virtual_time=False)
    estimator.started(played.asked[0], 100.0)
    estimator.progress(12345, 4096)
    assert estimator.left(115.0) == TimeLeft(50 * 60 - 15.0, 50 * 60 - 15.0)
    assert estimator.left(100.0 + 10**6) == TimeLeft(0.0, 0.0), "never less than nothing"


# Virtual time


@pytest.mark.parametrize("slowness", [1e-3, 2.0])
@pytest.mark.parametrize("test", list(SHORT))
def test_in_virtual_time_the_hosts_pace_is_extrapolated(test: str, slowness: float) -> None:
    """A second of the drive takes the host a thousandth of one, or two; a fill is slower to simulate. A step under way
    counts whole, so that the bounds may be late by as much."""
    played = play(test, script_of(test), SHORT[test], capacity_bytes=TB)
    moments, end_s = followed(test, played, slowness=slowness, virtual_time=True)
    longest_s = max(step.stop.seconds or 0 for step in played.asked) + (50.0 if test == "hir" else 0.0)
    assert_holds(moments, end_s, longest_s * slowness + 0.01)
    last = moments[-1]
    assert last.left == TimeLeft(0.0, 0.0)
    # A quarter into the first timed step its pace is not known; after it, it is.
    timed = next(i for i, step in enumerate(played.asked) if step.stop.seconds)
    where = f"end of {played.asked[timed].label}"
    assert next(moment for moment in moments if moment.where == where).left is not None


def test_in_virtual_time_nothing_is_known_at_first() -> None:
    estimator = Estimator(spec_of("xsr"), virtual_time=True)
    assert estimator.left(0.0) is None
    step = play("xsr", script_of("xsr"), SHORT["xsr"], capacity_bytes=TB).asked[0]
    estimator.started(step, 0.0)
    assert estimator.left(1.0) is None


def test_the_forecast_shown_is_the_estimators() -> None:
    """The live display prints how much there is to do before anything is known of the speed."""
    estimator = Estimator(spec_of("tp"), virtual_time=True)
    assert (estimator.least.seconds, estimator.most.seconds) == (20 * 60, 48 * 60)
    assert estimator.least.fill_bytes == estimator.most.fill_bytes == 4 * TB
