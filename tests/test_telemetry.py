"""Telemetry of a step: what is read, when, and that the drive gets no command within a window."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flashgauge._core import DeviceError, clock_ns
from flashgauge.health import Health
from flashgauge.rig import telemetry as module
from flashgauge.rig.identify import BlockDevice, Roots
from flashgauge.rig.power import PowerSource
from flashgauge.rig.samples import Sample, Window
from flashgauge.rig.smart import HealthSource
from flashgauge.rig.telemetry import HostTelemetry, device_interrupts, temperature_source

BEFORE = "cpu  100 0 50 1000 20 3 7 0 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 900 5 6 100 300 7\n"
AFTER = "cpu  150 0 70 1070 60 8 12 0 10 0\ncpu0 1 1 1 1 1 1 1 1 0 0\nintr 990 5 6 160 310 7\n"
S = 1_000_000_000


class Tree:
    """A /proc, a temperature, and three threads of this process: two of the engine's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.roots = Roots(root / "sys", root / "proc")
        self.temperature = self.write("hwmon/temp1_input", "41850")
        self.stat(BEFORE)
        for thread, name, ran in ((7, "flashgauge-0", 0), (8, "flashgauge-1", 0), (9, "python", 0)):
            self.write(f"proc/self/task/{thread}/comm", name)
            self.thread(thread, ran, 0)

    def write(self, path: str, text: str) -> Path:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")
        return file

    def stat(self, text: str) -> None:
        self.write("proc/stat", text)

    def thread(self, number: int, ran_ns: int, waited_ns: int) -> None:
        self.write(f"proc/self/task/{number}/schedstat", f"{ran_ns} {waited_ns} 3")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


Make = Callable[..., HostTelemetry]


@pytest.fixture
def made() -> Iterator[Make]:
    """Telemetries whose threads end with the test."""
    running: list[HostTelemetry] = []

    def make(*arguments: object, **more: object) -> HostTelemetry:
        running.append(HostTelemetry(*arguments, **more))  # type: ignore[arg-type]
        return running[-1]

    yield make
    for one in running:
        one.close()


def window(start_ns: int, threads: int = 1) -> Window:
    return Window(start_ns, clock_ns(), S, threads)


def test_a_step(tree: Tree, made: Make) -> None:
    telemetry = made(tree.temperature, tree.roots, (2, 3))
    telemetry.begin()
    start_ns = clock_ns()
    tree.stat(AFTER)
    tree.thread(7, 10**15, 0)
    telemetry.between()
    usage, series = telemetry.end(window(start_ns, 2))
    # 50 user + 20 system + 70 idle + 40 iowait + 5 irq + 5 softirq = 190 ticks; guest time is within user.
    assert usage.cpu_system_percent == pytest.approx(100 * 30 / 190)
    assert usage.cpu_iowait_percent == pytest.approx(100 * 40 / 190)
    assert usage.cpu_busy_percent == pytest.approx(100 * 80 / 190)
    assert usage.interrupts is not None
    assert usage.engine_busy_percent == 100.0
    assert usage.temperature_c == pytest.approx(41.85)
    assert usage.power_w is None
    assert series.temperature_c == ()


def test_counters(tree: Tree) -> None:
    counters = module.Counters(tree.roots, (2, 3, 99))
    before = counters.sample(12.5)
    assert (before.interrupts, before.engine_ns, before.energy_j) == (100 + 300, 0, 12.5)
    tree.stat(AFTER)
    tree.thread(7, 5000, 200)  # ran, and was ready and waited for a CPU
    tree.thread(8, 70, 3)
    tree.thread(9, 10**15, 10**15)  # not the engine's
    after = counters.sample(None)
    assert (after.interrupts, after.engine_ns, after.energy_j) == (160 + 310, 5273, None)
    assert after.at_ns >= before.at_ns
    tree.write("proc/self/task/9/comm", "flashgauge-2")  # it has its name now
    (tree.root / "proc/self/task/7/schedstat").unlink()  # this one is gone
    assert counters.sample(None).engine_ns == 73 + 2 * 10**15


@pytest.mark.parametrize("stat", ["", "cpu  1 2 3", BEFORE])
def test_without_a_source_or_a_tick_all_is_none(tree: Tree, made: Make, stat: str) -> None:
    tree.stat(stat)
    for thread in (7, 8, 9):
        tree.write(f"proc/self/task/{thread}/comm", "other")
    telemetry = made(None, tree.roots)
    telemetry.begin()
    start_ns = clock_ns()
    usage, series = telemetry.end(window(start_ns))
    assert set(vars(usage).values()) == {None}
    assert series.to_json() == {}


def test_samples_are_taken_on_a_thread_of_their_own(tree: Tree, made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    takers: list[str] = []

    def sample(self: module.Counters, energy_j: float | None) -> Sample:
        """Ticks that the clock itself makes, half of them the system's."""
        takers.append(threading.current_thread().name)
        at_ns = clock_ns()
        return Sample(at_ns, total_ticks=at_ns, system_ticks=at_ns // 2, iowait_ticks=0, idle_ticks=at_ns // 2)

    monkeypatch.setattr(module.Counters, "sample", sample)
    monkeypatch.setattr(module, "SAMPLE_S", 0.01)
    telemetry = made(None, tree.roots)
    telemetry.begin()
    start_ns = clock_ns()
    time.sleep(0.3)
    usage, series = telemetry.end(Window(start_ns, clock_ns(), 50_000_000, 1))
    assert usage.cpu_system_percent == pytest.approx(50)
    assert len(series.cpu_system_percent) >= 6
    assert series.cpu_system_percent == pytest.approx([50] * len(series.cpu_system_percent), abs=0.01)
    assert takers.count("telemetry") > 2
    telemetry.close()
    assert "telemetry" not in {thread.name for thread in threading.enumerate()}


class Meter:
    """5 W, by the clock of the samples."""

    name = "meter"
    period_s: float | None = None

    def begin(self) -> None: ...
    def close(self) -> None: ...
    def energy_j(self) -> float | None:
        return clock_ns() / 1e9 * 5


def test_a_meter_gives_power_and_energy_of_the_window(tree: Tree, made: Make) -> None:
    meter: PowerSource = Meter()
    telemetry = made(None, tree.roots)
    telemetry.measure_power(meter)
    telemetry.begin()
    start_ns = clock_ns()
    time.sleep(0.1)
    end_ns = clock_ns()
    usage, _ = telemetry.end(Window(start_ns, end_ns, S, 1))
    # The meter is read a little after the sample's time.
    assert usage.power_w == pytest.approx(5.0, rel=0.3)
    assert usage.energy_j == pytest.approx(usage.power_w * (end_ns - start_ns) / 1e9)


# Commands to the drive


class Drive:
    """A health log that counts how often it is read, and goes up by what is told."""

    def __init__(self) -> None:
        self.reads = 0
        self.health = Health("made up", media_errors=3, throttle_transitions=1, throttled_s=10)
        self.fails = False

    def read(self) -> Health:
        self.reads += 1
        if self.fails:
            raise DeviceError(5, "no answer")
        return self.health

    @property
    def source(self) -> HealthSource:
        return HealthSource(self.read, "made-up")


def test_the_drive_is_asked_between_windows_only(tree: Tree, made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "SAMPLE_S", 0.005)
    drive = Drive()
    telemetry = made(tree.temperature, tree.roots, (), drive.source)
    asked: list[str] = []
    read = HostTelemetry._read_temperature

    def counted(self: HostTelemetry) -> float | None:
        asked.append(threading.current_thread().name)
        return read(self)

    monkeypatch.setattr(HostTelemetry, "_read_temperature", counted)
    for _ in range(3):
        telemetry.begin()
        start_ns = clock_ns()
        time.sleep(0.05)
        assert asked == []
        telemetry.between()
        assert asked == [threading.current_thread().name]
        telemetry.end(window(start_ns))
        asked.clear()
    assert drive.reads == 1, "the log at most once a minute"


def test_in_a_long_step_the_temperature_is_read_now_and_then(
    tree: Tree, made: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SAMPLE_S", 0.005)
    monkeypatch.setattr(module, "WITHIN_S", 0.03)
    telemetry = made(tree.temperature, tree.roots)
    telemetry.begin()
    start_ns = clock_ns()
    time.sleep(0.4)
    tree.temperature.write_text("50000")
    time.sleep(0.4)
    tree.temperature.write_text("45000")
    telemetry.between()
    usage, series = telemetry.end(Window(start_ns, clock_ns(), 20_000_000, 1))
    assert (usage.temperature_c, usage.temperature_max_c) == (45.0, 50.0)
    read = [value for value in series.temperature_c if value is not None]
    assert {41.85, 50.0} <= set(read)
    assert len(read) < len(series.temperature_c)
    for begin in (lambda: telemetry.begin(quiet=True), lambda: (telemetry.begin(), telemetry.quiet())):
        begin()
        start_ns = clock_ns()
        time.sleep(0.15)
        usage, series = telemetry.end(Window(start_ns, clock_ns(), 20_000_000, 1))
        assert (usage.temperature_c, series.temperature_c) == (None, ()), "a burst, idling, a purge are left alone"


def test_health_of_a_step_is_what_is_new(tree: Tree, made: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEALTH_S", 0.0)
    drive = Drive()
    telemetry = made(None, tree.roots, (), drive.source)
    assert telemetry.health().health == drive.health
    found = []
    for health in (drive.health, Health("made up", media_errors=5, throttle_transitions=4, throttled_s=25)):
        drive.health = health
        telemetry.begin()
        start_ns = clock_ns()
        telemetry.between()
        usage, _ = telemetry.end(window(start_ns))
        found.append((usage.media_errors, usage.throttle_transitions, usage.throttled_s))
        assert usage.health_span_s is not None
        assert 0 < usage.health_span_s < 60
    assert found == [(0, 0, 0), (2, 3, 15)]
    drive.fails = True
    telemetry.begin()
    telemetry.between()
    assert telemetry.end(window(clock_ns() - 1))[0].media_errors is None
    assert (telemetry.health().health, telemetry.health().reason) == (None, "no answer")


def test_what_has_no_health_log_says_why(made: Make, tree: Tree) -> None:
    telemetry = made(None, tree.roots)
    assert telemetry.health().reason == "not a drive"
    telemetry.between()  # and is not asked for it


# Where the drive's own sources are


def device(root: Path, where: str, owner: str) -> BlockDevice:
    (root / where).mkdir(parents=True)
    (root / where / "device").symlink_to(owner)
    return BlockDevice("/dev/x", "/dev/x", (root / where).resolve(), Roots(root / "sys", root / "proc"))


NVME = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0"


def test_sources_of_an_nvme_drive(tree: Tree) -> None:
    found = device(tree.root, f"{NVME}/nvme0n1", "..")
    pci = tree.root / NVME / "../.."
    (tree.root / NVME / "device").symlink_to("../..")
    assert (temperature_source(found), device_interrupts(found)) == (None, ())
    for number in (45, 44, 103):
        tree.write(f"{pci.resolve().relative_to(tree.root)}/msi_irqs/{number}", "msix")
    assert device_interrupts(found) == (44, 45, 103)
    source = tree.write(f"{NVME}/hwmon2/temp1_input", "41850")
    assert temperature_source(found) == source


@pytest.mark.parametrize("place", ["hwmon/hwmon1", "hwmon1"])
def test_temperature_of_a_sata_drive(tree: Tree, made: Make, place: str) -> None:
    scsi = "sys/devices/pci0000:00/0000:00:17.0/ata3/host2/target2:0:0/2:0:0:0"
    found = device(tree.root, f"{scsi}/block/sda", "../..")
    assert temperature_source(found) is None
    tree.write(f"{scsi}/{place}/temp1_input", "33000")
    telemetry = made(temperature_source(found), tree.roots)
    telemetry.between()
    assert telemetry.end(window(0))[0].temperature_c == 33.0
