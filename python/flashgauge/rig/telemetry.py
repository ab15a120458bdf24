"""Host CPU use and drive temperature over a step. Power needs a meter this version does not know: None."""

from __future__ import annotations

from pathlib import Path

from flashgauge.measurement import HostUsage
from flashgauge.rig.identify import BlockDevice, Roots, nvme_controllers, read_text

# Fields of the first line of /proc/stat, after "cpu" (proc(5)). Guest time is part of user and nice already.
_COUNTED_FIELDS = 8
_IOWAIT, _SYSTEM_FIELDS = 4, (2, 5, 6)  # system, and the interrupts served on its behalf


def temperature_source(device: BlockDevice) -> Path | None:
    """The hwmon file with the drive's temperature in millidegrees: NVMe's own, or drivetemp's for SATA and SAS."""
    for folder in [*nvme_controllers(device), device.disk / "device"]:
        for pattern in ("hwmon*/temp1_input", "hwmon/hwmon*/temp1_input", "device/hwmon/hwmon*/temp1_input"):
            for source in sorted(folder.glob(pattern)):
                return source
    return None


class HostTelemetry:
    """CPU percentages are of all CPUs together. The temperature is read once, when the step ends: the reading itself
    is a command to the drive."""

    def __init__(self, temperature: Path | None = None, roots: Roots = Roots()) -> None:  # noqa: B008 - Roots is frozen
        self._temperature = temperature
        self._stat = roots.proc / "stat"
        self._ticks = self._read_ticks()

    def begin(self) -> None:
        self._ticks = self._read_ticks()

    def end(self, quiet: bool = False) -> HostUsage:
        temperature_c = None if quiet else self._read_temperature()
        spent = [after - before for before, after in zip(self._ticks, self._read_ticks(), strict=False)]
        total = sum(spent)
        if len(spent) < _COUNTED_FIELDS or total <= 0:  # no /proc/stat, or a step shorter than a clock tick
            return HostUsage(temperature_c=temperature_c)
        return HostUsage(
            cpu_system_percent=100 * sum(spent[field] for field in _SYSTEM_FIELDS) / total,
            # iowait may run backwards (proc(5)); a negative share would be nonsense.
            cpu_iowait_percent=100 * max(spent[_IOWAIT], 0) / total,
            temperature_c=temperature_c,
        )

    def _read_ticks(self) -> list[int]:
        fields = (read_text(self._stat) or "").split("\n", 1)[0].split()
        return [int(field) for field in fields[1 : _COUNTED_FIELDS + 1]]

    def _read_temperature(self) -> float | None:
        text = read_text(self._temperature) if self._temperature is not None else None
        try:
            return int(text) / 1000 if text is not None else None
        except ValueError:
            return None
