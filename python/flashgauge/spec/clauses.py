"""The table of clauses: every requirement of PTS 2.0.1, sections 3 to 14, with its place in the code and its tests.

A test says which clauses it covers with `@pytest.mark.clause("7.2")`, a Rust test with `// clause: 6.rng`; which they
are is kept in clause_tests.json (made by tests/test_clauses.py). `flashgauge clauses` prints the table, and the
report's compliance page is made from it.
"""

from __future__ import annotations

import json
import re
from functools import cache
from importlib.resources import files
from typing import Any

from flashgauge.spec.clause import Clause
from flashgauge.spec.clauses_common import COMMON
from flashgauge.spec.clauses_demand import CBW_CLAUSES, DIRTH_CLAUSES
from flashgauge.spec.clauses_rounds import IOPS_CLAUSES, LAT_CLAUSES, TP_CLAUSES
from flashgauge.spec.clauses_time import HIR_CLAUSES, WSAT_CLAUSES, XSR_CLAUSES

TESTS_FILE = "clause_tests.json"


def _key(clause: Clause) -> tuple[tuple[int, str], ...]:
    """The order of the standard; Annex A last."""
    return tuple((int(part), "") if part.isdigit() else (1000, part) for part in clause.id.split("."))


_ALL = (
    *COMMON,
    *IOPS_CLAUSES,
    *TP_CLAUSES,
    *LAT_CLAUSES,
    *WSAT_CLAUSES,
    *HIR_CLAUSES,
    *XSR_CLAUSES,
    *CBW_CLAUSES,
    *DIRTH_CLAUSES,
)
CLAUSES: dict[str, Clause] = {clause.id: clause for clause in sorted(_ALL, key=_key)}
assert len(CLAUSES) == len(_ALL), "a clause id is used twice"


def of_test(test: str) -> tuple[Clause, ...]:
    """The clauses that apply to a test of the standard, in order."""
    return tuple(clause for clause in CLAUSES.values() if test in clause.tests)


def numbers(text: str) -> list[str]:
    """Clause numbers as ids: "7.2 3.2.1.2" is 7.2.3.2.1.2, "6 item 9" is 6.9, "4 3b" is 4.3, "7.3.4, 7.3.5" are two."""
    found = []
    for one in re.split(r"[,;]", text):
        parts = re.findall(r"(?<![\w.-])(A|\d+(?:\.\d+)*)", one)
        if parts:
            found.append(".".join(parts))
    return found


def responsible(number: str, test: str) -> Clause | None:
    """The clause of a test that a number of the standard belongs to: its own, or the nearest number's above it."""
    known = _by_number(test)
    while number:
        if number in known:
            return known[number]
        number = number.rpartition(".")[0]
    return None


@cache
def _by_number(test: str) -> dict[str, Clause]:
    found = of_test(test)
    covered = {number: clause for clause in found for number in clause.covers}
    return covered | {clause.id: clause for clause in found}


@cache
def checks() -> dict[str, list[str]]:
    """Clause id -> the tests that name it, "file::function"."""
    text = (files("flashgauge.spec") / TESTS_FILE).read_text(encoding="utf-8")
    loaded: dict[str, list[str]] = json.loads(text)
    return loaded


def listed(section: str | None = None) -> list[dict[str, Any]]:
    """The table as plain values: of one section ("7", "A"), or all of it."""
    return [
        {
            "id": clause.id,
            "requirement": clause.requirement,
            "strength": clause.strength,
            "place": clause.place,
            "decided_by": clause.decided,
            "tests_of_the_standard": clause.tests,
            "covers": clause.covers,
            "note": clause.note,
            "tests": checks().get(clause.id, []),
        }
        for clause in CLAUSES.values()
        if section in (None, clause.section)
    ]
