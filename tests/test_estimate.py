"""The time left: bounds that hold, and shrink."""

from __future__ import annotations

from fakes import measurement
from flashgauge.estimate import Estimator
from flashgauge.spec.registry import Extent
from flashgauge.steadystate import judge
from flashgauge.steps import Label, Measure, Precondition, RoundJudged, Stimulus, Stop

EXTENT = Extent(precondition_bytes=1000, points_per_round=4, point_s=60.0, least_rounds=5, most_rounds=25)
STIMULUS = Stimulus("random", ((4096, 1),), 0, 1, 1)
WIPC = Precondition(STIMULUS, Stop(bytes=1000 * 512), Label("wipc"))
POINT = Measure(STIMULUS, Stop(seconds=60), Label("round", 1))


def test_real_time_is_known_from_the_parameters() -> None:
    estimator = Estimator(EXTENT, virtual_time=False)
    estimator.started(WIPC, 0.0)
    assert estimator.left(0.0) is None, "nothing is known of the device's speed yet"
    estimator.precondition_progress(250)
    left = estimator.left(10.0)
    assert left is not None
    assert left.least_s == 30 + 5 * 4 * 60
    assert left.most_s == 30 + 25 * 4 * 60


def test_virtual_time_is_extrapolated_from_the_host_clock() -> None:
    estimator = Estimator(EXTENT, virtual_time=True)
    estimator.started(WIPC, 0.0)
    estimator.precondition_progress(1000)
    estimator.started(POINT, 100.0)
    estimator.done(POINT, measurement(1.0), 102.0)
    left = estimator.left(102.0)
    assert left is not None
    assert (left.least_s, left.most_s) == (19 * 2.0, 99 * 2.0)


def test_least_grows_with_each_round_that_was_not_steady_and_ends_at_nothing() -> None:
    estimator = Estimator(EXTENT, virtual_time=False)
    estimator.started(POINT, 0.0)
    for number in range(1, 7):
        for _ in range(4):
            estimator.done(POINT, measurement(1.0), 0.0)
        values = [1.0, 2.0, 1.0, 2.0, 1.0] if number < 6 else [1.0] * 5
        verdicts = {"x": judge(values, number - 4)} if number >= 5 else {}
        estimator.judged(RoundJudged(number, {}, verdicts))
        left = estimator.left(0.0)
        assert left is not None
        if number == 5:
            assert (left.least_s, left.most_s) == (4 * 60, 20 * 4 * 60)
    assert (left.least_s, left.most_s) == (0.0, 0.0)
