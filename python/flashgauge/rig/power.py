"""Power meters: what `--power SOURCE` names, and one interface for all of them.

    none                    not measured
    hwmon:NAME[/CHANNEL]    a sensor that the kernel knows (power*_input, power*_average, energy*_input)
    quarch:ADDRESS          a Quarch power module, by quarchpy (rig/quarch.py)

A meter gives the energy since it was begun; power is a difference of energies, so that no second is lost or counted
twice. Reference: the kernel's Documentation/hwmon/sysfs-interface (microwatts, microjoules). Limits: what a sensor
measures is what it is wired to, which nothing here can tell; a reading of power is taken to hold half way to the next.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from flashgauge._core import TargetError
from flashgauge.rig.identify import Roots, read_text

NONE = "none"
SAMPLE_S = 0.1  # between two readings of a sensor that knows only the power of the moment
_CHANNELS = r"(energy\d+|power\d+)_(input|average)"


class PowerSource(Protocol):
    """A power meter. `period_s`: how often it wants to be asked; None: it need not be."""

    name: str
    period_s: float | None

    def begin(self) -> None:
        """Measure from now on. Raises OSError."""

    def energy_j(self) -> float | None:
        """Energy since `begin`, never less than before; None when it is not known (any more)."""

    def close(self) -> None:
        """Safe to call twice."""


class NotMeasured:
    """No meter."""

    name = NONE
    period_s: float | None = None

    def begin(self) -> None:
        pass

    def energy_j(self) -> float | None:
        return None

    def close(self) -> None:
        pass


class HwmonEnergy:
    """A sensor that counts the energy itself, and may begin anew at 0."""

    period_s: float | None = None

    def __init__(self, name: str, file: Path) -> None:
        self.name = name
        self._file = file
        self._last_uj: int | None = None
        self._energy_uj = 0

    def begin(self) -> None:
        self._last_uj = _reading(self._file)

    def energy_j(self) -> float | None:
        now_uj = _reading(self._file)
        if now_uj is None or self._last_uj is None:
            return None
        # After an overflow the sensor has counted at least what it shows now.
        self._energy_uj += now_uj - self._last_uj if now_uj >= self._last_uj else now_uj
        self._last_uj = now_uj
        return self._energy_uj / 1e6

    def close(self) -> None:
        pass


class HwmonPower:
    """A sensor of the power of the moment; the area under straight lines between its readings."""

    period_s: float | None = SAMPLE_S

    def __init__(self, name: str, file: Path, clock_s: Callable[[], float] = time.monotonic) -> None:
        self.name = name
        self._file = file
        self._clock_s = clock_s
        self._last: tuple[float, int] | None = None
        self._energy_j = 0.0

    def begin(self) -> None:
        uw = _reading(self._file)
        self._last = None if uw is None else (self._clock_s(), uw)

    def energy_j(self) -> float | None:
        uw, now_s = _reading(self._file), self._clock_s()
        if uw is None or self._last is None:
            return None
        last_s, last_uw = self._last
        self._energy_j += (now_s - last_s) * (uw + last_uw) / 2e6
        self._last = (now_s, uw)
        return self._energy_j

    def close(self) -> None:
        pass


def check_source(text: str, virtual: bool, roots: Roots = Roots()) -> None:  # noqa: B008 - Roots is frozen
    """Everything about `--power` that can be wrong before a meter is asked. Raises TargetError."""
    if text == NONE:
        return
    if virtual:
        raise TargetError(
            f"--power {text}: a simulated drive draws no power from a meter; its own: idle_w, program_uj and the like"
        )
    kind, colon, rest = text.partition(":")
    if kind not in {"hwmon", "quarch"} or not colon or not rest:
        raise TargetError(f"--power {text}: write none, hwmon:NAME or quarch:ADDRESS")
    if kind == "hwmon":
        _hwmon(text, rest, roots)
    else:
        from flashgauge.rig import quarch

        quarch.check_installed()


def power_source(text: str, roots: Roots = Roots()) -> PowerSource:  # noqa: B008 - Roots is frozen
    """The meter that `text` names, not begun. Raises TargetError."""
    kind, _, rest = text.partition(":")
    if kind == "hwmon":
        return _hwmon(text, rest, roots)
    if kind == "quarch":
        from flashgauge.rig.quarch import QuarchPower

        return QuarchPower(text, rest)
    return NotMeasured()


def _hwmon(text: str, rest: str, roots: Roots) -> PowerSource:
    wanted, _, channel = rest.partition("/")
    sensors = sorted((roots.sys / "class/hwmon").glob("hwmon*"), key=lambda folder: int(folder.name[5:] or 0))
    named = [folder for folder in sensors if wanted in {folder.name, read_text(folder / "name")}]
    if not named:
        there = ", ".join(sorted({read_text(folder / "name") or folder.name for folder in sensors if _meters(folder)}))
        raise TargetError(f"--power {text}: no such sensor; with power or energy there are: {there or 'none'}")
    if len(named) > 1:
        raise TargetError(f"--power {text}: several have that name: {', '.join(folder.name for folder in named)}")
    meters = _meters(named[0])
    if channel:
        meters = {name: file for name, file in meters.items() if channel in {name, read_text(_label(file))}}
    if not meters:
        raise TargetError(f"--power {text}: {named[0].name} has no such power*_input or energy*_input")
    if len(meters) > 1:
        told = ", ".join(f"{name} ({label})" if (label := read_text(_label(f))) else name for name, f in meters.items())
        raise TargetError(f"--power {text}: say which, as in hwmon:{wanted}/{next(iter(meters))}: there are {told}")
    name, file = next(iter(meters.items()))
    if _reading(file) is None:
        raise TargetError(f"--power {text}: {file} cannot be read; run as root")
    label = read_text(_label(file))
    full = f"hwmon {read_text(named[0] / 'name') or named[0].name}, {label or name}"
    return HwmonEnergy(full, file) if name.startswith("energy") else HwmonPower(full, file)


def _meters(folder: Path) -> dict[str, Path]:
    """Channel -> its file; an average that the sensor makes itself is what there is only where there is no input."""
    found: dict[str, Path] = {}
    for file in sorted(folder.glob("*_*"), key=lambda file: file.name, reverse=True):
        if match := re.fullmatch(_CHANNELS, file.name):
            found[match[1]] = file if match[2] == "input" else found.get(match[1], file)
    return dict(sorted(found.items()))


def _label(file: Path) -> Path:
    return file.with_name(f"{file.name.partition('_')[0]}_label")


def _reading(file: Path) -> int | None:
    text = read_text(file)
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
