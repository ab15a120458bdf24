"""The simulated drive as a rig: `sim:PRESET?capacity=8GiB&seed=1&parameter=value`."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import flashgauge
from flashgauge._core import Session, TargetError, preset_text
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig.base import NoTelemetry, Prepared, SessionNeeds, Telemetry
from flashgauge.rig.target import Target, parse_size
from flashgauge.runfolder import DutInfo


def overrides(target: Target) -> dict[str, Any]:
    """The drive parameters of the target's query: sizes with units become bytes, the rest is JSON or text."""
    values: dict[str, Any] = {}
    for name, text in target.options.items():
        if name == "capacity":
            values["capacity_bytes"] = parse_size(text)
        elif name != "seed":
            try:
                values[name] = json.loads(text)
            except json.JSONDecodeError:
                values[name] = text
    return values


class SimulatedRig:
    """A drive that exists in virtual time only."""

    def __init__(self, target: Target, needs: SessionNeeds) -> None:
        """Raises TargetError for an unknown preset or parameter."""
        self.session = Session.simulated(
            target.path, json.dumps(overrides(target)), needs.seed, needs.max_threads, needs.max_queue_depth
        )
        self.telemetry: Telemetry = NoTelemetry()
        self._description: dict[str, Any] = json.loads(self.session.describe())
        self._plp = bool(self._description["power_loss_protection"])
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
        return [
            Disclosure(
                Kind.SIMULATED,
                "1.3",
                f"the device is a simulation ({self.dut.model}); its figures describe a model, not a product",
                "run on a real drive, such as /dev/nvme0n1",
            )
        ]

    def purge(self) -> Prepared:
        self.session.purge()
        return Prepared("simulated: returned to fresh out of the box")

    def set_write_cache(self, enabled: bool) -> Prepared:
        self.session.set_write_cache(enabled)
        state = "enabled" if enabled else "disabled"
        return Prepared(f"{state} (buffer protected against power loss)" if self._plp else state)

    def close(self) -> None:
        self.session.close()


def simulated(target: Target, needs: SessionNeeds) -> SimulatedRig:
    if not target.path:
        raise TargetError(f"{target.text}: which preset? for example sim:sata-enterprise")
    return SimulatedRig(target, needs)


def simulated_bytes(target: Target) -> int:
    """The user capacity, from the target or its preset. Raises TargetError."""
    asked = overrides(target).get("capacity_bytes")
    return int(asked if asked is not None else tomllib.loads(preset_text(target.path))["capacity_bytes"])
