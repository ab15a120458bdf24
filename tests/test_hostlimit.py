"""Whether host or drive: the rules at their edges, ceilings of made-up hosts, and what a run on them says."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

import report_data
from conftest import Cli, one_line, run_json
from fakes import FakeObserver, FakeRig, FakeSession, measurement, run_folder
from flashgauge import hostlimit, report
from flashgauge._core import Session, TargetError
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.driver import Driver
from flashgauge.health import Health
from flashgauge.hostlimit import Ceilings, Tally, engine_ceiling, limits, measure
from flashgauge.measurement import HostSeries, HostUsage, Measurement
from flashgauge.report.conditions import limited_points
from flashgauge.rig.base import HealthReading, NoTelemetry
from flashgauge.rig.samples import Window
from flashgauge.runfolder import read_journal, read_run
from flashgauge.steps import Disclose, Idle, Label, Measure, Precondition, Purge, Step, Stimulus, Stop

SMALL = Stimulus("random", ((4096, 1),), 100, 2, 8)
LARGE = replace(SMALL, block_sizes=((1 << 20, 1),))


@pytest.mark.parametrize(
    ("host", "iops", "found"),
    [
        (HostUsage(), 1e9, ()),
        (HostUsage(ceiling_iops=1000.0), 899.9, ()),
        (HostUsage(ceiling_iops=1000.0), 900.0, ("ceiling",)),
        (HostUsage(ceiling_iops=0.0), 0.0, ()),
        (HostUsage(engine_busy_percent=94.9), 1.0, ()),
        (HostUsage(engine_busy_percent=95.0), 1.0, ("threads",)),
        (HostUsage(cpu_busy_percent=94.9, cpu_system_percent=94.9), 1.0, ()),
        (HostUsage(cpu_busy_percent=96.0, cpu_system_percent=48.0), 1.0, ("CPUs",)),
        (HostUsage(cpu_busy_percent=100.0, cpu_system_percent=49.9), 1.0, ()),  # mostly other programs
        (HostUsage(cpu_busy_percent=100.0), 1.0, ()),
        (
            HostUsage(cpu_busy_percent=99.0, cpu_system_percent=80.0, engine_busy_percent=99.0, ceiling_iops=10.0),
            11.0,
            ("ceiling", "threads", "CPUs"),
        ),
    ],
)
def test_the_rules(host: HostUsage, iops: float, found: tuple[str, ...]) -> None:
    assert limits(host, iops) == found


class Host:
    """A host that does so many I/Os, and so many bytes, per second."""

    name = "made up"

    def __init__(self, most_iops: float, most_bytes: float) -> None:
        self.most_iops, self.most_bytes = most_iops, most_bytes
        self.asked: list[tuple[Stimulus, float]] = []

    def iops(self, stimulus: Stimulus, seconds: float) -> float:
        self.asked.append((stimulus, seconds))
        return min(self.most_iops, self.most_bytes / stimulus.block_sizes[0][0])

    def close(self) -> None: ...


def test_each_stimulus_is_measured_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostlimit, "cpus", lambda: 4)
    host = Host(50_000, 1e9)
    elsewhere = replace(SMALL, active_range_percent=(10.0, 20.0))
    found = measure([SMALL, LARGE, elsewhere, SMALL], host, 3600)
    assert [stimulus for stimulus, _ in host.asked] == [SMALL, LARGE]
    assert (found.of(SMALL), found.of(elsewhere)) == (50_000, 50_000)
    assert found.of(LARGE) == pytest.approx(1e9 / (1 << 20))
    assert found.of(replace(SMALL, queue_depth=9)) is None
    assert found.to_json()[0] == {"stimulus": "RND 4 KiB, R/W 100/0, T2Q8", "source": "made up", "iops": 50_000}


def test_more_threads_than_cpus_do_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hostlimit, "cpus", lambda: 4)
    host = Host(50_000, 1e9)
    found = measure([replace(SMALL, thread_count=threads) for threads in (1, 4, 8, 32)], host, 3600)
    assert [stimulus.thread_count for stimulus, _ in host.asked] == [1, 4]
    assert found.of(replace(SMALL, thread_count=32)) == 50_000


@pytest.mark.parametrize(
    ("stimuli", "test_s", "each_s"),
    [(1, 3600.0, 0.2), (1, 10.0, 0.1), (100, 3600.0, 0.1), (100, 1e9, 0.1), (56, 1.0, 0.01), (1, 0.0, 0.01)],
)
def test_the_time_it_takes_is_bounded(stimuli: int, test_s: float, each_s: float) -> None:
    host = Host(1, 1)
    measure([replace(SMALL, queue_depth=depth) for depth in range(1, stimuli + 1)], host, test_s)
    assert len(host.asked) == stimuli
    assert [seconds for _, seconds in host.asked] == pytest.approx([each_s] * stimuli)


def refused(*_: int) -> Session:
    raise TargetError("no io_uring here")


@pytest.mark.parametrize("name", ["no-op requests", "null device"])
def test_the_engine_has_a_ceiling(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    if name == "null device":
        monkeypatch.setattr(hostlimit, "Session", SimpleNamespace(nop=refused, null=Session.null))
    source = engine_ceiling(8)
    try:
        found = measure([SMALL, LARGE, replace(SMALL, access="sequential", read_percent=0)], source, 30.0)
    finally:
        source.close()
    assert found.source == name
    # No threshold: only that it counts, and far more than a disk does.
    assert all(iops > 1000 for iops in found.iops.values())


def test_ceilings_on_request(cli: Cli) -> None:
    result = cli("ceiling", "lat", "--json")
    assert result.returncode == 0, result.stderr
    said = json.loads(result.stdout)
    assert said["source"] == "no-op requests"
    assert {row["stimulus"] for row in said["ceilings"]} == {
        f"RND {size} KiB, R/W {mix}, T1Q1" for size in ("8", "4", "0.5") for mix in ("100/0", "65/35", "0/100")
    }
    shown = cli("ceiling", "lat")
    assert "RND 4 KiB, R/W 65/35, T1Q1" in shown.stdout
    assert "there are: iops, tp" in one_line(cli("ceiling", "what"), 2)


# In a run


class Seen(NoTelemetry):
    """What a host's telemetry would have seen of each step."""

    def __init__(self, host: HostUsage) -> None:
        self.host = host

    def end(self, window: Window) -> tuple[HostUsage, HostSeries]:
        assert window.end_ns - window.start_ns == 60 * 10**9
        return self.host, HostSeries(power_w=(1.0, 2.0))


def points(count: int) -> Generator[Step, Measurement | None, None]:
    yield Precondition(LARGE, Stop(bytes=1 << 20, keep_loaded=True), Label("wipc"))
    for number in range(1, count + 1):
        yield Measure(SMALL, Stop(seconds=60), Label("round", number))


def run_on(path: Path, iops: float, host: HostUsage, ceiling_iops: float | None) -> FakeObserver:
    rig, observer = FakeRig(FakeSession(lambda number: measurement(iops))), FakeObserver()
    rig.telemetry = Seen(host)
    driver = Driver(rig, run_folder(path), observer, gap_limit_ms=1.0)
    driver.ceilings = None if ceiling_iops is None else Ceilings("made up", {SMALL: ceiling_iops})
    driver.run(points(3))
    return observer


@pytest.mark.parametrize(
    ("iops", "host", "ceiling_iops", "why"),
    [
        (1000.0, HostUsage(engine_busy_percent=40.0), 1_000_000.0, None),  # a drive far below what the host can do
        (980.0, HostUsage(engine_busy_percent=40.0), 1000.0, "at 90 % or more of what the engine reaches"),
        (1000.0, HostUsage(engine_busy_percent=99.0), 1_000_000.0, "the engine's threads busy for 95 %"),
        (1000.0, HostUsage(cpu_busy_percent=99.0, cpu_system_percent=70.0), None, "all CPUs busy for 95 %"),
    ],
)
def test_a_drive_slower_and_faster_than_the_host(
    tmp_path: Path, iops: float, host: HostUsage, ceiling_iops: float | None, why: str | None
) -> None:
    path = tmp_path / "run"
    observer = run_on(path, iops, host, ceiling_iops)
    told = [found for found in read_run(path).disclosures if found.kind is Kind.HOST_LIMITED]
    assert told == [found for found in observer.disclosures if found.kind is Kind.HOST_LIMITED]
    entries, _ = read_journal(path)
    (point,) = limited_points(entries)
    if why is None:
        assert told == []
        assert point.limited == 0
    else:
        assert len(told) == 1, "once for the run"
        assert told[0].message.startswith("the host, not the drive, limited 3 of 3 measured steps, first round 1")
        assert f"{why} " in told[0].message
        assert not told[0].invalidates
        assert (point.limited, point.steps) == (3, 3)
    assert entries[1].measurement.host.ceiling_iops == ceiling_iops
    assert entries[0].measurement.host.ceiling_iops is None, "pre-conditioning is no result"
    assert entries[1].measurement.host_series.power_w == (1.0, 2.0)


def test_a_run_that_was_cut_off_tells_it_too(tmp_path: Path) -> None:
    rig = FakeRig(FakeSession(lambda number: measurement(10.0) if number < 2 else KeyboardInterrupt()))
    rig.telemetry = Seen(HostUsage(engine_busy_percent=100.0))
    driver = Driver(rig, run_folder(tmp_path / "run"), FakeObserver(), gap_limit_ms=1.0)
    with pytest.raises(KeyboardInterrupt):
        driver.run(points(3))
    assert {found.kind for found in read_run(tmp_path / "run").disclosures} == {Kind.INTERRUPTED, Kind.HOST_LIMITED}


def test_nothing_is_told_of_no_steps() -> None:
    assert Tally().disclosure is None


class Logged(NoTelemetry):
    """A drive whose health log is one, then another; a reason instead of a log where there is none."""

    def __init__(self, *readings: HealthReading) -> None:
        self.readings = list(readings)
        self.closed = False

    def health(self) -> HealthReading:
        return self.readings.pop(0)

    def close(self) -> None:
        self.closed = True


GOOD = Health("made up", media_errors=1, throttle_transitions=0, throttled_s=0)


@pytest.mark.parametrize("end", ["complete", "interrupted", "failed"])
def test_health_before_and_after_is_in_the_folder_however_a_run_ends(tmp_path: Path, end: str) -> None:
    failures = {"complete": measurement(1.0), "interrupted": KeyboardInterrupt(), "failed": OSError(5, "gone")}
    rig = FakeRig(FakeSession(lambda number: measurement(1.0) if number < 2 else failures[end]))
    worse = replace(GOOD, media_errors=4, throttled_s=7)
    rig.telemetry = Logged(HealthReading(GOOD), HealthReading(worse))
    driver = Driver(rig, run_folder(tmp_path / "run"), FakeObserver(), gap_limit_ms=1.0)
    if end == "complete":
        driver.run(points(3))
    else:
        with pytest.raises((KeyboardInterrupt, OSError)):
            driver.run(points(3))
    run = read_run(tmp_path / "run")
    assert run.state == end
    assert run.health == {"before": GOOD.to_json(), "after": worse.to_json()}
    kinds = [found.kind for found in run.disclosures]
    assert kinds[-2:] == [Kind.THERMAL_THROTTLING, Kind.DRIVE_HEALTH]
    assert rig.telemetry.closed


def test_a_log_that_cannot_be_read_is_no_reason_to_end(tmp_path: Path) -> None:
    rig = FakeRig(FakeSession(lambda number: measurement(1.0)))
    rig.telemetry = Logged(HealthReading(GOOD), HealthReading(None, "no answer"))
    Driver(rig, run_folder(tmp_path / "run"), FakeObserver(), gap_limit_ms=1.0).run(points(2))
    run = read_run(tmp_path / "run")
    assert run.state == "complete"
    assert run.health == {"before": GOOD.to_json(), "after": None, "not_read": "no answer"}
    assert run.disclosures == ()


class Asked(NoTelemetry):
    """When the drive may be asked, in the order of what else happens."""

    def __init__(self, session: FakeSession, told: list[str]) -> None:
        self.told = told
        start, idle = session.start, session.idle

        def started(*step: object) -> None:
            told.append("start")
            start(*step)  # type: ignore[arg-type]

        def idled(seconds: float) -> None:
            told.append("idle")
            idle(seconds)

        session.start, session.idle = started, idled  # type: ignore[method-assign, assignment]

    def begin(self, quiet: bool = False) -> None:
        self.told.append("begin, quiet" if quiet else "begin")

    def quiet(self) -> None:
        self.told.append("quiet")

    def between(self) -> None:
        self.told.append("between")


def test_the_drive_is_asked_only_while_it_is_kept_loaded(tmp_path: Path) -> None:
    """Neither between bursts, where it is to idle, nor after a step that drained, where it would make a gap."""
    session = FakeSession(lambda number: measurement(1.0))
    rig, told = FakeRig(session), list[str]()
    rig.telemetry = Asked(session, told)

    def spec() -> Generator[Step, Measurement | None, None]:
        yield Precondition(LARGE, Stop(bytes=1 << 20, keep_loaded=True), Label("wipc"))
        yield Measure(SMALL, Stop(seconds=1), Label("round", 1))
        yield Measure(SMALL, Stop(ios=7), Label("round", 2))
        yield Measure(SMALL, Stop(seconds=1, then_idle=True), Label("round", 3))
        yield Measure(SMALL, Stop(seconds=1), Label("round", 4))
        yield Idle(2.0)
        yield Purge()
        yield Measure(SMALL, Stop(seconds=1), Label("round", 5))
        yield Purge()
        yield Measure(SMALL, Stop(seconds=1), Label("round", 6))
        yield Disclose(Disclosure(Kind.FEW_IOS, "9.2", "few", "more"))

    Driver(rig, run_folder(tmp_path / "run"), FakeObserver(), gap_limit_ms=1.0).run(spec())
    assert told == [
        *("start", "begin"),
        *("between", "start", "begin, quiet"),
        *("between", "start", "begin, quiet"),
        *("start", "begin, quiet"),
        *("start", "begin, quiet"),
        *("quiet", "idle"),  # idling that was asked for
        *("idle", "quiet"),  # drained, then purged
        *("start", "begin, quiet"),
        *("between", "idle", "quiet"),  # asked, drained, then purged
        *("start", "begin, quiet"),
        "between",
    ]


# In the report


def test_points_of_the_host_are_marked_in_table_and_plot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = report_data.Drive.answer
    at = (100, 4096)

    def limited(self: report_data.Drive, step: Precondition | Measure) -> Measurement:
        found = answer(self, step)
        here = (step.label.read_percent, step.label.block_bytes) == at and step.label.round != 1
        host = replace(found.host, engine_busy_percent=97.0 if here else 50.0, ceiling_iops=1e7)
        return replace(found, host=host)

    monkeypatch.setattr(report_data.Drive, "answer", limited)
    report_data.make_folder(tmp_path / "run")
    built = report.build(tmp_path / "run")
    (table,) = built.section("plot-7-3").items
    marks = {
        (row[0], table.columns[j].title) for i, row in enumerate(table.rows) for j in range(8) if (i, j) in table.marks
    }
    assert marks == {("4", "100/0")}
    assert any("the host, not the drive" in note for note in table.notes)
    figure = report_data.figure(built, "plot-7-4")
    (dots,) = [series for series in figure.series if series.name == "limited by the host"]
    assert dots.x == (4.0,)
    assert dots.y == (report_data.cells(table)["4"][-1],)
    shown = {row[0]: row[-1] for row in report_data.table(built, "conditions", "host-limits").rows}
    rounds = max(entry.round or 0 for entry in [judged.label for judged in read_journal(tmp_path / "run")[0]])
    assert shown["R/W 100/0, 4 KiB"] == f"host (threads) in {rounds - 1} of {rounds}"
    assert set(shown.values()) - {shown["R/W 100/0, 4 KiB"]} == {"drive"}


def test_without_a_limit_nothing_is_marked(tmp_path: Path) -> None:
    report_data.make_folder(tmp_path / "run", rounds=2)
    built = report.build(tmp_path / "run")
    (table,) = built.section("plot-7-3").items
    assert table.marks == frozenset()
    assert {series.name for series in report_data.figure(built, "plot-7-4").series if series.style == "dots"} == set()


def test_the_health_log_is_a_table(tmp_path: Path) -> None:
    after = replace(GOOD, media_errors=3, written_bytes=2_500_000_000)
    health = {"before": replace(GOOD, written_bytes=500_000_000).to_json(), "after": after.to_json()}
    report_data.make_folder(tmp_path / "run", rounds=1, health=health, power_source="hwmon x, power1")
    built = report.build(tmp_path / "run")
    rows = report_data.cells(report_data.table(built, "conditions", "health"))
    assert rows["Media errors"] == (1, 3, 2)
    assert rows["Data written, GB"] == (0.5, 2.5, 2.0)
    assert "Percentage used" not in rows, "what the drive does not report"
    assert any("hwmon x, power1" in note for note in built.section("conditions").notes)


def test_a_folder_of_an_earlier_version(tmp_path: Path) -> None:
    """Neither health nor ceilings in run.json, and fewer fields in the journal."""
    report_data.make_folder(tmp_path / "run", rounds=1, host=False)
    file = tmp_path / "run/run.json"
    data = json.loads(file.read_text())
    for name in ("health", "host_ceilings", "host_overhead", "power_source"):
        del data[name]
    file.write_text(json.dumps(data))
    journal = tmp_path / "run/journal.jsonl"
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    for line in lines:
        del line["measurement"]["host_series"]
        line["measurement"]["host"] = {"cpu_system_percent": None, "temperature_c": None}
    journal.write_text("".join(json.dumps(line) + "\n" for line in lines))
    notes = report.build(tmp_path / "run").section("conditions").notes
    assert notes == (
        "Not measured (no source): drive temperature, power, CPU usage, interrupts of the device.",
        "The drive's health log was not read: the version that ran did not ask for it.",
    )


def test_a_simulated_drive_has_its_temperature_and_power_in_the_same_place(cli: Cli, tmp_path: Path) -> None:
    warm = "idle_w=1&program_uj=500&read_uj=50&thermal_resistance_c_per_w=10&thermal_time_constant_s=0.5"
    short = ("--set", "point_s=0.05", "--set", "wipc_capacities=0.05", "--set", "max_rounds=5")
    result = cli("run", "iops", f"sim:sata-enterprise?capacity=1GB&{warm}", *short, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert run_json(tmp_path / "run")["health"]["not_read"] == "the drive is simulated"
    assert run_json(tmp_path / "run")["host_ceilings"] == [], "virtual time has no host"
    section = report.build(tmp_path / "run").section("conditions")
    figures = {item.name: item for item in section.items if hasattr(item, "choices")}
    assert set(figures) == {"temperature_c", "power_w"}
    entries, _ = read_journal(tmp_path / "run")
    drive, highest = figures["temperature_c"].series
    assert list(drive.y) == [entry.measurement.host.temperature_c for entry in entries]
    assert list(highest.y) == [entry.measurement.host.temperature_max_c for entry in entries]
    assert list(figures["power_w"].series[0].y) == [entry.measurement.host.power_w for entry in entries]
