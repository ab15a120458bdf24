"""An NVMe drive's admin commands, by nvme-cli: what it can do, its namespaces, features and sanitize log.

Reference: NVM Express Base Specification 2.0, Identify (CNS 00h, 01h, 02h, 10h), Features (06h), Sanitize Status log
(81h). Identify is read as JSON, whose names are those of the specification. The log is read as raw bytes: nvme-cli has
changed the shape of its JSON between versions, and the specification does not change the bytes. A feature's value is
read from the text, the only form every version has.
Commands go to the controller's character device: a namespace is held exclusively by the run, and nvme-cli would
refuse it as busy.
"""

from __future__ import annotations

import errno
import json
import re
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from flashgauge._core import DeviceError
from flashgauge.rig import identify, tools
from flashgauge.rig.identify import BlockDevice
from flashgauge.rig.node import Node

VOLATILE_WRITE_CACHE = 6  # feature identifier
NOT_REPORTED_S = 0xFFFFFFFF  # an estimated time in the log that the drive does not give

_FEATURE_VALUE = re.compile(r"(?:current value|value)\s*:\s*(?:0x)?([0-9a-f]+)", re.IGNORECASE)


@dataclass(frozen=True)
class SanitizeLog:
    """The Sanitize Status log page. `status`: 0 never, 1 done, 2 under way, 3 failed, 4 done, but deallocated too.

    `percent`: of the sanitize under way. `erase_s`, `crypto_s`: estimated times; None when not reported.
    """

    status: int
    percent: float
    action: int
    erase_s: float | None
    crypto_s: float | None

    @classmethod
    def parse(cls, page: bytes) -> SanitizeLog:
        """Raises DeviceError when the page is too short."""
        if len(page) < 32:
            raise DeviceError(errno.EIO, f"the sanitize log has {len(page)} bytes instead of 512; update nvme-cli")

        def number(at: int, size: int) -> int:
            return int.from_bytes(page[at : at + size], "little")

        times = [None if number(at, 4) == NOT_REPORTED_S else float(number(at, 4)) for at in (12, 16)]
        return cls(number(2, 2) & 7, number(0, 2) * 100 / 65536, number(4, 4) & 7, times[0], times[1])


@dataclass(frozen=True)
class Namespace:
    """Of Identify Namespace: size in blocks, formatted LBA size, end-to-end protection."""

    nsze: int
    flbas: int
    dps: int


class Nvme:
    """The controller that leads to one namespace, which is the device under test."""

    TOOLS = ("nvme",)

    def __init__(self, device: BlockDevice) -> None:
        """Raises DeviceError when no controller leads to the device any more."""
        folder = identify.live_controller(device)
        if folder is None:
            raise DeviceError(errno.ENODEV, f"{device.given}: no NVMe controller leads to it; is it still connected?")
        self.device = device
        self.node = Node(device, str(device.roots.dev / folder.name), folder / "dev")
        self.controller = self.node.path
        # Read once: were the namespace gone later, there would be none to name, and another one to hit.
        self.nsid = identify.number(device.disk / "nsid")
        if not self.nsid:
            raise DeviceError(errno.ENODEV, f"{device.given}: the kernel names no namespace; is it still connected?")

    @cached_property
    def capabilities(self) -> dict[str, Any]:
        """Identify Controller. Raises DeviceError."""
        return self._json("id-ctrl", self.controller)

    def capability(self, name: str) -> int:
        """A field of Identify Controller. Raises DeviceError."""
        return self._number(self.capabilities, name, "id-ctrl")

    def namespace(self) -> Namespace:
        """Identify Namespace, read anew. Raises DeviceError."""
        data = self._json("id-ns", self.controller, f"--namespace-id={self.nsid}")
        return Namespace(*(self._number(data, field.name, "id-ns") for field in fields(Namespace)))

    def other_namespaces(self) -> list[int]:
        """Ids of the subsystem's other namespaces, attached here or not. Raises DeviceError."""
        found = self._listed()
        if self.nsid not in found:
            raise DeviceError(errno.EIO, f"{self._at}: nvme list-ns does not list this namespace; update nvme-cli")
        # Namespace management (OACS bit 3) comes with a list of those that are attached elsewhere or nowhere.
        if self.capability("oacs") & 1 << 3:
            found |= self._listed("--all")
        return sorted(found - {self.nsid})

    def _listed(self, *options: str) -> set[int]:
        data = self._json("list-ns", self.controller, *options)
        entries = data.get("nsid_list", data.get("namespaces", []))
        try:
            return {int(entry["nsid"]) if isinstance(entry, dict) else int(entry) for entry in entries}
        except (KeyError, TypeError, ValueError) as error:
            raise DeviceError(errno.EIO, f"{self._at}: nvme list-ns is not understood; update nvme-cli") from error

    def feature(self, feature: int) -> int:
        """The current value. Raises DeviceError."""
        output = tools.done(tools.run("nvme", "get-feature", self.controller, f"--feature-id={feature}"), self._at)
        found = _FEATURE_VALUE.search(output.text)
        if found is None:
            raise DeviceError(errno.EIO, f"{self._at}: nvme get-feature says {output.complaint!r}")
        return int(found[1], 16)

    def set_feature(self, feature: int, value: int, keep: int | None = None) -> None:
        """The current value only: never --save. `keep`: see tools.Command. Raises DeviceError."""
        arguments = (f"--feature-id={feature}", f"--value={value}")
        tools.done(tools.run("nvme", "set-feature", self.node.checked(), *arguments, keep=keep), self._at)

    def sanitize_log(self) -> SanitizeLog:
        """Raises DeviceError, also when the drive has no such log."""
        output = tools.run("nvme", "sanitize-log", self.controller, "--raw-binary")
        return SanitizeLog.parse(tools.done(output, self._at).raw)

    def _number(self, data: dict[str, Any], name: str, command: str) -> int:
        try:
            return int(data[name])
        except (KeyError, TypeError, ValueError) as error:
            raise DeviceError(errno.EIO, f"{self._at}: nvme {command} has no {name}; update nvme-cli") from error

    def _json(self, command: str, *arguments: str) -> dict[str, Any]:
        output = tools.done(tools.run("nvme", command, *arguments, "--output-format=json"), self._at)
        try:
            data = json.loads(output.raw)
        except ValueError as error:
            raise DeviceError(errno.EIO, f"{self._at}: nvme {command} gives no JSON ({error}); update it") from error
        if not isinstance(data, dict):
            raise DeviceError(errno.EIO, f"{self._at}: nvme {command} gives JSON that is no object; update it")
        return data

    @property
    def _at(self) -> str:
        return f"{self.device.given} ({self.controller})"
