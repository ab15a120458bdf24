"""Writes the tables of docs/simulated-drive.md from the CSV files beside it: what stands between marks like
`<!-- table: classes -->` and `<!-- end -->` is replaced.

    .venv/bin/python docs/tables.py      or `make docs-plots`; a test compares
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from statistics import median

DOCUMENT = Path(__file__).parent / "simulated-drive.md"
FOLDER = Path(__file__).parent / "simulated-drive"

# Preset -> its row of the comparison by storage class.
ROWS = {
    "sata-client": "3",
    "sata-client-512": "4",
    "sata-enterprise": "5",
    "sata-enterprise-emlc": "6",
    "nvme-enterprise-700": "8",
    "pcie-card": "9",
}
DISK_ROW = "2"
HYBRID_ROW = "1"
RATES = {
    "fob_rnd4k_w": "FOB RND 4 KiB W",
    "rnd4k_w": "RND 4 KiB W",
    "rnd4k_rw65": "RND 4 KiB 65/35",
    "rnd4k_r": "RND 4 KiB R",
    "seq1024k_w_mbs": "SEQ W, MB/s",
    "seq1024k_r_mbs": "SEQ R, MB/s",
}
FITTED = [metric for metric in RATES if metric != "rnd4k_rw65"]


def rows_of(name: str) -> list[dict[str, str]]:
    with (FOLDER / f"{name}.csv").open() as file:
        file.readline()
        return list(csv.DictReader(file))


def published(row: str) -> dict[str, float]:
    return {entry["metric"]: float(entry["value"]) for entry in rows_of("published-classes") if entry["row"] == row}


def rates(preset: str, drive: str | None = None) -> dict[str, float]:
    found = rows_of(f"{preset}-rates")
    return {row["metric"]: float(row["value"]) for row in found if drive is None or row["drive"] == drive}


def off(value: float, reference: float) -> float:
    """Percent."""
    return 100 * (value / reference - 1)


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *body]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def against(value: float, reference: float, digits: int = 0) -> str:
    return f"{value:,.{digits}f} ({off(value, reference):+.0f} %)"


def matrix(preset: str) -> str:
    rows = rows_of(f"{preset}-iops")
    pairs = [(float(row["simulated_iops"]), float(row["published_iops"])) for row in rows]
    every = [off(*pair) for pair in pairs]
    within = [sum(abs(percent) <= most for percent in every) for most in (8, 20)]
    worst = max(every, key=abs)
    summary = (
        f"Median deviation {median(map(abs, every)):.1f} %, {within[0]} of {len(every)} cells within 8 %, "
        f"{within[1]} within 20 %, worst {worst:+.0f} %."
    )
    sizes = list(dict.fromkeys(row["block_kib"] for row in rows))
    cells = {(row["rw_mix"], row["block_kib"]): against(*pair) for row, pair in zip(rows, pairs, strict=True)}
    body = [[mix, *(cells[mix, kib] for kib in sizes)] for mix in dict.fromkeys(row["rw_mix"] for row in rows)]
    return f"{summary}\n\n{table(['R/W mix', *(f'{kib} KiB' for kib in sizes)], body)}"


def classes() -> str:
    body = []
    for preset, row in ROWS.items():
        ours, theirs = rates(preset), published(row)
        body.append([f"{preset} ({row})", *(against(ours[metric], theirs[metric]) for metric in RATES)])
    return table(["preset (row)", *RATES.values()], body)


def nearest() -> str:
    """Rows without a preset of their own, beside what is nearest."""
    body = []
    for row, name, ours in (
        (HYBRID_ROW, "sas-hdd as a disk of 7,200 RPM", rates("sas-hdd", "7200 RPM")),
        ("7", "sata-enterprise-emlc", rates("sata-enterprise-emlc")),
    ):
        theirs = published(row)
        body.append([f"{row}: {name}", *(against(ours[metric], theirs[metric]) for metric in RATES)])
    return table(["row: nearest", *RATES.values()], body)


def latency() -> str:
    body = []
    for preset in [*ROWS, "nvme-enterprise"]:
        ours = rates(preset)
        theirs = published(ROWS[preset]) if preset in ROWS else {}
        mean, most = theirs.get("lat_rnd4k_w_avg_ms"), theirs.get("lat_rnd4k_w_max_ms")
        body.append(
            [
                preset,
                f"{ours['lat_rnd4k_w_avg_ms']:.3f}" + (f" ({mean:g})" if mean else ""),
                f"{ours['lat_rnd4k_w_max_ms']:.3g}" + (f" ({most:g})" if most else ""),
                f"{ours['lat_rnd4k_r_avg_ms']:.3f}",
                f"{ours['lat_rnd4k_r_max_ms']:.3g}",
            ]
        )
    return table(["preset", "write, mean", "write, maximum", "read, mean", "read, maximum"], body)


def disk() -> str:
    theirs = published(DISK_ROW)
    ours = {state: rates("sas-hdd", state) for state in ("disabled", "enabled")}
    body = [
        [
            name,
            f"{theirs[metric]:g}",
            *(against(ours[state][metric], theirs[metric], int(metric.endswith("mbs"))) for state in ours),
        ]
        for metric, name in RATES.items()
    ]
    return table(
        ["row 2, 80 GB, 15,000 RPM", "published", "simulated, cache disabled", "enabled"],
        body,
    )


def passes() -> str:
    rows = rows_of("passes")
    names = {"1": "one", "2": "two"}
    body = [
        [name, *(f"{float(row['write_amplification']):.1f}" for row in rows if row["frontiers"] == frontiers)]
        for frontiers, name in names.items()
    ]
    return table(["write frontiers", "1st pass", "2nd pass", "3rd pass"], body)


THEORY_FORMS = {
    "Greedy": "greedy: finite blocks, after Desnoyers, Bux and Iliadis",
    "Fifo": "FIFO: Menon; Xiang and Kurkoski; Desnoyers",
    "Random": "random: A = alpha / (alpha - 1)",
    "DChoices": "d-choices, d = {}: Van Houdt's fixed point",
}


def theory() -> str:
    order = list(THEORY_FORMS)
    rows = sorted(rows_of("theory"), key=lambda row: order.index(row["policy"]))
    body = [
        [
            THEORY_FORMS[row["policy"]].format(row["choices"]),
            f"{float(row['median_percent']):.2f} %",
            f"{abs(float(row['most_percent'])):.2f} %",
        ]
        for row in rows
    ]
    return table(["policy: closed form", "median deviation", "greatest"], body)


TABLES: dict[str, Callable[[], str]] = {
    "sata-enterprise": lambda: matrix("sata-enterprise"),
    "nvme-enterprise": lambda: matrix("nvme-enterprise"),
    "classes": classes,
    "nearest": nearest,
    "latency": latency,
    "disk": disk,
    "passes": passes,
    "theory": theory,
}


def rendered(text: str) -> str:
    """The document with all of its tables made again."""

    def block(found: re.Match[str]) -> str:
        return f"<!-- table: {found[1]} -->\n{TABLES[found[1]]()}\n<!-- end -->"

    return re.sub(r"<!-- table: ([\w-]+) -->\n.*?\n?<!-- end -->", block, text, flags=re.DOTALL)


if __name__ == "__main__":
    DOCUMENT.write_text(rendered(DOCUMENT.read_text()))
