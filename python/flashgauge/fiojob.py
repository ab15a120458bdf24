"""Steps as a fio job file: the same stimuli for whoever wants a second opinion, with a comment where fio cannot follow.

A job for each step, one after another (`stonewall`); equal steps in a row are one job, because fio takes a limited
number of jobs, each thread counting as one. Reference: the documentation of fio 3.33.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil

from flashgauge import PTS_VERSION, __version__
from flashgauge.fiorange import Extent, extent, passes, zones
from flashgauge.steps import Idle, IoStep, Measure, Precondition, Purge, SetWriteCache, Step, Stimulus, Stop

# fio's limit of jobs in one file, REAL_MAX_JOBS; a job with numjobs=32 is 32 of them.
MOST_FIO_JOBS = 4096

GLOBAL = """\
[global]
filename=${DUT}
ioengine=io_uring
direct=1
thread=1
fixedbufs=1
registerfiles=1
norandommap=1
randrepeat=0
random_generator=tausworthe64
group_reporting=1
lat_percentiles=1
percentile_list=50:99:99.9:99.99:99.999
"""

DIFFERENCES = """\
What fio cannot do as flashgauge does it:
- Between two jobs fio ends all threads, starts new ones, and sleeps: the device idles for about 0.2 s each time, also
  where only the thread count, the queue depth or the block size changes. flashgauge keeps the device loaded.
- fio does not know rounds until steady state: the number of rounds is fixed here. Judge them afterwards.
- Percentiles are of a job. They cannot be had for each of several steps in one job, nor merged over rounds.
- A job's time begins with its first I/O, flashgauge's when the last I/O of the step before has returned.
- Each job draws its random offsets anew, and begins sequential ones at the start of its range; flashgauge goes on
  where the step before ended.
- In a sequential job of reads and writes fio keeps a position of its own for each of the two.
- Neither purge nor write cache is set: the comments below say when. Power, temperature and CPU are not recorded.
"""


@dataclass(frozen=True)
class Group:
    """Equal steps in a row, `idle_s` of idling after each; `first` and `last` count from 1."""

    step: IoStep
    first: int
    last: int
    last_step: IoStep
    idle_s: float = 0.0

    @property
    def count(self) -> int:
        return self.last - self.first + 1


def job_files(
    title: str, steps: Sequence[Step], capacity_bytes: int | None, nominal_bytes: int, more: str = ""
) -> list[str]:
    """The job files, in order; several only where fio's limit of jobs makes it necessary. `capacity_bytes`: of the
    device, None if not known: the steps are then those of one of `nominal_bytes`, and amounts are written as shares.
    `more`: what else to say at the top."""
    parts: list[list[str]] = [[]]
    jobs = 0
    for item in grouped(steps):
        if isinstance(item, str):
            parts[-1].append(f"# {item}\n")
            continue
        threads = item.step.stimulus.thread_count
        if jobs + threads > MOST_FIO_JOBS:
            parts.append([])
            jobs = 0
        jobs += threads
        parts[-1].append(section(item, capacity_bytes, nominal_bytes))
    return [
        "\n".join([_header(title, more, number, len(parts)), GLOBAL, *part]) for number, part in enumerate(parts, 1)
    ]


def _header(title: str, more: str, number: int, parts: int) -> str:
    lines = [
        f"{title}, SNIA PTS {PTS_VERSION}, as a fio job file; written by flashgauge {__version__}.",
        "ALL DATA ON THE DEVICE IS DESTROYED. Start it with: DUT=/dev/NAME fio --output-format=json+ THIS_FILE",
    ]
    if parts > 1:
        lines.append(f"Part {number} of {parts}: fio takes {MOST_FIO_JOBS} jobs in one file. Run them in order.")
    text = "\n".join([*lines, *([more] if more else []), "", DIFFERENCES])
    return "".join(f"# {line}".rstrip() + "\n" for line in text.splitlines())


def grouped(steps: Sequence[Step]) -> list[Group | str]:
    """The steps with equal ones in a row together; what fio cannot do, in words."""
    found: list[Group | str] = []
    number = 0
    for place, step in enumerate(steps):
        match step:
            case Purge():
                found.append("Here the device is purged: fio cannot.")
            case SetWriteCache(enabled=enabled):
                found.append(f"Here the volatile write cache is switched {'on' if enabled else 'off'}: fio cannot.")
            case Precondition() | Measure():
                number += 1
                after = steps[place + 1] if place + 1 < len(steps) else None
                idle_s = after.seconds if isinstance(after, Idle) and step.stop.then_idle else 0.0
                last = found[-1] if found else None
                if isinstance(last, Group) and last.idle_s == idle_s and _alike(last.step, step):
                    found[-1] = replace(last, last=number, last_step=step)
                else:
                    found.append(Group(step, number, number, step, idle_s))
            case Idle(seconds=seconds):
                last = found[-1] if found else None
                if not isinstance(last, Group) or not last.idle_s:
                    found.append(f"Here the device idles for {seconds:g} s: fio goes on at once.")
    return found


def _alike(step: IoStep, other: IoStep) -> bool:
    """Whether two steps can be one job: timed, and the same in all but the label's number."""
    if type(step) is not type(other) or (step.stimulus, step.stop) != (other.stimulus, other.stop):
        return False
    return step.stop.seconds is not None and replace(step.label, number=None) == replace(other.label, number=None)


def section(group: Group, capacity_bytes: int | None, nominal_bytes: int) -> str:
    """One job, with its comments."""
    step = group.step
    which = f"step {group.first}" if group.count == 1 else f"steps {group.first} to {group.last}"
    labels = str(step.label) if group.count == 1 else f"{step.label} ... {group.last_step.label}"
    place = extent(step.stimulus, capacity_bytes)
    notes: list[str] = [f"{which}: {labels}"]
    options = ["stonewall"]
    for made, said in (
        _access(step.stimulus),
        _sizes(step.stimulus),
        (place.options, place.notes),
        zones(step.stimulus, place) if step.stimulus.access == "groups" else ([], []),
        _threads(step.stimulus),
        _rate(step.stimulus),
        _stop(group, place, nominal_bytes),
        _data(step.stimulus),
    ):
        options += made
        notes += said
    name = f"{group.first:04d}-{slug(str(step.label))}"
    return "\n".join([*(f"# {note}" for note in notes), f"[{name}]", *options, ""])


def slug(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")


Made = tuple[list[str], list[str]]  # options, and comments


def _access(stimulus: Stimulus) -> Made:
    reads, notes = _percent(stimulus.read_percent, "reads")
    random = "" if stimulus.access == "sequential" else "rand"
    options = [f"rw={random}read" if reads == 100 else f"rw={random}write" if reads == 0 else f"rw={random}rw"]
    if 0 < reads < 100:
        options.append(f"rwmixread={reads}")
    if stimulus.access == "mixed":
        share, said = _percent(stimulus.sequential_percent, "sequential accesses")
        options.append(f"percentage_random={100 - share}")
        notes += said
    return options, notes


def _percent(value: float, what: str) -> tuple[int, list[str]]:
    """A whole number, which is what fio takes; never 0 or 100 for what is neither."""
    whole = round(value) if value in {0, 100} else min(99, max(1, round(value)))
    return whole, [] if whole == value else [f"fio takes whole percents: {value:g} % {what} are {whole} % here"]


def _sizes(stimulus: Stimulus) -> Made:
    shares = [(size, weight) for size, weight in stimulus.block_sizes if weight > 0]
    smallest = min(size for size, _ in shares)
    notes = []
    if len(shares) == 1:
        options = [f"bs={smallest}"]
    else:
        total = sum(weight for _, weight in shares)
        percents = [100 * weight / total for _, weight in shares]
        if any(percent != int(percent) for percent in percents):
            notes.append("fio takes whole percents of each block size: the shares here are rounded")
        split = zip(shares, whole_percents(percents), strict=True)
        options = ["bssplit=" + ":".join(f"{size}/{percent}" for (size, _), percent in split)]
        if stimulus.alignment_bytes is None:
            notes.append(f"fio aligns all sizes to {smallest} bytes, flashgauge each I/O to its own size")
    if stimulus.alignment_bytes is not None:
        options.append(f"blockalign={stimulus.alignment_bytes}")
    return options, notes


def whole_percents(percents: Sequence[float]) -> list[int]:
    """Whole numbers near these, by largest remainders: they sum to 100, as fio wants it, and none is 0."""
    whole = [max(1, int(percent)) for percent in percents]
    while sum(whole) != 100:
        step = 1 if sum(whole) < 100 else -1
        # What is furthest below its share gets one more, what is furthest above it one less; 1 stays 1.
        places = [place for place in range(len(whole)) if step > 0 or whole[place] > 1]
        whole[max(places, key=lambda place: step * (percents[place] - whole[place]))] += step
    return whole


def _threads(stimulus: Stimulus) -> Made:
    return [f"numjobs={stimulus.thread_count}", f"iodepth={stimulus.queue_depth}"], []


def _rate(stimulus: Stimulus) -> Made:
    """fio's rate is of each thread and each direction."""
    if stimulus.rate_iops is None:
        return [], []
    reads, _ = _percent(stimulus.read_percent, "reads")
    each = stimulus.rate_iops / stimulus.thread_count
    shares = [max(1, round(each * share / 100)) if share else 0 for share in (reads, 100 - reads)]
    notes = [
        "fio's rate is closed over short times: a late I/O delays those after it, and latency begins when it is issued"
    ]
    if sum(shares) * stimulus.thread_count != stimulus.rate_iops:
        notes.append(
            f"{stimulus.rate_iops:g} I/Os per second over all threads; {sum(shares) * stimulus.thread_count} here"
        )
    # 0 would be no limit; there are no I/Os of that direction then.
    options = [f"rate_iops={shares[0] or 1},{shares[1] or 1}"]
    if stimulus.arrivals == "poisson":
        options.append("rate_process=poisson")
    return options, notes


def _stop(group: Group, place: Extent, nominal_bytes: int) -> Made:
    stop, threads = group.step.stop, group.step.stimulus.thread_count
    if stop.seconds is not None:
        return _timed(group, stop)
    if stop.bytes is not None:
        options, notes = passes(stop.bytes, group.step.stimulus, place, nominal_bytes)
        if stop.keep_loaded:
            notes.append("fio lets the device idle afterwards; flashgauge goes on writing until the next step begins")
        return options, notes
    assert stop.ios is not None, "a stop rule is one of three"
    each = ceil(stop.ios / threads)
    largest = max(size for size, weight in group.step.stimulus.block_sizes if weight > 0)
    notes = [] if each * threads == stop.ios else [f"{stop.ios} I/Os over all threads; {each * threads} here"]
    # fio also ends a job at its size; this is more than the I/Os can come to.
    return [f"number_ios={each}", f"io_size={each * largest}"], notes


def _timed(group: Group, stop: Stop) -> Made:
    assert stop.seconds is not None, "a timed step"
    options = ["time_based", f"runtime={_time(group.count * (stop.seconds + group.idle_s))}"]
    notes = []
    if group.idle_s:
        # Each thread drains and sleeps after its time of I/O.
        options += [f"thinktime={_time(group.idle_s)}", f"thinktime_iotime={_time(stop.seconds)}"]
        notes.append(
            f"{group.count} bursts of {stop.seconds:g} s, {group.idle_s:g} s idle after each: one job, each thread "
            "for itself; no result of each burst, and IOPS over the idle time too"
        )
    elif group.count > 1:
        notes.append(
            f"{group.count} steps of {stop.seconds:g} s in one job; for the IOPS of each add "
            f"write_iops_log=NAME and log_avg_msec={round(1000 * stop.seconds)}"
        )
    return options, notes


def _time(seconds: float) -> str:
    """As fio reads it in every option: a bare number would be microseconds in some."""
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{round(seconds * 1e6)}us"


def _data(stimulus: Stimulus) -> Made:
    if stimulus.read_percent == 100:
        return [], []
    # Without it fio writes the same buffer again and again, a few bytes of it changed.
    options = ["refill_buffers=1"]
    notes = ["fio fills the whole buffer anew for each write, in the thread that issues it: large blocks may slow it"]
    if stimulus.entropy_percent < 100:
        options += [f"buffer_compress_percentage={100 - stimulus.entropy_percent}", "buffer_compress_chunk=512"]
    return options, notes
