"""The throughput test as a generator, fed with scripted answers: two tests in one, tracked in MB/s, never restarted."""

from __future__ import annotations

import pytest

from flashgauge.disclosure import Kind
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.tp import phase_name, variable_name
from flashgauge.steps import KIB, IoStep, Measure, Precondition, Purge, RoundJudged, SetWriteCache
from scripted import TB, Played, Reply, play, restless, settling, steady

SIZES = (128.0, 1024.0)


def moving(kib: float, read_percent: int, settles: int | None) -> Played:
    """One variable settles in round `settles`, all others at once."""

    def script(step: IoStep) -> Reply:
        label = step.label
        of_it = (label.block_bytes, label.read_percent) == (kib * KIB, read_percent) and label.round is not None
        return Reply(1000.0 * (restless(label.round or 0, settles) if of_it else 1.0))

    return play("tp", script)


@pytest.mark.clause("8.2")
@pytest.mark.clause("3.2")
def test_each_block_size_is_a_test_of_its_own() -> None:
    played = play("tp", steady())
    kinds = [type(step) for step in played.steps]
    one = [Purge, SetWriteCache, Precondition, *([Measure, Measure, RoundJudged] * 5)]
    assert kinds == one * 2
    assert [judged.phase for judged in played.judged()] == ["SEQ 128 KiB"] * 5 + ["SEQ 1024 KiB"] * 5
    assert list(played.outcome.sizes) == list(SIZES)


@pytest.mark.clause("8.2.2.4.1")
def test_reads_then_writes_a_minute_each() -> None:
    for kib in SIZES:
        steps = [step for step in play("tp", steady()).of("round") if step.label.block_bytes == kib * KIB]
        assert [(s.label.round, s.stimulus.read_percent) for s in steps] == [
            (n, r) for n in range(1, 6) for r in (100, 0)
        ]
        assert {s.stop.seconds for s in steps} == {60.0}
        assert {s.stimulus.block_sizes for s in steps} == {((int(kib * KIB), 1),)}


@pytest.mark.clause("8.2.2.4.1.5")
@pytest.mark.clause("2.1.1")
@pytest.mark.parametrize(
    ("device_class", "active_range"), [(DeviceClass.ENTERPRISE, 100.0), (DeviceClass.CLIENT, 75.0)]
)
def test_the_sequence_goes_on_over_the_whole_active_range(device_class: DeviceClass, active_range: float) -> None:
    """Pre-conditioning included (8.1, 8.2 2.2); nothing begins anew."""
    for step in play("tp", steady(), device_class=device_class).asked:
        assert step.stimulus.access == "sequential"
        assert step.stimulus.active_range_percent == (0.0, active_range)


@pytest.mark.clause("8.2.2.1.2")
@pytest.mark.clause("8.2.2.1.3")
@pytest.mark.clause("3.6")
@pytest.mark.parametrize("device_class", DeviceClass)
def test_one_thread_in_all_steps(device_class: DeviceClass) -> None:
    asked = play("tp", steady(), device_class=device_class).asked
    assert {(step.stimulus.thread_count, step.stimulus.queue_depth) for step in asked} == {(1, 32)}
    asked = play("tp", steady(), {"queue_depth": 8}, device_class=device_class).asked
    assert {step.stimulus.queue_depth for step in asked} == {8}, "the operator's choice"


@pytest.mark.clause("8.2.2.2")
@pytest.mark.clause("4.2")
def test_preconditioning_is_in_the_block_size_of_the_test() -> None:
    steps = play("tp", steady(), capacity_bytes=TB).of("wipc")
    assert [step.stimulus.block_sizes[0][0] for step in steps] == [128 * KIB, 1024 * KIB]
    for step in steps:
        assert (step.stop.bytes, step.stop.keep_loaded) == (2 * TB, True)
        assert step.stimulus.read_percent == 0


@pytest.mark.clause("8.2.2.4.1.3")
@pytest.mark.clause("4.3")
@pytest.mark.parametrize("settles", [5, 6, 25, None])
@pytest.mark.parametrize("kib", SIZES)
@pytest.mark.parametrize("read_percent", [100, 0])
def test_reads_and_writes_must_both_be_steady(kib: float, read_percent: int, settles: int | None) -> None:
    """One of the four holds back its own block size only."""
    played = moving(kib, read_percent, settles)
    sizes = played.outcome.sizes
    other = SIZES[0] if kib == SIZES[1] else SIZES[1]
    assert (sizes[other].steady, sizes[other].last_round) == (True, 5)
    assert (sizes[kib].steady, sizes[kib].last_round) == (settles is not None, settles or 25)
    assert played.outcome.steady is (settles is not None)
    last = played.judged(phase_name(kib))[-1]
    assert set(last.verdicts) == {variable_name(kib, 100), variable_name(kib, 0)}
    unsteady = {name for name, verdict in last.verdicts.items() if not verdict.steady}
    assert unsteady == (set() if settles else {variable_name(kib, read_percent)})


@pytest.mark.clause("8.3")
def test_what_did_not_become_steady_is_said_for_its_block_size() -> None:
    (said,) = moving(128.0, 0, None).disclosures()
    assert (said.kind, said.clause) == (Kind.STEADY_STATE_NOT_REACHED, "8.3")
    assert said.message.startswith("SEQ 128 KiB: ")
    assert "RW0" in said.message
    assert "RW100" not in said.message
    never = play("tp", settling(None, steady()))
    assert [said.message.split(":")[0] for said in never.disclosures()] == ["SEQ 128 KiB", "SEQ 1024 KiB"]
    # Said where its rounds end, before the other's purge.
    first = next(i for i, step in enumerate(never.steps) if getattr(step, "disclosure", None))
    assert never.steps[first + 1] == Purge()


@pytest.mark.clause("8.2.2.4.1")
def test_what_is_tracked_is_mb_per_second() -> None:
    judged = play("tp", steady(1000.0)).judged()
    assert {one.unit for one in judged} == {"MB/s"}
    assert judged[0].values == {"SEQ 128 KiB RW100": (131.072,), "SEQ 128 KiB RW0": (131.072,)}
    assert judged[-1].values["SEQ 1024 KiB RW0"] == (1048.576,) * 5
