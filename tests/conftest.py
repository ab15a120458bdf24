"""Fixtures that several files share: the program as a user starts it, and block devices of the tests' own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from blockdevices import MIB, filled, loop_on, zram_of

# The console script of the environment that runs the tests; not what PATH happens to hold.
PROGRAM = Path(sys.executable).parent / "flashgauge"
PATIENCE_S = 120

# A whole IOPS test with every step, in virtual time, in about a second.
SHORT = ("--set", "point_s=0.05", "--set", "wipc_capacities=0.05", "--set", "max_rounds=5")

Cli = Callable[..., subprocess.CompletedProcess[str]]


def pytest_configure() -> None:
    # A shell that starts the tests in the background would have them, and all they start, ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Records of drives to put back go to a folder of the test's own, not to the machine's."""
    monkeypatch.setenv("FLASHGAUGE_STATE", str(tmp_path_factory.mktemp("state")))


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Runs `flashgauge ARGUMENTS...` in an empty folder."""
    return lambda *arguments, cwd=tmp_path: run_cli(cwd, *arguments)


def run_cli(cwd: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=PATIENCE_S, env=environment())


def start_cli(cwd: Path, *arguments: str | Path) -> subprocess.Popen[str]:
    command = [str(PROGRAM), *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, cwd=cwd, stdout=pipe, stderr=pipe, text=True, env=environment())


def environment() -> dict[str, str]:
    # A wide, colourless terminal: what is looked for must not be cut by a line break.
    return {**os.environ, "COLUMNS": "400", "NO_COLOR": "1", "TERM": "dumb"}


def one_line(result: subprocess.CompletedProcess[str], code: int) -> str:
    """The one line on stderr that an error is to be, and its exit code."""
    assert result.returncode == code, result.stderr
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr
    assert lines[0].startswith("flashgauge: ")
    assert len(lines[0]) > len("flashgauge: ") + 10
    return lines[0]


def run_json(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "run.json").read_text())


def disclosure_kinds(folder: Path) -> set[str]:
    return {item["kind"] for item in run_json(folder)["disclosures"]}


@pytest.fixture(scope="session")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished, shortened run on a simulated drive; not to be changed: copy it."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    result = run_cli(folder.parent, "run", "iops", "sim:sata-enterprise?capacity=1GB", *SHORT, "--out", folder)
    assert result.returncode == 0, result.stderr
    return folder


@pytest.fixture
def loop_device(tmp_path: Path) -> Iterator[str]:
    """A loop device of 128 MiB on a file of the test's own, past the page cache where the file system allows it."""
    with loop_on(filled(tmp_path / "disk.img", 128 * MIB), "--direct-io=on") as path:
        yield path


@pytest.fixture
def zram_device() -> Iterator[str]:
    """A zram device of 128 MiB."""
    with zram_of(128 * MIB) as path:
        yield path
