"""The question before data is destroyed: what it tells, what it takes for an answer, and when it is not asked."""

from __future__ import annotations

import os
import pty
import select
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blockdevices import MIB, filled, loop_on, tool
from conftest import PATIENCE_S, PROGRAM, environment, one_line, run_cli, run_json

QUESTION = "to go on, anything else to leave: "
SHORTEST = ("--set", "point_s=0.01", "--set", "wipc_capacities=0.05", "--set", "max_rounds=5")
LIGHT = ("--set", "thread_count=1", "--set", "queue_depth=1", "--set", "block_sizes_kib=1024,64,4")
TEST = ("run", "iops", *SHORTEST, *LIGHT, "--set", "read_percents=100,65,0", "--out", "run")


class Terminal:
    """The program with a terminal for input and errors; its output goes to a file."""

    def __init__(self, cwd: Path, *arguments: str) -> None:
        self._ours, theirs = pty.openpty()
        self.output = cwd / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(PROGRAM), *arguments],
                cwd=cwd,
                stdin=theirs,
                stdout=output,
                stderr=theirs,
                env=environment(),
                start_new_session=True,
                preexec_fn=own_terminal,
            )
        os.close(theirs)
        self.text = ""

    def read_until(self, wanted: str) -> str:
        until_s = time.monotonic() + PATIENCE_S
        while wanted not in self.text:
            assert time.monotonic() < until_s, self.text
            assert self._more(), f"ended without {wanted!r}: {self.text}"
        return self.text

    def wait_for_reader(self) -> None:
        """Until the program sleeps in a read of its input."""
        until_s, call = time.monotonic() + PATIENCE_S, Path(f"/proc/{self.process.pid}/syscall")
        while not call.read_text().startswith("0 0x0 "):
            assert time.monotonic() < until_s, call.read_text()
            time.sleep(0.01)

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def rest(self) -> tuple[int, str]:
        """The exit code, and what came after what was read before."""
        before, until_s = len(self.text), time.monotonic() + PATIENCE_S
        while self._more():
            assert time.monotonic() < until_s, self.text
        return self.process.wait(PATIENCE_S), self.text[before:]

    def _more(self) -> bool:
        if not select.select([self._ours], [], [], 1.0)[0]:
            return True
        try:
            data = os.read(self._ours, 4096)
        except OSError:  # the other side is closed
            return False
        self.text += data.decode()
        return bool(data)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._ours)


def own_terminal() -> None:
    """Makes the terminal the one that controls the process, so that Ctrl-C reaches it."""
    import fcntl
    import termios

    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


@contextmanager
def at_a_terminal(cwd: Path, *arguments: str) -> Iterator[Terminal]:
    terminal = Terminal(cwd, *arguments)
    try:
        yield terminal
    finally:
        terminal.close()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[str]:
    """A loop device of 32 MiB with a labelled file system on it."""
    with loop_on(filled(tmp_path / "disk.img", 32 * MIB)) as path:
        tool("mkfs.ext4", "-q", "-L", "family photos", path)
        yield path


def untouched(disk: str, cwd: Path) -> bool:
    """The file system is as it was, and there is no run folder."""
    return subprocess.run(["e2fsck", "-fn", disk], capture_output=True).returncode == 0 and not (cwd / "run").exists()


def test_the_question_says_what_will_be_lost_and_the_serial_answers_it(disk: str, tmp_path: Path) -> None:
    name = Path(disk).name
    with at_a_terminal(tmp_path, *TEST, disk) as terminal:
        asked = terminal.read_until(QUESTION)
        for part in (
            "ALL DATA ON THIS DEVICE WILL BE DESTROYED",
            f"{disk} (0.0335544 GB",
            "no serial number",
            f'{name}: ext4 "family photos"',
            "Type its kernel name to go on",
        ):
            assert part in asked
        terminal.type(f"{name}\n")
        code, after = terminal.rest()
        assert code == 0, after
    assert run_json(tmp_path / "run")["state"] == "complete"


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("yes\n", "'yes' is not its kernel name; nothing was written"),
        ("LOOP\n", "'LOOP' is not its kernel name; nothing was written"),
        ("\n", "no consent given; nothing was written"),
        ("\x04", "no consent given; nothing was written"),
    ],
)
def test_anything_else_leaves_with_one_line(disk: str, tmp_path: Path, typed: str, said: str) -> None:
    with at_a_terminal(tmp_path, *TEST, disk) as terminal:
        terminal.read_until(QUESTION)
        terminal.type(typed)
        code, after = terminal.rest()
    lines = [line for line in after.splitlines() if line and line != typed.strip()]
    assert code == 2
    assert len(lines) == 1, after
    assert lines[0].startswith("flashgauge: ")
    assert said in lines[0]
    assert untouched(disk, tmp_path)


def test_ctrl_c_at_the_question_is_an_interruption(disk: str, tmp_path: Path) -> None:
    with at_a_terminal(tmp_path, *TEST, disk) as terminal:
        terminal.read_until(QUESTION)
        terminal.wait_for_reader()
        terminal.type("\x03")
        code, after = terminal.rest()
    assert code == 130
    assert "flashgauge: interrupted" in after
    assert untouched(disk, tmp_path)


def test_a_campaign_asks_once_for_all_its_tests(disk: str, tmp_path: Path) -> None:
    campaign = ("run", "iops", "tp", disk, *SHORTEST[:2], "--set", "max_rounds=5", "--out", "set")
    with at_a_terminal(tmp_path, *campaign) as terminal:
        terminal.read_until(QUESTION)
        terminal.type("no\n")
        code, after = terminal.rest()
    assert (code, "'no' is not its kernel name" in after) == (2, True)
    assert not (tmp_path / "set").exists()
    assert untouched(disk, tmp_path)


def test_a_device_in_use_is_refused_without_a_question(disk: str, tmp_path: Path) -> None:
    point = tmp_path / "point"
    point.mkdir()
    tool("mount", disk, str(point))
    try:
        with at_a_terminal(tmp_path, *TEST, disk) as terminal:
            code, text = terminal.rest()
    finally:
        subprocess.run(["umount", str(point)], check=True)
    assert code == 2
    assert "refused: mounted" in text
    assert QUESTION not in text


@pytest.mark.parametrize("more", [("--json",), ("--consent", "wrong")])
def test_no_question_for_programs_nor_with_a_consent(disk: str, tmp_path: Path, more: tuple[str, ...]) -> None:
    with at_a_terminal(tmp_path, *TEST, disk, *more) as terminal:
        code, text = terminal.rest()
    assert code == 2
    assert f"to consent add --consent {Path(disk).name}" in text
    assert QUESTION not in text


def test_no_question_without_a_terminal(disk: str, tmp_path: Path) -> None:
    line = one_line(run_cli(tmp_path, *TEST, disk), 2)
    assert f"to consent add --consent {Path(disk).name}" in line
    assert untouched(disk, tmp_path)


def test_no_question_where_nobody_can_read_it(disk: str, tmp_path: Path) -> None:
    """A terminal for input alone: errors go to a file."""
    ours, theirs = pty.openpty()
    try:
        result = subprocess.run(
            [str(PROGRAM), *TEST, disk],
            cwd=tmp_path,
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=environment(),
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert QUESTION not in one_line(result, 2)


def test_a_member_signature_takes_a_flag_of_its_own(disk: str, tmp_path: Path) -> None:
    consent = ("--consent", Path(disk).name)
    with Path(disk).open("r+b") as device:
        device.seek(512)
        device.write(b"LABELONE" + bytes(16) + b"LVM2 001")
    line = one_line(run_cli(tmp_path, *TEST, disk, *consent), 2)
    assert "carries a member signature" in line
    assert "--consent-signatures" in line
    one_line(run_cli(tmp_path, *TEST, disk, "--consent-signatures"), 2)
    result = run_cli(tmp_path, *TEST, disk, *consent, "--consent-signatures")
    assert result.returncode == 0, result.stderr
    run = run_json(tmp_path / "run")
    assert run["consent_signatures"] is True
    assert run["device_description"]["member_signatures"] == [f"{Path(disk).name}: LVM"]


def test_a_file_with_contents_is_asked_about_by_its_name(tmp_path: Path) -> None:
    file = filled(tmp_path / "precious.img", 32 * MIB)
    target = f"file:{file}"
    with at_a_terminal(tmp_path, *TEST, target) as terminal:
        asked = terminal.read_until(QUESTION)
        assert "ALL DATA ON THIS DEVICE WILL BE DESTROYED" in asked
        assert f"{target} ({32 * MIB} bytes, a file with contents)" in asked
        terminal.type("yes\n")
        code, after = terminal.rest()
    assert (code, "'yes' is not its name; nothing was written" in after) == (2, True)
    assert not (tmp_path / "run").exists()
    with at_a_terminal(tmp_path, *TEST, target) as terminal:
        terminal.read_until("Type its name to go on")
        terminal.type("precious.img\n")
        code, after = terminal.rest()
    assert code == 0, after


def test_a_file_that_is_replaced_at_the_question_is_not_written(tmp_path: Path) -> None:
    file = filled(tmp_path / "precious.img", 32 * MIB)
    with at_a_terminal(tmp_path, *TEST, f"file:{file}") as terminal:
        terminal.read_until(QUESTION)
        other = filled(tmp_path / "other.img", 32 * MIB)
        contents = other.read_bytes()
        other.replace(file)
        terminal.type("precious.img\n")
        code, after = terminal.rest()
    assert (code, "replaced since it was asked about" in after) == (2, True)
    assert file.read_bytes() == contents


def test_several_tests_on_a_file_take_its_name_too(tmp_path: Path) -> None:
    line = one_line(run_cli(tmp_path, "run", "iops", "tp", "file:/tmp/none.img?size=64MiB", "--out", "set"), 2)
    assert "each test destroys what the one before it left; add --consent none.img" in line
    with at_a_terminal(
        tmp_path, "run", "iops", "tp", f"file:{tmp_path}/new.img?size=64MiB", "--out", "set"
    ) as terminal:
        terminal.read_until("Type its name to go on")
        terminal.type("no\n")
        assert terminal.rest()[0] == 2
    assert not (tmp_path / "set").exists()
