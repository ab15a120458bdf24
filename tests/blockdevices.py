"""Block devices of the tests' own: loop devices on own files, zram devices from hot_add, small tmpfs mounts.

Nothing here touches a device it did not create: losetup picks a free one, hot_add returns a new number, and both
are taken down again whatever the test did. Where the machine cannot provide them the test is skipped, with the reason.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20
ZRAM_CONTROL = Path("/sys/class/zram-control")
REMOVE_WITHIN_S = 10.0


def need_root(what: str) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"{what} needs root")


def tool(*command: str) -> str:
    """Output of a command. Skips the test where the program is missing; raises CalledProcessError when it fails."""
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def filled(file: Path, size_bytes: int) -> Path:
    """The file, full of data that does not compress: reads from holes would not reach the disk."""
    with file.open("wb") as stream:
        for _ in range(size_bytes // MIB):
            stream.write(os.urandom(MIB))
        stream.flush()
        os.fsync(stream.fileno())
    return file


@contextmanager
def loop_on(file: Path, *options: str) -> Iterator[str]:
    """A loop device on `file`; detached afterwards, by the name losetup gave and only while it is on this file."""
    need_root("a loop device")
    try:
        path = tool("losetup", "--find", "--show", *options, str(file))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no loop device to be had: {error.stderr.strip()}")
    try:
        yield path
    finally:
        backing = Path(f"/sys/class/block/{Path(path).name}/loop/backing_file")
        if backing.exists() and backing.read_text().startswith(str(file)):
            subprocess.run(["losetup", "--detach", path], check=True)


@contextmanager
def queue_setting(device: str, name: str, value: str) -> Iterator[Path]:
    """A setting of the device's queue, and as before afterwards: a loop device keeps it for the next file."""
    setting = Path(f"/sys/block/{Path(device).name}/queue/{name}")
    before = setting.read_text()
    if (chosen := re.search(r"\[(.*)\]", before)) is not None:
        before = chosen[1]
    try:
        setting.write_text(value)
    except OSError as error:
        pytest.skip(f"{setting} does not take {value}: {error.strerror}")
    try:
        yield setting
    finally:
        setting.write_text(before)


@contextmanager
def zram_of(size_bytes: int) -> Iterator[str]:
    """A new zram device of this size; removed afterwards."""
    need_root("a zram device")
    if not (ZRAM_CONTROL / "hot_add").exists():
        pytest.skip("this kernel has no zram")
    number = (ZRAM_CONTROL / "hot_add").read_text().strip()
    try:
        Path(f"/sys/block/zram{number}/disksize").write_text(str(size_bytes))
        yield f"/dev/zram{number}"
    finally:
        _remove_zram(number)


def _remove_zram(number: str) -> None:
    """udev looks at a device that was just closed, and holds it busy for a moment."""
    until_s = time.monotonic() + REMOVE_WITHIN_S
    while True:
        try:
            (ZRAM_CONTROL / "hot_remove").write_text(number)
            return
        except OSError:
            if time.monotonic() > until_s:
                raise
            time.sleep(0.05)


@contextmanager
def tmpfs_at(point: Path, size: str) -> Iterator[Path]:
    """A file system in memory at `point`, unmounted afterwards."""
    need_root("a mount")
    point.mkdir()
    try:
        tool("mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(point))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tmpfs here: {error.stderr.strip()}")
    try:
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)


class BlockTrace:
    """The kernel's own record of one device's requests: block_rq_issue and block_rq_complete, by tracefs.

    It has a trace instance of its own, so that it disturbs no other tracer. Times are CLOCK_MONOTONIC, in ns.
    Limits: only for devices with a request queue (loop, not zram).
    """

    EVENTS = ("block_rq_issue", "block_rq_complete")

    def __init__(self, tracefs: Path, device: str) -> None:
        self._instance = tracefs / f"instances/flashgauge-test-{os.getpid()}"
        status = os.stat(device)
        self._number = os.major(status.st_rdev) << 20 | os.minor(status.st_rdev)  # the kernel's own dev_t
        self._named = f"{os.major(status.st_rdev)},{os.minor(status.st_rdev)}"

    def __enter__(self) -> BlockTrace:
        self._instance.mkdir()
        try:
            (self._instance / "trace_clock").write_text("mono")
            (self._instance / "buffer_size_kb").write_text("65536")
            for event in self.EVENTS:
                (self._instance / f"events/block/{event}/filter").write_text(f"dev == {self._number}")
                (self._instance / f"events/block/{event}/enable").write_text("1")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for event in self.EVENTS:
            (self._instance / f"events/block/{event}/enable").write_text("0")
        self._instance.rmdir()

    def lost(self) -> int:
        """Events that found no room in the buffer."""
        lines = [line for file in self._instance.glob("per_cpu/*/stats") for line in file.read_text().splitlines()]
        return sum(int(line.split(": ")[1]) for line in lines if line.startswith(("overrun", "dropped events")))

    def requests(self, all_of_them: bool = True) -> list[tuple[int, int, int]]:
        """(time in ns, +1 for an issue or -1 for a completion, sectors) of all requests, in order of time.

        Raises RuntimeError when some were lost, unless it need not be all of them.
        """
        if all_of_them and (lost := self.lost()):
            raise RuntimeError(f"the trace lost {lost} events: trace less, or for a shorter time")
        found = []
        with (self._instance / "trace").open() as trace:
            for line in trace:
                if line.startswith("#"):
                    continue
                if "LOST" in line and ": block_rq_" not in line:
                    if all_of_them:
                        raise RuntimeError(f"the trace lost events: {line.strip()}")
                    continue
                # "task-pid [cpu] flags seconds.micros: block_rq_issue: 7,0 R 4096 () 123 + 8 none,0,0 [task]"; the
                # task's name may hold spaces and colons, so the event's name is what is looked for.
                head, event, tail = line.partition(": block_rq_")
                fields = tail.split()
                assert event, f"not a block event: {line}"
                assert fields[1] == self._named, f"another device's event: {line}"
                plus = fields.index("+")
                seconds, micros = head.split()[-1].split(".")
                issued = 1 if fields[0] == "issue:" else -1
                found.append((int(seconds) * 10**9 + int(micros) * 1000, issued, int(fields[plus + 1])))
        found.sort(key=lambda request: request[0])
        return found


@contextmanager
def tracefs_at(point: Path) -> Iterator[Path]:
    """The kernel's tracing file system, mounted at `point`, whether or not it is mounted elsewhere too."""
    need_root("tracing")
    point.mkdir()
    try:
        tool("mount", "-t", "tracefs", "nodev", str(point))
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no tracefs here: {error.stderr.strip()}")
    try:
        if not (point / "events/block/block_rq_issue").exists():
            pytest.skip("this kernel traces no block requests")
        yield point
    finally:
        subprocess.run(["umount", str(point)], check=True)
