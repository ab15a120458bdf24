"""Host and drive over each step: CPU, interrupts, the engine's threads, power, temperature, the drive's health.

A thread reads the kernel's counters once a second, and a power meter as often as that wants, on the clock of the I/O.
That is files of /proc and /sys alone: the drive gets no command, and the engine's threads need nothing that this one
holds. A sample takes 0.1 ms of one CPU on a machine with two, and 0.4 ms with 32 engine threads.

A drive's temperature and its health log are commands to the drive (the kernel's hwmon of NVMe and of SATA drives sends
one for each reading). They are sent between two windows, while bridge I/Os keep the drive loaded, so that no result
has them in it: the temperature after each step, the log at most once a minute. In pre-conditioning that
is longer than two minutes, the temperature is read every two minutes. None is sent where the device idles or
drains between steps. Limits: a step that drains has no temperature; interrupts are known of NVMe drives only, which
have their own.
"""

from __future__ import annotations

import os
import threading
import time
from math import inf
from pathlib import Path

from flashgauge import health
from flashgauge._core import DeviceError, clock_ns
from flashgauge.health import Health
from flashgauge.measurement import HostSeries, HostUsage
from flashgauge.rig import identify, samples
from flashgauge.rig.base import HealthReading
from flashgauge.rig.identify import BlockDevice, Roots, read_text
from flashgauge.rig.power import NotMeasured, PowerSource
from flashgauge.rig.samples import Sample, Window
from flashgauge.rig.smart import HealthSource, health_source

SAMPLE_S = 1.0
# Between two readings of the drive's health log, and between two commands to the drive within a step.
HEALTH_S, WITHIN_S = 60.0, 120.0
ENGINE_THREADS = "flashgauge-"

# Fields of the first line of /proc/stat, after "cpu" (proc(5)). Guest time is part of user and nice already.
_COUNTED_FIELDS = 8
_IDLE, _IOWAIT, _SYSTEM_FIELDS = 3, 4, (2, 5, 6)  # system, and the interrupts served on its behalf


def temperature_source(device: BlockDevice) -> Path | None:
    """The hwmon file with the drive's temperature in millidegrees: NVMe's own, or drivetemp's for SATA and SAS."""
    for folder in [*identify.nvme_controllers(device), device.disk / "device"]:
        for pattern in ("hwmon*/temp1_input", "hwmon/hwmon*/temp1_input", "device/hwmon/hwmon*/temp1_input"):
            for source in sorted(folder.glob(pattern)):
                return source
    return None


def device_interrupts(device: BlockDevice) -> tuple[int, ...]:
    """Numbers of the device's own interrupts; an adapter's are shared by all its drives."""
    controllers = identify.nvme_controllers(device)
    return tuple(sorted(int(file.name) for owner in controllers for file in (owner / "device/msi_irqs").glob("*")))


class Counters:
    """The kernel's counters of this moment."""

    def __init__(self, roots: Roots, interrupts: tuple[int, ...] = ()) -> None:
        self._stat = roots.proc / "stat"
        self._tasks = roots.proc / "self/task"
        self._interrupts = interrupts
        self._engine: set[str] = set()

    def sample(self, energy_j: float | None) -> Sample:
        at_ns = clock_ns()
        lines = (read_text(self._stat) or "").splitlines()
        ticks = [int(field) for field in lines[0].split()[1 : _COUNTED_FIELDS + 1]] if lines else []
        whole = len(ticks) == _COUNTED_FIELDS
        return Sample(
            at_ns,
            total_ticks=sum(ticks) if whole else None,
            system_ticks=sum(ticks[field] for field in _SYSTEM_FIELDS) if whole else None,
            iowait_ticks=ticks[_IOWAIT] if whole else None,
            idle_ticks=ticks[_IDLE] if whole else None,
            interrupts=self._count_interrupts(lines),
            engine_ns=self._engine_ns(),
            energy_j=energy_j,
        )

    def _count_interrupts(self, lines: list[str]) -> int | None:
        """The line "intr" of /proc/stat: the sum of all, then one count for each number."""
        counts = next((line.split()[2:] for line in lines if line.startswith("intr ")), [])
        of_device = [int(counts[number]) for number in self._interrupts if number < len(counts)]
        return sum(of_device) if of_device else None

    def _engine_ns(self) -> int | None:
        """schedstat of a thread: ns on a CPU, ns ready and waiting for one, and how often."""
        try:
            there = set(os.listdir(self._tasks))
        except OSError:
            return None
        # A thread gets its name when it is up: one that is not the engine's yet is looked at again.
        new = {task for task in there - self._engine if _line(self._tasks / task / "comm").startswith(ENGINE_THREADS)}
        self._engine = self._engine & there | new
        spent = [_line(self._tasks / task / "schedstat").split() for task in self._engine]
        known = [int(fields[0]) + int(fields[1]) for fields in spent if len(fields) >= 2]
        return sum(known) if known else None


def _line(file: Path) -> str:
    """A short file of the kernel's; a thread's is gone with it."""
    try:
        with open(file, "rb", buffering=0) as stream:
            return stream.read(200).decode(errors="replace")
    except OSError:
        return ""


class HostTelemetry:
    """`begin` starts the sampling thread, `close` ends it. What is read of the drive between the steps is of the step
    before."""

    def __init__(
        self,
        temperature: Path | None = None,
        roots: Roots = Roots(),  # noqa: B008 - Roots is frozen
        interrupts: tuple[int, ...] = (),
        drive_health: HealthSource | str = "not a drive",
    ) -> None:
        self._temperature = temperature
        self._drive_health = drive_health
        self._counters = Counters(roots, interrupts)
        self._power: PowerSource = NotMeasured()
        self._lock = threading.Lock()
        self._samples: list[Sample] = []
        self._temperatures: list[tuple[int, float]] = []
        # Read after the step: the temperature and the health log; and the log as it was read before.
        self._after_c: float | None = None
        self._health: Health | None = None
        self._health_then: Health | None = None
        self._asked_s = self._health_s = -inf
        self._then_s: float | None = None
        # Held while the drive is asked within a step, and while that is forbidden or allowed.
        self._asking = threading.Lock()
        self._quiet = False
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    @classmethod
    def of(cls, device: BlockDevice) -> HostTelemetry:
        return cls(temperature_source(device), device.roots, device_interrupts(device), health_source(device))

    def measure_power(self, source: PowerSource) -> None:
        self._power = source

    def begin(self, quiet: bool = False) -> None:
        with self._asking:
            self._quiet = quiet
        self._sample()
        if self._thread is None:
            self._asked_s = time.monotonic()
            self._thread = threading.Thread(target=self._run, name="telemetry", daemon=True)
            self._thread.start()

    def quiet(self) -> None:
        # A reading that is under way is waited for: a drive that is formatting may answer no other command.
        with self._asking:
            self._quiet = True

    def between(self) -> None:
        self._asked_s = time.monotonic()
        self._after_c = self._read_temperature()
        if self._asked_s - self._health_s >= HEALTH_S and not isinstance(self._drive_health, str):
            try:
                self._health = self._drive_health.read()
            except DeviceError:
                self._health = None  # the run's end tells why
            self._health_s = time.monotonic()

    def end(self, window: Window) -> tuple[HostUsage, HostSeries]:
        self._sample()
        with self._lock:
            found, temperatures = list(self._samples), list(self._temperatures)
            # The last sample before the window's end begins the next step.
            keep = max((i for i, sample in enumerate(found) if sample.at_ns <= window.end_ns), default=0)
            del self._samples[:keep]
            self._temperatures.clear()
        usage = self._drive_conditions([value for _, value in temperatures])
        return usage.over(samples.usage(found, window)), samples.series(found, window, temperatures)

    def health(self) -> HealthReading:
        if isinstance(self._drive_health, str):
            return HealthReading(None, self._drive_health)
        try:
            self._health_then = self._drive_health.read()
        except DeviceError as error:
            return HealthReading(None, error.strerror or str(error))
        self._then_s = self._health_s = time.monotonic()
        return HealthReading(self._health_then)

    def close(self) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _drive_conditions(self, within: list[float]) -> HostUsage:
        """What the drive itself said after the step, and in it."""
        after, self._after_c = self._after_c, None
        read = [*within, *([after] if after is not None else [])]
        then, now, self._health = self._health_then, self._health, None
        span_s = None
        if now is not None:
            span_s = self._health_s - self._then_s if self._then_s is not None else None
            self._health_then, self._then_s = now, self._health_s
        return HostUsage(
            temperature_c=after if after is not None else (within[-1] if within else None),
            temperature_max_c=max(read) if len(read) > 1 else None,
            throttled_s=health.new(then, now, "throttled_s"),
            throttle_transitions=health.new(then, now, "throttle_transitions"),
            media_errors=health.new(then, now, "media_errors"),
            health_span_s=span_s,
        )

    def _run(self) -> None:
        period_s = min(SAMPLE_S, self._power.period_s or SAMPLE_S)
        sampled_s = time.monotonic()
        while not self._stop.wait(period_s):
            now_s = time.monotonic()
            if now_s - sampled_s < SAMPLE_S - period_s / 2:
                with self._lock:
                    self._power.energy_j()
                continue
            sampled_s = now_s
            self._sample()
            if now_s - self._asked_s >= WITHIN_S:
                self._ask_within(now_s)

    def _ask_within(self, now_s: float) -> None:
        with self._asking:
            if self._quiet:
                return
            self._asked_s = now_s
            value = self._read_temperature()
        if value is not None:
            with self._lock:
                self._temperatures.append((clock_ns(), value))

    def _sample(self) -> None:
        with self._lock:
            self._samples.append(self._counters.sample(self._power.energy_j()))

    def _read_temperature(self) -> float | None:
        text = read_text(self._temperature) if self._temperature is not None else None
        try:
            return int(text) / 1000 if text is not None else None
        except ValueError:
            return None
