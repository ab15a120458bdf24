"""From the folder of a run to a verifier of what it wrote: on the same device, or none."""

from __future__ import annotations

from pathlib import Path

from flashgauge._core import Verifier
from flashgauge.execute import RequestError
from flashgauge.rig import identify
from flashgauge.rig.target import parse_target
from flashgauge.runfolder import Run, read_run


def verifier_of(folder: Path) -> Verifier:
    """Raises RunFolderError, RequestError when there is nothing to verify or the device is another, DeviceError."""
    run = read_run(folder)
    if not run.verifiable:
        raise RequestError(f"{folder}: what this run wrote cannot be verified; make one with: flashgauge run --verify")
    block = run.dut.logical_block_bytes
    return Verifier(_path_of(run, folder), run.dut.capacity_bytes // block * block, run.seed)


def _path_of(run: Run, folder: Path) -> str:
    target = parse_target(run.dut.target)
    if target.kind != "block":
        return target.path
    device = identify.find_block(target.path)
    now = identify.identity(device)
    then = run.device_description.get("identity", {})
    # The other facts change when a drive is connected anew.
    for name in ("serial", "wwid", "size_bytes"):
        before, after = then.get(name), getattr(now, name)
        if before is not None and after != before:
            raise RequestError(f"{folder}: {target.path} is another device now: its {name} is {after}, it was {before}")
    return device.path
