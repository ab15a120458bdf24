"""The run folder: run.json and an append-only journal, readable after a crash at any byte.

    run.json          what ran, on what, with which parameters and versions, its state and disclosures
    journal.jsonl     one line per measured step, fsynced before the line counts

run.json is replaced atomically (write, fsync, rename, fsync of the folder). A torn last line of the journal
is what a crash leaves behind: it is dropped and reported, never an error. Anything else unreadable is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from flashgauge.disclosure import Disclosure
from flashgauge.measurement import Measurement
from flashgauge.steps import Label

FORMAT_VERSION = 1


class RunFolderError(ValueError):
    """Not a run folder, or one this version cannot read; the message says which file and why."""


@dataclass(frozen=True)
class DutInfo:
    """The device's identity; None where unknown (the report says "not known")."""

    target: str
    kind: str  # "simulated", "block", "file"
    manufacturer: str | None = None
    model: str | None = None
    serial: str | None = None
    firmware: str | None = None
    capacity_bytes: int = 0
    interface: str | None = None
    form_factor: str | None = None
    media: str | None = None
    features: str | None = None
    logical_block_bytes: int = 512


@dataclass(frozen=True)
class HostInfo:
    """The test platform, sections 5.2 and 5.3; None where unknown."""

    system: str | None = None
    motherboard: str | None = None
    cpu: str | None = None
    memory_bytes: int | None = None
    hba: str | None = None
    operating_system: str | None = None
    kernel: str | None = None


@dataclass(frozen=True)
class Run:
    """The contents of run.json. `state`: "running", "complete", "interrupted" or "failed". `health`: the drive's log
    (`health.Health`) "before" and "after", None with a reason under "not_read".

    `verifiable`: what was written can be verified. `verification`: what was found (`flashgauge.verification.Findings`),
    None if it was not read back. `written_ranges`: where, first byte and end; None if not known.
    `host_overhead`: what was found of it (`hostoverhead.HostOverhead`), or "not_measured" and the reason; empty in
    virtual time.
    `io_log`: what is in the log of every I/O, None if none was asked for."""

    test: str
    device_class: str
    dut: DutInfo
    host: HostInfo
    parameters: dict[str, Any]
    parameter_table: list[dict[str, Any]]
    seed: int
    software: dict[str, str]
    started: str
    state: str = "running"
    finished: str | None = None
    error: str | None = None
    operator: str | None = None
    sponsor: str | None = None
    auditor: str | None = None
    consent_signatures: bool = False
    purge_method: str | None = None
    write_cache: str | None = None
    host_checks: tuple[dict[str, Any], ...] = ()
    verifiable: bool = False
    verification: dict[str, Any] | None = None
    written_ranges: list[tuple[int, int]] | None = None
    io_log: dict[str, Any] | None = None
    device_description: dict[str, Any] = field(default_factory=dict)
    power_source: str | None = None
    health: dict[str, Any] = field(default_factory=dict)
    host_ceilings: tuple[dict[str, Any], ...] = ()
    host_overhead: dict[str, Any] = field(default_factory=dict)
    disclosures: tuple[Disclosure, ...] = ()
    format_version: int = FORMAT_VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Run:
        return cls(
            **{
                **data,
                "dut": DutInfo(**data["dut"]),
                "host": HostInfo(**data["host"]),
                "host_checks": tuple(data.get("host_checks", ())),
                "host_ceilings": tuple(data.get("host_ceilings", ())),
                "disclosures": tuple(Disclosure.from_json(item) for item in data["disclosures"]),
            }
        )


@dataclass(frozen=True)
class Entry:
    """One journal line: the step's place in the run, its label, and its measurement."""

    sequence: int
    kind: str  # "precondition" or "measure"
    label: Label
    measurement: Measurement


def now_text() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


class RunFolder:
    """A run folder open for writing. One writer; readers use `read_run` and `read_journal` at any time."""

    def __init__(self, path: Path, run: Run) -> None:
        """Create `path` (it must not exist). Raises OSError."""
        path.mkdir(parents=True)
        self.path = path
        self.run = run
        self._save()
        self._journal = os.open(path / "journal.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        self._sequence = 0
        sync_folder(path)
        sync_folder(path.parent)

    def append(self, kind: str, label: Label, measurement: Measurement) -> None:
        """Add one measurement and fsync. Raises OSError (full disk), leaving all earlier lines whole."""
        line = {
            "sequence": self._sequence,
            "kind": kind,
            "label": asdict(label),
            "measurement": measurement.to_json(),
        }
        data = json.dumps(line, separators=(",", ":")).encode() + b"\n"
        try:
            while data:
                data = data[os.write(self._journal, data) :]
            os.fsync(self._journal)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self.path / "journal.jsonl")) from None
        self._sequence += 1

    def update(self, **changes: Any) -> None:
        """Change fields of run.json, atomically."""
        self.run = replace(self.run, **changes)
        self._save()

    def disclose(self, *disclosures: Disclosure) -> None:
        new = [item for item in disclosures if item not in self.run.disclosures]
        if new:
            self.update(disclosures=(*self.run.disclosures, *new))

    def close(self) -> None:
        if self._journal >= 0:
            os.close(self._journal)
            self._journal = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _save(self) -> None:
        temporary = self.path / "run.json.new"
        try:
            with temporary.open("w") as file:
                json.dump(self.run.to_json(), file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.path / "run.json")
        finally:
            temporary.unlink(missing_ok=True)
        sync_folder(self.path)


def sync_folder(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_run(path: Path) -> Run:
    """run.json of the folder. Raises RunFolderError."""
    file = path / "run.json"
    try:
        data = json.loads(file.read_text())
        if data.get("format_version") != FORMAT_VERSION:
            raise RunFolderError(f"{file}: format version {data.get('format_version')}, this is for {FORMAT_VERSION}")
        return Run.from_json(data)
    except FileNotFoundError:
        raise RunFolderError(f"{path}: not a run folder (no run.json)") from None
    except NotADirectoryError:
        raise RunFolderError(f"{path}: not a folder") from None
    except RunFolderError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise RunFolderError(f"{file}: {error}") from error


def read_journal(path: Path) -> tuple[list[Entry], bool]:
    """All whole journal entries, in order, and whether a torn last line was dropped. Raises RunFolderError."""
    entries: list[Entry] = []
    file = path / "journal.jsonl"
    if not file.exists():
        return entries, False
    for number, (line, whole) in enumerate(_lines(file.read_bytes()), 1):
        if not whole:
            return entries, True
        try:
            entries.append(_entry(json.loads(line)))
        except (ValueError, TypeError, KeyError) as error:
            raise RunFolderError(f"{file}: line {number}: {error}") from error
        if entries[-1].sequence != number - 1:
            raise RunFolderError(f"{file}: line {number} has sequence {entries[-1].sequence}: a line is missing")
    return entries, False


def _lines(data: bytes) -> Iterator[tuple[bytes, bool]]:
    """Each line without its newline, and whether it ended in one."""
    lines = data.split(b"\n")
    yield from ((line, True) for line in lines[:-1])
    if lines[-1]:
        yield lines[-1], False


def _entry(data: dict[str, Any]) -> Entry:
    return Entry(data["sequence"], data["kind"], Label(**data["label"]), Measurement.from_json(data["measurement"]))
