"""The driver on a scripted device: what it discloses, what it journals, how it ends."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest

from fakes import FakeObserver, FakeRig, FakeSession, measurement, run_folder
from flashgauge._core import DeviceError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.driver import CHECK_S, MOST_OF_A_KIND, Driver, IoErrorStop
from flashgauge.measurement import HostSeries, HostUsage, IoErrors, Measurement
from flashgauge.rig.base import HealthReading, NoTelemetry, Prepared
from flashgauge.rig.samples import Window
from flashgauge.runfolder import read_journal, read_run
from flashgauge.steps import Idle, Label, Measure, Precondition, Purge, SetWriteCache, Step, Stimulus, Stop

STIMULUS = Stimulus("random", ((4096, 1),), 0, 1, 1)


def points(count: int) -> Generator[Step, Measurement | None, float]:
    """A test of `count` points; returns the sum of their IOPS."""
    total = 0.0
    for number in range(1, count + 1):
        answer = yield Measure(STIMULUS, Stop(seconds=1), Label("round", number))
        assert answer is not None
        total += answer.iops
    return total


def driver(
    path: Path, session: FakeSession, prepared: Prepared | None = None, stop_on_error: bool = True
) -> tuple[Driver, FakeRig, FakeObserver]:
    rig, observer = FakeRig(session, prepared), FakeObserver()
    return Driver(rig, run_folder(path), observer, gap_limit_ms=1.0, stop_on_error=stop_on_error), rig, observer


def kinds(path: Path) -> list[Kind]:
    return [disclosure.kind for disclosure in read_run(path).disclosures]


def test_measurements_go_to_the_test_and_to_the_journal(tmp_path: Path) -> None:
    path = tmp_path / "run"
    loop, _, observer = driver(path, FakeSession(lambda number: measurement(100.0 + number)))
    assert loop.run(points(3)) == pytest.approx(303.0)
    entries, torn = read_journal(path)
    assert [entry.label.round for entry in entries] == [1, 2, 3]
    assert [entry.measurement.iops for entry in entries] == pytest.approx([100, 101, 102])
    assert not torn
    assert read_run(path).state == "complete"
    assert len(observer.steps) == 3


@pytest.mark.clause("6.9")
def test_the_next_step_starts_before_the_last_is_journaled(tmp_path: Path) -> None:
    """The device must not wait for an fsync."""
    path = tmp_path / "run"
    journaled: list[int] = []
    session = FakeSession(lambda number: (journaled.append(len(read_journal(path)[0])), measurement(1.0))[1])
    loop, _, _ = driver(path, session)
    started: list[int] = []
    original = session.start

    def start(stimulus: str, stop: str, interval_ns: int, stop_on_error: bool) -> None:
        started.append(len(read_journal(path)[0]))
        original(stimulus, stop, interval_ns, stop_on_error)

    session.start = start  # type: ignore[method-assign]
    loop.run(points(3))
    assert started == [0, 0, 1], "each step begins with the one before it not journaled yet"
    assert journaled == [0, 1, 2], "and it is journaled while the next one runs"


def test_purge_and_cache_go_into_the_header_and_their_departures_too(tmp_path: Path) -> None:
    def spec() -> Generator[Step, Measurement | None, None]:
        yield Purge()
        yield SetWriteCache(True)
        yield Idle(5.0)

    departure = Disclosure(Kind.PURGE_NOT_RUN, "3.2", "no purge", "sanitize", invalidates=True)
    path = tmp_path / "run"
    session = FakeSession(lambda number: measurement(1.0))
    loop, rig, observer = driver(path, session, Prepared("not run", (departure,)))
    loop.run(spec())
    assert rig.calls == ["check", "purge", "check", "cache on"]
    assert session.idled_s == [5.0]
    run = read_run(path)
    assert (run.purge_method, run.write_cache) == ("not run", "not run")
    assert run.disclosures == (departure,), "told twice, written once"
    assert observer.disclosures == [departure, departure]


@pytest.mark.clause("6.9")
def test_a_gap_over_the_limit_is_disclosed(tmp_path: Path) -> None:
    gaps = [None, 0, 1_000_000, 1_000_001]
    loop, _, _ = driver(tmp_path / "run", FakeSession(lambda number: measurement(1.0, gap_ns=gaps[number])))
    loop.run(points(4))
    (found,) = read_run(tmp_path / "run").disclosures
    assert found.kind is Kind.GAP_OVER_LIMIT
    assert "round 4" in found.message


def test_disclosures_of_a_kind_are_bounded(tmp_path: Path) -> None:
    loop, _, observer = driver(tmp_path / "run", FakeSession(lambda number: measurement(1.0, gap_ns=10**9)))
    loop.run(points(30))
    found = read_run(tmp_path / "run").disclosures
    assert len(found) == len(observer.disclosures) == MOST_OF_A_KIND
    assert "journal only" in found[-1].message


def test_failed_ios_stop_the_run_and_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "run"
    bad = measurement(1.0, stop_reason="io_error", errors=(IoErrors("write", errno.EIO, 3, 4096),))
    loop, _, _ = driver(path, FakeSession(lambda number: bad if number == 1 else measurement(5.0)))
    with pytest.raises(IoErrorStop, match="3 I/Os"):
        loop.run(points(3))
    assert kinds(path) == [Kind.IO_ERRORS, Kind.INTERRUPTED]
    assert read_run(path).state == "failed"
    assert len(read_journal(path)[0]) == 2, "the step that failed is evidence, and kept"


def test_failures_between_the_windows_stop_the_run_too(tmp_path: Path) -> None:
    """The engine reports a bridge I/O's failure with the next step, which itself was complete."""
    path = tmp_path / "run"
    late = measurement(1.0, errors=(IoErrors("read", errno.EIO, 1, 8),))
    session = FakeSession(lambda number: late if number == 1 else measurement(5.0))
    loop, _, _ = driver(path, session)
    with pytest.raises(IoErrorStop, match="1 I/O in"):
        loop.run(points(3))
    assert len(session.started) == 2
    assert kinds(path) == [Kind.IO_ERRORS, Kind.INTERRUPTED]


def test_failed_ios_may_be_gone_over(tmp_path: Path) -> None:
    path = tmp_path / "run"
    bad = measurement(1.0, errors=(IoErrors("read", errno.EIO, 1, 8),))
    answers = FakeSession(lambda number: bad if number == 1 else measurement(5.0))
    loop, _, _ = driver(path, answers, stop_on_error=False)
    loop.run(points(3))
    assert kinds(path) == [Kind.IO_ERRORS]
    assert read_run(path).state == "complete"


@pytest.mark.clause("4")
@pytest.mark.parametrize(
    ("failure", "state"),
    [(KeyboardInterrupt(), "interrupted"), (OSError(errno.EIO, "the device is gone"), "failed")],
)
def test_an_end_before_the_end_is_recorded(tmp_path: Path, failure: BaseException, state: str) -> None:
    path = tmp_path / "run"
    loop, _, _ = driver(path, FakeSession(lambda number: failure if number == 2 else measurement(1.0)))
    with pytest.raises(type(failure)):
        loop.run(points(5))
    run = read_run(path)
    assert run.state == state
    assert kinds(path) == [Kind.INTERRUPTED]
    assert run.disclosures[0].invalidates
    assert len(read_journal(path)[0]) == 2


GONE = DeviceError(errno.ENODEV, "the device went away after consent")


class LongSession(FakeSession):
    """Each step takes `looks` looks at its progress, and then its answer comes."""

    def __init__(self, answer: Callable[[int], Measurement | BaseException], looks: int) -> None:
        super().__init__(answer)
        self.looks = self.left = looks

    def start(self, *step: Any) -> None:
        super().start(*step)
        self.left = self.looks

    def wait(self, timeout_s: float) -> dict[str, Any] | None:
        self.left -= 1
        return super().wait(timeout_s) if self.left < 0 else None


class ExchangedRig(FakeRig):
    """The device is another from the look with this number on."""

    def __init__(self, session: FakeSession, at: int) -> None:
        super().__init__(session)
        self.at = at

    def check(self) -> None:
        super().check()
        if self.calls.count("check") > self.at:
            raise GONE


def exchanged(path: Path, session: FakeSession, at: int) -> Driver:
    return Driver(ExchangedRig(session, at), run_folder(path), FakeObserver(), gap_limit_ms=1.0)


def test_the_device_is_looked_at_before_each_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("flashgauge.driver.CHECK_S", -1.0)
    session = FakeSession(lambda number: measurement(1.0))
    loop = exchanged(tmp_path / "run", session, 2)
    with pytest.raises(DeviceError, match="went away"):
        loop.run(points(5))
    assert len(session.started) == 2, "the third step is not begun on another device"
    assert len(read_journal(tmp_path / "run")[0]) == 2
    assert read_run(tmp_path / "run").state == "failed"


def test_the_look_is_not_older_than_a_second_when_a_step_begins(tmp_path: Path) -> None:
    """Steps that follow each other share looks; after a pause there is a new one."""
    session = FakeSession(lambda number: measurement(1.0))
    loop, rig, _ = driver(tmp_path / "run", session)
    began_s = time.monotonic()
    loop.run(points(3))
    assert 1 <= rig.calls.count("check") <= 1 + (time.monotonic() - began_s) / CHECK_S
    loop._checked_s -= 1.5
    before = rig.calls.count("check")
    loop._check_if_due()
    loop._check_if_due()
    assert rig.calls.count("check") == before + 1


def test_a_purge_never_runs_on_a_device_that_was_exchanged(tmp_path: Path) -> None:
    session = FakeSession(lambda number: measurement(1.0))
    loop = exchanged(tmp_path / "run", session, 0)

    def spec() -> Generator[Step, Measurement | None, None]:
        yield Purge()

    with pytest.raises(DeviceError, match="went away"):
        loop.run(spec())
    assert "purge" not in loop.rig.calls  # type: ignore[attr-defined]


@pytest.mark.parametrize("failed_ios", [0, 7])
def test_an_exchange_within_a_step_ends_the_run_with_its_errors_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failed_ios: int
) -> None:
    monkeypatch.setattr("flashgauge.driver.CHECK_S", -1.0)
    errors = (IoErrors("write", errno.EIO, failed_ios, 8),) if failed_ios else ()
    session = LongSession(lambda number: measurement(1.0, errors=errors), looks=1)
    loop = exchanged(tmp_path / "run", session, 1)
    with pytest.raises(OSError, match="failed 7 I/Os .*; the device went away" if failed_ios else "went away"):
        loop.run(points(5))
    assert len(session.started) == 1
    assert len(read_journal(tmp_path / "run")[0]) == 1, "the step that was under way is journaled, with its errors"
    assert kinds(tmp_path / "run") == [*[Kind.IO_ERRORS] * bool(failed_ios), Kind.INTERRUPTED]


def test_a_device_that_went_away_and_answers_nothing_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("flashgauge.driver.CHECK_S", -1.0)
    session = LongSession(lambda number: measurement(1.0), looks=1000)
    with pytest.raises(DeviceError, match="went away"):
        exchanged(tmp_path / "run", session, 1).run(points(5))
    assert read_journal(tmp_path / "run")[0] == []


def test_the_look_after_idling_is_part_of_the_idle_time(tmp_path: Path) -> None:
    class RealTime(FakeSession):
        def idle(self, seconds: float) -> None:
            super().idle(seconds)
            time.sleep(seconds)

    session = RealTime(lambda number: measurement(1.0))
    session.virtual_time = False
    loop, rig, _ = driver(tmp_path / "run", session)

    def spec() -> Generator[Step, Measurement | None, None]:
        yield Measure(STIMULUS, Stop(seconds=1), Label("round", 1))
        yield Idle(0.3)
        yield Measure(STIMULUS, Stop(seconds=1), Label("round", 2))

    loop.run(spec())
    first, rest = session.idled_s
    assert 0 < first <= 0.2
    assert 0 <= rest <= 0.1, "what is left when the device has been looked at"
    assert rig.calls == ["check", "check"], "before the first step, and within the idle time"


class Listening(NoTelemetry):
    """Keeps whether the drive may be asked within each step; says what `usage` is."""

    def __init__(self, **usage: Any) -> None:
        self.quiet_steps: list[bool] = []
        self.usage = HostUsage(**usage)

    def begin(self, quiet: bool = False) -> None:
        self.quiet_steps.append(quiet)

    def end(self, window: Window) -> tuple[HostUsage, HostSeries]:
        return self.usage, HostSeries()

    def health(self) -> HealthReading:
        return HealthReading(None, "no answer")


def test_no_command_goes_to_the_drive_within_a_measurement(tmp_path: Path) -> None:
    """However long it is: the latencies of 20 minutes are kept too (LAT, WSAT)."""

    def spec() -> Generator[Step, Measurement | None, None]:
        yield Precondition(STIMULUS, Stop(seconds=1200), Label("precondition"))
        yield Measure(STIMULUS, Stop(seconds=1200), Label("round", 1))

    loop, rig, _ = driver(tmp_path / "run", FakeSession(lambda number: measurement(1.0)))
    rig.telemetry = listening = Listening()
    loop.run(spec())
    assert listening.quiet_steps == [False, True]


def test_throttling_is_put_on_a_step_only_where_the_log_tells_of_that_step(tmp_path: Path) -> None:
    for span_s, when in ((60.5, "in round 1"), (183.0, "in the 183 s up to the end of round 1")):
        loop, rig, observer = driver(tmp_path / when, FakeSession(lambda number: measurement(1.0)))
        rig.telemetry = Listening(throttled_s=70.0, health_span_s=span_s)
        loop.run(points(1))
        (found,) = observer.disclosures
        assert found.kind is Kind.THERMAL_THROTTLING
        assert f"for 70.00 s {when}" in found.message


def test_media_errors_are_told_although_the_log_cannot_be_read_at_the_end(tmp_path: Path) -> None:
    loop, rig, observer = driver(tmp_path / "run", FakeSession(lambda number: measurement(1.0)))
    rig.telemetry = Listening(media_errors=2)
    loop.run(points(3))
    (found,) = observer.disclosures
    assert found.kind is Kind.DRIVE_HEALTH
    assert "counted 6 new media errors before its log could not be read" in found.message


def test_what_is_not_as_it_was_set_any_more_is_disclosed_at_the_end(tmp_path: Path) -> None:
    departure = Disclosure(Kind.WRITE_CACHE_STATE, "3.7", "it is on again", "run again")
    loop, rig, observer = driver(tmp_path / "run", FakeSession(lambda number: measurement(1.0)))
    rig.after_run = lambda: (departure,)  # type: ignore[method-assign]
    loop.run(points(1))
    assert observer.disclosures == [departure]
    assert read_run(tmp_path / "run").disclosures == (departure,)
