"""From the journal back to the outcome: the test's own generator, fed with what was measured.

The generator that drove the run decides what a round is and when steady state was reached; replaying it
means the report cannot disagree with the run. Only Precondition and Measure steps consume an entry.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flashgauge.disclosure import Disclosure
from flashgauge.runfolder import Entry, Run
from flashgauge.spec import TESTS, Test
from flashgauge.spec.parameters import DeviceClass, SteadyStateParameters
from flashgauge.steps import Disclose, Label, Measure, Precondition, RoundJudged


class ReplayError(ValueError):
    """The journal does not belong to the test that run.json names; the message says where they part."""


@dataclass(frozen=True)
class Replay:
    """`entries`: those the test consumed, in order. `disclosed`: what the test itself disclosed.
    `outcome`: what the test returned, None when incomplete.
    `missing`: what is not there, in sentences. `parameters`: of the test's `parameters_type`."""

    test: Test
    parameters: Any
    entries: tuple[Entry, ...]
    judged: tuple[RoundJudged, ...]
    disclosed: tuple[Disclosure, ...]
    outcome: Any | None
    missing: tuple[str, ...]

    @property
    def complete_rounds(self) -> int:
        """Rounds judged, of all phases together."""
        return len(self.judged)


def parameters_of(run: Run, test: Test) -> Any:
    """The test's parameters from run.json. Raises ReplayError."""
    fields = {field.name for field in dataclasses.fields(test.parameters_type)}
    values: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in run.parameters.items()
    }
    values["device_class"] = run.device_class
    try:
        unknown = values.keys() - fields
        if unknown:
            raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
        return test.parameters_type(**{**values, "device_class": DeviceClass(run.device_class)})
    except (TypeError, ValueError) as error:
        raise ReplayError(f"run.json: parameters of test {run.test!r}: {error}") from error


def replay(run: Run, entries: Sequence[Entry], torn: bool) -> Replay:
    """Feed `entries` to the test that `run` names. Raises ReplayError when they do not fit it."""
    if run.test not in TESTS:
        raise ReplayError(f"run.json: no test {run.test!r}; this version knows {', '.join(sorted(TESTS))}")
    test = TESTS[run.test]
    parameters = parameters_of(run, test)
    spec = test.spec(parameters, run.dut.capacity_bytes)
    judged: list[RoundJudged] = []
    disclosed: list[Disclosure] = []
    used = 0
    outcome: Any | None = None
    pending: Precondition | Measure | None = None
    answer = None
    while True:
        try:
            step = spec.send(answer)
        except StopIteration as stop:
            outcome = stop.value
            break
        answer = None
        if isinstance(step, RoundJudged):
            judged.append(step)
        elif isinstance(step, Disclose):
            disclosed.append(step.disclosure)
        elif isinstance(step, Precondition | Measure):
            # A step that ended early holds less than it was asked for; nothing after it can be trusted either.
            if used == len(entries) or entries[used].measurement.stop_reason != "complete":
                pending = step
                break
            _check(entries[used], step)
            answer = entries[used].measurement
            used += 1
    if outcome is not None and used < len(entries):
        raise ReplayError(f"journal.jsonl: {len(entries) - used} entries after the end of the test")
    missing = _missing(run, pending, entries, used, judged) if pending else []
    if torn:
        missing.append("the journal's last line was torn: the step it held is not used")
    return Replay(test, parameters, tuple(entries[:used]), tuple(judged), tuple(disclosed), outcome, tuple(missing))


def _check(entry: Entry, step: Precondition | Measure) -> None:
    kind = "precondition" if isinstance(step, Precondition) else "measure"
    if entry.kind != kind or entry.label != step.label:
        raise ReplayError(
            f"journal.jsonl: entry {entry.sequence} is {entry.kind} {str(entry.label)!r}; "
            f"the test asks for {kind} {str(step.label)!r} there"
        )


def _missing(
    run: Run, pending: Precondition | Measure, entries: Sequence[Entry], used: int, judged: list[RoundJudged]
) -> list[str]:
    label = pending.label
    # "running" is also what a killed process leaves behind: the folder alone cannot tell the two apart.
    verb = "stopped, or is still under way," if run.state == "running" else "was interrupted"
    rounds = (
        f"; {_complete_rounds(judged)}" if issubclass(TESTS[run.test].parameters_type, SteadyStateParameters) else ""
    )
    whole = f"the run {verb} {_where(label)}{rounds}"
    reasons = [whole]
    if used < len(entries):
        reason = entries[used].measurement.stop_reason
        reasons.append(f"the step {str(label)!r} ended early ({reason}) and is not used")
        if rest := len(entries) - used - 1:
            reasons.append(f"{rest} later steps are in the journal and not used")
    if run.error:
        reasons.append(f"the error recorded: {run.error}")
    return reasons


def _where(label: Label) -> str:
    if label.purpose == "wipc":
        return "during the workload independent pre-conditioning"
    if label.number is not None:
        return f"in {label.purpose}{f' {label.round}' if label.round else ''}, number {label.number}"
    return "in " + str(label).replace(", ", " at ", 1)


def _complete_rounds(judged: Sequence[RoundJudged]) -> str:
    """How far the rounds came, phase by phase."""
    if not judged:
        return "no round is complete"
    last = {item.phase: item.round for item in judged}
    parts = (
        f"{phase + ': ' if phase else ''}{'round 1 is' if count == 1 else f'rounds 1-{count} are'} complete"
        for phase, count in last.items()
    )
    return "; ".join(parts)
