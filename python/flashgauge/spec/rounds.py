"""Rounds until steady state, for every test: 2.1.24 on each tracking variable, or the most rounds allowed.

Two kinds of round. A loop (IOPS, TP, LAT, CBW, DIRTH) is one pass through all test points. A minute (WSAT, HIR and
the pre-conditioning of CBW and DIRTH) is one minute of a stimulus that goes on; the minutes that count as rounds are
the first one and those that begin a whole number of spacings (30 minutes) after it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import Measurement
from flashgauge.spec.parameters import SteadyStateParameters
from flashgauge.steadystate import Verdict, judge_last
from flashgauge.steps import KIB, IoStep, Label, Measure, Precondition, RoundJudged, Step, Stimulus, Stop

Tracked = dict[str, float]


@dataclass(frozen=True)
class Settled:
    """How the rounds of one phase ended: `first_round`..`last_round` is the measurement window (fewer rounds than a
    window if the phase was cut short). `steady` only if every tracking variable is, by `verdicts`."""

    steady: bool
    first_round: int
    last_round: int
    verdicts: dict[str, Verdict]


def answered(step: IoStep) -> Generator[Step, Measurement | None, Measurement]:
    """Yield a step that is measured, and return its measurement."""
    measurement = yield step
    assert measurement is not None, "a step with I/O must be answered with its measurement"
    return measurement


def until_steady(
    parameters: SteadyStateParameters,
    one_round: Callable[[int], Generator[Step, Measurement | None, Tracked | None]],
    *,
    max_rounds: int,
    phase: str = "",
    unit: str = "IOPS",
) -> Generator[Step, Measurement | None, Settled]:
    """Run `one_round(1)`, `one_round(2)` ... until all its tracked values are steady, it returns None (the phase is
    cut short), or `max_rounds` are done."""
    tracked: dict[str, list[float]] = {}
    verdicts: dict[str, Verdict] = {}
    window = parameters.window_rounds
    for number in range(1, max_rounds + 1):
        values = yield from one_round(number)
        if values is None:
            return Settled(False, max(1, number - window), number - 1, verdicts)
        for name, value in values.items():
            tracked.setdefault(name, []).append(value)
        judged = {name: judge_last(series, parameters.criteria) for name, series in tracked.items()}
        verdicts = {name: verdict for name, verdict in judged.items() if verdict is not None}
        yield RoundJudged(number, {name: tuple(series) for name, series in tracked.items()}, verdicts, phase, unit)
        if verdicts and all(verdict.steady for verdict in verdicts.values()):
            return Settled(True, number - window + 1, number, verdicts)
    return Settled(False, max(1, max_rounds - window + 1), max_rounds, verdicts)


def not_steady(clause: str, settled: Settled, phase: str = "", advice: str = "") -> Disclosure:
    """That steady state was not reached must be stated (7.3, 8.3, 9.3)."""
    moving = ", ".join(name for name, verdict in settled.verdicts.items() if not verdict.steady)
    where = f"{phase}: " if phase else ""
    return Disclosure(
        Kind.STEADY_STATE_NOT_REACHED,
        clause,
        f"{where}steady state was not reached in {settled.last_round} rounds (not steady: {moving}); "
        f"rounds {settled.first_round}-{settled.last_round} are reported",
        advice or f"allow more rounds: --set max_rounds={2 * settled.last_round}",
    )


def minutes(
    step: Callable[[int], IoStep],
    name: str,
    spacing: int,
    go_on: Callable[[int, Measurement], bool] = lambda _minute, _measurement: True,
) -> Callable[[int], Generator[Step, Measurement | None, Tracked | None]]:
    """The rounds of a stimulus that goes on: round k ends with minute 1 + (k - 1) `spacing`, whose IOPS it tracks.

    `step(minute)`: the step of a minute, counted from 1. `go_on(minute, measurement)`: False cuts the phase short
    after that minute, unless the round it ends makes it steady: then that is what has come first.
    """

    def one_round(number: int) -> Generator[Step, Measurement | None, Tracked | None]:
        last = 1 + (number - 1) * spacing
        first = 1 if number == 1 else last - spacing + 1
        for minute in range(first, last + 1):
            if state.ended:
                return None
            measurement = yield from answered(step(minute))
            state.ended = not go_on(minute, measurement)
            if minute == last:
                return {name: measurement.iops}
        raise AssertionError("a round has a last minute")

    state = _Phase()
    return one_round


@dataclass
class _Phase:
    ended: bool = False


def wipc_step(
    parameters: SteadyStateParameters,
    capacity_bytes: int,
    *,
    block_kib: float,
    capacities: float,
    thread_count: int,
    queue_depth: int,
    whole_device: bool = False,
) -> Precondition:
    """Workload independent pre-conditioning (2.1.18 a): sequential writes of so many user capacities, over the
    ActiveRange or the whole device."""
    block_bytes = int(block_kib * KIB)
    stimulus = Stimulus(
        access="sequential",
        block_sizes=((block_bytes, 1),),
        read_percent=0,
        thread_count=thread_count,
        queue_depth=queue_depth,
        active_range_percent=(0.0, 100.0 if whole_device else parameters.active_range_percent),
        entropy_percent=parameters.entropy_percent,
    )
    if capacities.is_integer():
        total = int(capacities) * capacity_bytes
    else:
        total = max(1, int(capacities * capacity_bytes) // (4 * KIB)) * 4 * KIB
    # Clause 4: no delay between pre-conditioning and test.
    return Precondition(stimulus, Stop(bytes=total, keep_loaded=True), Label("wipc", block_bytes=block_bytes))


def minute_step(
    purpose: str, stimulus: Stimulus, minute_s: float, minute: int, *, precondition: bool = False
) -> IoStep:
    """One minute of a stimulus that goes on."""
    label = Label(purpose, number=minute, read_percent=round(stimulus.read_percent))
    kind = Precondition if precondition else Measure
    return kind(stimulus, Stop(seconds=minute_s), label)
