"""Several tests on one drive: a folder with one run folder for each, and what ties them together.

    campaign.json     what was asked for: tests, target, class, settings
    TEST/             the run folder of each test, with its own purge and reports
    TEST.ended-N/     earlier attempts at a test that did not finish
    report.html/.pdf  the summary

How far it is, the run folders say themselves. A campaign that was cut off goes on with the first test that is not
complete; that test begins again from its purge, since its steps must not be interrupted (clause 4).
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from flashgauge.execute import RequestError, RunRequest, check_folder
from flashgauge.rig.identify import Identity
from flashgauge.runfolder import DutInfo, RunFolderError, read_run, sync_folder
from flashgauge.spec.parameters import DeviceClass, changed, table
from flashgauge.spec.registry import TESTS

FILE_NAME = "campaign.json"
FORMAT_VERSION = 1
_DRIVE_FACTS = ("model", "serial", "firmware", "capacity_bytes")
ALL = "all"


@dataclass(frozen=True)
class Campaign:
    """The contents of campaign.json. `request`: what is common to all tests; its `test` and `out` mean nothing."""

    tests: tuple[str, ...]
    request: RunRequest
    started: str
    format_version: int = FORMAT_VERSION

    def to_json(self) -> dict[str, Any]:
        # Consent is given once and never stored: a campaign is resumed by who may destroy the data.
        not_stored = {"test": None, "out": None, "consent": None, "consent_signatures": False, "seen": None}
        request = {**asdict(self.request), **not_stored}
        return {**asdict(self), "request": request}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Campaign:
        request = RunRequest(
            **{**data["request"], "test": "", "device_class": DeviceClass(data["request"]["device_class"])}
        )
        texts = (request.target, *request.settings, *request.settings.values(), *data["tests"])
        if not all(isinstance(text, str) for text in texts):
            raise ValueError("target, tests and settings are texts")
        return cls(**{**data, "tests": tuple(data["tests"]), "request": request})


def named_tests(names: Sequence[str]) -> tuple[str, ...]:
    """The tests asked for, each once; "all" stands for all of them. Raises RequestError."""
    wanted: list[str] = []
    for name in names:
        if name != ALL and name not in TESTS:
            raise RequestError(f"no test {name!r}; there are: {', '.join(TESTS)}, and all")
        wanted += TESTS if name == ALL else [name]
    return tuple(dict.fromkeys(wanted))


def settings_for(test: str, settings: dict[str, str], tests: Sequence[str]) -> dict[str, str]:
    """Those of the settings that are the test's: NAME for every test that has such a parameter, TEST.NAME for one
    test alone, which goes before. Raises RequestError for a name that none of `tests` has."""
    general: dict[str, str] = {}
    own: dict[str, str] = {}
    for name, value in settings.items():
        prefix, dot, rest = name.partition(".")
        if dot and prefix not in tests:
            raise RequestError(f"--set {name}: {prefix} is not among the tests ({', '.join(tests)})")
        if dot and prefix == test:
            own[rest] = value
        elif not dot and name in _parameter_names(test):
            general[name] = value
        elif not dot and not any(name in _parameter_names(other) for other in tests):
            # Let the test say what parameters there are.
            general[name] = value
    return general | own


def _parameter_names(test: str) -> set[str]:
    return set(TESTS[test].parameters_type.__dataclass_fields__)


def request_for(campaign: Campaign, folder: Path, test: str) -> RunRequest:
    common = campaign.request
    return replace(
        common,
        test=test,
        out=folder / test,
        settings=settings_for(test, common.settings, campaign.tests),
    )


def create(folder: Path, campaign: Campaign) -> None:
    """Make the folder, which must not exist, and write campaign.json. Raises RequestError."""
    check_folder(folder)
    try:
        folder.mkdir(parents=True)
        temporary = folder / f"{FILE_NAME}.new"
        with temporary.open("w") as file:
            json.dump(campaign.to_json(), file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / FILE_NAME)
        sync_folder(folder)
    except OSError as error:
        raise RequestError(f"the campaign folder cannot be made: {error}") from error


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Nobody else runs this campaign meanwhile. Raises RequestError when somebody does."""
    with (folder / FILE_NAME).open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RequestError(f"{folder}: this campaign is running; stop that first") from None
        yield


def check_same(campaign: Campaign, folder: Path, dut: DutInfo, identity: Identity | None = None) -> None:
    """The tests that were begun are of the same drive, and of the same namespace of it; the complete ones were run as
    the rest will be. Raises RequestError."""
    for test, state in states(campaign, folder):
        if state == "waiting":
            continue
        run = read_run(folder / test)
        facts = [(name, getattr(run.dut, name), getattr(dut, name)) for name in _DRIVE_FACTS]
        # Namespaces of one drive have all of these in common, but not this.
        earlier = run.device_description.get("identity") or {}
        if identity is not None and "wwid" in earlier:
            facts.append(("wwid", earlier["wwid"], identity.wwid))
        others = [f"{name} {there} there, {here} here" for name, there, here in facts if there != here]
        if others:
            raise RequestError(f"{folder / test} is of another drive ({'; '.join(others)}): begin a new campaign")
        if state != "complete":
            continue
        request = request_for(campaign, folder, test)
        asked = changed(TESTS[test].parameters(request.device_class), request.settings)
        if table(asked) != [{**row, "value": _tupled(row["value"])} for row in run.parameter_table]:
            raise RequestError(
                f"{folder / test} was run with other settings than {FILE_NAME} has: begin a new campaign"
            )


def _tupled(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def is_campaign(folder: Path) -> bool:
    return (folder / FILE_NAME).is_file()


def read_campaign(folder: Path) -> Campaign:
    """campaign.json of the folder. Raises RunFolderError."""
    file = folder / FILE_NAME
    try:
        data = json.loads(file.read_text())
        if data.get("format_version") != FORMAT_VERSION:
            raise RunFolderError(f"{file}: format version {data.get('format_version')}, this is for {FORMAT_VERSION}")
        campaign = Campaign.from_json(data)
        if not campaign.tests or any(test not in TESTS for test in campaign.tests):
            raise RunFolderError(f"{file}: the tests are {', '.join(campaign.tests)}; known are {', '.join(TESTS)}")
        return campaign
    except (FileNotFoundError, NotADirectoryError):
        raise RunFolderError(f"{folder}: not a campaign folder (no {FILE_NAME})") from None
    except RunFolderError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunFolderError(f"{file}: {error}") from error


def states(campaign: Campaign, folder: Path) -> Iterator[tuple[str, str]]:
    """Each test, and the state of its run: "waiting" where there is none yet. Raises RunFolderError."""
    for test in campaign.tests:
        yield test, read_run(folder / test).state if (folder / test / "run.json").exists() else "waiting"


def unfinished(campaign: Campaign, folder: Path) -> tuple[str, ...]:
    """The tests that are not complete, in order."""
    return tuple(test for test, state in states(campaign, folder) if state != "complete")


def put_aside(folder: Path, test: str) -> Path | None:
    """Rename what an earlier attempt at the test has left; returns the new name. Raises OSError."""
    if not (folder / test).exists():
        return None
    number = 1
    while (aside := folder / f"{test}.ended-{number}").exists():
        number += 1
    (folder / test).rename(aside)
    sync_folder(folder)
    return aside
