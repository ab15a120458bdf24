"""What one clause of the standard is in the table of clauses: its requirement, its place in the code, its verdict.

The words are ours; the standard's text is the reference. The data are in clauses_*.py, the table in clauses.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flashgauge.disclosure import Kind

# The standard's keyword; "step": a step of its pseudo code, "definition": a definition that results rest on.
Strength = Literal["shall", "must", "required", "should", "recommended", "may", "step", "definition"]
# Who or what decides whether a run met it. "absent": flashgauge does not have it.
Basis = Literal["run", "operator", "absent"]
# What a run must have come to before the clause can be judged; "throughout": it holds as far as the run went.
Reached = Literal["purge", "cache", "throughout", "end", "steady state"]
Source = Literal["", "cpu"]

IOPS, TP, LAT, WSAT, HIR, XSR, CBW, DIRTH = (
    ("iops",),
    ("tp",),
    ("lat",),
    ("wsat",),
    ("hir",),
    ("xsr",),
    ("cbw",),
    ("dirth",),
)
ROUNDS = (*IOPS, *TP, *LAT)
DEMAND = (*CBW, *DIRTH)
STEADY = (*ROUNDS, *WSAT, *HIR, *DEMAND)
ALL = (*ROUNDS, *WSAT, *HIR, *XSR, *DEMAND)


@dataclass(frozen=True)
class Clause:
    """One requirement.

    `id`: the clause's number; that of a step of pseudo code is the section's and the step's ("9.2.3.3": 9.2, step 3.3).
    A word at the end ("6.rng") tells several requirements of one clause apart.
    `place`: what satisfies it, "module:name" or the path of a Rust file; "" if nothing does.
    `tests`: the tests of the standard it is for.
    `kinds`: disclosures that mean a departure from it, whatever clause they name; one that names this clause always
    does. `states`: kinds that do not: the clause asks that it be said. `recommended`: parameters whose recommended
    value the operator may leave.
    `source`: the clause asks for a quantity that not every target gives.
    `covers`: further numbers of the standard where the same is said, or the parts that this requirement sums up.
    `note`: which reading is implemented where the standard contradicts itself.
    """

    id: str
    requirement: str
    strength: Strength
    place: str
    tests: tuple[str, ...] = ALL
    reached: Reached = "end"
    basis: Basis = "run"
    kinds: tuple[Kind, ...] = ()
    states: tuple[Kind, ...] = ()
    recommended: tuple[str, ...] = ()
    source: Source = ""
    covers: tuple[str, ...] = ()
    note: str = ""

    @property
    def section(self) -> str:
        return self.id.split(".", maxsplit=1)[0]

    @property
    def decided(self) -> str:
        """How a report decides whether a run met it, in words."""
        match self.basis:
            case "operator":
                return "operator"
            case "absent":
                return "not provided"
        if self.recommended:
            return f"parameters: {', '.join(self.recommended)}"
        return f"disclosures: {', '.join(self.kinds)}" if self.kinds else "by construction"
