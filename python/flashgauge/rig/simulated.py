"""The simulated drive as a rig: `sim:PRESET?capacity=8GiB&seed=1&parameter=value`."""

from __future__ import annotations

import json
import re
import tomllib
from math import isfinite
from typing import Any

import flashgauge
from flashgauge._core import Session, TargetError, preset_description, preset_text
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig import purge
from flashgauge.rig.base import NoTelemetry, Prepared, SessionNeeds, Telemetry, Tell
from flashgauge.rig.hostchecks import HostCheck
from flashgauge.rig.target import Target, parse_size
from flashgauge.runfolder import DutInfo


def overrides(target: Target) -> dict[str, Any]:
    """The drive parameters of the target's query: sizes with units become bytes, the rest is JSON or text.

    Raises TargetError for a capacity that is no size or given twice, and for a seed that is none."""
    if {"capacity", "capacity_bytes"} <= target.options.keys():
        raise TargetError(f"{target.text}: capacity and capacity_bytes are the same; give one of them")
    stream_seed(target)
    values: dict[str, Any] = {}
    for name, text in target.options.items():
        if name == "capacity":
            values["capacity_bytes"] = parse_size(text)
        elif name != "seed":
            values[name] = _value(text)
    return values


def stream_seed(target: Target) -> int:
    """The seed in the target's query, 1 without: that of the run's requests. Raises TargetError."""
    text = target.options.get("seed", "1")
    if not re.fullmatch("[0-9]{1,20}", text) or int(text) >= 2**64:
        raise TargetError(f"{target.text}: seed={text} is not a whole number below 2^64")
    return int(text)


def _value(text: str) -> Any:
    """Text that JSON has no finite value for stays text."""
    try:
        value = json.loads(text)
    except (json.JSONDecodeError, RecursionError, ValueError):  # ValueError: a number of thousands of digits.
        return text
    return text if isinstance(value, float) and not isfinite(value) else value


# The parameters that switch a kind of fault on, and those that describe it further.
_FAULTS = {
    "fault_read_error_rate": ("fault_read_errors_max",),
    "fault_program_error_rate": ("fault_bad_blocks_max",),
    "fault_spike_rate": ("fault_spike_ms", "fault_spikes_max"),
    "fault_dropout_after_ios": (),
    "fault_dropout_after_s": (),
    "fault_power_loss_after_s": ("power_on_ms",),
}


def faults(parameters: dict[str, Any]) -> list[str]:
    """The faults that the drive's parameters ask for, as NAME=VALUE; empty when there are none."""
    names = [name for switch, more in _FAULTS.items() if _happens(parameters, switch, more) for name in (switch, *more)]
    return [f"{name}={parameters[name]:g}" for name in names]


def _happens(parameters: dict[str, Any], switch: str, more: tuple[str, ...]) -> bool:
    """It is switched on, and none of it is not the most of it."""
    most = [name for name in more if name.endswith("_max")]
    return bool(parameters.get(switch)) and all(parameters[name] for name in most)


class SimulatedRig:
    """A drive that exists in virtual time only."""

    def __init__(self, target: Target, needs: SessionNeeds, purge_method: str = purge.AUTO) -> None:
        """Raises TargetError for an unknown preset or parameter, or a purge method of real drives."""
        purge.check_without_drive(purge_method, target.text, (purge.AUTO,))
        if needs.verifiable:
            raise TargetError(
                f"{target.text}: a simulated drive holds no data to read back; name a block device or file"
            )
        self._purge_method = purge_method
        changes = json.dumps(overrides(target))
        self.session = Session.simulated(target.path, changes, needs.seed, needs.max_threads, needs.max_queue_depth)
        self.telemetry: Telemetry = NoTelemetry()
        self._description: dict[str, Any] = json.loads(self.session.describe())
        self._disk = json.loads(preset_description(target.path, changes))["kind"] == "disk"
        self._plp = bool(self._description.get("power_loss_protection"))
        self.dut = DutInfo(
            target=target.text,
            kind="simulated",
            manufacturer="flashgauge (simulated)",
            model=target.path,
            serial=f"SIM-{needs.seed}",
            firmware=f"simulator {flashgauge.__version__}",
            capacity_bytes=self.session.range_bytes,
            interface=self._description["interface"],
            form_factor=self._description["form_factor"],
            media=self._description["media"],
            features="power-loss protected write buffer" if self._plp else None,
        )

    def description(self) -> dict[str, Any]:
        return self._description

    def disclosures(self) -> list[Disclosure]:
        simulated = Disclosure(
            Kind.SIMULATED,
            "1.3",
            f"the device is a simulation ({self.dut.model}); its figures describe a model, not a product",
            "run on a real drive, such as /dev/nvme0n1",
        )
        injected = faults(self._description)
        if not injected:
            return [simulated]
        return [
            simulated,
            Disclosure(
                Kind.FAULTS_INJECTED,
                "1.3",
                f"faults are injected on purpose: {', '.join(injected)}",
                "leave the fault_ parameters out",
                invalidates=True,
            ),
        ]

    def software(self) -> dict[str, str]:
        return {}

    def purge(self, tell: Tell) -> Prepared:
        if self._purge_method == purge.NONE:
            return purge.not_asked_for()
        self.session.purge()
        if self._disk:
            return Prepared("not needed: a simulated disk, nothing to purge")
        return Prepared("simulated: returned to fresh out of the box")

    def set_write_cache(self, enabled: bool) -> Prepared:
        self.session.set_write_cache(enabled)
        state = "enabled" if enabled else "disabled"
        return Prepared(f"{state} (buffer protected against power loss)" if self._plp else state)

    def after_run(self) -> tuple[Disclosure, ...]:
        return ()

    def host_checks(self, sequential: bool) -> tuple[HostCheck, ...]:
        return ()  # nothing of the host is in virtual time

    def trim(self, lba: int, range_bytes: int) -> None:
        """The host needs the range from sector `lba` on no longer. Raises TargetError for one beyond the end."""
        self.session.trim(lba, range_bytes)

    def block_reads(self) -> str:
        return "the device is simulated"

    def check(self) -> None:
        """Nobody can exchange a drive that is in this process alone."""

    def close(self) -> None:
        self.session.close()


def simulated(target: Target, needs: SessionNeeds, purge_method: str = purge.AUTO) -> SimulatedRig:
    if not target.path:
        raise TargetError(f"{target.text}: which preset? for example sim:sata-enterprise")
    return SimulatedRig(target, needs, purge_method)


def simulated_bytes(target: Target) -> int:
    """The user capacity, from the target or its preset. Raises TargetError."""
    asked = overrides(target).get("capacity_bytes")
    return int(asked if asked is not None else tomllib.loads(preset_text(target.path))["capacity_bytes"])
