"""The section every report ends with: how the run was conducted, its parameters, and the device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from os import strerror
from statistics import median
from typing import Any

from flashgauge.report.formats import known, value_text
from flashgauge.report.header import common_items
from flashgauge.report.model import Column, Section, Table, TestPart, Value
from flashgauge.report.replay import Replay
from flashgauge.runfolder import Entry, Run
from flashgauge.verification import Findings

_ITEM_VALUE = (Column("Item", "item"), Column("Value", "value"))


def details_section(run: Run, replay: Replay, part: TestPart, report_time: str) -> Section:
    """Tables of the run's conduct (section 6 item 9, clause 4), parameters, section 5 items and the device."""
    tables = [
        _conduct(run, replay, part),
        _parameters(run),
        common_items(run, report_time),
        _device(run),
        _host(run),
    ]
    errors = _errors(replay.entries)
    if errors.rows:
        tables.insert(1, errors)
    return Section("run-details", "Run Details", "", "5", tuple(t for t in tables if t.rows), layout="flow")


def _host(run: Run) -> Table:
    """What was looked at before the run; a run of an earlier version has none of it."""
    rows = tuple((check["name"], check["found"], check["advice"] or "nothing") for check in run.host_checks)
    columns = (Column("Looked at", "name"), Column("Found", "found"), Column("To do", "advice"))
    return Table("Host before the run", columns, rows, name="host")


def _conduct(run: Run, replay: Replay, part: TestPart) -> Table:
    entries = replay.entries
    ios = sum(entry.measurement.ios for entry in entries)
    late = sum(entry.measurement.late_ios for entry in entries)
    seconds = sum(entry.measurement.window_s for entry in entries)
    not_measured = ", ".join(part.not_measured) or _absent(entries)
    rows: list[tuple[str, Value]] = [
        ("State of the run", run.state),
        ("Complete rounds", replay.complete_rounds),
        ("Steps measured", len(entries)),
        ("Device time in steps", f"{seconds:,.1f} s ({seconds / 3600:,.2f} h)"),
        *_gaps(entries, getattr(replay.parameters, "gap_limit_ms", None)),
        ("I/Os", ios),
        ("Hand-over I/Os (before their window, in no latency)", sum(e.measurement.handover_ios for e in entries)),
        ("Longest hand-over", f"{max((e.measurement.handover_ns for e in entries), default=0) / 1e6:,.3f} ms"),
        ("Late I/Os (ended after their window)", f"{late:,} ({100 * late / ios if ios else 0:.4f} %)"),
        ("Bridge I/Os (between windows, in no result)", sum(entry.measurement.bridge_ios for entry in entries)),
        *_heat(entries),
        ("I/O errors", sum(entry.measurement.error_ios for entry in entries)),
        ("Read back and verified", _verification(run)),
        ("Log of every I/O", _io_log(run)),
        ("Purge method", known(run.purge_method)),
        ("Volatile write cache", known(run.write_cache)),
        ("Seed", str(run.seed)),
        *((f"Version of {name}", version) for name, version in run.software.items()),
        ("Not measured", not_measured or "nothing of what the test reports"),
    ]
    return Table("Conduct of the run", _ITEM_VALUE, tuple(rows), name="conduct")


def _verification(run: Run) -> str:
    if run.verification is None:
        return "asked for, but the run ended before" if run.verifiable else "not asked for (--verify)"
    return str(Findings.from_json(run.verification))


def _io_log(run: Run) -> str:
    if run.io_log is None:
        return "none"
    dropped = run.io_log["dropped"]
    return f"{run.io_log['rows']:,} I/Os in io-log/" + (f"; {dropped:,} are missing" if dropped else "")


def _absent(entries: Sequence[Entry]) -> str:
    """What no step has, also of a run too short for the tables that would say so."""
    hosts = [entry.measurement.host for entry in entries]
    sources = {
        "Average power": [host.power_w for host in hosts],
        "CPU System Usage": [host.cpu_system_percent for host in hosts],
        "CPU IO Wait": [host.cpu_iowait_percent for host in hosts],
    }
    return ", ".join(name for name, values in sources.items() if all(value is None for value in values))


def _heat(entries: Sequence[Entry]) -> Iterator[tuple[str, Value]]:
    """What is known of the drive's energy and temperature, over all steps."""
    hosts = [entry.measurement.host for entry in entries]
    joules = [host.energy_j for host in hosts if host.energy_j is not None]
    if joules:
        yield "Energy of the drive in steps", f"{sum(joules):,.1f} J"
    means = [host.temperature_c for host in hosts if host.temperature_c is not None]
    if means:
        hottest = max(max(host.temperature_c or -273.15, host.temperature_max_c or -273.15) for host in hosts)
        yield "Drive temperature, lowest step to highest reading", f"{min(means):.1f} to {hottest:.1f} C"
    throttled = [host.throttled_s for host in hosts if host.throttled_s is not None]
    if throttled:
        yield "Drive throttled itself for", f"{sum(throttled):,.2f} s"


def _gaps(entries: Sequence[Entry], limit_ms: float | None) -> Iterator[tuple[str, Value]]:
    """Section 6 item 9: how long the device had nothing to do between steps."""
    # Idle time that the test itself asked for is no gap.
    gaps = [(gap / 1e6, str(e.label)) for e in entries if (gap := e.measurement.excess_gap_ns) is not None]
    if not gaps:
        yield "Gaps between steps", "none measured"
        return
    longest, where = max(gaps)
    yield "Gap between steps, median", f"{median(gap for gap, _ in gaps):,.3f} ms"
    yield "Gap between steps, longest", f"{longest:,.3f} ms (before {where})"
    if limit_ms is not None:
        over = sum(gap > limit_ms for gap, _ in gaps)
        yield f"Gaps over the limit of {limit_ms:g} ms", f"{over:,} of {len(gaps):,}"


def _errors(entries: Sequence[Entry]) -> Table:
    counts: Counter[tuple[str, int]] = Counter()
    first_lba: dict[tuple[str, int], int] = {}
    for entry in entries:
        for error in entry.measurement.errors:
            key = (error.operation, error.errno)
            counts[key] += error.ios
            first_lba.setdefault(key, error.first_lba)
    return Table(
        "I/O errors",
        (
            Column("Operation", "operation"),
            Column("Error", "error"),
            Column("I/Os", "ios", ",d"),
            Column("First LBA (512-byte sectors)", "first_lba", "d"),
        ),
        tuple((key[0], f"{key[1]} {strerror(key[1])}", count, first_lba[key]) for key, count in sorted(counts.items())),
        name="errors",
    )


def _parameters(run: Run) -> Table:
    rows = tuple(
        (str(row["name"]), _plain(row["value"]), str(row["clause"]), str(row["meaning"])) for row in run.parameter_table
    )
    columns = (
        Column("Parameter", "parameter"),
        Column("Value", "value"),
        Column("Clause", "clause"),
        Column("Meaning", "meaning"),
    )
    return Table("Test parameters", columns, rows, name="parameters")


def _device(run: Run) -> Table:
    """What the target says of itself; for a simulated drive, all its parameters."""
    rows = (
        ("Target", run.dut.target),
        ("Kind", run.dut.kind),
        ("Logical block", f"{run.dut.logical_block_bytes} B"),
        *_flat("", run.device_description),
    )
    return Table("Device description", _ITEM_VALUE, tuple(rows), name="device")


def _flat(prefix: str, values: dict[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", _plain(value)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        # No thousands separators here: they would read as separators of the list.
        return ", ".join(f"{item:g}" if isinstance(item, int | float) else _plain(item) for item in value)
    return value_text(value, "") if isinstance(value, str | int | float | bool) else known(None)
