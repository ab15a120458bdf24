"""Report of the Composite Block Size Workload test: plots 1 to 15 of Table 13-3 and the shares of Tables 13-1, 13-2."""

from __future__ import annotations

from flashgauge.report.demand import demand_part
from flashgauge.report.demand_plots import Plots
from flashgauge.report.model import TestPart
from flashgauge.report.replay import Replay
from flashgauge.runfolder import Run

PLOTS = Plots(
    test="CBW",
    section="13",
    first=4,
    titles=(
        "PC IOPS Plot",
        "PC Steady State Plot",
        "Btw-Round Prewrites Plot",
        "DV IOPS Plot, TC=Tracking",
        "DV Steady State Plot, Tracking Variable",
        "Demand Variation Plot",
        "Demand Intensity Plot",
        "System CPU Utilization Plot",
        "MaxIOPS Prewrites",
        "Max IOPS Histogram",
        "MidIOPS Prewrites",
        "Mid IOPS Histogram",
        "MinIOPS Prewrites",
        "Min IOPS Histogram",
        "IOPS or BW v Total OIO",
    ),
    over_rounds=True,
)


def cbw_part(run: Run, replay: Replay) -> TestPart:
    """The CBW part of the report; what the run did not come to is named."""
    return demand_part(run, replay, PLOTS)
