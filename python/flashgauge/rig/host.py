"""The test platform for the report (5.2, 5.3): what the kernel and the firmware tables say of this machine."""

from __future__ import annotations

import os
import shlex

from flashgauge.rig.identify import Roots, read_text
from flashgauge.runfolder import HostInfo


def host_info(hba: str | None = None, roots: Roots = Roots()) -> HostInfo:  # noqa: B008 - Roots is frozen
    """None in every field without a source. `hba`: the adapter the drive hangs on (`identify.host_adapter`)."""
    kernel = os.uname()
    return HostInfo(
        # Machines without DMI tables name themselves in the device tree.
        system=_dmi(roots, "sys_vendor", "product_name") or read_text(roots.sys / "firmware/devicetree/base/model"),
        motherboard=_dmi(roots, "board_vendor", "board_name"),
        cpu=_cpu(roots),
        memory_bytes=_memory_bytes(roots),
        hba=hba,
        operating_system=_os_release(roots).get("PRETTY_NAME"),
        kernel=f"{kernel.sysname} {kernel.release} {kernel.machine}",
    )


def _dmi(roots: Roots, *names: str) -> str | None:
    parts = [read_text(roots.sys / "class/dmi/id" / name) for name in names]
    return " ".join(part for part in parts if part) or None


def _cpu(roots: Roots) -> str | None:
    """Model and number of logical CPUs: "2 x Example CPU @ 2.0 GHz (32 logical CPUs)"."""
    entries = [line.partition(":") for line in (read_text(roots.proc / "cpuinfo") or "").splitlines()]
    values = [(name.strip(), value.strip()) for name, _, value in entries]
    models = [value for name, value in values if name == "model name"]
    if not models:
        return None
    packages = len({value for name, value in values if name == "physical id"}) or 1
    count = f"{packages} x " if packages > 1 else ""
    return f"{count}{models[0]} ({len(models)} logical CPUs)"


def _memory_bytes(roots: Roots) -> int | None:
    for line in (read_text(roots.proc / "meminfo") or "").splitlines():
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) * 1024
    return None


def _os_release(roots: Roots) -> dict[str, str]:
    """os-release(5): NAME=VALUE lines, values quoted as in a shell."""
    values: dict[str, str] = {}
    for line in (read_text(roots.etc / "os-release") or "").splitlines():
        name, equals, value = line.partition("=")
        if equals and not name.startswith("#"):
            values[name] = "".join(shlex.split(value))
    return values
