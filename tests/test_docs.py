"""The documents say what is true: commands exist, links lead somewhere, parameters are the code's."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from statistics import median
from types import ModuleType

import pytest

from flashgauge._core import preset_names, preset_text
from flashgauge.rig import purge

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = Path(sys.executable).parent / "flashgauge"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", document.read_text())
    missing = [link for link in links if "://" not in link and not (document.parent / link).exists()]
    assert not missing


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_make_targets_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z0-9-]+)`", document.read_text())) <= targets


def test_options_in_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text()
    for command in ("run", "report", "show"):
        shown = subprocess.run([PROGRAM, command, "--help"], capture_output=True, text=True, check=True)
        used = {
            option
            for line in re.findall(rf"flashgauge {command} ([^\n]*)", readme)
            for option in re.findall(r"(--[a-z-]+)", line)
        }
        assert {option for option in used if option not in shown.stdout} == set()


def test_every_parameter_of_a_simulated_drive_is_documented() -> None:
    document = (ROOT / "docs" / "simulated-drive.md").read_text()
    rows = re.findall(r"^\| (`[^|]+) \|", document, re.MULTILINE)
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    there_are = {name for preset in preset_names() for name in tomllib.loads(preset_text(preset))}
    assert there_are - documented == set()
    assert {name for name in documented if "_" in name} - there_are == set()


def test_plots_are_of_the_data_beside_them() -> None:
    """Each file of data says how it was made, and each plot is shown."""
    folder = ROOT / "docs" / "simulated-drive"
    document = (ROOT / "docs" / "simulated-drive.md").read_text()
    assert {path.name for path in folder.glob("*.csv") if not path.read_text().startswith("# ")} == set()
    assert {path.name for path in folder.glob("*.svg") if f"simulated-drive/{path.name}" not in document} == set()


def tables() -> ModuleType:
    spec = importlib.util.spec_from_file_location("tables", ROOT / "docs" / "tables.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_tables_are_of_the_data_beside_them() -> None:
    made = tables()
    document = (ROOT / "docs" / "simulated-drive.md").read_text()
    assert set(re.findall(r"<!-- table: ([\w-]+) -->", document)) == set(made.TABLES)
    assert made.rendered(document) == document


def test_presets_are_as_near_to_published_figures_as_the_document_says() -> None:
    """Fitted rates within 15 %; the matrices within 8 % at the median, 50 of 56 cells within 20 %, none off by 1.6."""
    made = tables()
    for preset, row in made.ROWS.items():
        ours, theirs = made.rates(preset), made.published(row)
        assert {metric: ours[metric] for metric in made.FITTED} == pytest.approx(
            {metric: theirs[metric] for metric in made.FITTED}, rel=0.15
        ), preset
    for preset in ("sata-enterprise", "nvme-enterprise"):
        rows = made.rows_of(f"{preset}-iops")
        ratios = [float(row["simulated_iops"]) / float(row["published_iops"]) for row in rows]
        assert len(ratios) == 56
        assert median(abs(ratio - 1) for ratio in ratios) <= 0.08
        assert sum(0.8 <= ratio <= 1.2 for ratio in ratios) >= 50
        assert 1 / 1.6 < min(ratios) <= max(ratios) < 1.6
    # Single writes: enterprise drives below 1 ms, a superblock at a time hundreds of them.
    for preset in made.ROWS:
        most_ms = made.rates(preset)["lat_rnd4k_w_max_ms"]
        assert (100 < most_ms < 1000) if "client" in preset else most_ms < 1, preset


@pytest.mark.parametrize("name", preset_names())
def test_every_number_of_a_preset_is_explained(name: str) -> None:
    """A number without a source is a guess; texts and switches speak for themselves."""
    bare = [
        line
        for line in preset_text(name).splitlines()
        if re.match(r"\w+ = [0-9]", line) and "#" not in line and not line.startswith(("planes", "page_bytes"))
    ]
    explained = preset_text(name).count("#")
    assert explained >= 10
    assert len(bare) <= 8, bare


def test_the_tests_that_the_table_of_drives_names_exist_and_are_in_the_file_named() -> None:
    named = _tests_named(ROOT / "docs/drives.md")
    assert len(named) > 100
    missing = [f"{file}::{test}" for file, test in named if f"def {test}(" not in _text_of(file)]
    assert not missing


def test_every_test_of_the_emulated_machine_is_in_the_table() -> None:
    named = set(_tests_named(ROOT / "docs/drives.md"))
    files = sorted((ROOT / "tests/machine").glob("test_*.py"))
    there_are = {
        (f"machine/{file.stem}", test)
        for file in files
        for test in re.findall(r"^def (test_\w+)\(", file.read_text(), re.MULTILINE)
    }
    assert len(files) >= 7
    assert there_are - named == set()


def test_every_purge_method_and_every_fact_that_refuses_has_a_row() -> None:
    """A row of the methods' table; and for what is refused, a test that each fact alone does, by name."""
    document = (ROOT / "docs/drives.md").read_text()
    rows = set(re.findall(r"^\| `([a-z-]+)` \|", document, re.MULTILINE))
    assert {method.name for method in purge.METHODS} <= rows
    assert "test_each_fact_alone_refuses" in document
    assert "test_each_method_purges_and_is_verified" in document


def _text_of(file: str) -> str:
    path = ROOT / "tests" / f"{file}.py"
    return path.read_text() if path.exists() else ""


def _tests_named(document: Path) -> list[tuple[str, str]]:
    """(file, test) of all rows of its tables: FILE::test, ::test (of the file named last) or FILE: test, test."""
    found = []
    for line in document.read_text().splitlines():
        if not line.startswith("|"):
            file = ""
            continue
        for word in re.findall(r"(?:machine/)?test_\w+", line):
            if (ROOT / "tests" / f"{word}.py").exists():
                file = word
            else:
                found.append((file, word))
    return found
