"""What of this host may disturb a measurement: each finding with the command that cures it.

Settings of the CPU, the block layer and the link are read from sysfs; the use of the device and of the CPUs by others
is watched for a moment. Nothing is changed, and nothing is sent to the drive. Reference: the kernel's
Documentation/ABI for sysfs-block, sysfs-bus-pci and sysfs-class-power; cpufreq and NUMA documents of the admin guide;
CPU idle time management and PM quality of service; adjtimex(2). Limits: what others do is seen in that moment only; the
firmware's settings are not looked at.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from flashgauge.disclosure import Disclosure, Kind
from flashgauge.rig import clockstate, identify
from flashgauge.rig.identify import BlockDevice, Roots, read_text

WATCH_S = 0.3
# Others' use of the CPUs above which a result may suffer: a share of all of them, and at least so much of one.
BUSY_SHARE, BUSY_CPUS = 0.05, 0.5
# A wake-up that takes longer shows in the latency of a fast drive at a shallow queue.
WAKE_UP_US = 10


@dataclass(frozen=True)
class HostCheck:
    """One thing looked at. `advice`: the command that cures it, or what to do; empty when it is as it should be.

    `clause`: of PTS 2.0.1, when the finding is to be disclosed in the report. `seen`: false when it could not be told.
    """

    name: str
    found: str
    advice: str = ""
    clause: str | None = None
    seen: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def disclosure(self) -> Disclosure | None:
        if self.clause is None or not self.advice:
            return None
        return Disclosure(Kind.HOST_CONDITIONS, self.clause, self.found, self.advice)


def check_host(
    device: BlockDevice | None, roots: Roots, *, sequential: bool = True, watch_s: float = WATCH_S
) -> tuple[HostCheck, ...]:
    """All checks for a test on `device` (None: a file, whose device is not known), in order of the list below.

    `sequential`: the test issues I/Os in sequence, which the block layer may merge.
    """
    checks = [governor(roots), sleep_states(roots), power_supply(roots), clockstate_check()]
    if device is not None:
        checks += [scheduler(device), write_throttling(device), numa(device), interrupts(device), link(device)]
        checks += [merges(device)] if sequential else []
    return (*checks, *watched(device, roots, watch_s))


def governor(roots: Roots) -> HostCheck:
    """CPUs that clock down between I/Os answer late."""
    files = sorted((roots.sys / "devices/system/cpu").glob("cpu[0-9]*/cpufreq/scaling_governor"))
    governors = sorted({text for file in files if (text := read_text(file))})
    if not governors:
        return HostCheck("CPU governor", "the kernel does not set the CPUs' frequency")
    found = f"CPU governor {', '.join(governors)}"
    cure = "" if governors == ["performance"] else "cpupower frequency-set -g performance"
    return HostCheck("CPU governor", found, cure, "5.2")


def sleep_states(roots: Roots) -> HostCheck:
    """A CPU that sleeps deeply wakes late for a completion: at a shallow queue that is part of each latency."""
    states = (roots.sys / "devices/system/cpu").glob("cpu[0-9]*/cpuidle/state[0-9]*")
    usable = [state for state in states if read_text(state / "disable") != "1"]
    latencies_us = [int(text) for state in usable if (text := read_text(state / "latency"))]
    if not latencies_us:
        return HostCheck("CPU sleep", "the kernel does not say how long a CPU takes to wake", seen=False)
    limit_us = max(latencies_us)
    try:
        with (roots.dev / "cpu_dma_latency").open("rb", buffering=0) as file:
            limit_us = int.from_bytes(file.read(4), "little")
    except OSError:
        pass  # For root only. Nobody may have set a limit, either.
    deepest_us = max((latency_us for latency_us in latencies_us if latency_us <= limit_us), default=0)
    found = f"a sleeping CPU takes up to {deepest_us} us to wake"
    cure = f"cpupower idle-set --disable-by-latency {WAKE_UP_US}" if deepest_us > WAKE_UP_US else ""
    return HostCheck("CPU sleep", found, cure)


def power_supply(roots: Roots) -> HostCheck:
    """On battery, CPUs and links save power."""
    supplies = list((roots.sys / "class/power_supply").glob("*"))
    own = [supply for supply in supplies if read_text(supply / "scope") != "Device"]  # not a mouse's battery
    discharging = any(
        read_text(supply / "type") == "Battery" and read_text(supply / "status") == "Discharging" for supply in own
    )
    found = "the host runs on battery" if discharging else "the host is on mains, or has no battery"
    return HostCheck("power supply", found, "connect it to mains" if discharging else "", "5.2")


def clockstate_check() -> HostCheck:
    """Durations and latencies are of the monotonic clock: it is never stepped, but its speed is corrected."""
    state = clockstate.read()
    if state is None:
        return HostCheck("clock", "the state of the clock cannot be read", seen=False)
    if abs(state.ppm) > clockstate.MOST_PPM:
        found = f"the clock is being corrected by {state.ppm:+,.0f} parts per million, and all times with it"
        return HostCheck("clock", found, "wait until it has caught up (chronyc tracking), then run", "6 item 10")
    if not state.synchronized:
        found = "the clock is not synchronized: dates in the report may be wrong, and may jump"
        return HostCheck("clock", found, "timedatectl set-ntp true, and wait for: timedatectl show -p NTPSynchronized")
    return HostCheck("clock", f"the clock is synchronized, its correction is {state.ppm:+,.0f} parts per million")


def scheduler(device: BlockDevice) -> HostCheck:
    """A scheduler holds I/Os back and puts them in another order: the device sees another workload."""
    name = scheduler_of(device)
    if name in {None, "none"}:
        return HostCheck("I/O scheduler", "no I/O scheduler")
    cure = f"echo none > {_setting(device, 'scheduler')}"
    return HostCheck("I/O scheduler", f"I/O scheduler {name}", cure, "5.3")


def scheduler_of(device: BlockDevice) -> str | None:
    """The one in use; None where there is no choice."""
    text = read_text(device.disk / "queue/scheduler")
    chosen = re.search(r"\[([^]]+)\]", text or "")
    return chosen[1] if chosen else text


def merges(device: BlockDevice) -> HostCheck:
    """Neighbouring I/Os that wait together become one. The engine hands neighbours over so that they do not (by the
    kernel's trace, `tests/test_e2e_block.py`), but an I/O scheduler may keep them waiting all the same."""
    text = read_text(device.disk / "queue/nomerges")
    if text in {None, "2"}:
        return HostCheck("merging", "I/Os are not merged")
    if scheduler_of(device) in {None, "none"}:
        return HostCheck("merging", f"without an I/O scheduler nothing waits to be merged (nomerges {text})")
    found = f"the I/O scheduler may merge sequential I/Os, the device then gets larger ones (nomerges {text})"
    cure = f"echo 2 > {_setting(device, 'nomerges')}"
    return HostCheck("merging", found, cure, "6 item 8")


def write_throttling(device: BlockDevice) -> HostCheck:
    """Throttling is for buffered writes and leaves direct ones alone; what it measures costs a little."""
    text = read_text(device.disk / "queue/wbt_lat_usec")
    if text in {None, "0"}:
        return HostCheck("write throttling", "no throttling of writes")
    cure = f"echo 0 > {_setting(device, 'wbt_lat_usec')}"
    return HostCheck("write throttling", f"writes of the page cache are throttled (wbt_lat_usec {text})", cure)


def numa(device: BlockDevice) -> HostCheck:
    """An I/O from a CPU of another node crosses the link between nodes, twice."""
    node = identify.numa_node(device)
    nodes = sorted((device.roots.sys / "devices/system/node").glob("node[0-9]*"))
    if node is None or len(nodes) < 2:
        return HostCheck(
            "NUMA", "one NUMA node, or none known" if node is None else f"NUMA node {node} is the only one"
        )
    near = cpu_list(read_text(device.roots.sys / f"devices/system/node/node{node}/cpulist") or "")
    if os.sched_getaffinity(0) <= near:
        return HostCheck("NUMA", f"runs on the CPUs of node {node}, as the device")
    found = f"the device is on NUMA node {node}, the test may run on others"
    return HostCheck("NUMA", found, f"start it with: numactl --cpunodebind={node} --membind={node}", "5.2")


def interrupts(device: BlockDevice) -> HostCheck:
    """Queues whose interrupts all go to one CPU share its time."""
    numbers = _interrupts(device)
    targets = {n: read_text(device.roots.proc / f"irq/{n}/effective_affinity_list") for n in numbers}
    seen = {n: cpus for n, text in targets.items() if text and (cpus := cpu_list(text))}
    online = cpu_list(read_text(device.roots.sys / "devices/system/cpu/online") or "")
    if not seen:
        return HostCheck("interrupts", "the device has no interrupts of its own, or they are not shown", seen=False)
    used = set().union(*seen.values())
    if len(seen) > 1 and len(used) == 1 and len(online) > 1:
        found = f"all {len(seen)} interrupts of the device go to CPU {next(iter(used))}"
        first = min(seen)
        cure = f"systemctl stop irqbalance, then spread them: echo CPU > /proc/irq/{first}/smp_affinity_list, and so on"
        return HostCheck("interrupts", found, cure, "5.2")
    return HostCheck("interrupts", f"{len(seen)} interrupts on {len(used)} of {len(online) or len(used)} CPUs")


def link(device: BlockDevice) -> HostCheck:
    """A link below what the drive can do bounds its throughput."""
    now, most = identify.link_speeds(device)
    if now is None:
        return HostCheck("link", "the speed of the link is not known", seen=False)
    if most is None or now == most:
        return HostCheck("link", f"link at {now}")
    cure = "move it to a slot, cable or port that can; seat it anew; look at the firmware's limit: lspci -vv"
    return HostCheck("link", f"the link runs at {now}, the drive can {most}", cure, "5.4 item 6")


def watched(device: BlockDevice | None, roots: Roots, watch_s: float) -> list[HostCheck]:
    """What others do to the device and to the CPUs, over `watch_s`."""
    begin = _sample(device, roots)
    time.sleep(watch_s)
    end = _sample(device, roots)
    checks = [] if device is None else [_other_io(device, begin, end)]
    return [*checks, _busy_cpus(begin, end)]


@dataclass(frozen=True)
class _Sample:
    """`ios`: completed by the disk, and by other namespaces on the same drive. `busy`, `total`: ticks of all CPUs.
    `own`: seconds of CPU of this process."""

    ios: int | None
    busy: int
    total: int
    own_s: float


def _sample(device: BlockDevice | None, roots: Roots) -> _Sample:
    disks = [] if device is None else [device.disk, *identify.other_namespaces(device)]
    counted = [fields for disk in disks if (fields := (read_text(disk / "stat") or "").split())]
    # Completed reads, writes, discards, flushes (Documentation/block/stat).
    ios = sum(int(fields[at]) for fields in counted for at in (0, 4, 11, 15) if at < len(fields)) if counted else None
    ticks = [int(text) for text in (read_text(roots.proc / "stat") or "").split("\n", 1)[0].split()[1:9]]
    idle = sum(ticks[3:5])
    times = os.times()
    return _Sample(ios, sum(ticks) - idle, sum(ticks), times.user + times.system)


def _other_io(device: BlockDevice, begin: _Sample, end: _Sample) -> HostCheck:
    if begin.ios is None or end.ios is None:
        return HostCheck("other I/O", "the kernel does not count the device's I/Os", seen=False)
    ios = end.ios - begin.ios
    if not ios:
        return HostCheck("other I/O", "no other I/O on the device")
    cure = f"find who does it and stop it: lsof {device.path}; systemctl stop smartd"
    return HostCheck("other I/O", f"others had {ios} I/Os on the device in a moment without a test", cure, "5.3")


def _busy_cpus(begin: _Sample, end: _Sample) -> HostCheck:
    total = end.total - begin.total
    if total <= 0:
        return HostCheck("CPU load", "the CPUs' time is not known", seen=False)
    own_ticks = (end.own_s - begin.own_s) * os.sysconf("SC_CLK_TCK")
    share = max(0.0, end.busy - begin.busy - own_ticks) / total
    busy = share * (os.cpu_count() or 1)
    found = f"other programs use {busy:.1f} of {os.cpu_count()} CPUs"
    cure = "see them with top, and stop them for the time of the test"
    return HostCheck("CPU load", found, cure if share > BUSY_SHARE and busy > BUSY_CPUS else "", "5.2")


def free_space(folder: Path, needed_bytes: int) -> HostCheck:
    """Room for the run folder, of which `needed_bytes` are expected at most."""
    there = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    status = os.statvfs(there)
    free_bytes = status.f_bavail * status.f_frsize
    found = f"{there} has {free_bytes / 1e9:,.2f} GB free, results may take {needed_bytes / 1e9:,.2f} GB"
    cure = "free some, or put them elsewhere with --out"
    return HostCheck("free space", found, cure if free_bytes < needed_bytes else "")


def results_bytes(steps: int, seconds: float) -> int:
    """What a run's folder may take. Measured on simulated drives at full length: 5 to 18 kB a step, 6 MB of reports;
    a real drive's latencies are spread wider, and take up to twice that. A row of the series is a second."""
    return 12_000_000 + 40_000 * steps + round(100 * seconds)


def disclosures(checks: Iterable[HostCheck]) -> list[Disclosure]:
    return [found for check in checks if (found := check.disclosure) is not None]


def cpu_list(text: str) -> set[int]:
    """CPU numbers of the kernel's list format: 0-3,8."""
    found: set[int] = set()
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return found


def _interrupts(device: BlockDevice) -> list[int]:
    """Numbers of the device's own interrupts, by its NVMe controllers; an adapter's are shared by all its drives."""
    controllers = identify.nvme_controllers(device)
    return sorted(int(entry.name) for owner in controllers for entry in (owner / "device/msi_irqs").glob("*"))


def _setting(device: BlockDevice, name: str) -> str:
    return f"/sys/block/{device.disk.name}/queue/{name}"
