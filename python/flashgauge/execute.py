"""One run of one test on one target, from the request to the written reports."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import resource
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from platform import python_version
from typing import Any, Protocol

import flashgauge
from flashgauge import hostlimit, hostoverhead
from flashgauge.disclosure import Disclosure
from flashgauge.driver import Driver, Observer
from flashgauge.hostlimit import Ceilings, engine_ceiling
from flashgauge.iolog import logging_ios
from flashgauge.rig import clockstate, hostchecks
from flashgauge.rig.base import Rig, SessionNeeds
from flashgauge.rig.host import host_info
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.rig.identify import Identity
from flashgauge.rig.open import open_rig
from flashgauge.rig.power import NONE, check_source, power_source
from flashgauge.rig.purge import AUTO, check_name
from flashgauge.rig.simulated import stream_seed
from flashgauge.rig.target import Target, parse_target
from flashgauge.runfolder import DutInfo, Run, RunFolder, now_text
from flashgauge.spec.forecast import bounds, kinds_of_steps
from flashgauge.spec.parameters import DeviceClass, TestParameters, changed, departures, table
from flashgauge.spec.registry import TESTS, Spec, Test
from flashgauge.steps import Measure
from flashgauge.verification import failed, mismatch, read_back

# What a test asks for depends on the capacity in its amounts only.
ANY_CAPACITY_BYTES = 10**12
# Of the thread that runs the test, beside the engine's.
NICE = 10
_CAP_SYS_NICE = 23  # linux/capability.h


class RunObserver(Observer, Protocol):
    """An observer that is also told what there is to do: `spec()` gives the test's steps, to forecast with."""

    def begin(self, spec: Callable[[], Spec], virtual_time: bool, run: Run) -> None: ...


class RequestError(ValueError):
    """The run cannot begin as asked; the message says why and what to do."""


@dataclass(frozen=True)
class RunRequest:
    """What the operator asks for. `settings`: NAME -> VALUE as text, applied to the test's parameters. `purge`: one of
    `flashgauge.rig.purge.NAMES`. `seen`: what the device was when the operator consented, where this process saw it.
    `power`: the meter, as `flashgauge.rig.power` has it. `verify`: read back at the end what was written, and check it.
    `io_log`: log every I/O."""

    test: str
    target: str
    device_class: DeviceClass = DeviceClass.ENTERPRISE
    out: Path | None = None
    consent: str | None = None
    consent_signatures: bool = False
    settings: dict[str, str] = field(default_factory=dict)
    seed: int | None = None
    operator: str | None = None
    auditor: str | None = None
    sponsor: str | None = None
    stop_on_error: bool = True
    purge: str = AUTO
    verify: bool = False
    io_log: bool = False
    seen: Identity | None = None
    power: str = NONE


@dataclass(frozen=True)
class Prepared:
    """A checked request: everything that can be wrong without touching a device has been looked at."""

    test: Test
    target: Target
    parameters: TestParameters
    disclosures: tuple[Disclosure, ...]
    needs: SessionNeeds
    folder: Path


def prepare(request: RunRequest, *, fresh: bool = True) -> Prepared:
    """Check the request. `fresh`: its folder must not exist. Raises RequestError, TargetError."""
    test = TESTS.get(request.test)
    if test is None:
        raise RequestError(f"no test {request.test!r}; there are: {', '.join(TESTS)}")
    target = parse_target(request.target)
    check_name(request.purge)
    check_source(request.power, target.kind == "sim")
    standard = test.parameters(request.device_class)
    try:
        parameters = changed(standard, request.settings)
    except ValueError as error:
        raise RequestError(str(error)) from error
    seed = _seed(request, target)
    needs = _needs(test, parameters, seed, request.verify)
    folder = request.out or default_folder(test.name, target)
    if fresh:
        check_folder(folder)
    return Prepared(test, target, parameters, tuple(departures(parameters, standard)), needs, folder)


def _needs(test: Test, parameters: TestParameters, seed: int, verify: bool) -> SessionNeeds:
    """The largest of all steps, on a drive of any size."""
    stimuli = [step.stimulus for step in kinds_of_steps(lambda: test.spec(parameters, ANY_CAPACITY_BYTES))]
    return SessionNeeds(
        max(stimulus.thread_count for stimulus in stimuli),
        max(stimulus.queue_depth for stimulus in stimuli),
        max(size for stimulus in stimuli for size, _ in stimulus.block_sizes),
        seed,
        verify,
    )


def check_folder(folder: Path) -> None:
    """Found out now, not when the device is open and a file for it has been made."""
    if os.path.lexists(folder):
        raise RequestError(f"{folder} exists; results are never overwritten: choose another --out")
    parent = next(parent for parent in folder.absolute().parents if parent.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise RequestError(f"{folder} cannot be made: {parent} is not a folder you may write to; choose another --out")


def _seed(request: RunRequest, target: Target) -> int:
    """A simulated drive repeats itself unless told otherwise; a real one gets a new seed for each run."""
    if target.kind != "sim":
        return secrets.randbits(48) if request.seed is None else request.seed
    if request.seed is not None:
        return request.seed
    return stream_seed(target)


def default_folder(what: str, target: Target) -> Path:
    """runs/WHAT-TARGET-TIME; `what` is a test's name, or "campaign"."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    name = target.path if target.kind == "sim" else Path(target.path).name
    return Path("runs") / f"{what}-{name}-{stamp}-{os.getpid()}"


def survey(items: Sequence[Prepared], request: RunRequest) -> tuple[DutInfo, Identity | None]:
    """Open the device once for all of `items`, on one target, and ask it about every step; returns what it is, and what
    it has to be still when the next one opens it (None for what is no block device). Of the `request`, the consent and
    the purge count.

    Raises TargetError and RequestError as `execute` would, hours later.
    """
    needs = [item.needs for item in items]
    largest = SessionNeeds(
        max(need.max_threads for need in needs),
        max(need.max_queue_depth for need in needs),
        max(need.max_block_bytes for need in needs),
        needs[0].seed,
        needs[0].verifiable,
    )
    rig = _open(items[0].target, largest, request)
    with contextlib.closing(rig):
        for item in items:
            _check_steps(partial(item.test.spec, item.parameters, rig.session.range_bytes), rig)
        found = rig.description().get("identity")
        return rig.dut, Identity(**found) if found is not None else None


def execute(request: RunRequest, prepared: Prepared, observer: RunObserver) -> Any:
    """Run the test; returns its outcome. The folder is `prepared.folder`.

    Raises TargetError before anything was written, OSError and KeyboardInterrupt with the run recorded.
    """
    with contextlib.ExitStack() as stack:
        power = stack.enter_context(contextlib.closing(power_source(request.power)))
        rig = stack.enter_context(contextlib.closing(_open(prepared.target, prepared.needs, request)))
        rig.telemetry.measure_power(power)
        capacity = rig.session.range_bytes
        parameters = prepared.parameters

        def spec() -> Spec:
            return prepared.test.spec(parameters, capacity)

        _check_steps(spec, rig)
        checks = _host_checks(prepared, spec, rig)
        disclosures = (*rig.disclosures(), *prepared.disclosures, *hostchecks.disclosures(checks))
        run = _run(request, prepared, rig, checks, disclosures)
        run = replace(run, power_source=None if request.power == NONE else power.name)
        power.begin()
        try:
            folder = RunFolder(prepared.folder, run)
        except OSError as error:
            raise RequestError(f"the run folder cannot be made: {error}") from error
        with folder, contextlib.ExitStack() as meanwhile:
            driver = Driver(
                rig,
                folder,
                observer,
                gap_limit_ms=parameters.gap_limit_ms,
                stop_on_error=request.stop_on_error,
            )

            def begin() -> None:
                observer.begin(spec, rig.session.virtual_time, run)
                for disclosure in disclosures:
                    observer.disclosed(disclosure)
                if not rig.session.virtual_time:
                    observer.preparing("what the host can do at most")
                    driver.ceilings = host_ceilings(spec)
                    folder.update(host_ceilings=tuple(driver.ceilings.to_json()))
                    folder.update(host_overhead=_host_overhead(rig, observer))
                meanwhile.enter_context(logging_ios(rig.session, folder, request.io_log))
                if not rig.session.virtual_time:
                    meanwhile.enter_context(_clocks_watched(folder, observer))
                    meanwhile.enter_context(giving_way())

            outcome = driver.run(spec(), begin)
            if request.verify:
                _verify(rig, folder, observer)
            return outcome


@contextlib.contextmanager
def giving_way() -> Iterator[None]:
    """The calling thread has less weight with the scheduler than the engine's, which are there already: where CPUs are
    few the device would idle while a measurement is journaled. Only who may go back: the next run begins here too."""
    before = os.getpriority(os.PRIO_PROCESS, 0)
    if not _may_have(before):
        yield
        return
    os.setpriority(os.PRIO_PROCESS, 0, min(before + NICE, 19))
    try:
        yield
    finally:
        os.setpriority(os.PRIO_PROCESS, 0, before)


def _may_have(nice: int) -> bool:
    """Whether this process may set so high a priority: by its limit, or by CAP_SYS_NICE, as root."""
    if 20 - resource.getrlimit(resource.RLIMIT_NICE)[0] <= nice:
        return True
    status = Path("/proc/self/status").read_text()
    return bool(int(status.split("CapEff:")[1].split()[0], 16) >> _CAP_SYS_NICE & 1)


@contextlib.contextmanager
def _clocks_watched(folder: RunFolder, observer: Observer) -> Iterator[None]:
    before = clockstate.clocks()
    try:
        yield
    finally:
        for disclosure in clockstate.moved(before, clockstate.clocks()):
            observer.disclosed(disclosure)
            with contextlib.suppress(OSError):  # A full disk has ended the run, and that is what is to be told.
                folder.disclose(disclosure)


def _verify(rig: Rig, folder: RunFolder, observer: Observer) -> None:
    """Read back what the run has written. Raises VerificationError when it is not as written, DeviceError."""
    observer.preparing("reading back what was written")
    found = read_back(rig.session.verifier())
    folder.update(verification=found.to_json(), written_ranges=rig.session.written_ranges())
    if found.bad:
        disclosure = mismatch(found)
        folder.disclose(disclosure)
        observer.disclosed(disclosure)
        raise failed(found)


def host_ceilings(spec: Callable[[], Spec]) -> Ceilings:
    """What the host does at most with each stimulus that the test measures; takes seconds, and no device."""
    stimuli = [step.stimulus for step in kinds_of_steps(spec) if isinstance(step, Measure)]
    source = engine_ceiling(max((stimulus.queue_depth for stimulus in stimuli), default=1))
    with contextlib.closing(source):
        return hostlimit.measure(stimuli, source, bounds(spec)[0].seconds)


def _host_overhead(rig: Rig, observer: Observer) -> dict[str, Any]:
    observer.preparing("what the host adds to a latency")
    found = hostoverhead.measure(rig.session, rig.block_reads)
    return {"not_measured": found} if isinstance(found, str) else found.to_json()


def _open(target: Target, needs: SessionNeeds, request: RunRequest) -> Rig:
    signatures, seen = request.consent_signatures, request.seen
    return open_rig(
        target, needs, request.consent, consent_signatures=signatures, purge_method=request.purge, seen=seen
    )


def _check_steps(spec: Callable[[], Spec], rig: Rig) -> None:
    """Hours of pre-conditioning come before the last small I/O: find out now whether the device can do all of it."""
    for step in kinds_of_steps(spec):
        try:
            rig.session.check(step.stimulus.to_json(), step.stop.to_json())
        except ValueError as error:
            raise RequestError(f"{rig.dut.target} cannot do {step.label}: {error}") from error


def _host_checks(prepared: Prepared, spec: Callable[[], Spec], rig: Rig) -> tuple[HostCheck, ...]:
    most = bounds(spec)[1]
    measured = [step.stimulus.access for step in kinds_of_steps(spec) if isinstance(step, Measure)]
    sequential = "sequential" in measured or "mixed" in measured
    needed_bytes = hostchecks.results_bytes(most.steps, most.seconds)
    return (*rig.host_checks(sequential), hostchecks.free_space(prepared.folder, needed_bytes))


def _run(
    request: RunRequest,
    prepared: Prepared,
    rig: Rig,
    checks: tuple[HostCheck, ...],
    disclosures: tuple[Disclosure, ...],
) -> Run:
    description = rig.description()
    return Run(
        test=prepared.test.name,
        device_class=str(request.device_class),
        dut=rig.dut,
        host=host_info(hba=description.get("host_adapter")),
        parameters=dataclasses.asdict(prepared.parameters),
        parameter_table=table(prepared.parameters),
        seed=prepared.needs.seed,
        software={
            "flashgauge": flashgauge.__version__,
            "python": python_version(),
            "pts": flashgauge.PTS_VERSION,
            **rig.software(),
        },
        started=now_text(),
        operator=request.operator,
        auditor=request.auditor,
        sponsor=request.sponsor,
        consent_signatures=request.consent_signatures,
        verifiable=request.verify,
        host_checks=tuple(check.to_json() for check in checks),
        device_description=description,
        disclosures=disclosures,
    )
