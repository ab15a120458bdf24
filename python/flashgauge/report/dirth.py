"""Report of the Demand Intensity / Response Time Histogram test: plots 1 to 15 of Plot 14-1."""

from __future__ import annotations

from flashgauge.report.demand import demand_part
from flashgauge.report.demand_plots import Plots
from flashgauge.report.model import TestPart
from flashgauge.report.replay import Replay
from flashgauge.runfolder import Run

PLOTS = Plots(
    test="DIRTH",
    section="14",
    first=2,
    titles=(
        "PC IOPS Plot",
        "PC Steady State Plot",
        "Inter-Round Pre Writes Plot",
        "DV IOPS Plot, TC=Tracking",
        "DV Steady State Plot, Tracking Variable",
        "Demand Variation Plot",
        "Demand Intensity Plot",
        "CPU Utilization Plot",
        "MaxIOPS Prewrites",
        "Max IOPS Histogram",
        "MidIOPS Prewrites",
        "Mid IOPS Histogram",
        "MinIOPS Prewrites",
        "Min IOPS Histogram",
        "IOPS or BW v Total OIO",
    ),
    over_rounds=False,
)


def dirth_part(run: Run, replay: Replay) -> TestPart:
    """The DIRTH part of the report; what the run did not come to is named."""
    return demand_part(run, replay, PLOTS)
