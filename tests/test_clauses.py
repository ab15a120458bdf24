"""The table of clauses: whole against the standard's text, true of the code, with tests; and the compliance page.

Run as a program, this file writes clause_tests.json anew: `.venv/bin/python tests/test_clauses.py`.
"""

from __future__ import annotations

import ast
import dataclasses
import json
import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from fakes import measurement
from flashgauge.cli.clauses import clauses
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.measurement import HostUsage
from flashgauge.report.compliance import compliance_section
from flashgauge.report.model import Section, Table
from flashgauge.report.replay import Replay
from flashgauge.runfolder import DutInfo, Entry
from flashgauge.spec.clause import ALL
from flashgauge.spec.clauses import CLAUSES, TESTS_FILE, checks, listed, numbers, of_test, responsible
from flashgauge.spec.parameters import DeviceClass, table
from flashgauge.spec.registry import TESTS
from flashgauge.steps import Label
from report_data import make_run

ROOT = Path(__file__).parent.parent
STANDARD = Path("/work/shared/spec/snia-pts-2.0.1.txt")
WRITTEN = ROOT / "python/flashgauge/spec" / TESTS_FILE
REGENERATE = f"clause_tests.json is not up to date: run .venv/bin/python {Path(__file__).relative_to(ROOT)}"
MOST_ROWS = 52
# Kinds of disclosure that concern the result as a whole: no clause of sections 3 to 14 asks for the contrary.
WHOLE = {
    Kind.SIMULATED,
    Kind.NOT_DEVICE_LEVEL,
    Kind.MIXED_DEVICES,
    Kind.FAULTS_INJECTED,
    Kind.THERMAL_THROTTLING,
    Kind.DRIVE_HEALTH,
    Kind.HOST_LIMITED,
    Kind.DATA_MISMATCH,
    Kind.IO_LOG_INCOMPLETE,
}


# The marks: which test covers which clause


@cache
def marks() -> dict[str, list[str]]:
    """Clause id -> "file::test" of every Python and Rust test that names it."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "tests").glob("*.py")):
        for test, ids in _python_marks(ast.parse(path.read_text())):
            for clause in ids:
                found.setdefault(clause, set()).add(f"{path.relative_to(ROOT)}::{test}")
    for path in sorted((ROOT / "crates").rglob("*.rs")):
        for test, clause in _rust_marks(path.read_text()):
            found.setdefault(clause, set()).add(f"{path.relative_to(ROOT)}::{test}")
    known = [clause for clause in CLAUSES if clause in found]
    unknown = sorted(found.keys() - CLAUSES.keys())
    return {clause: sorted(found[clause]) for clause in (*known, *unknown)}


def _python_marks(module: ast.Module) -> list[tuple[str, set[str]]]:
    """Tests of a module with the clauses of their own decorators, their class's and the module's pytestmark."""
    of_all: set[str] = set()
    for node in module.body:
        if isinstance(node, ast.Assign) and any(getattr(t, "id", "") == "pytestmark" for t in node.targets):
            of_all |= _named(node.value)
    found = []
    for node in module.body:
        functions = node.body if isinstance(node, ast.ClassDef) else [node]
        outer = _named(*node.decorator_list) if isinstance(node, ast.ClassDef) else set()
        for function in functions:
            if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
                found.append((function.name, of_all | outer | _named(*function.decorator_list)))
    return found


def _named(*nodes: ast.AST) -> set[str]:
    calls = [n for node in nodes for n in ast.walk(node) if isinstance(n, ast.Call)]
    marked = [n for n in calls if isinstance(n.func, ast.Attribute) and n.func.attr == "clause"]
    return {a.value for n in marked for a in n.args if isinstance(a, ast.Constant) and isinstance(a.value, str)}


def _rust_marks(text: str) -> list[tuple[str, str]]:
    """`// clause: 6.rng` belongs to the next function."""
    found = []
    for mark in re.finditer(r"// clause: (\S+)", text):
        if function := re.search(r"\bfn (\w+)", text[mark.end() :]):
            found.append((function[1], mark[1]))
    return found


def as_text(found: dict[str, list[str]]) -> str:
    return json.dumps(found, indent=1) + "\n"


def test_marks_of_every_form_are_found() -> None:
    python = """
pytestmark = pytest.mark.clause('1')
@pytest.mark.clause('2')
@pytest.mark.parametrize("a", [pytest.param(1, marks=pytest.mark.clause('3'))])
def test_a(a): ...
@pytest.mark.clause('4')
class TestB:
    @pytest.mark.clause('5')
    def test_b(self): ...
    def helper(self): ...
"""
    assert _python_marks(ast.parse(python)) == [("test_a", {"1", "2", "3"}), ("test_b", {"1", "4", "5"})]
    rust = "// clause: 6.rng\n// clause: 6.3\n#[test]\nfn uniform() {}\n#[test]\nfn other() {}\n"
    assert _rust_marks(rust) == [("uniform", "6.rng"), ("uniform", "6.3")]


def test_every_mark_names_a_clause_of_the_table() -> None:
    assert [f"{clause} ({', '.join(tests)})" for clause, tests in marks().items() if clause not in CLAUSES] == []


def test_every_clause_has_a_test() -> None:
    """A clause that no test names is a claim nobody checks."""
    claimed = [clause.id for clause in CLAUSES.values() if clause.basis != "absent"]
    assert [clause for clause in claimed if clause not in marks()] == []


def test_the_packaged_marks_are_up_to_date() -> None:
    assert WRITTEN.exists(), REGENERATE
    assert WRITTEN.read_text() == as_text(marks()), REGENERATE
    assert checks() == marks()


# The table itself


def test_every_place_exists() -> None:
    missing = [f"{clause.id}: {clause.place}" for clause in CLAUSES.values() if not _exists(clause.place)]
    assert missing == [clause.id + ": " for clause in CLAUSES.values() if clause.basis == "absent"]


def _exists(place: str) -> bool:
    if place.endswith(".rs"):
        return (ROOT / place).exists()
    module, _, name = place.partition(":")
    try:
        found = import_module(module)
    except (ImportError, ValueError):
        return False
    return hasattr(found, name) if name else True


def test_fields_fit_together() -> None:
    for clause in CLAUSES.values():
        assert set(clause.tests) <= set(ALL), clause.id
        assert not set(clause.kinds) & set(clause.states), clause.id
        assert (clause.basis == "absent") == (clause.place == ""), clause.id
        assert (clause.strength == "recommended") == bool(clause.recommended), clause.id
        for test in clause.tests:
            names = {field.name for field in dataclasses.fields(TESTS[test].parameters_type)}
            assert set(clause.recommended) <= names, f"{clause.id}: {test} has no such parameter"


@pytest.mark.parametrize("test", ALL)
def test_a_number_belongs_to_one_clause(test: str) -> None:
    claimed = [number for clause in of_test(test) for number in (clause.id, *clause.covers)]
    assert sorted(claimed) == sorted(set(claimed))


@pytest.mark.parametrize("test", ALL)
@pytest.mark.parametrize("device_class", DeviceClass)
def test_every_parameter_belongs_to_a_clause(test: str, device_class: DeviceClass) -> None:
    """Else a change of it would leave the compliance page as it was."""
    parameters = TESTS[test].parameters(device_class)
    rows = [(row["name"], _clause(parameters, row["clause"])) for row in table(parameters)]
    left = [f"{name}: {clause}" for name, clause in rows if not _all_known(clause, test)]
    assert left == []


def _clause(parameters: Any, text: str) -> str:
    """A test's own numbering, where it shares its parameters with another."""
    own = getattr(parameters, "clause", None)
    return own(text) if callable(own) else text


def _all_known(text: str, test: str) -> bool:
    return bool(numbers(text)) and all(responsible(number, test) is not None for number in numbers(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("7.2 3.2.1.2", ["7.2.3.2.1.2"]),
        ("6 item 9", ["6.9"]),
        ("4 3b", ["4.3"]),
        ("2.1.24 a", ["2.1.24"]),
        ("11.2 4-8", ["11.2.4"]),
        ("7.3.4, 7.3.5", ["7.3.4", "7.3.5"]),
        ("A", ["A"]),
        ("", []),
    ],
)
def test_numbers_of_a_disclosure(text: str, expected: list[str]) -> None:
    assert numbers(text) == expected


def test_the_nearest_number_above_is_responsible() -> None:
    assert responsible("7.2.3.2.1.2", "iops") is CLAUSES["7.2.3.2.1"]
    assert responsible("7.2.2.1.1", "iops") is CLAUSES["3.7"], "said again in 7.2, step 2.1.1"
    assert responsible("7.2", "tp") is None, "of another test"
    assert responsible("1.3", "iops") is None


def test_the_table_as_plain_values() -> None:
    assert [row["id"] for row in listed()] == list(CLAUSES)
    assert [row["id"] for row in listed("10")][:2] == ["10.2", "10.2.2.1"]
    assert listed("15") == []
    json.dumps(listed())


def test_every_disclosure_of_the_code_shows_in_the_table() -> None:
    """Each kind departs from some clause, or concerns the result as a whole; each clause number is known."""
    judged = {kind for clause in CLAUSES.values() for kind in clause.kinds}
    # A changed parameter, or a condition of the host, departs from the clause it names, whichever that is.
    assert set(Kind) - judged == {Kind.PARAMETER_CHANGED, Kind.HOST_CONDITIONS, *WHOLE}
    calls = [
        call
        for path in sorted((ROOT / "python").rglob("*.py"))
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == "Disclosure" and len(call.args) > 1
    ]
    literal = {
        (ast.unparse(call.args[0]), call.args[1].value) for call in calls if isinstance(call.args[1], ast.Constant)
    }
    assert len(literal) > 6
    whole, found = {f"Kind.{kind.name}" for kind in WHOLE}, {f"Kind.{kind.name}" for kind in judged}
    for kind, text in literal:
        known = any(_all_known(str(text), test) for test in ALL)
        assert known or kind in found | whole, f"{kind}: clause {text} is not in the table"


@pytest.fixture
def command() -> Callable[..., Any]:
    """`flashgauge clauses ARGUMENTS...`, in a wide terminal."""
    app = typer.Typer()
    app.command()(clauses)
    return lambda *arguments: CliRunner().invoke(app, arguments, env={"COLUMNS": "400"})


def test_the_command_prints_one_section(command: Callable[..., Any]) -> None:
    lines = command("--section", "9").stdout.splitlines()
    shown = [line.split()[0] for line in lines if re.match(r" *\d+\.", line)]
    assert shown == [row["id"] for row in listed("9")]
    assert lines[1].split() == ["Clause", "Strength", "Requirement,", "place,", "tests"]
    assert sum("place: " in line for line in lines) == len(shown)


def test_the_command_as_json(command: Callable[..., Any]) -> None:
    assert json.loads(command("--json").stdout) == json.loads(json.dumps(listed()))
    assert {row["id"] for row in json.loads(command("--json", "--section", "A").stdout)} == {"A"}


def test_the_command_knows_its_sections(command: Callable[..., Any]) -> None:
    result = command("--section", "15")
    assert result.exit_code == 2
    assert "no clause of section 15" in result.stderr


# The standard's text


def standard() -> list[tuple[str, str]]:
    """Sections 3 to 14 and Annex A as (number, line): of a section, of a step of pseudo code in x.2, of a numbered
    item in sections 4 and 6."""
    if not STANDARD.exists():
        pytest.skip(f"{STANDARD} is not here: the standard's text is not part of the project")
    found, chapter, section, step = [], 2, "", ""
    for line in STANDARD.read_text().splitlines():
        if line.startswith("Annex A ") and chapter == 14:
            break
        heading = re.match(r"(\d+(?:\.\d+)*) [A-Z]", line)
        if heading and heading[1] == str(chapter + 1) and not re.search(r"[.:]\s*\d*$|\t", line) and "|" not in line:
            chapter, section, step = chapter + 1, heading[1], ""
        elif heading and chapter > 2 and heading[1].startswith(f"{chapter}."):
            section, step = heading[1], ""
        elif section.endswith(".2") and section.count(".") == 1:
            if inner := re.match(r"\s*(?:- )?\**(\d+(?:\.\d+)*)\.? \**\S", line):
                step = f".{inner[1]}"
        elif section in {"4", "6"} and (item := re.match(r"\s*(?:- )?(\d+)\) ", line)):
            step = f".{item[1]}"
        if section:
            found.append((section + step, line))
    return found


def _known(number: str, line: str) -> bool:
    """Whether a clause stands for the number: its own or that of a number above it, but not of a whole x.2 or x.3."""
    tests = {"7": "iops", "8": "tp", "9": "lat", "10": "wsat", "11": "hir", "12": "xsr", "13": "cbw", "14": "dirth"}
    test = tests.get(number.split(".", maxsplit=1)[0])
    for of in [test] if test else ALL:
        clause = responsible(number, of)
        whole = clause is not None and clause.section in tests and re.fullmatch(r"\d+\.[23]", clause.id)
        if clause is not None and (clause.id == number or not whole):
            return True
    # "... shall have the ability to:" is followed by items of their own.
    return line.rstrip().endswith(":") and any(clause.startswith(f"{number}.") for clause in CLAUSES)


def test_every_requirement_of_the_standard_is_in_the_table() -> None:
    asked = [(n, line) for n, line in standard() if re.search(r"\b([Ss]hall|[Mm]ust|[Rr]equired)\b", line)]
    assert len(asked) > 90, "the walk through the text has lost its way"
    assert {n.split(".", maxsplit=1)[0] for n, _ in asked} == {str(n) for n in range(3, 15)}
    left = [f"{number}: {line.strip()[:100]}" for number, line in asked if not _known(number, line)]
    assert left == []


def test_every_step_of_the_pseudo_code_is_in_the_table() -> None:
    """The main steps, and what each is made of."""
    steps = {number for number, _ in standard() if re.fullmatch(r"\d+\.2\.\d+(\.\d+)?", number)}
    assert len(steps) > 100
    # A main step may be known by its parts: all of them are here too.
    left = [number for number in steps if not _known(number, ":" if number.count(".") == 2 else "")]
    assert sorted(left) == []


def test_the_numbers_of_the_table_are_the_standards() -> None:
    seen = {number for number, _ in standard()} | {number for n, _ in standard() for number in _above(n)}
    ids = {re.sub(r"\.[a-z]+$", "", clause.id) for clause in CLAUSES.values() if clause.section not in {"2", "A"}}
    assert sorted(number for number in ids if number not in seen) == []


def _above(number: str) -> list[str]:
    parts = number.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def test_the_words_are_ours() -> None:
    """The standard may not be copied in parts; eight words in a row would be a copy."""
    words = re.findall(r"[a-z0-9]+", " ".join(line for _, line in standard()).lower())
    theirs = {tuple(words[i : i + 8]) for i in range(len(words) - 7)}
    for clause in CLAUSES.values():
        ours = re.findall(r"[a-z0-9]+", f"{clause.requirement} | {clause.note}".lower())
        copied = [" ".join(ours[i : i + 8]) for i in range(len(ours) - 7) if tuple(ours[i : i + 8]) in theirs]
        assert copied == [], clause.id


# The compliance page


STEADY, UNSTEADY, OTHERWISE = SimpleNamespace(steady=True), SimpleNamespace(steady=False), SimpleNamespace(steady=None)
DEFAULT_RUN = {"purge_method": "NVMe Format, user data erase", "write_cache": "disabled"}


def page(
    test: str,
    outcome: Any = STEADY,
    disclosures: tuple[Disclosure, ...] = (),
    *,
    host: HostUsage | None = None,
    steps: int = 1,
    settings: dict[str, Any] | None = None,
    **run: Any,
) -> Section:
    """The page of a made-up run; `settings`: parameters that are not as the standard has them."""
    parameters = dataclasses.replace(TESTS[test].parameters(DeviceClass.ENTERPRISE), **(settings or {}))
    measured = dataclasses.replace(measurement(1000.0), host=host or HostUsage(cpu_system_percent=3.0))
    entries = tuple(Entry(i, "measure", Label("round", i + 1), measured) for i in range(steps))
    replayed = Replay(
        test=TESTS[test],
        parameters=parameters,
        entries=entries,
        judged=(),
        disclosed=(),
        outcome=outcome,
        missing=(),
    )
    made = make_run(parameters, test=test, **{**DEFAULT_RUN, **run})  # type: ignore[arg-type]
    return compliance_section(made, replayed, disclosures)


def clause_table(section: Section) -> Table:
    return next(item for item in section.items if isinstance(item, Table) and item.name == "clauses")


def verdicts(section: Section) -> dict[str, str]:
    return {str(row[0]): str(row[1]) for row in clause_table(section).rows}


def texts(section: Section, name: str) -> dict[str, str]:
    found = next(item for item in section.items if isinstance(item, Table) and item.name == name)
    return {str(number): str(text) for number, text in found.rows}


def disclosed(kind: Kind, clause: str) -> Disclosure:
    return Disclosure(kind, clause, "it is so", "do otherwise")


@pytest.mark.parametrize("test", ALL)
def test_a_good_run_meets_every_clause_of_its_test(test: str) -> None:
    section = page(test)
    found = verdicts(section)
    assert list(found) == [clause.id for clause in of_test(test)]
    given = {clause.id for clause in of_test(test) if clause.basis != "run"}
    assert {v for number, v in found.items() if number not in given} <= {"met", "as recommended"}
    assert len(found) <= MOST_ROWS
    assert (section.id, section.title, section.plot) == ("compliance", "Compliance", "")
    assert section.notes[0].startswith(f"Of {len(found)} clauses: ")
    counts = [int(number) for number in re.findall(r"(\d+) [a-z]", section.notes[0].partition(":")[2])]
    assert sum(counts) == len(found)


def test_what_flashgauge_lacks_is_said() -> None:
    assert {number for number, verdict in verdicts(page("iops")).items() if verdict == "NOT PROVIDED"} == {
        clause.id for clause in CLAUSES.values() if clause.basis == "absent"
    }


@pytest.mark.parametrize("test", ALL)
def test_every_changed_parameter_shows_in_a_clause(test: str) -> None:
    """Each parameter in turn, as `flashgauge run --set` discloses it: a clause of the same number is departed from."""
    standard = TESTS[test].parameters(DeviceClass.ENTERPRISE)
    for field in dataclasses.fields(standard):
        if not field.metadata or field.metadata["free"]:
            continue
        clause = _clause(standard, field.metadata["clause"])
        found = verdicts(page(test, disclosures=(disclosed(Kind.PARAMETER_CHANGED, clause),)))
        departed = [number for number, verdict in found.items() if verdict == "DEPARTED: 1 disclosure"]
        number = numbers(clause)[0]
        assert len(departed) == 1, field.name
        responsible_for = (departed[0], *CLAUSES[departed[0]].covers)
        assert any(number == one or number.startswith(f"{one}.") for one in responsible_for), field.name


def test_a_changed_duration_marks_its_clause_and_no_other() -> None:
    found = verdicts(page("iops", disclosures=(disclosed(Kind.PARAMETER_CHANGED, "7.2 3.2.1.2"),)))
    assert [number for number, verdict in found.items() if verdict.startswith("DEPARTED")] == ["7.2.3.2.1"]


def test_several_departures_are_counted() -> None:
    gaps = tuple(Disclosure(Kind.GAP_OVER_LIMIT, "6 item 9", f"gap {i}", "quiet") for i in range(3))
    found = verdicts(page("tp", disclosures=gaps))
    assert found["6.9"] == "DEPARTED: 3 disclosures"
    assert found["4"] == "DEPARTED: 3 disclosures", "a gap also interrupts"
    assert found["3.2"] == "met"


@pytest.mark.parametrize(
    ("kind", "clause", "departed"),
    [
        (Kind.PURGE_NOT_RUN, "3.2", {"3.2"}),
        (Kind.PURGE_NOT_VERIFIED, "3.2", {"3.2"}),
        (Kind.PURGE_BY_DISCARD, "3.2", {"3.2"}),
        (Kind.WRITE_CACHE_STATE, "3.7", {"3.7"}),
        (Kind.INTERRUPTED, "4", {"4"}),
        (Kind.IO_ERRORS, "6", {"6.1"}),
        (Kind.DATA_MISSING, "5", {"5"}),
        (Kind.SHARES_OFF, "13.2 4.3", {"13.2.2.1.3", "13.2.2.1.4", "13.2.4.3"}),
        (Kind.NO_OPERATING_POINT, "13.2 6", {"13.2.6"}),
        (Kind.STEADY_STATE_NOT_REACHED, "13.2 4.3.3", {"3.1"}),
    ],
)
def test_a_disclosure_departs_from_its_clauses(kind: Kind, clause: str, departed: set[str]) -> None:
    found = verdicts(page("cbw", disclosures=(disclosed(kind, clause),)))
    assert {number for number, verdict in found.items() if verdict.startswith("DEPARTED")} == departed


@pytest.mark.parametrize(("test", "clause"), [("iops", "7.3"), ("tp", "8.3"), ("lat", "9.3")])
def test_steady_state_not_reached_is_said_and_not_claimed(test: str, clause: str) -> None:
    found = verdicts(page(test, UNSTEADY, (disclosed(Kind.STEADY_STATE_NOT_REACHED, clause),)))
    assert found[clause] == "met: it is said"
    assert found["3.1"] == "DEPARTED: 1 disclosure"
    assert found["2.1.24"] == "not reached"
    assert found["4.3"] == "met", "25 rounds at most"


def test_host_idle_recovery_without_steady_state_has_no_wait_states() -> None:
    found = verdicts(page("hir", UNSTEADY, (disclosed(Kind.STEADY_STATE_NOT_REACHED, "11.2 3.2"),)))
    assert found["11.2.3.2"] == "met: it is said", "the test stops, as the standard has it"
    assert found["11.2.3"] == found["11.3.2.1"] == "met"
    for number in ("11.2", "11.2.4", "11.2.4.2", "11.3.2.3", "11.1.results"):
        assert found[number] == "not reached", number


def test_write_saturation_that_ends_by_time_claims_no_steady_state() -> None:
    found = verdicts(page("wsat", OTHERWISE))
    assert found["10.2.2.2"] == "met"
    assert {number for number, verdict in found.items() if verdict == "not claimed"} == {
        "2.1.13",
        "2.1.24",
        "3.1",
        "10.3.2",
    }


def test_a_run_that_was_cut_off() -> None:
    cut = disclosed(Kind.INTERRUPTED, "4")
    found = verdicts(page("lat", None, (cut,)))
    assert found["4"] == "DEPARTED: 1 disclosure"
    assert found["3.2"] == "met", "the purge was done"
    assert found["6.rng"] == found["3.5"] == "met so far"
    for number in ("2.1.24", "3.1", "9.2", "9.2.2.2", "9.2.3.3", "9.3.3", "9.3.6.2"):
        assert found[number] == "not reached", number


def test_a_run_that_stopped_before_the_purge() -> None:
    found = verdicts(page("xsr", None, steps=0, purge_method=None, write_cache=None))
    assert found["3.2"] == found["3.7"] == found["6.9"] == found["12.2.2"] == "not reached"


def test_a_recommendation_may_be_left() -> None:
    section = page("iops", settings={"thread_count": 8})
    assert verdicts(section)["7.2.2.1"] == "chosen otherwise"
    assert texts(section, "particulars")["7.2.2.1"] == "thread_count 8, recommended 4"
    assert verdicts(page("iops"))["7.2.2.1"] == "as recommended"
    both = page("xsr", settings={"sequential_thread_count": 2, "sequential_queue_depth": 16})
    told = "sequential_thread_count 2, recommended 1; sequential_queue_depth 16, recommended 32"
    assert texts(both, "particulars")["12.2.2.1.2"] == told


def test_processor_use_without_a_source_is_not_measured() -> None:
    found = verdicts(page("dirth", host=HostUsage(power_w=5.0)))
    assert {number for number, verdict in found.items() if verdict == "not measured"} == {"14.3.2.8"}
    assert verdicts(page("dirth"))["14.3.2.8"] == "met"


@pytest.mark.clause("5.1")
@pytest.mark.clause("5.2")
@pytest.mark.clause("5.3")
@pytest.mark.clause("5.4")
def test_what_only_a_person_knows_is_given_or_not_known() -> None:
    """Section 5: what is missing is named, item by item."""
    section = page("iops")
    assert verdicts(section)["5.1"] == "given"
    assert re.fullmatch(r"not known: [2-9] items", verdicts(section)["5.2"])
    told = texts(section, "particulars")
    assert "motherboard" in told["5.2"]
    assert "dram" not in told["5.2"]
    assert told["5.4"] == "not known: form factor, media type"
    unnamed = page("iops", operator=None, dut=DutInfo("file:x", "file"))
    assert verdicts(unnamed)["5.1"] == "not known: 1 item"
    told = texts(unnamed, "particulars")
    assert told["5.1"] == "not known: test operator"
    assert told["5.3"] == "not known: file system"
    assert "serial number" in told["5.4"]


@pytest.mark.parametrize(
    ("kind", "clause"), [(Kind.SIMULATED, "1.3"), (Kind.DATA_MISMATCH, "6"), (Kind.IO_LOG_INCOMPLETE, "6")]
)
def test_other_disclosures_are_named_below(kind: Kind, clause: str) -> None:
    section = page("iops", disclosures=(disclosed(kind, clause),))
    said = kind.replace("_", " ")
    assert section.notes[-1] == f"Disclosures that concern the result as a whole: {said} ({clause})."
    assert not any(verdict.startswith("DEPARTED") for verdict in verdicts(section).values())


def test_doubtful_readings_are_explained() -> None:
    readings = texts(page("dirth"), "readings")
    assert "it is done" in readings["14.1"]
    assert "0/100" in readings["14.2.3.2"]
    assert "9.3.6.1" not in readings


if __name__ == "__main__":
    WRITTEN.write_text(as_text(marks()))
    print(f"{WRITTEN.relative_to(ROOT)}: {len(marks())} of {len(CLAUSES)} clauses are named by tests")
