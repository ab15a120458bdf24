"""What `flashgauge export-fio` exports: the steps a run had, by its journal, or those a test will have."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from flashgauge.campaign import is_campaign
from flashgauge.execute import RequestError
from flashgauge.fiojob import job_files
from flashgauge.measurement import Measurement
from flashgauge.report.replay import replay
from flashgauge.rig.open import capacity_bytes
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import Entry, read_journal, read_run
from flashgauge.spec.forecast import Rates, Supposed, dry_run
from flashgauge.spec.parameters import DeviceClass, changed
from flashgauge.spec.registry import TESTS, Spec
from flashgauge.steps import Measure, Precondition, Step

# Where the device is not known, the steps are those of one of this size.
NOMINAL_BYTES = 10**12
# A drive that is steady at once; IOPS rise with the total OIO, so that operating points differ.
_TYPICAL = Rates(iops=10_000.0, bytes_per_s=4e7, iops_factor=1.0, bytes_factor=1.0, pick=min)
ASSUMED = """\
Rounds, minutes and operating points are those of a drive that is steady as soon as it may be, at 10,000 IOPS: how many
there are, and which operating points, depends on the drive. Export the folder of a run to have those it had."""


def export(
    what: str, target: str | None, device_class: DeviceClass, settings: Mapping[str, str]
) -> tuple[str, list[str]]:
    """A name for the files, and their texts. `what`: a test's name or a run folder.

    Raises RequestError, RunFolderError, ReplayError, TargetError.
    """
    test = TESTS.get(what)
    if test is None:
        if target is not None or settings:
            raise RequestError(f"{what}: no test, and a run has its own target and settings; tests: {', '.join(TESTS)}")
        return _of_run(Path(what))
    try:
        parameters = changed(test.parameters(device_class), settings)
    except ValueError as error:
        raise RequestError(str(error)) from error
    capacity = None if target is None else capacity_bytes(parse_target(target))
    size = NOMINAL_BYTES if capacity is None else capacity
    steps = dry_run(test.spec(parameters, size), Supposed(_TYPICAL, lambda _judged: True))
    title = f"{test.title} test (section {test.section}), {device_class} class"
    return test.name, job_files(title, steps, capacity, size, ASSUMED)


def _of_run(folder: Path) -> tuple[str, list[str]]:
    if is_campaign(folder):
        raise RequestError(f"{folder}: a campaign; name the folder of one of its tests")
    run = read_run(folder)
    replayed = replay(run, *read_journal(folder))
    test = replayed.test
    steps = _steps_done(test.spec(replayed.parameters, run.dut.capacity_bytes), replayed.entries)
    title = f"{test.title} test (section {test.section}), {run.device_class} class, on {run.dut.target}"
    more = "\n".join(replayed.missing)
    return folder.resolve().name, job_files(title, steps, run.dut.capacity_bytes, run.dut.capacity_bytes, more)


def _steps_done(spec: Spec, entries: Sequence[Entry]) -> list[Step]:
    """The steps up to the last one that has an entry."""
    done: list[Step] = []
    left = list(reversed(entries))
    answer: Measurement | None = None
    while True:
        try:
            step = spec.send(answer)
        except StopIteration:
            return done
        answer = None
        if isinstance(step, Precondition | Measure):
            if not left:
                return done
            answer = left.pop().measurement
        done.append(step)


def write_parts(folder: Path, name: str, parts: Sequence[str]) -> list[Path]:
    """Write the files into a new folder; returns their paths. Raises RequestError, OSError."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise RequestError(f"{folder} exists; nothing is overwritten: choose another --out") from None
    paths = []
    for number, text in enumerate(parts, 1):
        paths.append(folder / (f"{name}.fio" if len(parts) == 1 else f"{name}-{number}.fio"))
        paths[-1].write_text(text)
    return paths
