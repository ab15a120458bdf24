"""One emulated machine for all tests; skipped, with the reason, where none can be had."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from machine import drives, qemu
from machine.qemu import CACHE, Machine


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    reason = qemu.missing()
    if reason is not None:
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("machine")
    # matplotlib looks through all fonts the first time, which takes minutes inside.
    command = [sys.executable, "-c", "import matplotlib.font_manager"]
    subprocess.run(command, env={**os.environ, "MPLCONFIGDIR": str(CACHE / "matplotlib")}, check=True, timeout=60)
    with Machine(folder, drives.arguments(folder)) as running:
        print(f"\nthe machine was up after {running.booted_s:.0f} s of its own time, by {running.accelerator}")
        yield running
