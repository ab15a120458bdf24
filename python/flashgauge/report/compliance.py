"""The compliance page: every clause of the standard that applies to the run's test, and whether the run met it.

Derived from run.json, the journal and the disclosures alone. "met" means that the code does what the clause asks and
that nothing the program saw in this run says otherwise; the tests of the code, clause by clause: `flashgauge clauses`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from flashgauge.disclosure import Disclosure
from flashgauge.report.formats import NOT_KNOWN, value_text
from flashgauge.report.header import common_items
from flashgauge.report.model import Column, Section, Table
from flashgauge.report.replay import Replay
from flashgauge.runfolder import Run
from flashgauge.spec.clause import Clause
from flashgauge.spec.clauses import numbers, of_test, responsible

MET = "met"
MET_SO_FAR = "met so far"
SAID = "met: it is said"
NOT_REACHED = "not reached"
NOT_CLAIMED = "not claimed"
NOT_MEASURED = "not measured"
NOT_PROVIDED = "NOT PROVIDED"
GIVEN = "given"
RECOMMENDED = "as recommended"
CHOSEN = "chosen otherwise"

# Items of the report that section 5 does not ask for, or not of everyone.
_NOT_ASKED = {"Test end", "Other features"}
_NOTES = (
    "met: the code does it and nothing seen in this run says otherwise. Strength: the standard's word; "
    "a step is one of its pseudo code.",
)


def compliance_section(run: Run, replayed: Replay, disclosures: Sequence[Disclosure]) -> Section:
    """One row for each clause; what is not known or was chosen; and how the standard is read where it is in doubt."""
    clauses = of_test(run.test)
    named = {disclosure: _named(disclosure, run.test) for disclosure in disclosures}
    rows = []
    for clause in clauses:
        found = [disclosure for disclosure, ids in named.items() if clause.id in ids or disclosure.kind in clause.kinds]
        verdict = clause_verdict(clause, run, replayed, found)
        rows.append((clause.id, verdict, clause.strength, clause.requirement))
    columns = (
        Column("Clause", "clause"),
        Column("Verdict", "verdict"),
        Column("Strength", "strength"),
        Column("Requirement", "requirement"),
    )
    particulars = [(c.id, text) for c in clauses if (text := _particulars(c, run, replayed))]
    readings = [(c.id, c.note) for c in clauses if c.note]
    tables = [
        Table(f"Requirements for the {replayed.test.title} test", columns, tuple(rows), name="clauses"),
        _texts("Not known, or chosen by the operator", "Particulars", particulars),
        _texts("How the standard is read where it leaves a doubt", "Readings", readings),
    ]
    elsewhere = _elsewhere([disclosure for disclosure, ids in named.items() if not ids], clauses)
    notes = (_summary([row[1] for row in rows]), *_NOTES, *elsewhere)
    return Section("compliance", "Compliance", "", "2 to 14", tuple(t for t in tables if t.rows), notes)


def _texts(title: str, heading: str, rows: Sequence[tuple[str, str]]) -> Table:
    name = heading.lower()
    return Table(title, (Column("Clause", "clause"), Column(heading, name)), tuple(rows), name=name)


def clause_verdict(clause: Clause, run: Run, replayed: Replay, found: Sequence[Disclosure]) -> str:
    """`found`: the disclosures that name the clause, or are of a kind that departs from it."""
    if clause.basis == "absent":
        return NOT_PROVIDED
    if clause.basis == "operator":
        missing = _not_known(clause, run)
        return f"{NOT_KNOWN}: {len(missing)} item{'' if len(missing) == 1 else 's'}" if missing else GIVEN
    departed = [disclosure for disclosure in found if disclosure.kind not in clause.states]
    if departed:
        return f"DEPARTED: {len(departed)} disclosure{'' if len(departed) == 1 else 's'}"
    if clause.recommended:
        return CHOSEN if _chosen(clause, replayed) else RECOMMENDED
    if (early := _early(clause, run, replayed)) is not None:
        return early
    if found:
        return SAID
    if clause.source == "cpu" and all(entry.measurement.host.cpu_system_percent is None for entry in replayed.entries):
        return NOT_MEASURED
    return MET


def _named(disclosure: Disclosure, test: str) -> set[str]:
    """Ids of the test's clauses that the disclosure's clause numbers belong to."""
    return {clause.id for number in numbers(disclosure.clause) if (clause := responsible(number, test)) is not None}


def _early(clause: Clause, run: Run, replayed: Replay) -> str | None:
    """What to say of a clause when the run did not come far enough to judge it; None when it did."""
    outcome = replayed.outcome
    match clause.reached:
        case "purge":
            return None if run.purge_method is not None else NOT_REACHED
        case "cache":
            return None if run.write_cache is not None else NOT_REACHED
        case "throughout":
            return NOT_REACHED if not replayed.entries else MET_SO_FAR if outcome is None else None
        case "end":
            return NOT_REACHED if outcome is None else None
        case "steady state":
            if outcome is None:
                return NOT_REACHED
            # None: the test ended in another way that the standard allows.
            return {True: None, False: NOT_REACHED, None: NOT_CLAIMED}[outcome.steady]


def _particulars(clause: Clause, run: Run, replayed: Replay) -> str:
    if clause.basis == "operator" and (missing := _not_known(clause, run)):
        return f"{NOT_KNOWN}: {', '.join(missing)}"
    if clause.recommended:
        return "; ".join(_chosen(clause, replayed))
    return ""


def _not_known(clause: Clause, run: Run) -> list[str]:
    """Items of section 5 that only a person, or a drive that says it, can provide, and nobody did."""
    items = [(str(name), value) for number, name, value in common_items(run, run.started).rows if number == clause.id]
    return [name.lower() for name, value in items if value == NOT_KNOWN and name not in _NOT_ASKED]


def _chosen(clause: Clause, replayed: Replay) -> list[str]:
    """Parameters that are not as recommended."""
    used = replayed.parameters
    standard = type(used).standard(used.device_class)
    return [
        f"{name} {value_text(value, '')}, recommended {value_text(wanted, '')}"
        for name in clause.recommended
        if (value := getattr(used, name)) != (wanted := getattr(standard, name))
    ]


def _elsewhere(disclosures: Sequence[Disclosure], clauses: Sequence[Clause]) -> tuple[str, ...]:
    """Disclosures of the run as a whole, such as that its device is a simulation."""
    judged = {kind for clause in clauses for kind in clause.kinds}
    left = [disclosure for disclosure in disclosures if disclosure.kind not in judged]
    if not left:
        return ()
    texts = ", ".join(f"{disclosure.kind.value.replace('_', ' ')} ({disclosure.clause})" for disclosure in left)
    return (f"Disclosures that concern the result as a whole: {texts}.",)


def _summary(verdicts: Sequence[str]) -> str:
    """How many clauses have which verdict, most first; "DEPARTED: 2 disclosures" counts as departed."""
    counts = Counter(MET if verdict == SAID else verdict.split(":", maxsplit=1)[0].lower() for verdict in verdicts)
    return f"Of {len(verdicts)} clauses: {', '.join(f'{count} {what}' for what, count in counts.most_common())}."
