"""Quarch power modules, by the vendor's package quarchpy (the optional extra `flashgauge[quarch]`).

The module streams voltage, current and power of each of its channels to the Quarch Instrument Server (QIS, Java, which
quarchpy brings and starts), which resamples them to 10 ms; the power of all channels together, summed up over the
stream's own time, is the energy. Reference: quarchpy 2.2, `quarchPPM.start_stream`, `QisInterface.stream_header_format`
(columns "Time uS", "12V power mW" and the like). Limits: tested against a stand-in with quarchpy's interface, not with
a module; the stream comes some hundred milliseconds late, so that an interval of a second may have power of the one
before; in a step of a minute that is little. The drive's power is not switched: it has to be on.
"""

from __future__ import annotations

import contextlib
import errno
import re
import threading
from importlib import import_module
from importlib.util import find_spec
from io import StringIO
from typing import Any

from flashgauge._core import DeviceError, TargetError

RESAMPLED = "10ms"
_TIME_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0}
_POWER_W = {"uw": 1e-6, "mw": 1e-3, "w": 1.0}
_INSTALL = "pip install 'quarchpy>=2.2'"


def check_installed() -> None:
    """Raises TargetError."""
    if find_spec("quarchpy") is None:
        raise TargetError(f"quarchpy, the vendor's package for Quarch modules, is not installed: {_INSTALL}")


class EnergyOfStream(StringIO):
    """The stream's CSV text as it comes, in pieces of any length, summed up instead of kept.

    quarchpy insists on a StringIO to write to; it writes from a thread of its own.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock = threading.Lock()
        self._rest = ""
        self._time_s: float | None = None  # of a unit of the time column
        self._powers: list[tuple[int, float]] = []  # column, watts of a unit
        self._last: tuple[float, float] | None = None
        self._energy_j = 0.0
        self.problem: str | None = None

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._rest = (self._rest + text).replace("\r", "").split("\n")
            for line in lines:
                if line and self.problem is None:
                    self._take(line)
        return len(text)

    def energy_j(self) -> float | None:
        """None before the first stripe, and after a stream that ended in error."""
        with self._lock:
            return None if self._last is None or self.problem is not None else self._energy_j

    def _take(self, line: str) -> None:
        fields = line.split(",")
        if self._time_s is None:
            self._read_header(fields)
            return
        try:
            at_s = float(fields[0]) * self._time_s
            watts = sum(float(fields[column]) * unit for column, unit in self._powers)
        except (ValueError, IndexError):
            self.problem = f"the stream ended: {line}"  # quarchpy writes its warnings into the data
            return
        if self._last is not None:
            last_s, last_w = self._last
            self._energy_j += (at_s - last_s) * (watts + last_w) / 2
        self._last = (at_s, watts)

    def _read_header(self, names: list[str]) -> None:
        words = [name.split() for name in names]
        unit = words[0][-1].lower() if words[0] else ""
        powers = [
            (column, name[0], _POWER_W[name[-1].lower()])
            for column, name in enumerate(words)
            if column and len(name) > 1 and name[-1].lower() in _POWER_W
        ]
        # A module that gives the sum itself, beside its parts, must not be counted twice.
        totals = [power for power in powers if re.fullmatch(r"tot(al)?", power[1], re.IGNORECASE)]
        self._powers = [(column, scale) for column, _, scale in totals[:1] or powers]
        if unit not in _TIME_S or not self._powers:
            self.problem = f"a stream without power: its columns are {', '.join(names)}"
            return
        self._time_s = _TIME_S[unit]


class QuarchPower:
    """One module at `address`, as quarchpy writes it: USB:QTL1999-05-005, TCP:192.168.1.20."""

    period_s: float | None = None

    def __init__(self, text: str, address: str) -> None:
        """Connects. Raises TargetError."""
        check_installed()
        # quarchpy has no types, makes a log file in the home folder, and is large: only who asks for it gets it.
        device, qis = import_module("quarchpy.device"), import_module("quarchpy.qis")
        self._server: Any = None
        self._module: Any = None
        self._stream = EnergyOfStream()
        self._begun = False
        try:
            if not qis.isQisRunning():
                self._server = qis.startLocalQis(headless=True)
            self._module = device.quarchPPM(device.get_quarch_device(address, ConType="QIS"))
            self.name = f"Quarch {address} ({str(self._module.send_command('hello?')).strip()})"
            self._ask("record:trigger:mode manual")
            self._ask("stream mode power enable")
            self._ask("stream mode header v3")
            self._ask(f"stream mode resample {RESAMPLED}")
        except TargetError:
            self.close()
            raise
        except Exception as error:  # quarchpy raises what it likes, plain Exception too
            self.close()
            raise TargetError(f"--power {text}: {error}; see that the module is connected and on") from error

    def _ask(self, command: str) -> None:
        answer = str(self._module.send_command(command)).strip()
        if not answer.startswith("OK"):
            raise TargetError(f"the Quarch module answers {command!r} with {answer!r}")

    def begin(self) -> None:
        """Raises DeviceError."""
        try:
            self._module.start_stream(in_memory_data=self._stream, file_max_mb=None)
        except Exception as error:  # as above
            raise DeviceError(errno.EIO, f"{self.name}: {error}") from error
        self._begun = True

    def energy_j(self) -> float | None:
        return self._stream.energy_j()

    def close(self) -> None:
        module, self._module = self._module, None
        # The run's results do not hang on a meter's farewell.
        if module is not None:
            with contextlib.suppress(Exception):
                if self._begun:
                    module.stop_stream()
            with contextlib.suppress(Exception):
                module.close_connection()
        if self._server is not None:
            self._server = None
            with contextlib.suppress(Exception):
                import_module("quarchpy.qis").closeQis()
