"""The data of writes, as a compressor and a deduplicating drive see it: read from a file the engine has written."""

from __future__ import annotations

import hashlib
import itertools
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from flashgauge._core import Session, TargetError
from flashgauge.steps import KIB, Stimulus, Stop

MIB = KIB * KIB
GIB = KIB * MIB
BLOCK = 4 * KIB


def written(path: Path, size: int, stimulus: Stimulus, *, passes: int = 1, seed: int = 7) -> Path:
    """The file, after sequential or random writes of so many times its size."""
    with path.open("wb") as file:
        file.truncate(size)
    threads, depth = stimulus.thread_count, stimulus.queue_depth
    try:
        session = Session.block(str(path), size, seed, threads, depth, stimulus.block_sizes[0][0], False)
    except TargetError as error:
        pytest.skip(str(error))
    with closing(session):
        session.start(stimulus.to_json(), Stop(bytes=passes * size).to_json(), 10**9, True)
        while (raw := session.wait(1.0)) is None:
            pass
        assert raw["written_bytes"] == passes * size
    return path


def sequential(block: int, depth: int, entropy: int, threads: int = 1) -> Stimulus:
    return Stimulus("sequential", ((block, 1),), 0, threads, depth, entropy_percent=entropy)


def compressed_percent(path: Path, *level: str) -> float:
    """Size of the whole file after zstd, in percent."""
    out = path.with_suffix(".zst")
    subprocess.run(["zstd", "-q", "-f", *level, str(path), "-o", str(out)], check=True, timeout=300)
    return 100 * out.stat().st_size / path.stat().st_size


needs_zstd = pytest.mark.skipif(shutil.which("zstd") is None, reason="zstd is not installed: apt-get install zstd")


@needs_zstd
@pytest.mark.parametrize("entropy", [0, 10, 25, 50, 75, 90, 100])
def test_a_compressor_finds_the_entropy_asked_for(entropy: int, tmp_path: Path) -> None:
    path = written(tmp_path / "disk.img", 16 * MIB, sequential(BLOCK, 32, entropy))
    assert compressed_percent(path) == pytest.approx(entropy, abs=3)


@needs_zstd
@pytest.mark.parametrize("entropy", [50, 100])
@pytest.mark.parametrize(("block", "depth"), [(512, 1), (BLOCK, 1), (16 * KIB, 4), (128 * KIB, 32), (MIB, 4)])
def test_neither_block_size_nor_depth_change_that(block: int, depth: int, entropy: int, tmp_path: Path) -> None:
    path = written(tmp_path / "disk.img", 48 * MIB if block > BLOCK else 8 * MIB, sequential(block, depth, entropy))
    assert compressed_percent(path) == pytest.approx(entropy, abs=3)


@needs_zstd
def test_a_larger_window_finds_no_more(tmp_path: Path) -> None:
    """8 MiB and more, where the buffers that are written from hold 128 KiB: random writes, several over one another."""
    stimulus = Stimulus("random", ((BLOCK, 1),), 0, 2, 16, entropy_percent=60)
    path = written(tmp_path / "disk.img", 24 * MIB, sequential(BLOCK, 32, 60))
    assert compressed_percent(path, "-12", "--long=27") == pytest.approx(60, abs=3)
    path = written(tmp_path / "disk.img", 24 * MIB, stimulus, passes=8)
    assert compressed_percent(path, "--long=27") == pytest.approx(60, abs=3)


def repeated_blocks(path: Path) -> int:
    """4 KiB blocks whose contents another one has too."""
    seen: set[bytes] = set()
    repeated = 0
    with path.open("rb") as file:
        while data := file.read(MIB):
            blocks = memoryview(data)
            for start in range(0, len(data), BLOCK):
                digest = hashlib.blake2b(blocks[start : start + BLOCK], digest_size=16).digest()
                repeated += digest in seen
                seen.add(digest)
    return repeated


@pytest.mark.parametrize("entropy", [0, 100])
def test_no_two_blocks_are_equal(entropy: int, tmp_path: Path) -> None:
    path = written(tmp_path / "disk.img", 32 * MIB, sequential(BLOCK, 32, entropy, threads=2))
    assert repeated_blocks(path) == 0
    path = written(tmp_path / "disk.img", 32 * MIB, sequential(128 * KIB, 32, entropy, threads=2))
    assert repeated_blocks(path) == 0


@pytest.mark.slow
@pytest.mark.parametrize(("block", "entropy"), list(itertools.product((BLOCK, 128 * KIB), (0, 100))))
def test_no_two_blocks_of_a_gibibyte_are_equal(block: int, entropy: int, tmp_path: Path) -> None:
    if shutil.disk_usage(tmp_path).free < 2 * GIB:
        pytest.skip("needs 2 GiB of disk space")
    path = written(tmp_path / "disk.img", GIB, sequential(block, 32, entropy, threads=4))
    assert repeated_blocks(path) == 0
    path.unlink()


def test_a_repeated_block_is_found(tmp_path: Path) -> None:
    """The check itself: it finds what is repeated."""
    path = written(tmp_path / "disk.img", MIB, sequential(BLOCK, 4, 100))
    data = path.read_bytes()
    path.write_bytes(data + data[: 3 * BLOCK])
    assert repeated_blocks(path) == 3
