"""Simulated drives: closed forms against published values, derived limits against the simulator, `flashgauge sim`."""

from __future__ import annotations

import json
import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from flashgauge import simulation
from flashgauge._core import Session, TargetError, preset_description, preset_names, preset_text
from flashgauge.cli import sim
from flashgauge.steps import KIB, Stimulus, Stop

# SIMULATION notes, section 2: rho = 1 / alpha -> greedy with blocks of 64, 256 and 1024 units, FIFO.
PUBLISHED = {
    0.93: (6.6155, 7.1240, 7.2682, 7.3177),
    0.90: (4.8213, 5.0832, 5.1544, 5.1787),
    0.85: (3.3536, 3.4759, 3.5079, 3.5187),
    0.80: (2.5993, 2.6684, 2.6866, 2.6927),
    0.70: (1.8333, 1.8652, 1.8734, 1.8762),
}
BLOCKS = (64, 256, 1024)
# Enough superblocks for the laws, and little enough for a test: rates do not depend on the capacity.
SMALL = {name: {"capacity_bytes": 2_048_000_000 if name.startswith("nvme") else 512_000_000} for name in preset_names()}
SETTLING = 8


def described(name: str, **changes: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    facts = json.loads(preset_description(name, json.dumps(changes)))
    return facts["parameters"], facts["geometry"]


class Bench:
    """A simulated drive of a test's own."""

    def __init__(self, name: str, changes: dict[str, Any]) -> None:
        self.session = Session.simulated(name, json.dumps(changes), 1, 4, 32)
        self.units = self.session.range_bytes // 4096

    def rate(self, kib: float, read_percent: float, stop: Stop, sequential: bool = False) -> float:
        """IOPS at T4Q32, sequential ones at T1Q32."""
        access, threads = ("sequential", 1) if sequential else ("random", 4)
        stimulus = Stimulus(access, ((int(kib * KIB), 1),), read_percent, threads, 32)  # type: ignore[arg-type]
        self.session.start(stimulus.to_json(), stop.to_json(), 10**9, True)
        raw = self.session.wait(120)
        assert raw is not None
        return float((raw["read"]["window_ios"] + raw["write"]["window_ios"]) * 1e9 / raw["window_ns"])

    def fill(self) -> None:
        self.rate(128, 0, Stop(bytes=2 * self.units // 32 * 32 * 4096), sequential=True)

    def settle(self) -> None:
        self.fill()
        self.rate(4, 0, Stop(ios=SETTLING * self.units))


# Closed forms


@pytest.mark.parametrize("rho", PUBLISHED)
def test_amplification_has_the_published_values(rho: float) -> None:
    *greedy, fifo = PUBLISHED[rho]
    for block, value in zip(BLOCKS, greedy, strict=True):
        assert simulation.amplification_greedy(1 / rho, block) == pytest.approx(value, abs=6e-5)
    assert simulation.amplification_fifo(1 / rho) == pytest.approx(fifo, abs=6e-5)


@given(alpha=st.floats(1.005, 12), block=st.integers(8, 4000))
def test_amplification_is_where_it_must_be(alpha: float, block: int) -> None:
    """Never below 1, never above FIFO's, and less the smaller the block; the fixed point of FIFO's own equation."""
    fifo = simulation.amplification_fifo(alpha)
    assert fifo * (1 - 2.718281828459045 ** (-alpha / fifo)) == pytest.approx(1, abs=1e-9)
    greedy = simulation.amplification_greedy(alpha, block)
    assert 1 <= greedy <= fifo * (1 + 1e-9)
    assert greedy <= simulation.amplification_greedy(alpha, 4 * block) * (1 + 1e-9)


def test_without_spare_there_is_no_amplification_to_give() -> None:
    for form in (simulation.amplification_fifo, lambda alpha: simulation.amplification_greedy(alpha, 64)):
        with pytest.raises(ValueError, match="spare"):
            form(1.0)


# Derived limits against the simulator


@pytest.mark.parametrize("name", preset_names())
def test_derived_rates_are_the_simulators(name: str) -> None:
    """Measured at the same capacity: fresh and steady RND 4 KiB writes and the link's reads."""
    limits = simulation.limits(*described(name, **SMALL[name]))
    bench = Bench(name, SMALL[name])
    assert bench.rate(4, 0, Stop(ios=bench.units // 2)) == pytest.approx(limits.fresh_write_4k_iops, rel=0.01)
    bench.settle()
    assert bench.rate(4, 0, Stop(ios=bench.units)) == pytest.approx(limits.steady_write_4k_iops, rel=0.02)
    bench.session.idle(5)
    assert bench.rate(4, 100, Stop(seconds=2)) == pytest.approx(limits.link_read_4k_iops, rel=0.005)
    large = bench.rate(1024, 100, Stop(seconds=5), sequential=True) * 1.048576
    assert large == pytest.approx(limits.link_read_1024k_mb_per_s, rel=0.005)


@pytest.mark.parametrize("spare", [0.07, 0.12, 0.28, 0.5])
def test_derived_amplification_is_the_simulators(spare: float) -> None:
    """Where programs are all that takes time, fresh rate / steady rate is the write amplification."""
    changes = {
        **SMALL["sata-enterprise"],
        "over_provisioning": spare,
        "read_us": 0.001,
        "erase_ms": 1e-6,
        "channel_mb_per_s": 1e9,
        "link_write_max_iops": 1e9,
        "link_write_mb_per_s": 1e9,
        "link_write_overhead_us": 0.0,
        "write_commands_per_map_page": 0,
    }
    limits = simulation.limits(*described("sata-enterprise", **changes))
    bench = Bench("sata-enterprise", changes)
    fresh = bench.rate(4, 0, Stop(ios=bench.units // 2))
    bench.settle()
    measured = fresh / bench.rate(4, 0, Stop(ios=2 * bench.units))
    assert measured == pytest.approx(limits.write_amplification_greedy, rel=0.01)


def test_slow_dies_and_slow_channels_are_seen() -> None:
    """Peak programs is what a fresh drive's sequential writes reach; slow channels limit random ones."""
    changes: dict[str, Any] = {**SMALL["sata-enterprise"], "program_us": 4000.0, "channel_mb_per_s": 1e9}
    limits = simulation.limits(*described("sata-enterprise", **changes))
    bench = Bench("sata-enterprise", changes)
    bench.rate(1024, 0, Stop(ios=32), sequential=True)
    rate = bench.rate(1024, 0, Stop(ios=400), sequential=True) * 1.048576
    assert rate == pytest.approx(limits.program_mb_per_s, rel=0.02)
    slow = described("sata-enterprise", **{**changes, "program_us": 1.0, "channel_mb_per_s": 5.0})
    assert simulation.write_4k_iops(slow[0], 2.0) == pytest.approx(8 * 5e6 / 4096 / 3), "channels: 2 A - 1 transfers"


# Presets


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_what_their_text_says(name: str) -> None:
    text = preset_text(name)
    assert described(name)[0] == tomllib.loads(text)
    sources = simulation.sources(text)
    assert list(sources) == list(tomllib.loads(text))
    numbers = [key for key, value in tomllib.loads(text).items() if type(value) in (int, float)]
    assert [key for key in numbers if not sources[key]] == []
    assert simulation.headline(text).endswith(".")


# The command line

RUN = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def told(*arguments: str) -> str:
    result = RUN.invoke(sim.app, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_list_names_every_preset() -> None:
    rows = json.loads(told("list", "--json"))
    assert [row["name"] for row in rows] == preset_names()
    shown = told("list")
    for row in rows:
        line = next(line for line in shown.splitlines() if line.split()[0] == row["name"])
        assert f"{row['capacity_bytes'] / 1e9:,.0f} GB" in line
        assert row["interface"] in line
        assert row["description"][:30] in line


@pytest.mark.parametrize("name", preset_names())
def test_describe_shows_every_parameter_with_its_source(name: str) -> None:
    facts = json.loads(told("describe", name, "--json"))
    assert {key: value["value"] for key, value in facts["parameters"].items()} == tomllib.loads(preset_text(name))
    assert facts["limits"]["steady_write_4k_iops"] > 0
    assert set(facts["limits"]) == set(sim.LIMITS)
    shown = told("describe", name)
    for key, parameter in facts["parameters"].items():
        line = next(line for line in shown.splitlines() if line.startswith(f"{key} "))
        assert parameter["source"][:20] in line
    assert all(what in shown for what, _, _ in sim.LIMITS.values())


def test_describe_shows_what_was_changed() -> None:
    drive = "sata-client?capacity=8GB&dies=8&interface=[red]"
    facts = json.loads(told("describe", drive, "--json"))
    assert facts["parameters"]["capacity_bytes"]["value"] == 8_000_000_000
    assert facts["parameters"]["capacity_bytes"]["preset_value"] == 128_035_676_160
    whole = json.loads(told("describe", "sim:sata-client", "--json"))
    assert facts["limits"]["programs_per_s"] == whole["limits"]["programs_per_s"] / 2
    assert facts["limits"]["memory_bytes"] < whole["limits"]["memory_bytes"] / 10
    shown = told("describe", drive)
    assert "changed; the preset has 128,035,676,160" in shown
    assert "[red]" in shown


@pytest.mark.parametrize(
    ("drive", "named"),
    [("nosuch", "sata-client"), ("", "sata-client"), ("sata-client?warp=9", "warp"), ("sata-client?dies=0", "dies")],
)
def test_describe_names_what_is_wrong(drive: str, named: str) -> None:
    result = RUN.invoke(sim.app, ["describe", drive])
    assert isinstance(result.exception, TargetError)
    assert named in str(result.exception)
    assert not result.stdout
