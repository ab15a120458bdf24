"""Rounds until steady state, of loops and of minutes, against a plain search; and the parameters of every test."""

from __future__ import annotations

import dataclasses
from collections.abc import Generator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from flashgauge.disclosure import Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import DeviceClass, ParameterError, SteadyStateParameters, departures, table
from flashgauge.spec.registry import TESTS
from flashgauge.spec.rounds import Settled, Tracked, minute_step, minutes, not_steady, until_steady, wipc_step
from flashgauge.steps import KIB, Label, Precondition, RoundJudged, Step, Stimulus, Stop
from scripted import TB, Played, parameters_of, play_spec, round_of, steady

STIMULUS = Stimulus("random", ((4 * KIB, 1),), 0, 4, 32)
PARAMETERS = SteadyStateParameters(DeviceClass.ENTERPRISE)
Series = dict[str, list[int]]


def rounds_of(series: Series) -> Any:
    """Rounds without steps, whose tracked values are given."""

    def one_round(number: int) -> Generator[Step, Measurement | None, Tracked | None]:
        yield from ()
        return {name: float(values[number - 1]) for name, values in series.items()}

    return one_round


def settle(
    series: Series, parameters: SteadyStateParameters = PARAMETERS, max_rounds: int = 25
) -> tuple[Settled, list[RoundJudged]]:
    spec = until_steady(parameters, rounds_of(series), max_rounds=max_rounds, phase="p", unit="u")
    played = play_spec(spec, steady())
    return played.outcome, played.judged("p")


# Against a plain search, in fractions


def is_steady(window: list[int], data: Fraction, slope: Fraction) -> bool:
    """2.1.24 by the textbook."""
    n, xs = len(window), range(len(window))
    average = Fraction(sum(window), n)
    fit = Fraction(
        n * sum(x * y for x, y in zip(xs, window, strict=True)) - sum(xs) * sum(window),
        n * sum(x * x for x in xs) - sum(xs) ** 2,
    )
    excursion, rise = max(window) - min(window), abs(fit) * (n - 1)
    # At a limit exactly, the last bit of a float decides.
    assume(abs(excursion - data * average) > average / 10**9 and abs(rise - slope * average) > average / 10**9)
    return excursion <= data * average and rise <= slope * average


level = st.one_of(st.integers(900, 1100), st.sampled_from([500, 1000, 2000]), st.integers(1, 3000))
series_of_rounds = st.integers(5, 25).flatmap(
    lambda most: st.dictionaries(
        st.sampled_from("abc"), st.lists(level, min_size=most, max_size=most), min_size=1, max_size=3
    )
)


@pytest.mark.clause("2.1.13")
@pytest.mark.clause("2.1.24")
@pytest.mark.clause("4.3")
@settings(max_examples=100, deadline=None)
@given(series_of_rounds, st.integers(2, 5), st.sampled_from([(20, 10), (10, 20), (40, 40)]))
def test_the_first_window_in_which_all_are_steady(series: Series, window: int, limits: tuple[int, int]) -> None:
    most = len(next(iter(series.values())))
    data, slope = Fraction(limits[0], 100), Fraction(limits[1], 100)
    last, found = most, False
    for last in range(window, most + 1):
        if all(is_steady(values[last - window : last], data, slope) for values in series.values()):
            found = True
            break
    parameters = dataclasses.replace(
        PARAMETERS,
        window_rounds=window,
        max_data_excursion_percent=float(limits[0]),
        max_slope_excursion_percent=float(limits[1]),
    )
    settled, judged = settle(series, parameters, most)
    assert (settled.steady, settled.first_round, settled.last_round) == (found, last - window + 1, last)
    assert [one.round for one in judged] == list(range(1, last + 1)), "not a round more"
    for one in judged:
        assert one.values == {name: tuple(values[: one.round]) for name, values in series.items()}
        assert set(one.verdicts) == (set(series) if one.round >= window else set())
    assert settled.verdicts == judged[-1].verdicts
    for verdict in settled.verdicts.values():
        assert (verdict.first_round, verdict.last_round) == (settled.first_round, settled.last_round)


@pytest.mark.clause("2.1.13")
@pytest.mark.clause("4.3")
@pytest.mark.parametrize(
    ("values", "steady_state", "first", "last"),
    [
        ([100] * 25, True, 1, 5),
        ([200] + [100] * 24, True, 2, 6),
        ([100, 200] * 10 + [100] * 5, True, 21, 25),
        ([100, 200] * 10 + [200] + [100] * 4, False, 21, 25),
        ([0] * 25, False, 21, 25),
    ],
)
def test_round_5_6_25_and_never(values: list[int], steady_state: bool, first: int, last: int) -> None:
    settled, judged = settle({"x": values})
    assert (settled.steady, settled.first_round, settled.last_round) == (steady_state, first, last)
    assert judged[0].unit == "u"


@pytest.mark.clause("4.3")
def test_more_rounds_than_25_may_be_asked_for() -> None:
    series = {"x": [100, 200] * 14 + [100] * 5}
    settled, _ = settle(series, max_rounds=40)
    assert (settled.steady, settled.first_round, settled.last_round) == (True, 29, 33)


def test_what_is_said_when_steady_state_was_not_reached() -> None:
    settled, _ = settle({"still": [100] * 25, "moving": [100, 200] * 12 + [100]})
    said = not_steady("7.3", settled, "phase", "advice")
    assert (said.kind, said.clause, said.invalidates) == (Kind.STEADY_STATE_NOT_REACHED, "7.3", False)
    assert "moving" in said.message
    assert "still" not in said.message
    assert said.message.startswith("phase: ")
    assert "rounds 21-25" in said.message
    assert said.advice == "advice"


# Rounds of minutes


def minute_rounds(spacing: int, most: int, rate: Any, stop_after: int | None = None) -> Played:
    """`rate(minute)`: its IOPS. `stop_after`: the minute after which the phase is cut short."""
    told: list[int] = []

    def go_on(minute: int, measurement: Measurement) -> bool:
        assert measurement.iops == pytest.approx(rate(minute))
        told.append(minute)
        return minute != stop_after

    def script(step: Any) -> float:
        return float(rate(step.label.number))

    one_round = minutes(lambda minute: minute_step("minute", STIMULUS, 60, minute), "x", spacing, go_on)
    played = play_spec(until_steady(PARAMETERS, one_round, max_rounds=most), script)
    assert told == [step.label.number for step in played.asked] == list(range(1, len(told) + 1)), "no minute twice"
    return played


@pytest.mark.clause("10.3.2")
@pytest.mark.clause("11.2.3.2")
@pytest.mark.clause("13.2.3.2")
@pytest.mark.clause("14.2.2.2")
def test_minutes_1_31_61_are_the_rounds() -> None:
    """All others may be what they like."""
    played = minute_rounds(30, 25, lambda minute: 1000 if minute in {1, 31, 61, 91, 121} else 50 * minute)
    assert played.outcome.steady
    assert len(played.asked) == 121
    assert played.judged()[-1].values == {"x": (1000.0,) * 5}
    assert [one.round for one in played.judged()] == [1, 2, 3, 4, 5]
    # Each round is judged at once after its minute.
    at = [played.steps.index(one) for one in played.judged()]
    assert [getattr(played.steps[i - 1], "label", Label("")).number for i in at] == [1, 31, 61, 91, 121]


@pytest.mark.clause("11.2.3.2")
@pytest.mark.clause("13.2.3.2")
@pytest.mark.clause("14.2.2.2")
def test_25_rounds_of_minutes_are_721_minutes() -> None:
    played = minute_rounds(30, 25, lambda minute: 1000 + 1000 * (minute % 60))
    assert (played.outcome.steady, len(played.asked)) == (False, 721)
    assert (played.outcome.first_round, played.outcome.last_round) == (21, 25)


@settings(max_examples=60, deadline=None)
@given(spacing=st.integers(1, 7), most=st.integers(5, 12), stop=st.integers(1, 100), settles=st.integers(5, 14))
def test_cut_short_after_any_minute(spacing: int, most: int, stop: int, settles: int) -> None:
    """Whichever is first ends it: the cut, steady state (also in the very minute of the cut), the last round."""

    def rate(minute: int) -> int:
        number = round_of(Label("minute", number=minute), spacing)
        return 1 if number is None else 100 if number > settles - 5 or number % 2 == settles % 2 else 500

    played = minute_rounds(spacing, most, rate, stop)
    end_of = {number: 1 + (number - 1) * spacing for number in range(1, most + 1)}
    steady_at = end_of.get(next((k for k in range(5, most + 1) if _five_equal(rate, end_of, k)), 0), 10**6)
    assert len(played.asked) == min(stop, steady_at, end_of[most])
    done = [number for number, minute in end_of.items() if minute <= len(played.asked)]
    assert played.outcome.steady is (steady_at <= stop and steady_at <= end_of[most])
    assert (played.outcome.first_round, played.outcome.last_round) == (max(1, len(done) - 4), len(done))
    assert [one.round for one in played.judged()] == done


def _five_equal(rate: Any, end_of: dict[int, int], last: int) -> bool:
    return len({rate(end_of[number]) for number in range(last - 4, last + 1)}) == 1


@pytest.mark.parametrize("precondition", [True, False])
def test_a_minute(precondition: bool) -> None:
    step = minute_step("minute", STIMULUS, 60.0, 7, precondition=precondition)
    assert isinstance(step, Precondition) is precondition
    assert (step.stimulus, step.stop) == (STIMULUS, Stop(seconds=60))
    assert step.label == Label("minute", read_percent=0, number=7)


# Independent pre-conditioning


@pytest.mark.clause("4")
@pytest.mark.clause("4.2")
@given(capacities=st.floats(0.001, 4, allow_nan=False), capacity=st.integers(1 << 20, 1 << 45), whole=st.booleans())
def test_independent_preconditioning(capacities: float, capacity: int, whole: bool) -> None:
    parameters = dataclasses.replace(PARAMETERS, active_range_percent=75.0)
    step = wipc_step(
        parameters,
        capacity,
        block_kib=128,
        capacities=capacities,
        thread_count=2,
        queue_depth=8,
        whole_device=whole,
    )
    assert step.stop.bytes is not None
    assert step.stop.keep_loaded, "no delay between it and the test"
    assert step.stop.bytes > 0
    assert abs(step.stop.bytes - capacities * capacity) <= 4 * KIB
    assert float(capacities).is_integer() or step.stop.bytes % (4 * KIB) == 0
    assert step.stimulus.active_range_percent == (0.0, 100.0 if whole else 75.0)
    assert (step.stimulus.access, step.stimulus.read_percent) == ("sequential", 0)
    assert step.stimulus.block_sizes == ((128 * KIB, 1),)
    assert (step.stimulus.thread_count, step.stimulus.queue_depth) == (2, 8)


# Parameters of every test. Clauses are given here a second time, from the standard's text.

COMMON = {"entropy_percent": "3.5"}
STEADY = {
    "window_rounds": "2.1.13",
    "max_data_excursion_percent": "2.1.24 a",
    "max_slope_excursion_percent": "2.1.24 b",
}
DEMAND_14 = {
    "write_cache_enabled": ("14.2 3.1.1", "13.2 4.1.1"),
    "max_rounds": ("14.2 3.3.3", "13.2 4.3.3"),
    "wipc_block_kib": ("14.1", "13.1"),
    "wipc_capacities": ("14.1", "13.1"),
    "heaviest_thread_count": ("14.2 2.1.3", "13.2 3.1.3"),
    "heaviest_queue_depth": ("14.2 2.1.2", "13.2 3.1.2"),
    "minute_s": ("14.2 2.2.1", "13.2 3.2.1"),
    "round_spacing_minutes": ("14.2 2.2.2", "13.2 3.2.2"),
    "pc_max_rounds": ("14.2 2.2.2", "13.2 3.2.2"),
    "thread_counts": ("14.2 3.1.3", "13.2 4.1.3"),
    "queue_depths": ("14.2 3.1.4", "13.2 4.1.4"),
    "prewrite_min_minutes": ("14.2 3.2.1", "13.2 4.2.1"),
    "prewrite_max_minutes": ("14.2 3.2.1", "13.2 4.2.1"),
    "prewrite_capacity_percent": ("14.2 3.2.1", "13.2 4.2.1"),
    "point_s": ("14.2 3.3.1", "13.2 4.3.1"),
    "max_art_ms": ("14.2 5.1.2", "13.2 6.1.2"),
    "mid_points": ("14.2 5.3", "13.2 6.3"),
    "final_prewrite_minutes": ("14.2 6.2.1", "13.2 7.2.1"),
    "histogram_s": ("14.2 6.3", "13.2 7.3"),
}
# Test -> parameter that may not be changed (or not downwards) -> its clause.
BOUND: dict[str, dict[str, str]] = {
    "iops": {
        **COMMON,
        **STEADY,
        "write_cache_enabled": "7.2 2.1.1",
        "active_range_percent": "7.2",
        "max_rounds": "7.2 3.2",
        "wipc_block_kib": "7.2 2.2",
        "wipc_capacities": "7.2 2.2",
        "read_percents": "7.2 3.2.1",
        "block_sizes_kib": "7.2 3.2.1.1",
        "point_s": "7.2 3.2.1.2",
    },
    "tp": {
        **COMMON,
        **STEADY,
        "write_cache_enabled": "8.2 2.1.1",
        "active_range_percent": "8.2",
        "max_rounds": "8.2 2.4",
        "thread_count": "8.2 2.1.2",
        "block_sizes_kib": "8.2",
        "wipc_capacities": "8.2 2.2",
        "read_percents": "8.2 2.4.1",
        "point_s": "8.2 2.4.1.1",
    },
    "lat": {
        **COMMON,
        **STEADY,
        "write_cache_enabled": "9.2 2.1.1",
        "active_range_percent": "9.2",
        "max_rounds": "9.2 3",
        "thread_count": "9.2 2.1.3",
        "queue_depth": "9.2 2.1.2",
        "wipc_block_kib": "9.2 2.2",
        "wipc_capacities": "9.2 2.2",
        "read_percents": "9.2 3.1",
        "block_sizes_kib": "9.2 3.1.1",
        "point_s": "9.2 3.1.1.1.1",
        "histogram_s": "9.2 3.3.1",
        "nines_factor": "9.2 3.3.3",
    },
    "wsat": {
        **COMMON,
        **STEADY,
        "write_cache_enabled": "10.2 2.1.1",
        "active_range_percent": "10.2",
        "max_capacities": "10.2 2.2",
        "max_minutes": "10.2 2.2",
        "minute_s": "10.3.2",
        "round_spacing_minutes": "10.3.2",
        "histogram_s": "10.2 2.4.1",
        "nines_factor": "10.2 2.4.3",
    },
    "hir": {
        **COMMON,
        **STEADY,
        "active_range_percent": "11.2 3",
        "max_rounds": "11.2 3.2",
        "block_kib": "11.2 3",
        "minute_s": "11.2 3.1",
        "round_spacing_minutes": "11.2 3.2",
        "waits_s": "11.2 4-8",
        "access_s": "11.2 4.1",
        "wait_accesses": "11.2 4.1",
        "baseline_accesses": "11.2 4.2",
    },
    "xsr": {
        **COMMON,
        "write_cache_enabled": "12.2 2.1.1",
        "active_range_percent": "12.2",
        "sequential_block_kib": "12.2 2",
        "random_block_kib": "12.2 3",
        "group_1_minutes": "12.2 2.2",
        "group_2_minutes": "12.2 3.2",
        "group_3_minutes": "12.2 4.2",
        "minute_s": "12.2 2.2",
    },
    "cbw": {
        **COMMON,
        **STEADY,
        **{name: clauses[1] for name, clauses in DEMAND_14.items()},
        "read_percent": "13.2 2.1.2",
    },
    "dirth": {**COMMON, **STEADY, **{name: clauses[0] for name, clauses in DEMAND_14.items()}},
}
# Options of the standard's: another value is no departure, but the clause that has the option is named all the same.
OPTIONS: dict[str, dict[str, str]] = {
    "lat": {"nines": "9.2 3.3.3"},
    "wsat": {
        "workload": "10.2 2.2.3",
        "thread_count": "10.2 2.1.3",
        "sequential_thread_count": "10.2 2.1.3",
        "queue_depth": "10.2 2.1.2",
        "sequential_queue_depth": "10.2 2.1.2",
        "nines": "10.2 2.4.3",
    },
    "hir": {"write_cache_enabled": "11.2 2.1"},
}
# More of these is the operator's choice: "continue", "minimum of", "at least", "one or more", a longer capture.
UPWARDS_IS_FREE = {
    *("max_capacities", "max_minutes", "mid_points", "nines_factor"),
    *("group_1_minutes", "group_2_minutes", "group_3_minutes"),
    *(("lat", "histogram_s"), ("wsat", "histogram_s")),
    *(("iops", "max_rounds"), ("tp", "max_rounds"), ("lat", "max_rounds")),
}
# That one may go on after round 25 is said of IOPS, TP and LAT alone: for these 25 is the most.
MOST_ROUNDS = [("hir", "max_rounds"), *((t, n) for t in ("cbw", "dirth") for n in ("max_rounds", "pc_max_rounds"))]
# Where half or double of the standard's value is refused, or would be nothing new.
SPECIAL: dict[str, tuple[str, str]] = {
    "write_cache_enabled": ("on", "on"),
    "active_range_percent": ("50", "50"),
    "entropy_percent": ("0", "50"),
    "read_percents": ("0", "0, 100"),
    "workload": ("composite", "vod"),
    "nines": ("4", "6"),
    "nines_factor": ("1", "2"),
    "thread_counts": ("32, 1", "64, 32, 1"),
    "queue_depths": ("32, 1", "64, 32, 1"),
    "heaviest_thread_count": ("16", "8"),
    "heaviest_queue_depth": ("16", "8"),
    "waits_s": ("5", "5, 50, 10"),
    "mid_points": ("1", "2"),
}
SPECIAL_OF: dict[tuple[str, str], tuple[str, str]] = {
    ("iops", "read_percents"): ("100, 65, 0", "0, 65, 100"),
    ("iops", "block_sizes_kib"): ("1024, 64, 4", "4, 64, 1024"),
    ("tp", "block_sizes_kib"): ("128", "128, 256"),
    ("tp", "thread_count"): ("2", "4"),
    ("lat", "block_sizes_kib"): ("4", "4, 8, 0.5"),
    ("lat", "thread_count"): ("2", "4"),
    ("lat", "queue_depth"): ("2", "4"),
}
every_test = pytest.mark.parametrize("test", list(TESTS))


def names_of(test: str) -> list[str]:
    return [f.name for f in dataclasses.fields(TESTS[test].parameters_type) if f.metadata]


def other_values(test: str, name: str) -> tuple[str, str]:
    """A lower and a higher value, as text, or two others."""
    if (test, name) in SPECIAL_OF or name in SPECIAL:
        return SPECIAL_OF.get((test, name)) or SPECIAL[name]
    value = getattr(parameters_of(test), name)
    if isinstance(value, int):
        return str(max(1, value - 1)), str(value + 1)
    return str(value / 2), str(value * 2)


@every_test
@pytest.mark.parametrize("direction", [0, 1])
def test_each_changed_parameter_is_one_disclosure_with_its_clause(test: str, direction: int) -> None:
    standard = parameters_of(test)
    found = {}
    for name in names_of(test):
        text = other_values(test, name)[direction]
        used = parameters_of(test, settings={name: text})
        if getattr(used, name) == getattr(standard, name):
            continue
        said = departures(used, standard)
        assert len(said) <= 1, name
        for one in said:
            assert (one.kind, one.invalidates) == (Kind.PARAMETER_CHANGED, True), name
            assert one.message.startswith(f"{name} ("), one.message
            assert "the standard says" in one.message
            found[name] = one.clause
    free = {name for name in BOUND[test] if {name, (test, name)} & UPWARDS_IS_FREE} if direction else {"mid_points"}
    bound = {name: clause for name, clause in BOUND[test].items() if name not in free}
    # What the standard leaves open, but what nobody may quietly be generous with.
    if direction:
        bound["gap_limit_ms"] = "6 item 9"
        bound |= {"cbw": {"same_iops_percent": "13.2 7.1"}, "dirth": {"same_iops_percent": "14.2 6.1"}}.get(test, {})
    assert found == bound


@pytest.mark.clause("11.2.3.2")
def test_more_than_25_rounds_of_hir_are_a_departure() -> None:
    """11.2 3.2: at 25 rounds "the test shall be stopped"."""
    (said,) = departures(parameters_of("hir", settings={"max_rounds": 26}), parameters_of("hir"))
    assert said.clause == "11.2 3.2"


@pytest.mark.clause("13.2.4.3.3")
@pytest.mark.clause("14.2.3.3.3")
@pytest.mark.parametrize(("test", "name"), MOST_ROUNDS[1:])
def test_more_than_25_rounds_of_the_demand_tests_are_a_departure(test: str, name: str) -> None:
    """13.2 3.2.2, 4.3.3 and 14.2 2.2.2, 3.3.3: 25 at most; 7.2, 8.2 and 9.2 allow to go on, these do not."""
    (said,) = departures(parameters_of(test, settings={name: 26}), parameters_of(test))
    assert said.clause == BOUND[test][name]


@pytest.mark.parametrize(("test", "name"), [(test, name) for test, names in OPTIONS.items() for name in names])
@pytest.mark.parametrize("device_class", DeviceClass)
@pytest.mark.parametrize("direction", [0, 1])
def test_an_option_of_the_standards_is_no_departure(
    test: str, name: str, device_class: DeviceClass, direction: int
) -> None:
    text = other_values(test, name)[direction]
    if name == "write_cache_enabled":
        text = "off" if device_class is DeviceClass.CLIENT else "on"
    standard, used = (parameters_of(test, device_class, settings) for settings in ({}, {name: text}))
    assert departures(used, standard) == []


@every_test
def test_every_parameter_has_a_clause_and_a_meaning(test: str) -> None:
    parameters = parameters_of(test)
    rows = {row["name"]: row for row in table(parameters)}
    assert list(rows) == [f.name for f in dataclasses.fields(parameters) if f.name != "device_class"]
    for name, row in rows.items():
        assert row["value"] == getattr(parameters, name)
        assert row["clause"], name
        assert len(row["meaning"]) > 5, name
        if clause := {**BOUND[test], **OPTIONS.get(test, {})}.get(name):
            assert row["clause"] == clause, name
    sections = {row["clause"].split()[0].split(".")[0] for row in rows.values()} - {"2", "3", "4", "6"}
    assert sections == {TESTS[test].section}


@every_test
@pytest.mark.parametrize("device_class", DeviceClass)
def test_the_standards_own_values_are_no_departure(test: str, device_class: DeviceClass) -> None:
    standard = TESTS[test].parameters(device_class)
    assert departures(standard, TESTS[test].parameters(device_class)) == []
    assert standard.device_class is device_class


@pytest.mark.clause("3.7")
@every_test
def test_cache_and_active_range_by_class(test: str) -> None:
    """Sections 7 to 12: WCD and 100 %, WCE and 75 %. 13.2 and 14.2: disabled and 100 % whatever the class."""
    enterprise, client = (TESTS[test].parameters(device_class) for device_class in DeviceClass)
    assert (enterprise.write_cache_enabled, enterprise.active_range_percent) == (False, 100.0)
    own = test not in {"cbw", "dirth"}
    assert (client.write_cache_enabled, client.active_range_percent) == ((True, 75.0) if own else (False, 100.0))


@every_test
def test_values_outside_a_parameters_limits_are_refused(test: str) -> None:
    """Each says which parameter and what is allowed."""
    for field in dataclasses.fields(TESTS[test].parameters_type):
        if not field.metadata:
            continue
        value = getattr(parameters_of(test), field.name)
        if isinstance(value, str):
            wrong = {"nonsense": "there are"}
        elif isinstance(value, bool):
            wrong = {"2": "on or off"}
        else:
            example = value[0] if isinstance(value, tuple) else value
            wrong = {"x": "not a number", '"5"': "number is needed", "true": "number is needed"}
            wrong[str(field.metadata["most"] * 2 + 1).removesuffix(".0")] = "most allowed"
            below = field.metadata["least"] - 1
            wrong[str(below if isinstance(example, float) else round(below))] = "least allowed"
            if isinstance(example, int):
                wrong["2.5"] = "whole number"
        for text, message in wrong.items():
            with pytest.raises(ParameterError, match=message) as refused:
                parameters_of(test, settings={field.name: text})
            assert field.name in str(refused.value), text


@every_test
def test_unknown_parameters_are_refused_with_the_known_ones(test: str) -> None:
    with pytest.raises(ParameterError, match=r"no parameter 'speed'; there are: .*write_cache_enabled"):
        parameters_of(test, settings={"speed": "1"})
    with pytest.raises(ParameterError, match="no parameter 'device_class'"):
        parameters_of(test, settings={"device_class": "client"})


@pytest.mark.parametrize(
    ("test", "settings", "message"),
    [
        ("tp", {"max_rounds": 4}, "window's 5 rounds"),
        ("lat", {"max_rounds": 9, "window_rounds": 10}, "window's 10 rounds"),
        ("tp", {"block_sizes_kib": "128, 128"}, "listed twice"),
        ("tp", {"read_percents": "100, 100"}, "listed twice"),
        ("tp", {"block_sizes_kib": "0.7"}, "multiples of 0.5"),
        ("lat", {"read_percents": "100, 65"}, "leaves out the tracking variable"),
        ("lat", {"block_sizes_kib": "8"}, "leaves out the tracking variable"),
        ("lat", {"block_sizes_kib": "4, 4"}, "listed twice"),
        ("lat", {"wipc_block_kib": "0.75"}, "multiples of 0.5"),
        ("wsat", {"workload": "custom"}, "there are write-intensive, read-intensive"),
        ("wsat", {"max_rounds": 25}, "no parameter 'max_rounds'"),
        ("hir", {"waits_s": "5, 5"}, "listed twice"),
        ("cbw", {"thread_counts": "32, 32, 1"}, "twice"),
        ("cbw", {"queue_depths": "32, 2"}, "T1Q1 is the MinIOPS point"),
        ("dirth", {"heaviest_thread_count": 5}, "T5Q32 is not among the combinations"),
        ("dirth", {"prewrite_max_minutes": 4}, "less than prewrite_min_minutes"),
        ("dirth", {"pc_max_rounds": 4}, "window's 5 rounds"),
        ("dirth", {"custom_block_kib": "0.7"}, "multiples of 0.5"),
        ("dirth", {"workload": "sata"}, r"there are write-intensive.*custom"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(test: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parameters_of(test, settings=settings)


def test_capacity_of_a_test_is_in_bytes() -> None:
    """2.4.1: two user capacities of 4 TB are 8 x 10^12 bytes."""
    step = wipc_step(parameters_of("iops"), 4 * TB, block_kib=128, capacities=2.0, thread_count=1, queue_depth=1)
    assert step.stop.bytes == 8_000_000_000_000
