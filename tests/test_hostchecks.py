"""What of the host may disturb a test: each finding on a tree made for it, its cure, and what a run makes of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from blockdevices import MIB, filled, queue_setting
from conftest import SHORT, Cli, one_line, run_cli, run_json
from fakes import FakeObserver
from flashgauge.disclosure import Disclosure, Kind
from flashgauge.execute import RunRequest, execute, prepare
from flashgauge.rig import clockstate, hostchecks
from flashgauge.rig.clockstate import Clocks, ClockState
from flashgauge.rig.hostchecks import HostCheck, check_host, cpu_list, free_space, results_bytes
from flashgauge.rig.identify import BlockDevice, Roots
from trees import Tree

NVME = "sys/devices/pci0000:00/0000:01:00.0/nvme/nvme0"
PCI = "sys/devices/pci0000:00/0000:01:00.0"
QUEUE = f"{NVME}/nvme0n1/queue"
CPU = "sys/devices/system/cpu"
STAT = "cpu  {user} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n"


class Host(Tree):
    """A host as it should be, with an NVMe drive on node 0 that nobody uses."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.disk("nvme0n1", "259:0", "N1", "pci0000:00/0000:01:00.0/nvme/nvme0")
        (root / NVME / "nvme0n1/device/model").unlink()
        (root / NVME / "nvme0n1/device/vpd_pg80").unlink()
        (root / NVME / "nvme0n1/device").rmdir()
        (root / NVME / "nvme0n1/device").symlink_to("..")
        (root / NVME / "device").symlink_to("../..")
        (root / NVME / "serial").write_text("N1\n")
        for file, text in {
            f"{CPU}/cpu0/cpufreq/scaling_governor": "performance",
            f"{CPU}/cpu1/cpufreq/scaling_governor": "performance",
            f"{CPU}/cpu0/cpuidle/state0/latency": "0",
            f"{CPU}/cpu0/cpuidle/state1/latency": "2",
            f"{CPU}/cpu0/cpuidle/state2/latency": "133",
            f"{CPU}/cpu0/cpuidle/state2/disable": "1",
            f"{CPU}/online": "0-1",
            "sys/class/power_supply/AC/type": "Mains",
            "sys/class/power_supply/AC/online": "1",
            "sys/class/power_supply/BAT0/type": "Battery",
            "sys/class/power_supply/BAT0/status": "Full",
            f"{QUEUE}/scheduler": "[none] mq-deadline kyber",
            f"{QUEUE}/nomerges": "2",
            f"{QUEUE}/wbt_lat_usec": "0",
            f"{PCI}/numa_node": "0",
            "sys/devices/system/node/node0/cpulist": "0-4095",
            "sys/devices/system/node/node1/cpulist": "4096-8191",
            f"{PCI}/current_link_speed": "16.0 GT/s PCIe",
            f"{PCI}/current_link_width": "4",
            f"{PCI}/max_link_speed": "16.0 GT/s PCIe",
            f"{PCI}/max_link_width": "4",
            f"{PCI}/msi_irqs/40": "msix",
            f"{PCI}/msi_irqs/41": "msix",
            "proc/irq/40/effective_affinity_list": "0",
            "proc/irq/41/effective_affinity_list": "1",
            f"{NVME}/nvme0n1/stat": "5 0 0 0 6 0 0 0 0 0 0 7 0 0 0 8 0",
            "proc/stat": STAT.format(user=100, idle=900).rstrip(),
        }.items():
            self.write(file, f"{text}\n")

    @property
    def drive(self) -> BlockDevice:
        return self.device("nvme0n1")

    def checks(self, **options: bool) -> dict[str, HostCheck]:
        found = check_host(self.drive, self.roots, watch_s=0, **options)
        assert len({check.name for check in found}) == len(found)
        return {check.name: check for check in found}


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Host:
    """Its clock is synchronized; its CPUs idle while they are watched."""
    made = Host(tmp_path)
    monkeypatch.setattr(clockstate, "read", lambda: ClockState(True, 12.5))
    during(monkeypatch, lambda: made.write("proc/stat", STAT.format(user=100, idle=1000)))
    return made


def during(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], object]) -> None:
    """What happens while the checks watch."""
    monkeypatch.setattr(hostchecks.time, "sleep", lambda seconds: happens())


def test_a_host_as_it_should_be(host: Host) -> None:
    checks = host.checks()
    assert [check for check in checks.values() if check.advice or not check.seen] == []
    assert checks["link"].found == "link at PCIe 4.0 x4"
    assert checks["interrupts"].found == "2 interrupts on 2 of 2 CPUs"
    assert checks["NUMA"].found == "runs on the CPUs of node 0, as the device"
    assert checks["CPU load"].found.startswith("other programs use 0.0 of")
    assert hostchecks.disclosures(checks.values()) == []


# What is written into the tree; the check that finds it; what it says; its cure; the clause when it is disclosed.
FINDINGS: dict[str, tuple[dict[str, str], str, str, str, str | None]] = {
    "governor": (
        {f"{CPU}/cpu1/cpufreq/scaling_governor": "powersave"},
        "CPU governor",
        "CPU governor performance, powersave",
        "cpupower frequency-set -g performance",
        "5.2",
    ),
    "sleep": (
        {f"{CPU}/cpu0/cpuidle/state2/disable": "0"},
        "CPU sleep",
        "a sleeping CPU takes up to 133 us to wake",
        "cpupower idle-set --disable-by-latency 10",
        None,
    ),
    "battery": (
        {"sys/class/power_supply/BAT0/status": "Discharging"},
        "power supply",
        "the host runs on battery",
        "connect it to mains",
        "5.2",
    ),
    "scheduler": (
        {f"{QUEUE}/scheduler": "none [mq-deadline] kyber"},
        "I/O scheduler",
        "I/O scheduler mq-deadline",
        "echo none > /sys/block/nvme0n1/queue/scheduler",
        "5.3",
    ),
    "write throttling": (
        {f"{QUEUE}/wbt_lat_usec": "2000"},
        "write throttling",
        "writes of the page cache are throttled (wbt_lat_usec 2000)",
        "echo 0 > /sys/block/nvme0n1/queue/wbt_lat_usec",
        None,
    ),
    "another node": (
        {f"{PCI}/numa_node": "1"},
        "NUMA",
        "the device is on NUMA node 1, the test may run on others",
        "start it with: numactl --cpunodebind=1 --membind=1",
        "5.2",
    ),
    "interrupts": (
        {"proc/irq/41/effective_affinity_list": "0"},
        "interrupts",
        "all 2 interrupts of the device go to CPU 0",
        "systemctl stop irqbalance, then spread them: echo CPU > /proc/irq/40/smp_affinity_list, and so on",
        "5.2",
    ),
    "narrow link": (
        {f"{PCI}/current_link_width": "2"},
        "link",
        "the link runs at PCIe 4.0 x2, the drive can PCIe 4.0 x4",
        "lspci -vv",
        "5.4 item 6",
    ),
    "slow link": (
        {f"{PCI}/current_link_speed": "8.0 GT/s PCIe"},
        "link",
        "the link runs at PCIe 3.0 x4, the drive can PCIe 4.0 x4",
        "lspci -vv",
        "5.4 item 6",
    ),
}


@pytest.mark.parametrize("case", FINDINGS)
def test_each_finding_has_its_cure(host: Host, case: str) -> None:
    """And no other check is moved by it."""
    files, name, found, cure, clause = FINDINGS[case]
    for file, text in files.items():
        host.write(file, f"{text}\n")
    checks = host.checks()
    assert [check.name for check in checks.values() if check.advice] == [name]
    assert checks[name].found == found
    assert cure in checks[name].advice
    expected = [] if clause is None else [Disclosure(Kind.HOST_CONDITIONS, clause, found, checks[name].advice)]
    assert hostchecks.disclosures(checks.values()) == expected


def test_only_a_scheduler_merges(host: Host) -> None:
    host.write(f"{QUEUE}/nomerges", "0\n")
    assert not host.checks()["merging"].advice
    host.write(f"{QUEUE}/scheduler", "none [mq-deadline] kyber\n")
    check = host.checks()["merging"]
    assert check.found == "the I/O scheduler may merge sequential I/Os, the device then gets larger ones (nomerges 0)"
    assert "echo 2 > /sys/block/nvme0n1/queue/nomerges" in check.advice
    assert check.clause == "6 item 8"


def test_merging_does_not_matter_to_random_ios(host: Host) -> None:
    host.write(f"{QUEUE}/nomerges", "0\n")
    host.write(f"{QUEUE}/scheduler", "none [mq-deadline] kyber\n")
    assert "merging" not in host.checks(sequential=False)


def test_ios_of_others_on_the_device(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    """Completed reads, writes, discards and flushes; sectors and times are not I/Os."""
    during(monkeypatch, lambda: host.write(f"{NVME}/nvme0n1/stat", "6 9 9 9 8 9 9 9 9 9 9 10 9 9 9 12 9\n"))
    check = host.checks()["other I/O"]
    assert check.found == "others had 10 I/Os on the device in a moment without a test"
    assert f"lsof {host.drive.path}" in check.advice
    assert check.clause == "5.3"


def test_ios_of_others_on_another_namespace_of_the_drive(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    host.write(f"{NVME}/nvme0n2/stat", "1 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0\n")
    during(monkeypatch, lambda: host.write(f"{NVME}/nvme0n2/stat", "4 0 0 0 1 0 0 0 0 0 0 0 0 0 0 0 0\n"))
    assert host.checks()["other I/O"].found == "others had 3 I/Os on the device in a moment without a test"


def test_cpus_that_others_use(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 16)
    for busy, told in ((500, False), (2500, True)):  # of 10,000 ticks: 0.8 and 4 CPUs of 16
        host.write("proc/stat", STAT.format(user=0, idle=0))
        during(monkeypatch, lambda: host.write("proc/stat", STAT.format(user=busy, idle=10_000 - busy)))  # noqa: B023
        check = host.checks()["CPU load"]
        assert check.found == f"other programs use {16 * busy / 10_000:.1f} of 16 CPUs"
        assert bool(check.advice) == told


def test_our_own_use_of_the_cpus_is_no_others(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    def work() -> None:
        began = os.times()
        while os.times().user + os.times().system - began.user - began.system < 0.2:
            pass
        ticks = round(0.2 * os.sysconf("SC_CLK_TCK"))
        host.write("proc/stat", STAT.format(user=ticks, idle=0))

    host.write("proc/stat", STAT.format(user=0, idle=0))
    during(monkeypatch, work)
    assert host.checks()["CPU load"].found.startswith("other programs use 0.0 of")


def test_what_the_clock_does(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clockstate, "read", lambda: ClockState(False, 0.0))
    check = host.checks()["clock"]
    assert "not synchronized" in check.found
    assert (check.advice.startswith("timedatectl set-ntp true"), check.disclosure) == (True, None)
    monkeypatch.setattr(clockstate, "read", lambda: ClockState(True, -83_333.0))
    check = host.checks()["clock"]
    assert "being corrected by -83,333 parts per million" in check.found
    assert check.clause == "6 item 10"
    monkeypatch.setattr(clockstate, "read", lambda: None)
    assert not host.checks()["clock"].seen


def test_the_numbers_of_the_kernels_clock() -> None:
    """adjtimex(2): frequency in 2^-16 ppm; chrony moves a clock by the length of a tick, 10,000 us at 100 a second."""
    assert clockstate.state(0, 0, 10_000, 100) == ClockState(True, 0.0)
    assert clockstate.state(0x40, -65536 * 20, 10_000, 100) == ClockState(False, -20.0)
    assert clockstate.state(0x2001, 0, 10_833, 100) == ClockState(True, 83_300.0)
    now = clockstate.read()
    assert now is None or abs(now.ppm) < 100_000


def test_a_sata_link_below_what_the_drive_can(host: Host) -> None:
    page = bytearray(572)
    page[60 + 152] = 0b1110  # word 76: 1.5, 3.0 and 6.0 Gbps
    host.write("sys/devices/pci0000:00/ata1/block/sda/device/vpd_pg89", bytes(page))
    host.write("sys/class/ata_link/link1/sata_spd", "3.0 Gbps\n")
    found = {check.name: check for check in check_host(host.device("sda"), host.roots, watch_s=0)}
    assert found["link"].found == "the link runs at SATA 3.0 Gbps, the drive can SATA 6.0 Gbps"
    host.write("sys/class/ata_link/link1/sata_spd", "6.0 Gbps\n")
    found = {check.name: check for check in check_host(host.device("sda"), host.roots, watch_s=0)}
    assert (found["link"].found, found["link"].advice) == ("link at SATA 6.0 Gbps", "")


def test_an_empty_machine_has_nothing_to_cure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No sysfs at all: everything is not seen or as it should be, and nothing fails."""
    monkeypatch.setattr(clockstate, "read", lambda: None)
    (tmp_path / "disk").mkdir()
    device = BlockDevice("/dev/x", "/dev/x", tmp_path / "disk", Roots(*[tmp_path / name for name in "abcde"]))
    checks = check_host(device, device.roots, watch_s=0)
    assert [check.advice for check in checks] == [""] * len(checks)
    assert {check.name for check in checks if not check.seen} == {
        "clock",
        "CPU sleep",
        "interrupts",
        "link",
        "other I/O",
        "CPU load",
    }


def test_a_file_has_the_checks_of_the_host_alone(host: Host) -> None:
    names = {check.name for check in check_host(None, host.roots, watch_s=0)}
    assert names == {"CPU governor", "CPU sleep", "power supply", "clock", "CPU load"}


def test_a_limit_on_the_cpus_sleep_counts(host: Host) -> None:
    host.write(f"{CPU}/cpu0/cpuidle/state2/disable", "0\n")
    limit = host.roots.dev / "cpu_dma_latency"
    limit.parent.mkdir(exist_ok=True)
    for limit_us, found_us in ((1, 0), (50, 2), (2_000_000_000, 133)):
        limit.write_bytes(limit_us.to_bytes(4, "little"))
        assert host.checks()["CPU sleep"].found == f"a sleeping CPU takes up to {found_us} us to wake"


def test_room_for_the_results(tmp_path: Path) -> None:
    status = os.statvfs(tmp_path)
    free_bytes = status.f_bavail * status.f_frsize
    assert free_space(tmp_path / "runs/new", 1000).advice == ""
    tight = free_space(tmp_path / "runs/new", 2 * free_bytes)
    assert "--out" in tight.advice
    assert str(tmp_path) in tight.found
    assert tight.disclosure is None, "a full disk stops a run with a line of its own"


def test_the_estimate_of_results_holds_for_a_finished_run(finished_run: Path) -> None:
    steps = len((finished_run / "journal.jsonl").read_text().splitlines())
    taken = sum(file.stat().st_size for file in finished_run.rglob("*") if file.is_file())
    print(f"{steps} steps took {taken:,} bytes, {results_bytes(steps, 60):,} expected")
    assert taken <= results_bytes(steps, 60) <= 10 * taken


def test_a_clock_that_was_set_meanwhile_is_disclosed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter((Clocks(1000.0, 5.0), Clocks(1003.5, 65.0)))
    monkeypatch.setattr(clockstate, "clocks", lambda: next(times))
    short = {"point_s": "0.01", "wipc_capacities": "0.05", "max_rounds": "5", "thread_count": "1", "queue_depth": "1"}
    target = f"file:{filled(tmp_path / 'disk.img', 16 * MIB)}"
    request = RunRequest("iops", target, out=tmp_path / "run", settings=short, consent="disk.img")
    seen = FakeObserver()
    execute(request, prepare(request), seen)
    said = {item["clause"]: item for item in run_json(tmp_path / "run")["disclosures"]}
    assert said["5.1"]["message"].startswith("the host's date was set by +3.5 s during the run")
    assert said["4"]["message"].startswith("the host slept for 60.0 s during the run")
    assert (said["5.1"]["invalidates"], said["4"]["invalidates"]) == (False, True)
    assert {"5.1", "4"} <= {disclosure.clause for disclosure in seen.disclosures}


def test_a_clock_that_was_left_alone_is_not() -> None:
    assert clockstate.moved(clockstate.clocks(), clockstate.clocks()) == []


def test_lists_of_cpus() -> None:
    assert cpu_list("0-3,8\n") == {0, 1, 2, 3, 8}
    assert cpu_list("") == set()


def test_a_run_records_and_shows_what_was_found(tmp_path: Path, loop_device: str) -> None:
    settings = ("point_s=0.01", "wipc_capacities=0.05", "max_rounds=5", "block_sizes_kib=1024,64,4", "thread_count=1")
    options = [part for text in (*settings, "queue_depth=1", "read_percents=100,65,0") for part in ("--set", text)]
    arguments = ("run", "iops", loop_device, *options, "--consent", Path(loop_device).name, "--out", "run")
    with queue_setting(loop_device, "scheduler", "mq-deadline") as setting:
        result = run_cli(tmp_path, *arguments)
    assert result.returncode == 0, result.stderr
    cure = f"echo none > {setting}"
    assert f"host: I/O scheduler mq-deadline; {cure}" in result.stdout
    run = run_json(tmp_path / "run")
    checks = {check["name"]: check for check in run["host_checks"]}
    assert checks["I/O scheduler"]["advice"] == cure
    assert set(checks) >= {"CPU governor", "clock", "other I/O", "CPU load", "free space"}
    overhead = run["host_overhead"]
    assert "not_measured" not in overhead, overhead
    assert overhead["ios"] > 100
    assert overhead["engine_ns"] + 1e6 / overhead["ios"] > overhead["block_layer_ns"] > 0
    assert "merging" not in checks, "the IOPS test measures no sequential I/O"
    (found,) = [
        item for item in run["disclosures"] if item["kind"] == "host_conditions" and "scheduler" in item["message"]
    ]
    assert (found["clause"], found["advice"], found["invalidates"]) == ("5.3", cure, False)
    html = (tmp_path / "run/report.html").read_text()
    assert "Host before the run" in html
    assert "I/O scheduler mq-deadline" in html


def test_doctor_ends_with_1_when_something_is_found(cli: Cli, loop_device: str) -> None:
    with (
        queue_setting(loop_device, "scheduler", "mq-deadline"),
        queue_setting(loop_device, "nomerges", "0") as setting,
    ):
        shown = cli("doctor", loop_device)
        assert shown.returncode == 1, shown.stdout
        assert re.search(r"^do +merging +the I/O scheduler may merge sequential I/Os", shown.stdout, re.M)
        assert f"echo 2 > {setting}" in shown.stdout
        facts = json.loads(cli("doctor", loop_device, "--json").stdout)
        advised = {check["name"] for check in facts["checks"] if check["advice"]}
        assert "merging" in advised
        assert facts["found"] == len(advised)
        setting.write_text("2")
        facts = json.loads(cli("doctor", loop_device, "--json").stdout)
        assert "merging" not in {check["name"] for check in facts["checks"] if check["advice"]}, "the cure cures"


def test_doctor_ends_with_0_when_nothing_is_found(cli: Cli) -> None:
    shown = cli("doctor", "sim:sata-enterprise?capacity=1GB")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "free space" in shown.stdout


def test_doctor_on_a_file(cli: Cli, tmp_path: Path) -> None:
    file = filled(tmp_path / "disk.img", MIB)
    facts = json.loads(cli("doctor", f"file:{file}", "--json").stdout)
    assert {"CPU governor", "free space"} <= {check["name"] for check in facts["checks"]}


@pytest.mark.parametrize("target", ["/dev/nosuch", "sim:nosuch", "nvme0n1", "file:/nosuch/folder/x"])
def test_doctor_of_nothing_is_one_line(cli: Cli, target: str) -> None:
    one_line(cli("doctor", target), 2)


def test_a_simulated_run_has_the_room_checked_alone(tmp_path: Path) -> None:
    result = run_cli(tmp_path, "run", "iops", "sim:sata-enterprise?capacity=1GB", *SHORT, "--out", "run")
    assert result.returncode == 0, result.stderr
    assert [check["name"] for check in run_json(tmp_path / "run")["host_checks"]] == ["free space"]
