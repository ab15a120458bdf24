"""Simulated drives: closed forms against published values, derived limits against the simulator, `flashgauge sim`."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from conftest import Cli, one_line
from flashgauge import simulation
from flashgauge._core import Session, TargetError, preset_description, preset_names, preset_text
from flashgauge.cli import app as program
from flashgauge.cli import sim
from flashgauge.rig.base import SessionNeeds
from flashgauge.rig.simulated import simulated
from flashgauge.rig.target import parse_target
from flashgauge.simulation import amplification, ssd
from flashgauge.steps import KIB, Stimulus, Stop
from test_docs import tables

# SIMULATION notes, section 2: rho = 1 / alpha -> greedy with blocks of 64, 256 and 1024 units, FIFO.
PUBLISHED = {
    0.93: (6.6155, 7.1240, 7.2682, 7.3177),
    0.90: (4.8213, 5.0832, 5.1544, 5.1787),
    0.85: (3.3536, 3.4759, 3.5079, 3.5187),
    0.80: (2.5993, 2.6684, 2.6866, 2.6927),
    0.70: (1.8333, 1.8652, 1.8734, 1.8762),
}
BLOCKS = (64, 256, 1024)
KIND = {name: json.loads(preset_description(name, "{}"))["kind"] for name in preset_names()}
SSDS = [name for name in preset_names() if KIND[name] == "ssd"]
# Enough superblocks for the laws, and little enough for a test: rates do not depend on the capacity.
SMALL = {name: {"capacity_bytes": 2_048_000_000 if name.startswith("nvme") else 512_000_000} for name in SSDS}
SETTLING = 8
# Past an SLC cache: the laws of the main area.
NO_SLC = {"slc_static_mib": 0, "slc_dynamic_percent": 0.0}


def described(name: str, **changes: Any) -> dict[str, Any]:
    facts: dict[str, Any] = json.loads(preset_description(name, json.dumps(changes)))
    return facts


def limits_of(name: str, **changes: Any) -> dict[str, float]:
    """Those that there are."""
    found = simulation.limits(described(name, **changes))
    return {key: limit.value for key, limit in found.items() if limit.value is not None}


class Bench:
    """A simulated drive of a test's own."""

    def __init__(self, name: str, changes: dict[str, Any]) -> None:
        self.session = Session.simulated(name, json.dumps(changes), 1, 4, 32)
        self.units = self.session.range_bytes // 4096

    def rate(
        self, kib: float, read_percent: float, stop: Stop, sequential: bool = False, threads: int = 4, depth: int = 32
    ) -> float:
        """IOPS at T4Q32 if not told otherwise, sequential ones at T1Q32."""
        access = "sequential" if sequential else "random"
        threads = 1 if sequential else threads
        stimulus = Stimulus(access, ((int(kib * KIB), 1),), read_percent, threads, depth)  # type: ignore[arg-type]
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
        assert amplification.greedy(1 / rho, block) == pytest.approx(value, abs=6e-5)
    assert amplification.fifo(1 / rho) == pytest.approx(fifo, abs=6e-5)


@settings(deadline=None)
@given(alpha=st.floats(1.005, 12), block=st.integers(8, 4000))
def test_amplification_is_where_it_must_be(alpha: float, block: int) -> None:
    """Never below 1, never above FIFO's, and less the smaller the block; the fixed point of FIFO's own equation."""
    fifo = amplification.fifo(alpha)
    assert fifo * (1 - 2.718281828459045 ** (-alpha / fifo)) == pytest.approx(1, abs=1e-9)
    greedy = amplification.greedy(alpha, block)
    assert 1 <= greedy <= fifo * (1 + 1e-9)
    assert greedy <= amplification.greedy(alpha, 4 * block) * (1 + 1e-9)


@settings(deadline=None, max_examples=30)
@given(alpha=st.floats(1.05, 2), block=st.integers(32, 300))
def test_the_best_of_more_is_better(alpha: float, block: int) -> None:
    """One choice is random, many are greedy; the law of the shares holds at the solution."""
    values = [amplification.best_of(alpha, block, choices) for choices in (1, 2, 3, 10, 200)]
    assert values[0] == pytest.approx(alpha / (alpha - 1))
    assert values == sorted(values, reverse=True)
    assert values[-1] == pytest.approx(amplification.greedy(alpha, block), rel=0.02)
    assert values[-1] >= amplification.greedy(alpha, block) * (1 - 1e-6)


def test_a_block_can_be_too_large_to_matter() -> None:
    most = amplification.LARGEST_GREEDY_BLOCK
    assert amplification.greedy(1.07, 1 << 40) == amplification.greedy(1.07, most)
    assert amplification.greedy(1.07, most) == pytest.approx(amplification.greedy(1.07, most // 2), rel=1e-5)
    whole = amplification.best_of(1.07, 60_000, 2)
    assert whole == pytest.approx(amplification.best_of(1.07, amplification.LARGEST_BLOCK // 2, 2), rel=5e-4)


def test_without_spare_there_is_no_amplification_to_give() -> None:
    a = amplification
    for form in (a.fifo, a.random, lambda alpha: a.greedy(alpha, 64), lambda alpha: a.best_of(alpha, 64, 2)):
        with pytest.raises(ValueError, match="spare"):
            form(1.0)


# Derived limits against the simulator


@pytest.mark.parametrize("name", SSDS)
def test_derived_rates_are_the_simulators(name: str) -> None:
    """Measured at the same capacity: fresh and steady RND 4 KiB writes and the link's reads."""
    changes = {**SMALL[name], **NO_SLC}
    limits = limits_of(name, **changes)
    bench = Bench(name, changes)
    assert bench.rate(4, 0, Stop(ios=bench.units // 2)) == pytest.approx(limits["fresh_write_4k_iops"], rel=0.01)
    bench.settle()
    assert bench.rate(4, 0, Stop(ios=bench.units)) == pytest.approx(limits["steady_write_4k_iops"], rel=0.02)
    bench.session.idle(5)
    # 128 random reads do not keep all dies busy: where dies limit, the rate is between two laws, and where there are as
    # many dies as reads, 4 % are allowed for the link.
    dies = described(name, **SMALL[name])["parameters"]["dies"]
    busy = limits["page_reads_per_s"] * 128 / (128 + dies - 1)
    reads = bench.rate(4, 100, Stop(seconds=2))
    assert reads >= (0.96 if dies >= 128 else 0.995) * min(limits["read_4k_iops"], busy)
    assert reads <= 1.005 * limits["read_4k_iops"]
    bench.fill()  # What was written in small pieces is read in small pieces.
    bench.session.idle(5)
    large = bench.rate(1024, 100, Stop(seconds=5), sequential=True) * 1.048576
    assert large == pytest.approx(limits["read_1024k_mb_per_s"], rel=0.005)


def test_presets_as_they_are_lead_to_the_published_rates() -> None:
    """Of the whole drive, by the laws that the test above holds the simulator to: fresh and steady writes, reads."""
    made = tables()
    for name, row in made.ROWS.items():
        limits, published = limits_of(name, **NO_SLC), made.published(row)
        ours = [limits[key] for key in ("fresh_write_4k_iops", "steady_write_4k_iops", "read_4k_iops")]
        theirs = [published[key] for key in ("fob_rnd4k_w", "rnd4k_w", "rnd4k_r")]
        assert ours == pytest.approx(theirs, rel=0.15), name


def test_two_pools_each_have_a_reserve_that_is_not_in_use() -> None:
    facts = described("sata-enterprise", capacity_bytes=512_000_000, hot_percent=20, hot_spare_percent=60)
    parameters, geometry = facts["parameters"], facts["geometry"]
    hot = {"units": geometry["hot_units"], "superblocks": geometry["hot_superblocks"]}
    cold = {key: geometry[key] - hot[key] for key in hot}
    pools = [{**geometry, **pool, "hot_superblocks": 0} for pool in (hot, cold)]
    in_use = sum(ssd.effective_alpha(parameters, pool) * pool["units"] for pool in pools)
    shown = limits_of("sata-enterprise", capacity_bytes=512_000_000, hot_percent=20, hot_spare_percent=60)
    assert shown["effective_alpha"] == pytest.approx(in_use / geometry["units"])


def test_a_controller_may_limit_by_its_time_for_commands_alone() -> None:
    free = {"controller_mb_per_s": 0.0, "controller_read_overhead_us": 0.0, "controller_write_overhead_us": 0.0}
    assert not any(name.startswith("controller_") for name in limits_of("sata-enterprise", **free))
    slow = {**free, **SMALL["sata-enterprise"], "controller_read_overhead_us": 40.0}
    limits = limits_of("sata-enterprise", **slow)
    assert limits["controller_read_4k_iops"] == pytest.approx(25_000)
    assert limits["read_4k_iops"] == pytest.approx(25_000)
    bench = Bench("sata-enterprise", slow)
    bench.fill()
    assert bench.rate(4, 100, Stop(seconds=2)) == pytest.approx(25_000, rel=0.005)


SLC_LIMITS: dict[str, dict[str, Any]] = {
    "dies": {},
    "channels": {"channel_mb_per_s": 50.0},
    "controller": {"controller_mb_per_s": 800.0},
    "controller, for each command": {"controller_mb_per_s": 4000.0, "controller_write_overhead_us": 900.0},
    "mapping pages": {"write_commands_per_map_page": 2},
    "link": {"link_write_mb_per_s": 400.0},
}


@pytest.mark.parametrize("limit", SLC_LIMITS)
def test_derived_rates_of_an_slc_cache_are_the_simulators(limit: str) -> None:
    """Into the cache, past it, and while it is folded; and how much it holds. Whatever it is that limits them."""
    name = "nvme-client-slc"
    size = {"capacity_bytes": 8_000_000_000, "slc_static_mib": 64, "link_write_max_iops": 1e9, **SLC_LIMITS[limit]}
    for when_full, then in (("direct", "direct_write_mb_per_s"), ("fold", "folding_write_mb_per_s")):
        changes = {**size, "slc_when_full": when_full}
        limits = limits_of(name, **changes)
        held = int(limits["slc_capacity_bytes"])
        assert 0.1 < held / 8e9 < 0.13
        bench = Bench(name, changes)

        def mb_per_s(large_blocks: int, bench: Bench = bench) -> float:
            return bench.rate(1024, 0, Stop(ios=large_blocks), sequential=True) * 1.048576

        mb_per_s(16)
        assert mb_per_s((held >> 20) - 40) == pytest.approx(limits["slc_write_mb_per_s"], rel=0.02)
        mb_per_s(80)
        assert mb_per_s(held >> 20) == pytest.approx(limits[then], rel=0.02)
    fresh = Bench(name, size).rate(4, 0, Stop(ios=100_000))
    assert fresh == pytest.approx(limits_of(name, **size)["fresh_write_4k_iops"], rel=0.02)


ONLY_PROGRAMS = {
    **SMALL["sata-enterprise"],
    "read_us": 0.001,
    "erase_ms": 1e-6,
    "channel_mb_per_s": 1e9,
    "link_write_max_iops": 1e9,
    "link_write_mb_per_s": 1e9,
    "link_write_overhead_us": 0.0,
    "write_commands_per_map_page": 0,
    "controller_mb_per_s": 0.0,
    "controller_write_overhead_us": 0.0,
}


@pytest.mark.parametrize(
    "changes",
    [
        {"over_provisioning": 0.07},
        {"over_provisioning": 0.12, "gc_frontiers": 1},
        {"over_provisioning": 0.5},
        {"gc_policy": "fifo", "over_provisioning": 0.12},
        {"gc_policy": "random"},
        {"gc_policy": "random", "gc_frontiers": 1},
        {"gc_policy": "d-choices", "gc_choices": 2, "over_provisioning": 0.12},
        {"gc_policy": "d-choices", "gc_choices": 5, "gc_frontiers": 1},
        {"gc_pacing": "line"},
        {"hot_percent": 20.0, "hot_spare_percent": 50.0, "over_provisioning": 0.28},
    ],
    ids=lambda changes: " ".join(map(str, changes.values())),
)
def test_derived_amplification_is_the_simulators(changes: dict[str, Any]) -> None:
    """Where programs are all that takes time, fresh rate / steady rate is the write amplification.

    1 % for the superblocks in use, of which a small drive has few, and the error of twelve drive writes (0.3 % where
    victims are drawn).
    """
    drive = {**ONLY_PROGRAMS, **changes}
    limits = limits_of("sata-enterprise", **drive)
    bench = Bench("sata-enterprise", drive)
    fresh = bench.rate(4, 0, Stop(ios=bench.units // 2))
    bench.settle()
    measured = fresh / bench.rate(4, 0, Stop(ios=12 * bench.units))
    print(f"measured {measured:.4f}, by the closed form {limits['write_amplification']:.4f}")
    assert measured == pytest.approx(limits["write_amplification"], rel=0.01)


def test_without_a_closed_form_there_is_no_figure() -> None:
    found = simulation.limits(described("sata-enterprise", gc_policy="cost-benefit"))
    for name in ("write_amplification", "steady_write_4k_iops"):
        assert found[name].value is None
        assert "measure" in found[name].law
    assert "cost-benefit" in found["write_amplification"].law
    assert found["fresh_write_4k_iops"].value
    shown = told("describe", "sata-enterprise?gc_policy=cost-benefit")
    line = next(line for line in shown.splitlines() if line.startswith("write amplification"))
    assert line.split()[2] == "-"
    assert "no closed form for cost-benefit" in line


def test_slow_dies_and_slow_channels_are_seen() -> None:
    """Peak programs is what a fresh drive's sequential writes reach; slow channels limit random ones."""
    changes: dict[str, Any] = {**SMALL["sata-enterprise"], "program_us": 4000.0, "channel_mb_per_s": 1e9}
    changes["controller_mb_per_s"] = 0.0
    limits = limits_of("sata-enterprise", **changes)
    bench = Bench("sata-enterprise", changes)
    bench.rate(1024, 0, Stop(ios=32), sequential=True)
    rate = bench.rate(1024, 0, Stop(ios=400), sequential=True) * 1.048576
    assert rate == pytest.approx(limits["program_mb_per_s"], rel=0.02)
    slow = described("sata-enterprise", **{**changes, "program_us": 1.0, "channel_mb_per_s": 5.0})
    assert ssd.write_4k_iops(slow["parameters"], 2.0) == pytest.approx(8 * 5e6 / 4096 / 3), (
        "channels: 2 A - 1 transfers"
    )


@pytest.mark.parametrize(("rate", "overhead", "spare"), [(100.0, 0.0, 0.28), (200.0, 20.0, 0.12), (300.0, 3.0, 0.07)])
def test_a_slow_controller_is_seen(rate: float, overhead: float, spare: float) -> None:
    """Where the controller is all that takes time, rates are its: whole units of a read, 2 A - 1 passes of a write."""
    changes = {
        **SMALL["sata-enterprise"],
        "over_provisioning": spare,
        "program_us": 50.0,
        "controller_mb_per_s": rate,
        "controller_read_overhead_us": 3 * overhead,
        "controller_write_overhead_us": overhead,
    }
    limits = limits_of("sata-enterprise", **changes)
    bench = Bench("sata-enterprise", changes)
    bench.settle()
    rates = [bench.rate(4, 0, Stop(ios=bench.units))]
    bench.session.idle(5)  # Or what the buffer holds would go first.
    rates.append(bench.rate(4, 100, Stop(seconds=2)))
    assert rates[0] == pytest.approx(limits["controller_steady_write_4k_iops"], rel=0.02)
    assert rates[1] == pytest.approx(limits["controller_read_4k_iops"], rel=0.005)
    assert bench.rate(0.5, 100, Stop(seconds=2)) == pytest.approx(rates[1], rel=0.005)
    mixed = 1 / (0.65 / rates[1] + 0.35 / rates[0])
    assert bench.rate(4, 65, Stop(seconds=4)) == pytest.approx(mixed, rel=0.02), "one resource for both"


@pytest.mark.parametrize("changes", [{}, {"rpm": 7200, "seek_average_ms": 8.5, "seek_full_ms": 17}])
def test_derived_rates_are_the_disks(changes: dict[str, Any]) -> None:
    """Means of random accesses: 4 standard errors of 20,000 of them are 1.1 %."""
    limits = limits_of("sas-hdd", **changes)
    bench = Bench("sas-hdd", changes)
    bench.session.set_write_cache(False)
    for read_percent, name in ((100, "read_4k_t1q1_iops"), (0, "write_4k_t1q1_iops")):
        rate = bench.rate(4, read_percent, Stop(ios=20_000), threads=1, depth=1)
        assert rate == pytest.approx(limits[name], rel=0.011)
    rate = bench.rate(1024, 100, Stop(ios=2000), sequential=True) * 1.048576
    assert rate == pytest.approx(limits["sequential_outer_mb_per_s"], rel=0.002)
    assert "read_4k_full_queue_iops" not in limits, "the queue is not in order"
    in_order = {**changes, "queue_policy": "fifo"}
    fifo = Bench("sas-hdd", in_order).rate(4, 100, Stop(ios=20_000))
    assert fifo == pytest.approx(limits_of("sas-hdd", **in_order)["read_4k_full_queue_iops"], rel=0.011)


def test_inner_tracks_are_slower() -> None:
    limits = limits_of("sas-hdd", zones=10, outer_sectors_per_track=1000, inner_sectors_per_track=500)
    assert limits["media_outer_mb_per_s"] == pytest.approx(1000 * 512 * 250 / 1e6)
    assert limits["sequential_inner_mb_per_s"] == pytest.approx(limits["sequential_outer_mb_per_s"] / 2)


# Presets


@pytest.mark.parametrize("name", preset_names())
def test_presets_are_what_their_text_says(name: str) -> None:
    text = preset_text(name)
    assert described(name)["parameters"] == tomllib.loads(text)
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
    found = simulation.limits(described(name))
    assert facts["limits"] == {key: limit.value for key, limit in found.items()}
    assert facts["kind"] == KIND[name]
    values = [value for value in facts["limits"].values() if value is not None]
    assert len(values) >= 10
    assert min(values) > 0
    shown = told("describe", name)
    for key, parameter in facts["parameters"].items():
        line = next(line for line in shown.splitlines() if line.startswith(f"{key} "))
        assert parameter["source"][:20] in line
    for limit in found.values():
        line = next(line for line in shown.splitlines() if line.startswith(f"{limit.what} ") and limit.unit in line)
        assert limit.law in line


def test_describe_shows_what_was_changed() -> None:
    drive = "sata-client?capacity=8GB&dies=8&interface=[red]"
    facts = json.loads(told("describe", drive, "--json"))
    assert facts["parameters"]["capacity_bytes"]["value"] == 8_000_000_000
    assert facts["parameters"]["capacity_bytes"]["preset_value"] == 128_035_676_160
    whole = json.loads(told("describe", "sim:sata-client", "--json"))
    assert facts["limits"]["programs_per_s"] == whole["limits"]["programs_per_s"] / 2
    assert facts["limits"]["memory_bytes"] < whole["limits"]["memory_bytes"] / 10
    tracked = json.loads(told("describe", f"{drive}&fault_power_loss_after_s=9", "--json"))
    geometry = facts["geometry"]
    physical = geometry["superblocks"] * geometry["units_per_superblock"]
    assert tracked["limits"]["memory_bytes"] - facts["limits"]["memory_bytes"] == 8 * physical
    shown = told("describe", drive)
    assert "changed; the preset has 128,035,676,160" in shown
    assert "[red]" in shown


@pytest.mark.parametrize(
    ("drive", "named"),
    [
        ("nosuch", "sas-hdd"),
        ("", "sata-client"),
        ("sata-client?warp=9", "no such parameter; `flashgauge sim describe sata-client` lists all"),
        ("sata-client?raed_us=9", "read_us? "),
        ("sata-client?dies=many", 'dies: "many" is not a whole number'),
        ("sata-client?dies=-1", "dies: -1 is out of range"),
        ("sata-client?dies", 'dies: "" is not a whole number'),
        ("sata-client?read_us=fast", 'read_us: "fast" is not a number'),
        ("sata-client?read_us=1e400", 'read_us: "1e400" is not a number'),
        ("sata-client?read_us=NaN", 'read_us: "NaN" is not a number'),
        ("sata-client?read_us=20000000", "read_us: 0.000001 to 10000000 is possible"),
        ("sata-client?suspend=yes", 'suspend: "yes" is not true or false'),
        ("sata-client?interface=5", "interface: 5 is not a text"),
        ("sata-client?fault_seed=18446744073709551615", "out of range"),
        ("sata-client?seed=x", "seed=x is not a whole number"),
        ("sata-client?capacity=8XB", "8GiB"),
        ("sata-client?capacity=8GB&capacity_bytes=9000000000", "give one of them"),
        ("sata-client?dies=8&dies=9", "given twice"),
        ("sata-client?hot_percent=10&slc_static_mib=100", "not together with an SLC cache"),
        ("sata-client?thermal_resistance_c_per_w=9", "no effect without an energy"),
        ("sata-client?dies=0", "dies"),
        ("sata-client?gc_policy=lazy", "gc_policy"),
        ("sata-client?gc_policy=lazy", "`cost-benefit`"),
        ("sas-hdd?dies=8", "dies"),
        ("sas-hdd?queue_policy=lifo", "`elevator`"),
    ],
)
def test_describe_names_what_is_wrong(drive: str, named: str) -> None:
    """In one line; the command line makes it exit code 2."""
    result = RUN.invoke(sim.app, ["describe", drive])
    assert isinstance(result.exception, TargetError)
    assert named in str(result.exception)
    assert "\n" not in str(result.exception)
    assert not result.stdout


def test_wrong_input_ends_with_one_line(cli: Cli) -> None:
    for arguments in (("describe", "nosuch"), ("describe", ""), ("describe", "sata-client?dies=0")):
        one_line(cli("sim", *arguments), 2)


def test_a_seed_is_no_parameter_of_the_drive() -> None:
    assert told("describe", "sata-client?seed=5") == told("describe", "sata-client")


# The rig


def test_a_disk_says_that_it_is_one() -> None:
    rig = simulated(parse_target("sim:sas-hdd?capacity=8GB"), SessionNeeds(1, 32, 1 << 20, 1))
    assert rig.dut.media == "magnetic disk, 15,000 RPM"
    assert rig.dut.capacity_bytes == 8_000_000_000
    assert rig.dut.features is None
    assert "nothing to purge" in rig.purge(print).state
    assert rig.set_write_cache(False).state == "disabled"
    assert rig.description()["rpm"] == 15_000
    rig.close()


@pytest.mark.parametrize(("test", "changes"), [("iops", ("point_s=2",)), ("wsat", ("minute_s=1", "histogram_s=1"))])
def test_a_disk_is_tested_and_reported(tmp_path: Path, test: str, changes: tuple[str, ...]) -> None:
    """What a disk does does not depend on what was written before: the first round is as good as the last."""
    folder = tmp_path / "run"
    options = [argument for change in changes for argument in ("--set", change)]
    result = RUN.invoke(program, ["run", test, "sim:sas-hdd?capacity=1GB", "--out", str(folder), *options])
    assert result.exit_code == 0, result.output
    assert "steady state" in result.stdout
    page = (folder / "report.html").read_text()
    for text in ("magnetic disk, 15,000 RPM", "SAS 3 Gb/s", "not needed: a simulated disk"):
        assert text in page
    assert (folder / "report.pdf").exists()


def test_trim_gives_the_drive_room() -> None:
    """Random writes to one half. With the other half trimmed they have flash of 2.14 times their size, without it 1.14
    times: greedy write amplification by theory 1.3 and 4.2. A factor of 2 between the rates cannot be chance."""
    changes = {"capacity_bytes": 256_000_000, "over_provisioning": 0.07}
    target = parse_target("sim:sata-enterprise?capacity=256000000&over_provisioning=0.07")
    rig = simulated(target, SessionNeeds(4, 32, 1 << 20, 1))
    rates = []
    for trims in (False, True):
        bench = Bench("sata-enterprise", changes)
        bench.session.close()
        rig.purge(print)
        bench.session = rig.session
        bench.fill()
        if trims:
            rig.trim(0, rig.session.range_bytes // 2)
        half = Stimulus("random", ((4096, 1),), 0, 4, 32, active_range_percent=(50.0, 100.0))
        for stop in (Stop(ios=2 * bench.units), Stop(ios=bench.units)):
            rig.session.start(half.to_json(), stop.to_json(), 10**9, True)
            raw = rig.session.wait(120)
            assert raw is not None
        rates.append(raw["write"]["window_ios"] / raw["window_ns"])
    assert rates[1] > 2 * rates[0]
    with pytest.raises(TargetError, match="beyond its capacity"):
        rig.trim(8, rig.session.range_bytes)
    rig.close()
