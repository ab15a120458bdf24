"""A campaign in the terminal: what each test will take, and how several of them at a time are getting on."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Self

from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from flashgauge.cli.live import clock
from flashgauge.spec.forecast import Remaining

_STYLES = {"complete": "green", "failed": "red", "running": "bold"}


def forecast_table(forecasts: Mapping[str, tuple[Remaining, Remaining]]) -> Table:
    """Least and most of the drive's time (h:mm:ss) for each test, and what it writes to fill the drive beside."""
    table = Table("test", box=None, padding=(0, 2))
    for title in ("least, h", "most, h", "filling, GB"):
        table.add_column(title, justify="right")
    for test, (least, most) in forecasts.items():
        table.add_row(
            test, f"{least.seconds / 3600:.1f}", f"{most.seconds / 3600:.1f}", f"{most.fill_bytes / 1e9:,.0f}"
        )
    if len(forecasts) > 1:
        sums = [sum(pair[i].seconds for pair in forecasts.values()) / 3600 for i in (0, 1)]
        filling = sum(most.fill_bytes for _, most in forecasts.values()) / 1e9
        table.add_row("together", f"{sums[0]:.1f}", f"{sums[1]:.1f}", f"{filling:,.0f}", style="bold")
    return table


class _Row:
    """One test."""

    def __init__(self) -> None:
        self.state = "waiting"
        self.now = ""
        self.iops: float | None = None
        self.began_s: float | None = None
        self.took_s: float | None = None
        self.left: tuple[float, float] | None = None


class ParallelDisplay:
    """A table with a line per test; where output is no terminal, a line when a test begins and when it ends."""

    def __init__(self, console: Console, tests: Sequence[str]) -> None:
        self.console = console
        self.rows = {test: _Row() for test in tests}
        self.live: Live | None = None

    def __enter__(self) -> Self:
        if self.console.is_terminal:
            self.live = Live(console=self.console, refresh_per_second=4, transient=True, get_renderable=self.table)
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.live is not None:
            self.live.stop()
            self.live = None

    def told(self, test: str, event: dict[str, Any]) -> None:
        """An event of `json_lines`, or "end"."""
        row = self.rows[test]
        match event["event"]:
            case "begin":
                row.state, row.began_s = "running", time.monotonic()
                if self.live is None:
                    self.console.print(f"{test}: begins, in {event['folder']}", highlight=False, soft_wrap=True)
            case "progress" | "step":
                row.now = str(event["where"])
                row.iops = event["iops"]
                least, most = event["left_least_s"], event["left_most_s"]
                row.left = (least, most) if least is not None and most is not None else row.left
            case "result":
                row.state, row.now, row.iops = event["state"], event["status"], None
            case "end":
                row.took_s = time.monotonic() - row.began_s if row.began_s is not None else None
                if event["code"]:
                    row.state, row.now, row.iops = "failed", event["message"], None
                if self.live is None:
                    took = f" after {clock(row.took_s)}" if row.took_s is not None else ""
                    self.console.print(f"{test}: {row.state}{took}; {row.now}", highlight=False, soft_wrap=True)

    def table(self) -> Table:
        table = Table("test", "state", "now", box=None, padding=(0, 2))
        for title in ("IOPS", "elapsed", "left"):
            table.add_column(title, justify="right")
        for test, row in self.rows.items():
            elapsed_s = row.took_s
            if elapsed_s is None and row.began_s is not None:
                elapsed_s = time.monotonic() - row.began_s
            left = f"{clock(row.left[0])} .. {clock(row.left[1])}" if row.left and row.state == "running" else ""
            table.add_row(
                test,
                Text(row.state, style=_STYLES.get(row.state, "dim")),
                Text(row.now, overflow="ellipsis", no_wrap=True),
                f"{row.iops:,.0f}" if row.iops and row.state == "running" else "",
                clock(elapsed_s) if elapsed_s is not None else "",
                left,
            )
        return table
