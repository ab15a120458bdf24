"""The clauses of the tests that vary the demand: composite workload (section 13) and DIRTH (14).

Both have the same steps. The numbers of CBW's are one higher from step 3 on, because its step 2 is the access pattern.
"""

from __future__ import annotations

from flashgauge.disclosure import Kind
from flashgauge.spec.clause import CBW, DIRTH, Clause, Source

_SPEC = "flashgauge.spec.demand:demand"
_PARAMETERS = "flashgauge.spec.demand:DemandParameters"


def _steps(number: str, first: int, tests: tuple[str, ...]) -> tuple[Clause, ...]:
    """The steps that both tests have. `first`: of the pre-conditioning."""
    later = [f"{number}.2.{step}" for step in range(first + 3, first + 7)]
    return (
        *_preconditioning(number, f"{number}.2.{first}", tests),
        *_variation(f"{number}.2.{first + 1}", tests),
        *_histograms(later[0], later[1], tuple(later[2:]), tests),
    )


def _preconditioning(number: str, pre: str, tests: tuple[str, ...]) -> tuple[Clause, ...]:
    head, _, step = pre.rpartition(".")
    return (
        Clause(
            f"{number}.1",
            "independent pre-conditioning: twice the user capacity, SEQ 128 KiB writes, over the ActiveRange",
            "step",
            "flashgauge.spec.rounds:wipc_step",
            tests,
            note="in the test flow only, not in the pseudo code: it is done",
        ),
        Clause(
            f"{number}.2",
            "ActiveRange 100 % in both classes, or another the operator chooses; the steps in order",
            "step",
            _SPEC,
            tests,
        ),
        Clause(
            f"{pre}.1",
            "pre-conditioning at T32Q32; write cache off, in both classes",
            "step",
            _PARAMETERS,
            tests,
            reached="throughout",
            covers=(f"{head}.{int(step) + 1}.1.1",),
            note="3.7 would have the cache on for PTS-C: the section decides",
        ),
        Clause(
            f"{pre}.2",
            "pre-conditioning with the pattern as writes; IOPS, ART and MRT of each minute; until five one-minute "
            "rounds 30 minutes apart are steady, at most 25 rounds",
            "step",
            "flashgauge.spec.rounds:minutes",
            tests,
            states=(Kind.STEADY_STATE_NOT_REACHED,),
            note="rounds are 30 minutes apart from begin to begin; without steady state the test goes on and says so",
        ),
    )


def _variation(vary: str, tests: tuple[str, ...]) -> tuple[Clause, ...]:
    return (
        Clause(
            f"{vary}.1",
            "thread counts and OIOs per thread: 32, 16, 8, 6, 4, 2, 1",
            "step",
            _PARAMETERS,
            tests,
        ),
        Clause(
            f"{vary}.2",
            "before each round a pre-write at T32Q32: 5 minutes at least, 30 minutes or 10 % of the capacity at most; "
            "IOPS, ART and MRT of each minute",
            "step",
            _SPEC,
            tests,
            note="R/W 0/100: only the header of Plot 14-2 says so; system CPU is judged with plot 8",
        ),
        Clause(
            f"{vary}.3",
            "each round one minute at every combination, total OIO decreasing, of equal ones the higher thread count "
            "first; IOPS, ART and MRT recorded",
            "step",
            _SPEC,
            tests,
            note="system CPU is judged with plot 8",
        ),
        Clause(
            f"{vary}.3.3",
            "rounds until the IOPS at T32Q32 are steady, at most 25",
            "step",
            "flashgauge.spec.rounds:until_steady",
            tests,
            states=(Kind.STEADY_STATE_NOT_REACHED,),
            note="without steady state the test goes on with the last five rounds and says so",
        ),
    )


def _histograms(points: str, histogram: str, also: tuple[str, ...], tests: tuple[str, ...]) -> tuple[Clause, ...]:
    return (
        Clause(
            points,
            "MaxIOPS: highest IOPS with an ART below 5 ms; MinIOPS: T1Q1; one MidIOPS at least, midway between",
            "shall",
            "flashgauge.spec.operating_points:choose",
            tests,
            kinds=(Kind.NO_OPERATING_POINT,),
            note="of combinations with (nearly) the highest IOPS, the one with the lowest total OIO",
        ),
        Clause(
            histogram,
            "at each of the points an hour of writes, logged by the minute, then 10 minutes with every response time "
            "captured",
            "step",
            _SPEC,
            tests,
            covers=also,
        ),
        Clause(
            f"{histogram}.mrt",
            "the capture's time range goes to the MRT or beyond",
            "shall",
            "crates/core/src/recorder.rs",
            tests,
        ),
    )


def _plots(number: str, first: int, tests: tuple[str, ...]) -> tuple[Clause, ...]:
    """The 15 plots of Table 13-3 and Plot 14-1. `first`: the step of the pseudo code that asks for two of them."""
    section, place = f"{number}.3.2", f"flashgauge.report.{tests[0]}:{tests[0]}_part"

    def plot(name: str, requirement: str, plots: tuple[int, ...], *also: str, source: Source = "") -> Clause:
        covers = (*(f"{section}.{n}" for n in plots if f"{n}" != name), *also)
        return Clause(f"{section}.{name}", requirement, "shall", place, tests, source=source, covers=covers)

    whole = "the plots of the table, on the axes it gives them; plot 8 is judged by itself"
    return (
        Clause(section, whole, "shall", place, tests, covers=(f"{number}.2.{first + 5}",)),
        plot("1", "plots 1 and 2: pre-conditioning, IOPS and its steady state", (1, 2)),
        plot("3", "plot 3: pre-writes between rounds, IOPS over time", (3,)),
        plot("4", "plots 4 and 5: IOPS over rounds at the tracking variable's thread count; its steady state", (4, 5)),
        plot("6", "plot 6: demand variation, IOPS over OIO for each thread count", (6,)),
        plot(
            "7",
            "plot 7: demand intensity, ART over IOPS for each thread count, the chosen points labelled",
            (7,),
            f"{number}.2.{first}",
            f"{number}.2.{first}.1",
        ),
        plot("8", "plot 8: system CPU use over thread count and OIO", (8,), f"{number}.2.{first}.2", source="cpu"),
        plot("9", "plots 9, 11 and 13: IOPS over time in the pre-writes before each histogram", (9, 11, 13)),
        plot("10", "plots 10, 12 and 14: histograms at the three points, with their MRT", (10, 12, 14)),
        plot("15", "plot 15: IOPS or bandwidth over total OIO", (15,)),
    )


_PATTERN: tuple[Clause, ...] = (
    Clause(
        "13.2.2.1",
        "one access pattern for dependent pre-conditioning and measurement",
        "shall",
        "flashgauge.spec.workloads:COMPOSITE",
        CBW,
        reached="throughout",
    ),
    Clause(
        "13.2.2.1.2",
        "40 % reads, 60 % writes",
        "shall",
        "flashgauge.spec.workloads:COMPOSITE",
        CBW,
    ),
    Clause(
        "13.2.2.1.3",
        "block sizes drawn at random with the probabilities of Table 13-1",
        "shall",
        "flashgauge.spec.workloads:COMPOSITE_BLOCKS",
        CBW,
        reached="throughout",
        kinds=(Kind.SHARES_OFF,),
    ),
    Clause(
        "13.2.2.1.4",
        "LBAs in the groups and shares of Table 13-2, in each measurement period",
        "shall",
        "flashgauge.spec.workloads:COMPOSITE_GROUPS",
        CBW,
        reached="throughout",
        kinds=(Kind.SHARES_OFF,),
    ),
)

CBW_CLAUSES = (*_PATTERN, *_steps("13", 3, CBW), *_plots("13", 5, CBW))
DIRTH_CLAUSES = (*_steps("14", 2, DIRTH), *_plots("14", 4, DIRTH))
