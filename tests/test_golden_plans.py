"""The plan of every test: all steps in order, against files to read and against the standard's pseudo code.

golden/TEST-CLASS.txt is the plan with the standard's parameters, answered by a drive that is steady at once. Read a
changed file against the section of the standard before you commit it. Run as a program, this file writes them anew:
`.venv/bin/python tests/test_golden_plans.py`.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

import pytest

import pts_pseudo_code as pseudo
from flashgauge.spec.parameters import DeviceClass
from flashgauge.spec.registry import TESTS
from flashgauge.steps import KIB, Idle, IoStep, Label, Measure, Precondition, Purge, SetWriteCache, Step, Stimulus
from scripted import TB, Played, Script, block_bytes, play, saturating, settling, steady

GOLDEN = Path(__file__).parent / "golden"
REGENERATE = "If the new plan is meant: .venv/bin/python tests/test_golden_plans.py, and read what changed."
CAPACITY_BYTES = 4 * TB
DEMAND_TESTS = ("cbw", "dirth")
# At these rates a pre-write takes some minutes and a part of one.
STEADY_IOPS, SATURATED_IOPS = 10_000, 100_000
# The standard's composite is called so in the files; another one is written out.
COMPOSITE = pseudo.line("", pseudo.COMPOSITE, 100, (1, 1), "").split(" RW ")[0].strip()

# A step in words


def in_words(step: Step) -> str | None:
    """The step as the transcription writes it; None for what is no step of the standard's."""
    match step:
        case Purge():
            return "purge"
        case SetWriteCache(enabled=enabled):
            return f"write cache {'on' if enabled else 'off'}"
        case Idle(seconds=seconds):
            return f"idle {seconds:.6g} s"
        case Precondition() | Measure():
            kind = "precondition" if isinstance(step, Precondition) else "measure"
            return f"{kind:<12} {_stimulus(step.stimulus)} {_stop(step)}"
    return None


def _stimulus(stimulus: Stimulus) -> str:
    access = {"random": "RND", "sequential": "SEQ", "groups": "RND", "mixed": "SEQ/RND"}[stimulus.access]
    if stimulus.access == "mixed":
        access += f" {stimulus.sequential_percent:g}/{100 - stimulus.sequential_percent:g}"
    if stimulus.access == "groups":
        groups = (f"{g.start_percent:g}:{g.end_percent:g}={g.probability_percent:g}%" for g in stimulus.groups)
        access += f" ({' '.join(groups)})"
    if stimulus.alignment_bytes is not None:
        access += f" aligned {stimulus.alignment_bytes / KIB:g} KiB"
    if stimulus.entropy_percent != 100:
        access += f" entropy {stimulus.entropy_percent} %"
    if len(stimulus.block_sizes) == 1:
        sizes = f"{stimulus.block_sizes[0][0] / KIB:g} KiB"
    else:
        sizes = " ".join(f"{size / KIB:g}:{weight}%" for size, weight in stimulus.block_sizes) + " KiB"
    mix = f"RW {stimulus.read_percent:g}/{100 - stimulus.read_percent:g}"
    start, end = stimulus.active_range_percent
    return f"{access} {sizes} {mix} AR {start:g}:{end:g} T{stimulus.thread_count}Q{stimulus.queue_depth}"


def _stop(step: IoStep) -> str:
    stop = step.stop
    if stop.seconds is not None:
        return f"{stop.seconds:.6g} s" + (", then idle" if stop.then_idle else "")
    return f"{stop.bytes} bytes" + (", kept loaded" if stop.keep_loaded else "")


# Many steps in few lines


@dataclass(frozen=True)
class Run:
    """Equal steps in a row; `first` and `last` say which."""

    words: str
    purpose: str
    count: int
    first: str = ""
    last: str = ""

    def same(self, other: Run) -> bool:
        return (self.words, self.purpose, self.count) == (other.words, other.purpose, other.count)


def _who(label: Label) -> str:
    number = f", no. {label.number}" if label.number is not None else ""
    return label.purpose + (f" {label.round}" if label.round is not None else "") + number


def runs(steps: Iterable[Step | str]) -> list[Run]:
    found: list[Run] = []
    for step in steps:
        words = step if isinstance(step, str) else in_words(step)
        if words is None:
            continue
        label = step.label if isinstance(step, Precondition | Measure) else None
        purpose, who = (label.purpose, _who(label)) if label else ("", "")
        if found and (found[-1].words, found[-1].purpose) == (words, purpose):
            found[-1] = Run(words, purpose, found[-1].count + 1, found[-1].first, who)
        else:
            found.append(Run(words, purpose, 1, who, who))
    return found


def _short(words: str) -> str:
    return words.replace(COMPOSITE, "COMPOSITE")


def in_lines(steps: Iterable[Step | str]) -> list[str]:
    """Equal steps in a row as one line, sequences that repeat as one block."""
    left, lines = runs(steps), []
    while left:
        period, times = _repetition(left)
        if times == 1:
            lines.append(_line(left[0], left[0], ""))
        else:
            lines.append(f"{times} times:")
            last = left[period * (times - 1) : period * times]
            lines += [_line(a, b, "    ") for a, b in zip(left, last, strict=False)]
        left = left[period * times :]
    return lines


def _repetition(left: Sequence[Run]) -> tuple[int, int]:
    """The shortest sequence at the beginning that repeats at once, and how often it is there."""
    for period in range(2, min(80, len(left) // 2) + 1):
        times = 1
        while len(left) >= (times + 1) * period and all(left[i].same(left[times * period + i]) for i in range(period)):
            times += 1
        if times > 1:
            return period, times
    return 1, 1


def _line(first: Run, last: Run, indent: str) -> str:
    words = indent + _short(first.words) + (f"  x {first.count}" if first.count > 1 else "")
    who = first.first if first.first == last.last else f"{first.first} ... {last.last}"
    return f"{words:<90} | {who}" if who else words


def difference(wanted: Sequence[str], found: Sequence[str], of: str, by: str = "the file") -> str:
    """Empty, or the lines that differ with some around them."""
    return "\n".join(difflib.unified_diff(wanted, found, f"{of}, by {by}", f"{of}, as it is", lineterm="", n=2))


# The plan of a test


def script_of(test: str, settles: int | None = 5) -> Script:
    return settling(settles, saturating if test in DEMAND_TESTS else steady(STEADY_IOPS))


@cache
def played_by(test: str, device_class: DeviceClass, settles: int | None = 5) -> Played:
    return play(test, script_of(test, settles), device_class=device_class, capacity_bytes=CAPACITY_BYTES)


def plan(test: str, device_class: DeviceClass) -> list[str]:
    played = played_by(test, device_class)
    timed = sum(step.stop.seconds or 0 for step in played.asked)
    idle = sum(step.seconds for step in played.steps if isinstance(step, Idle))
    lines = in_lines(played.steps)
    return [
        f"{TESTS[test].title}, {device_class}, 4 TB, steady at once. Random data. T4Q32: 4 threads, 32 OIO each.",
        *([f"COMPOSITE: {COMPOSITE}"] if any("COMPOSITE" in line for line in lines) else []),
        "After the bar: the labels of the first and the last of the steps.",
        "",
        *lines,
        "",
        f"in all {len(played.asked)} steps with I/O; {timed / 3600:.2f} h by time, {idle / 3600:.2f} h idle",
    ]


def golden_file(test: str, device_class: DeviceClass) -> Path:
    return GOLDEN / f"{test}-{device_class}.txt"


every_test = pytest.mark.parametrize("test", list(TESTS))
every_class = pytest.mark.parametrize("device_class", list(DeviceClass))


@every_test
@every_class
def test_the_plan_is_the_one_on_file(test: str, device_class: DeviceClass) -> None:
    file = golden_file(test, device_class)
    wanted = file.read_text().splitlines() if file.exists() else []
    if changes := difference(wanted, plan(test, device_class), file.name):
        pytest.fail(f"the plan of {test} has changed.\n{changes}\n{REGENERATE}", pytrace=False)


def test_there_is_no_other_plan_on_file() -> None:
    wanted = {golden_file(test, device_class) for test in TESTS for device_class in DeviceClass}
    assert set(GOLDEN.iterdir()) == wanted


# Against the transcription


def device_of(played: Played, device_class: DeviceClass, settles: int | None, write_iops: float) -> pseudo.Device:
    """What the transcription must be told of the drive. T32Q1 is MaxIOPS, as the first point of the lowest total OIO
    with the highest IOPS; T6Q2 is nearest to the middle, 52 000 IOPS (12 OIO: 48 000, 16: 64 000)."""
    return pseudo.Device(
        client=device_class is DeviceClass.CLIENT,
        capacity_bytes=CAPACITY_BYTES,
        steady_round=settles,
        minute_bytes=60 * write_iops * block_bytes(played.asked[-1].stimulus),
        max_point=(32, 1),
        mid_point=(6, 2),
    )


@pytest.mark.parametrize(
    ("device_class", "settles"),
    [(DeviceClass.ENTERPRISE, settles) for settles in (5, 6, 25, None)] + [(DeviceClass.CLIENT, 5)],
)
@pytest.mark.parametrize(
    "test",
    [
        pytest.param("iops", marks=[pytest.mark.clause("7.2"), pytest.mark.clause("7.2.3.2.1")]),
        pytest.param("tp", marks=[pytest.mark.clause("8.2"), pytest.mark.clause("8.2.2.4.1")]),
        pytest.param("lat", marks=[pytest.mark.clause("9.2"), pytest.mark.clause("9.2.3.1")]),
        pytest.param("wsat", marks=[pytest.mark.clause("10.2"), pytest.mark.clause("10.2.2.2")]),
        pytest.param("hir", marks=[pytest.mark.clause("11.2"), pytest.mark.clause("11.2.3.2")]),
        pytest.param("xsr", marks=[pytest.mark.clause("12.2"), pytest.mark.clause("12.2.4")]),
        pytest.param("cbw", marks=[pytest.mark.clause("13.2"), pytest.mark.clause("13.2.7")]),
        pytest.param("dirth", marks=[pytest.mark.clause("14.2"), pytest.mark.clause("14.2.6")]),
    ],
)
@pytest.mark.clause("4")
@pytest.mark.clause("4.3")
@pytest.mark.clause("3.2")
@pytest.mark.clause("3.7")
def test_the_plan_is_that_of_the_pseudo_code(test: str, device_class: DeviceClass, settles: int | None) -> None:
    played = played_by(test, device_class, settles)
    write_iops = SATURATED_IOPS if test in DEMAND_TESTS else STEADY_IOPS
    code: Callable[[pseudo.Device], Iterable[str]] = getattr(pseudo, test)
    compare(code(device_of(played, device_class, settles, write_iops)), played, test)


def compare(wanted: Iterable[str], played: Played, of: str) -> None:
    """Step by step; the difference is shown with equal steps together."""
    steps, found = list(wanted), [words for step in played.steps if (words := in_words(step))]
    if steps != found:
        alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(steps, found, strict=False)))
        changes = difference(in_lines(steps), in_lines(found), of, "the pseudo code")
        pytest.fail(f"{of} is not the pseudo code's from step {alike + 1} on.\n{changes}", pytrace=False)


@pytest.mark.clause("10.2.2.2.1")
@every_class
@pytest.mark.parametrize("workload", ["write-intensive", "read-intensive", "mixed", "vod", "meta-data", "composite"])
def test_the_plan_of_each_workload_of_wsat(workload: str, device_class: DeviceClass) -> None:
    """At a rate that writes 4 user capacities before the fifth round, if the workload writes enough."""
    pattern = {**pseudo.WSAT_WORKLOADS, "composite": pseudo.COMPOSITE}[workload]
    script, capacity_bytes = steady(STEADY_IOPS), TB // 20
    played = play("wsat", script, {"workload": workload}, device_class=device_class, capacity_bytes=capacity_bytes)
    written = 60 * STEADY_IOPS * block_bytes(played.asked[0].stimulus) * (1 - pattern.reads / 100)
    device = pseudo.Device(device_class is DeviceClass.CLIENT, capacity_bytes, 5, written)
    compare(pseudo.wsat(device, pattern), played, workload)
    minutes = len(played.of("minute"))
    assert (minutes < 121) is (workload in {"write-intensive", "vod", "mixed", "composite"}), "and some do"


@pytest.mark.clause("14.2")
@pytest.mark.parametrize("workload", ["write-intensive", "read-intensive", "mixed", "composite"])
def test_the_plan_of_each_random_workload_of_dirth(workload: str) -> None:
    played = play("dirth", settling(5, saturating), {"workload": workload}, capacity_bytes=CAPACITY_BYTES)
    pattern = {**pseudo.WSAT_WORKLOADS, "composite": pseudo.COMPOSITE}[workload]
    compare(pseudo.dirth(device_of(played, DeviceClass.ENTERPRISE, 5, SATURATED_IOPS), pattern), played, workload)


# The labels, which the pseudo code does not have


@every_test
def test_labels_are_true_and_unique(test: str) -> None:
    """What a label says of its step is so, and no two steps have the same."""
    played = played_by(test, DeviceClass.ENTERPRISE, 6)
    for step in played.asked:
        label, stimulus = step.label, step.stimulus
        assert label.read_percent in {None, stimulus.read_percent}, label
        assert label.block_bytes is None or stimulus.block_sizes == ((label.block_bytes, 1),), label
        assert label.thread_count in {None, stimulus.thread_count}, label
        assert label.queue_depth in {None, stimulus.queue_depth}, label
    assert len({step.label for step in played.asked}) == len(played.asked)


# The comparison itself


def test_a_changed_plan_shows_what_changed() -> None:
    was = play("tp", steady()).steps
    now = play("tp", steady(), {"point_s": 30}).steps
    changes = difference(in_lines(was), in_lines(now), "tp").splitlines()
    assert changes[:2] == ["--- tp, by the file", "+++ tp, as it is"]
    gone = [line for line in changes[2:] if line.startswith("-")]
    new = [line for line in changes[2:] if line.startswith("+")]
    assert len(gone) == len(new) == 4, "two mixes at two block sizes"
    assert all(" 60 s " in line for line in gone)
    assert all(" 30 s " in line for line in new)


def test_steps_in_few_lines() -> None:
    assert in_lines(["a", "a", "b", "c", "b", "c", "b", "c", "d"]) == ["a  x 2", "3 times:", "    b", "    c", "d"]
    assert in_lines(["a", "b", "a", "b", "b"]) == ["a", "b", "a", "b  x 2"], "runs first"
    assert in_lines([]) == []


@every_test
def test_every_fact_of_a_step_shows(test: str) -> None:
    """Steps that differ differ in words, else a change could go unseen."""
    asked = played_by(test, DeviceClass.ENTERPRISE).asked
    kinds = {(type(step), step.stimulus.to_json(), step.stop.to_json()) for step in asked}
    assert len(kinds) == len({in_words(step) for step in asked})


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    for name in TESTS:
        for of_class in DeviceClass:
            golden_file(name, of_class).write_text("\n".join(plan(name, of_class)) + "\n")
