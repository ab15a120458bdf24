"""The cross stimulus recovery test as a generator, fed with scripted answers: three groups, nothing between them."""

from __future__ import annotations

import pytest

from flashgauge.spec.parameters import DeviceClass
from flashgauge.steps import KIB, Measure, Purge, SetWriteCache
from scripted import Played, play, steady


@pytest.fixture(scope="module")
def whole() -> Played:
    return play("xsr", steady())


@pytest.mark.clause("12.2")
@pytest.mark.clause("3.2")
@pytest.mark.clause("3.7")
@pytest.mark.parametrize("device_class", DeviceClass)
def test_purge_cache_and_minutes_only(device_class: DeviceClass) -> None:
    """No steady state, no pre-conditioning, no idling; the cache is never switched in between."""
    played = play("xsr", steady(), device_class=device_class)
    assert played.steps[:2] == [Purge(), SetWriteCache(device_class is DeviceClass.CLIENT)]
    assert played.steps[2:] == played.asked
    assert all(isinstance(step, Measure) and step.stop.seconds == 60 for step in played.asked)
    assert played.outcome.steady is None


@pytest.mark.clause("12.2.2")
@pytest.mark.clause("12.2.3")
@pytest.mark.clause("12.2.4")
@pytest.mark.parametrize(
    ("group", "access", "kib", "hours"), [(1, "sequential", 1024, 8), (2, "random", 8, 6), (3, "sequential", 1024, 8)]
)
def test_the_groups(whole: Played, group: int, access: str, kib: int, hours: int) -> None:
    steps = whole.of(f"access group {group}")
    assert [step.label.number for step in steps] == list(range(1, hours * 60 + 1))
    (stimulus,) = {step.stimulus for step in steps}
    assert (stimulus.access, stimulus.block_sizes, stimulus.read_percent) == (access, ((kib * KIB, 1),), 0)
    before = sum(len(whole.of(f"access group {number}")) for number in range(1, group))
    assert whole.asked[before : before + len(steps)] == steps


@pytest.mark.clause("12.2.2.1.2")
@pytest.mark.clause("12.2.4")
@pytest.mark.clause("12.1.oio")
def test_an_oio_of_its_own_for_each_stimulus() -> None:
    settings = {"sequential_thread_count": 2, "sequential_queue_depth": 3, "random_thread_count": 5}
    for changes, wanted in (({}, [(1, 32), (4, 32), (1, 32)]), (settings, [(2, 3), (5, 32), (2, 3)])):
        played = play("xsr", steady(), changes)
        firsts = [played.of(f"access group {group}")[0].stimulus for group in (1, 2, 3)]
        assert [(stimulus.thread_count, stimulus.queue_depth) for stimulus in firsts] == wanted
        assert firsts[2] == firsts[0], "4.1.2, 4.1.3: the same as in group 1"


@pytest.mark.clause("12.2")
@pytest.mark.clause("2.1.1")
@pytest.mark.parametrize(
    ("device_class", "active_range"), [(DeviceClass.ENTERPRISE, 100.0), (DeviceClass.CLIENT, 75.0)]
)
def test_active_range(device_class: DeviceClass, active_range: float) -> None:
    asked = play("xsr", steady(), device_class=device_class).asked
    assert {step.stimulus.active_range_percent for step in asked} == {(0.0, active_range)}


@pytest.mark.clause("12.1")
def test_longer_groups_are_the_operators_choice() -> None:
    """12.2: "a minimum of"; 12.1 encourages it."""
    played = play("xsr", steady(), {"group_1_minutes": 500, "group_2_minutes": 400, "group_3_minutes": 481})
    assert len(played.asked) == 500 + 400 + 481
