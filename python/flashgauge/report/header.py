"""The report header of Annex A and the common report items of section 5, from run.json."""

from __future__ import annotations

from flashgauge.report.formats import gb, known, when
from flashgauge.report.model import Block, Column, Field, Header, Table, TestPart
from flashgauge.runfolder import Run

PTS_VERSION = "2.0.1"
SPECIFICATION = f"Solid State Storage Performance Test Specification (PTS) {PTS_VERSION}"
_CLASS_LETTER = {"enterprise": "E", "client": "C"}


def revision(run: Run) -> str:
    return f"PTS-{_CLASS_LETTER.get(run.device_class, '?')} {PTS_VERSION}"


def build_header(run: Run, test_name: str, part: TestPart, folder: str, report_time: str) -> Header:
    """Annex A; what is unknown says so."""
    return Header(
        test_run_date=when(run.started),
        report_run_date=when(report_time),
        test_name=f"{test_name} - Report Page",
        specification=SPECIFICATION,
        title=part.title,
        revision=revision(run),
        vendor=known(run.dut.manufacturer),
        model=known(run.dut.model),
        sponsor=known(run.sponsor),
        blocks=(
            Block("Test Platform", _platform(run, folder)),
            Block("Device Under Test", _device(run)),
            Block("Set Up Parameters", part.set_up),
            Block("Test Parameters", part.test_parameters),
        ),
    )


def _software(run: Run) -> tuple[str, str]:
    """The test software, and every other version recorded."""
    others = ", ".join(f"{name} {version}" for name, version in run.software.items() if name != "flashgauge")
    return f"flashgauge {known(run.software.get('flashgauge'))}", known(others)


def _operating_system(run: Run) -> str:
    if run.host.kernel and run.host.operating_system:
        return f"{run.host.operating_system}, kernel {run.host.kernel}"
    return known(run.host.operating_system or run.host.kernel)


def _platform(run: Run, folder: str) -> tuple[Field, ...]:
    software, others = _software(run)
    return (
        ("Ref Test Platform", known(run.host.system)),
        ("Motherboard", known(run.host.motherboard)),
        ("CPU", known(run.host.cpu)),
        ("Memory", gb(run.host.memory_bytes)),
        ("Operating System", _operating_system(run)),
        ("Test SW", software),
        ("Test SW Info", others),
        ("Test ID No.", folder),
        ("HBA", known(run.host.hba)),
        ("Auditor", run.auditor or "none named"),
    )


def _device(run: Run) -> tuple[Field, ...]:
    dut = run.dut
    return (
        ("Mfgr", known(dut.manufacturer)),
        ("Model No.", known(dut.model)),
        ("S/N", known(dut.serial)),
        ("Firmware ver", known(dut.firmware)),
        ("Capacity", gb(dut.capacity_bytes)),
        ("Interface", known(dut.interface)),
        ("NAND Type", known(dut.media)),
        ("Form Factor", known(dut.form_factor)),
        ("Purge Method", run.purge_method or "none recorded"),
        ("Write Cache", run.write_cache or "state not recorded"),
    )


_FILE_SYSTEM = {
    "simulated": "none: the device is simulated",
    "block": "none: the device is written directly",
}


def _file_system(run: Run) -> str:
    found = run.device_description.get("file_system")
    options = run.device_description.get("mount_options")
    if isinstance(found, str):
        return f"{found} ({options})" if isinstance(options, str) else found
    return _FILE_SYSTEM.get(run.dut.kind, known(None))


def common_items(run: Run, report_time: str) -> Table:
    """Section 5, item by item."""
    dut, host = run.dut, run.host
    software, others = _software(run)
    rows = (
        ("5.1", "Test date", when(run.started)),
        ("5.1", "Test end", when(run.finished)),
        ("5.1", "Report date", when(report_time)),
        ("5.1", "Test operator", known(run.operator)),
        ("5.1", "Auditor", run.auditor or "none named"),
        ("5.1", "Test specification", f"SNIA SSS PTS {PTS_VERSION}, {revision(run)}"),
        ("5.2", "Manufacturer / model", known(host.system)),
        ("5.2", "Motherboard", known(host.motherboard)),
        ("5.2", "CPU", known(host.cpu)),
        ("5.2", "DRAM", gb(host.memory_bytes)),
        ("5.2", "Host bus adapter", known(host.hba)),
        ("5.2", "Device interposer card", known(None)),
        ("5.2", "Primary storage", known(None)),
        ("5.2", "Peripherals", known(None)),
        ("5.3", "Operating system", _operating_system(run)),
        ("5.3", "File system", _file_system(run)),
        ("5.3", "Test software", f"{software}; {others}"),
        ("5.4", "Manufacturer", known(dut.manufacturer)),
        ("5.4", "Model number", known(dut.model)),
        ("5.4", "Serial number", known(dut.serial)),
        ("5.4", "Firmware revision", known(dut.firmware)),
        ("5.4", "User capacity", gb(dut.capacity_bytes)),
        ("5.4", "Interface / speed", known(dut.interface)),
        ("5.4", "Form factor", known(dut.form_factor)),
        ("5.4", "Media type", known(dut.media)),
        ("5.4", "Other features", known(dut.features)),
    )
    return Table(
        title="Common report items (section 5)",
        columns=(Column("Clause", "clause"), Column("Item", "item"), Column("Value", "value")),
        rows=rows,
        name="common",
    )
