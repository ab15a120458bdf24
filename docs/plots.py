"""Draws the plots of docs/simulated-drive.md from the CSV files beside them.

    .venv/bin/python docs/plots.py [NAME...]      all, or those named; `make docs-plots`

The closed forms in the plots are those of flashgauge.simulation; docs/data.py measures what the CSV files hold.
"""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from math import exp
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import tables
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter, NullLocator

from flashgauge import simulation
from flashgauge._core import preset_description
from flashgauge.report import palette
from flashgauge.simulation import amplification, ssd

FOLDER = Path(__file__).parent / "simulated-drive"
STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "axes.edgecolor": palette.MUTED,
    "axes.labelcolor": palette.INK,
    "axes.titlesize": 10,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": palette.GRID,
    "legend.frameon": False,
    "svg.hashsalt": "flashgauge",
}
BLUE, ORANGE, GREEN, RED = "#0b3d91", "#e6650d", palette.BAND, palette.FIT
Rows = list[dict[str, str]]


def table(name: str) -> Rows:
    with (FOLDER / f"{name}.csv").open() as file:
        assert file.readline().startswith("# "), "the first line is the command that made the file"
        return list(csv.DictReader(file))


def column(rows: Rows, name: str) -> Any:
    return np.array([float(row[name]) for row in rows])


def of_series(rows: Rows, series: str) -> Rows:
    return [row for row in rows if row["series"].startswith(series)]


def minutes_of(rows: Rows) -> Any:
    """Reports choose the unit by the length of the run."""
    return column(rows, "elapsed_min") if "elapsed_min" in rows[0] else column(rows, "elapsed_s") / 60


def canvas(width: float, height: float, columns: int = 1) -> tuple[Figure, list[Axes]]:
    """Inches; axes side by side."""
    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasSVG(figure)
    return figure, list(figure.subplots(1, columns, squeeze=False)[0])


def save(figure: Figure, name: str) -> None:
    figure.savefig(FOLDER / f"{name}.svg", metadata={"Date": None})


def thousands(axis: Any) -> None:
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}" if value >= 1 else f"{value:g}"))


def described(preset: str, **changes: Any) -> Any:
    return json.loads(preset_description(preset, json.dumps(changes)))


# Against published figures

MATRICES = {"sata-enterprise": "Intel SSD DC S3700 200 GB (Myce)", "nvme-enterprise": "plot 7-3 of SNIA PTS 2.0.1"}
MARKERS = dict(zip(("0.5", "4", "8", "16", "32", "64", "128", "1024"), "o^sDvP*X", strict=True))


def iops_published() -> None:
    figure, axes = canvas(10, 4.9, 2)
    for ax, (preset, source) in zip(axes, MATRICES.items(), strict=True):
        rows = table(f"{preset}-iops")
        ends = np.array([min(column(rows, "published_iops")) / 1.6, max(column(rows, "published_iops")) * 1.6])
        ax.fill_between(ends, ends / 1.2, ends * 1.2, color=palette.GRID, label="20 % off", zorder=0)
        ax.plot(ends, ends, color=palette.MUTED, linewidth=0.8)
        for row in rows:
            read = float(row["rw_mix"].split("/")[0])
            point = float(row["published_iops"]), float(row["simulated_iops"])
            ax.plot(*point, MARKERS[row["block_kib"]], color=palette.mix_color(read), markersize=6, alpha=0.85)
        ax.set(xscale="log", yscale="log", xlim=ends, ylim=ends, aspect="equal", title=preset)
        ax.set(xlabel=f"published IOPS, {source}", ylabel="simulated IOPS")
        thousands(ax.xaxis)
        thousands(ax.yaxis)
    mixes = list(dict.fromkeys(row["rw_mix"] for row in table("sata-enterprise-iops")))
    for mix in mixes:
        axes[0].plot([], [], "s", color=palette.mix_color(float(mix.split("/")[0])), label=f"R/W {mix}")
    for kib, marker in MARKERS.items():
        axes[1].plot([], [], marker, color=palette.MUTED, label=f"{kib} KiB")
    for ax in axes:
        ax.legend(loc="upper left", fontsize=8)
    save(figure, "iops-published")


def iops_deviation() -> None:
    figure, axes = canvas(10, 3.6, 2)
    for ax, preset in zip(axes, MATRICES, strict=True):
        rows = table(f"{preset}-iops")
        mixes = list(dict.fromkeys(row["rw_mix"] for row in rows))
        off = {
            (row["rw_mix"], row["block_kib"]): 100 * float(row["simulated_iops"]) / float(row["published_iops"]) - 100
            for row in rows
        }
        values = np.array([[off[mix, kib] for kib in MARKERS] for mix in mixes])
        ax.imshow(values, cmap="RdBu_r", vmin=-60, vmax=60, aspect="auto")
        for (i, j), value in np.ndenumerate(values):
            ink = "white" if abs(value) > 42 else palette.INK
            ax.text(j, i, f"{value:+.0f}", ha="center", va="center", fontsize=8, color=ink)
        ax.set_xticks(range(len(MARKERS)), list(MARKERS))
        ax.set_yticks(range(len(mixes)), mixes)
        ax.grid(visible=False)
        ax.set(title=f"{preset}: deviation, %", xlabel="block size, KiB", ylabel="R/W mix")
    save(figure, "iops-deviation")


METRICS = {
    "fob_rnd4k_w": ("RND 4 KiB W, fresh", "o", ORANGE),
    "rnd4k_w": ("RND 4 KiB W", "s", "#a63603"),
    "rnd4k_rw65": ("RND 4 KiB 65/35", "D", "#5fa8d3"),
    "rnd4k_r": ("RND 4 KiB R", "^", BLUE),
    "seq1024k_w_mbs": ("SEQ 1024 KiB W", "P", "#8fb923"),
    "seq1024k_r_mbs": ("SEQ 1024 KiB R", "X", GREEN),
}


def storage_classes() -> None:
    drives = {"sas-hdd": (tables.DISK_ROW, tables.rates("sas-hdd", "disabled"))}
    drives |= {preset: (row, tables.rates(preset)) for preset, row in tables.ROWS.items()}
    figure, (ax,) = canvas(8, 0.5 * len(drives) + 1.6)
    ax.axvspan(1 / 1.15, 1.15, color=palette.GRID, zorder=0)
    ax.axvline(1, color=palette.MUTED, linewidth=0.8)
    for number, (metric, (name, marker, color)) in enumerate(METRICS.items()):
        ratio = [rates[metric] / tables.published(row)[metric] for row, rates in drives.values()]
        places = [place + 0.12 * (number - 2.5) for place in range(len(drives))]
        ax.plot(ratio, places, marker, color=color, label=name, markersize=7, alpha=0.85, linestyle="none")
    ax.set_yticks(range(len(drives)), [f"{preset} (row {row})" for preset, (row, _) in drives.items()])
    ax.set(xscale="log", xlim=(0.5, 2.2), ylim=(len(drives) - 0.5, -0.5))
    ax.set_xticks([0.5, 0.7, 0.85, 1, 1.15, 1.5, 2], ["0.5", "0.7", "0.85", "1", "1.15", "1.5", "2"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel("simulated / published; grey: 15 % off")
    figure.legend(loc="outside upper center", ncols=3, fontsize=8)
    save(figure, "storage-classes")


# By theory


def write_amplification() -> None:
    rows = table("amplification")
    figure, (ax,) = canvas(7, 4.2)
    alpha = np.linspace(1.05, 1.55, 120)
    block = 64
    forms: dict[str, tuple[Callable[[float], float], str, str, str]] = {
        "random": (amplification.random, "random", palette.MUTED, "o"),
        "d-choices": (lambda a: amplification.best_of(a, block, 2), "best of 2", ORANGE, "s"),
        "fifo": (amplification.fifo, "FIFO", BLUE, "^"),
        "greedy": (lambda a: amplification.greedy(a, block), f"greedy, superblocks of {block} units", GREEN, "D"),
    }
    for policy, (form, name, color, marker) in forms.items():
        ax.plot(alpha - 1, [form(a) for a in alpha], color=color, linewidth=1)
        found = [row for row in rows if row["policy"] == policy]
        spare = column(found, "effective_alpha") - 1
        ax.plot(spare, column(found, "measured"), marker, color=color, label=name, markersize=5)
    ax.set(yscale="log", ylim=(1.4, 20), xlim=(0.05, 0.53))
    ax.set_yticks([1.5, 2, 3, 5, 7, 10, 15, 20], ["1.5", "2", "3", "5", "7", "10", "15", "20"])
    ax.yaxis.set_minor_formatter(NullFormatter())
    ax.set(xlabel="effective over-provisioning: flash in use / user capacity - 1", ylabel="write amplification")
    ax.legend(title="lines: closed forms; points: measured")
    save(figure, "amplification")


def hot_cold() -> None:
    rows = table("hot-cold")
    figure, (ax,) = canvas(7, 3.8)
    apart = [row for row in rows if row["hot_spare_percent"] != "mixed"]
    mixed = next(float(row["measured"]) for row in rows if row["hot_spare_percent"] == "mixed")
    small: dict[str, Any] = {"capacity_bytes": 512_000_000, "dies": 4, "channels": 4, "planes": 1, "pages_per_block": 8}
    small = {**small, "gc_policy": "fifo", "over_provisioning": 0.07, "hot_percent": 20}
    percent = np.arange(19, 82)
    closed: list[Any] = []
    for share in percent.tolist():
        parts = described("sata-enterprise", **small, hot_spare_percent=share)
        closed.append(ssd.amplification_of_pools(parts["parameters"], parts["geometry"], 0.8)[0])
    ax.plot(percent, closed, color=BLUE, linewidth=1, label="apart, closed form")
    ax.plot(
        column(apart, "hot_spare_percent"),
        column(apart, "measured"),
        "o",
        color=BLUE,
        markersize=6,
        label="apart, measured",
    )
    ax.axhline(mixed, color=ORANGE, linewidth=1.3, label="mixed, measured")
    uniform = amplification.fifo(1.07)
    ax.axhline(uniform, color=palette.MUTED, linewidth=0.8, linestyle="--", label="no skew, closed form")
    ax.set(xlabel="share of the spare capacity that hot data has, %", ylabel="write amplification", ylim=(4, None))
    ax.legend(ncols=2, fontsize=8, loc="lower left")
    save(figure, "hot-cold")


def slc() -> None:
    rows = table("slc")
    figure, axes = canvas(9, 3.6, 2)
    for ax, full, text in zip(
        axes, ("direct", "fold"), ("direct: past the cache", "fold: through the cache"), strict=True
    ):
        found = [row for row in rows if row["when_full"] == full]
        seconds, rate = column(found, "elapsed_s"), column(found, "gb_per_s")
        breaks = np.flatnonzero(np.diff(seconds) > 0.2) + 1
        for part in np.split(np.arange(len(seconds)), breaks):
            ax.plot(seconds[part], rate[part], color=BLUE, linewidth=1.3)
        for after in breaks:
            ax.axvspan(seconds[after - 1], seconds[after], color=palette.GRID, alpha=0.6, zorder=0)
            ax.text(seconds[after - 1 : after + 1].mean(), 4.5, "idle", ha="center", color=palette.MUTED)
        ax.set(title=text, xlabel="elapsed, s", ylabel="sequential writes, GB/s", ylim=(0, 4.8), xlim=(0, None))
    save(figure, "slc")


def wsat() -> None:
    figure, (ax,) = canvas(8, 4)
    for name, changes, color in (("wsat", {}, BLUE), ("wsat-low-spare", {"over_provisioning": 0.07}, ORANGE)):
        rows = of_series(table(name), "Each minute")
        parts = described("sata-enterprise", capacity_bytes=4_000_000_000, **changes)
        spare = parts["parameters"]["over_provisioning"]
        label = f"over-provisioning {100 * spare:.3g} %"
        ax.plot(column(rows, "drive_fills"), column(rows, "iops"), color=color, linewidth=1.2, label=label)
        alpha = ssd.effective_alpha(parts["parameters"], parts["geometry"])
        block = parts["geometry"]["units_per_superblock"]
        fills = np.linspace(2.2, 8, 60)
        law = [amplification.greedy(alpha / (1 - exp(-w)), block) for w in fills]
        iops = [ssd.write_4k_iops(parts["parameters"], factor) for factor in law]
        ax.plot(fills, iops, color=palette.INK, linewidth=1, linestyle=(0, (4, 3)))
        ax.axvline(1 + spare, color=color, linewidth=0.8, linestyle=":")
    ax.plot([], [], color=palette.INK, linewidth=1, linestyle=(0, (4, 3)), label="law of the ramp: 1 - e^-w are mapped")
    ax.plot([], [], color=palette.MUTED, linewidth=0.8, linestyle=":", label="1 + over-provisioning drive writes")
    ax.set(xlabel="drive writes since purge, w", ylabel="RND 4 KiB writes, IOPS", xlim=(0, 8), ylim=(0, None))
    thousands(ax.yaxis)
    ax.legend()
    save(figure, "wsat")


def after_fill() -> None:
    rows = table("after-fill")
    parts = described("sata-enterprise", capacity_bytes=4_000_000_000, over_provisioning=0.5)
    random = of_series(rows, "Group 2")
    minutes, rate = minutes_of(random), column(random, "mb_per_s")
    steps = np.diff(minutes, prepend=minutes_of(of_series(rows, "Group 1"))[-1])
    fills = np.cumsum(rate * 60e6 * steps) / parts["parameters"]["capacity_bytes"]
    figure, (ax,) = canvas(8, 3.6)
    ax.plot(fills, rate, color=BLUE, linewidth=1.2)
    settled = rate[fills > 3].mean()
    ax.axhline(settled, color=palette.MUTED, linewidth=0.8, linestyle="--")
    ax.text(4.95, settled - 12, "settled", va="top", ha="right", color=palette.MUTED)
    ax.set(xlabel="drive writes of RND 8 KiB after the sequential fill", ylabel="MB/s", xlim=(0, 5), ylim=(0, None))
    save(figure, "after-fill")


# Shapes


def xsr() -> None:
    figure, (ax,) = canvas(8, 4)
    rows = table("xsr-two-frontiers")
    for number, text in ((1, "SEQ 1024 KiB"), (2, "RND 8 KiB"), (3, "SEQ 1024 KiB")):
        minutes = minutes_of(of_series(rows, f"Group {number}"))
        if number == 2:
            ax.axvspan(minutes[0], minutes[-1], color=palette.GRID, alpha=0.5, zorder=0)
        ax.text(minutes.mean(), 437, text, ha="center", color=palette.MUTED)
    for name, label, color in (
        ("xsr-two-frontiers", "two write frontiers", BLUE),
        ("xsr-one-frontier", "one write frontier", ORANGE),
    ):
        rows = of_series(table(name), "Group")
        ax.plot(minutes_of(rows), column(rows, "mb_per_s"), color=color, linewidth=1.2, label=label)
    ax.set(xlabel="elapsed, minutes of a 4 GB drive", ylabel="written, MB/s", xlim=(0, None), ylim=(0, 460))
    ax.legend(loc="center", bbox_to_anchor=(0.35, 0.6))
    save(figure, "xsr")


def hir() -> None:
    figure, (ax,) = canvas(7, 4)
    parts = described("sata-enterprise", capacity_bytes=20_000_000_000, over_provisioning=0.07)
    limits = simulation.limits(parts)
    fresh, steady = limits["fresh_write_4k_iops"].value, limits["steady_write_4k_iops"].value
    assert fresh is not None
    assert steady is not None
    ratio = np.linspace(0, 10.5, 100)
    active_s = 5
    ax.plot(ratio, np.minimum(1 + ratio, fresh / steady), color=palette.INK, linestyle=(0, (4, 3)), linewidth=1)
    ax.text(1.4, 2.9, "1 + idle / active", rotation=45, color=palette.INK, ha="center", fontsize=8)
    ax.text(7, fresh / steady + 0.08, "rate of a fresh drive", color=palette.INK, ha="center", fontsize=8)
    for name, label, color, marker in (
        ("hir-idle-collection", "collects when idle", BLUE, "o"),
        ("hir-none", "does not", ORANGE, "s"),
    ):
        rows = table(name)
        base = next(float(row["iops"]) for row in rows if row["segment"] == "Baseline")
        waits = [row for row in rows if row["segment"].startswith("WS") and row["idle_s"]]
        gain = column(waits, "iops") / base
        ax.plot(column(waits, "idle_s") / active_s, gain, marker, color=color, label=label, markersize=7)
    ax.set(xlabel="idle time / active time of each access", ylabel="IOPS / IOPS without idle time")
    ax.set(xlim=(0, 10.5), ylim=(0, fresh / steady + 0.7))
    ax.legend(loc="center right")
    save(figure, "hir")


def dirth() -> None:
    rows = table("dirth")
    figure, (ax,) = canvas(8, 4.4)
    series = [name for name in dict.fromkeys(row["series"] for row in rows) if name.startswith("TC")]
    for number, name in enumerate(series):
        found = [row for row in rows if row["series"] == name]
        shade = palette.mix_color(100 * number / (len(series) - 1))
        ax.plot(
            column(found, "iops"), column(found, "art_ms"), "o-", color=shade, markersize=4, linewidth=1, label=name
        )
    ax.set(yscale="log", xlabel="IOPS, RND 8 KiB 65/35", ylabel="average response time, ms", xlim=(0, None))
    thousands(ax.xaxis)
    thousands(ax.yaxis)
    ax.legend(title="threads, at queue depths 1 to 32", ncols=2, fontsize=8)
    save(figure, "dirth")


def latency() -> None:
    figure, (ax,) = canvas(7.5, 4)
    for name, label, color in (("latency-paced", "paced", BLUE), ("latency-line", "a superblock at a time", ORANGE)):
        rows = of_series(table(name), "I/Os")
        ms, ios = column(rows, "response_time_ms"), column(rows, "ios")
        slower = 1 - np.cumsum(ios) / ios.sum()
        seen = slower > 1e-9
        ax.plot(ms[seen], slower[seen], drawstyle="steps-post", color=color, linewidth=1.3, label=label)
    ax.set(xscale="log", yscale="log", xlabel="response time of RND 4 KiB writes at T1Q1, ms", ylim=(1e-6, 1))
    ax.set_ylabel("share of the I/Os that take longer")
    thousands(ax.xaxis)
    ax.legend(title="garbage collection")
    save(figure, "latency")


def disk_depth() -> None:
    rows = table("disk-depth")
    figure, (ax,) = canvas(6.5, 3.8)
    names = {"sptf": ("shortest positioning time first", BLUE, "o"), "elevator": ("elevator", GREEN, "s")}
    names["fifo"] = ("order of arrival", ORANGE, "^")
    for policy, (name, color, marker) in names.items():
        found = [row for row in rows if row["policy"] == policy]
        depth = column(found, "queue_depth")
        ax.plot(depth, column(found, "iops"), f"{marker}-", color=color, markersize=5, linewidth=1, label=name)
    ax.axhline(401, color=palette.MUTED, linewidth=0.8, linestyle="--")
    ax.text(1, 407, "published, T2Q16: 401", color=palette.MUTED, va="bottom", fontsize=8)
    ax.set(
        xscale="log", xlabel="queue depth (the preset sorts at most 16)", ylabel="RND 4 KiB reads, IOPS", ylim=(0, None)
    )
    ax.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.legend()
    save(figure, "disk-depth")


PLOTS = (
    iops_published,
    iops_deviation,
    storage_classes,
    write_amplification,
    hot_cold,
    wsat,
    after_fill,
    xsr,
    hir,
    dirth,
    latency,
    slc,
    disk_depth,
)


def main() -> None:
    with mpl.rc_context(STYLE):
        for plot in PLOTS:
            if not sys.argv[1:] or plot.__name__.replace("_", "-") in sys.argv[1:]:
                plot()


if __name__ == "__main__":
    main()
