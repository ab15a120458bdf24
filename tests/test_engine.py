"""The engine through the binding: memory that is touched, the open loop's measurement, no-ops through the ring."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from blockdevices import MIB, zram_of
from flashgauge._core import Session, TargetError
from flashgauge.driver import _measurement
from flashgauge.measurement import Measurement
from flashgauge.steps import Stimulus, Stop

READS_AT_T32Q32 = """
import sys
from flashgauge._core import Session
from flashgauge.steps import Stimulus, Stop
def anonymous_bytes():
    return 1024 * int(open("/proc/self/status").read().split("RssAnon:")[1].split()[0])
before = anonymous_bytes()
session = Session.block(sys.argv[1], 64 << 20, 1, 32, 32, 1 << 20, True)
stimulus = Stimulus("random", ((1 << 20, 1),), 100, 32, 32)
session.start(stimulus.to_json(), Stop(ios=2000).to_json(), 10**9, True)
while session.wait(1.0) is None:
    pass
print(anonymous_bytes() - before)
"""


def run(session: Session, stimulus: Stimulus, stop: Stop) -> Measurement:
    session.start(stimulus.to_json(), stop.to_json(), 10**9, True)
    while (raw := session.wait(1.0)) is None:
        pass
    return _measurement(raw)


def test_reads_of_a_long_queue_of_large_blocks_share_their_memory() -> None:
    """1024 reads of 1 MiB in flight, and no gigabyte for data that nobody looks at."""
    with zram_of(64 * MIB) as device:
        done = subprocess.run(
            [sys.executable, "-c", READS_AT_T32Q32, device], capture_output=True, text=True, check=True, timeout=120
        )
    assert int(done.stdout) < 100 * MIB


def test_an_open_loop_is_measured_from_when_its_ios_were_due() -> None:
    with closing(Session.simulated("sata-enterprise", '{"capacity_bytes": 1000000000}', 1, 4, 32)) as session:
        stimulus = Stimulus("random", ((4096, 1),), 100, 4, 32, rate_iops=20_000, arrivals="poisson")
        result = run(session, stimulus, Stop(seconds=1.0))
        assert result.intended_ios == result.submitted_ios
        lateness = result.lateness_histogram
        assert lateness is not None
        assert lateness.count == result.submitted_ios
        # Kept in the journal, the same comes back.
        again = Measurement.from_json(json.loads(json.dumps(result.to_json())))
        assert again.intended_ios == result.intended_ios
        assert again.lateness_histogram is not None
        assert again.lateness_histogram.buckets() == lateness.buckets()
        closed = run(session, Stimulus("random", ((4096, 1),), 100, 4, 32), Stop(ios=1009))
        assert (closed.intended_ios, closed.lateness_histogram) == (None, None)


@pytest.mark.parametrize("rate", [0, -1, float("inf")])
def test_a_rate_that_is_none_is_refused(rate: float) -> None:
    with closing(Session.null(1 << 30, 1, 1, 1)) as session, pytest.raises(ValueError):
        session.start(
            Stimulus("random", ((4096, 1),), 100, 1, 1, rate_iops=rate).to_json(), Stop(ios=1).to_json(), 10**9, True
        )


def test_no_ops_through_the_ring_come_back() -> None:
    try:
        session = Session.nop(1 << 40, 1, 1, 32)
    except TargetError as error:
        pytest.skip(f"no io_uring here: {error}")
    with closing(session):
        result = run(session, Stimulus("random", ((4096, 1),), 65, 1, 32), Stop(ios=10_007))
        assert (result.ios, result.submitted_ios, result.histogram.count) == (10_007,) * 3


def test_the_figures_have_their_place_in_the_documents() -> None:
    """`make bench-engine` writes between these marks."""
    page = (Path(__file__).parent.parent / "docs/engine.md").read_text()
    assert page.index("<!-- figures -->") < page.index("<!-- end of figures -->")
