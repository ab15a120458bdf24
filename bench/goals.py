"""What the figures of bench/engine.py should come to. Goals to judge by, not gates: they hold for a machine that does
nothing else, and other load on it moves most of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True)
class Goal:
    """`met`: told least, median and most. Unless its text says otherwise the median counts."""

    text: str
    met: Callable[[float, float, float], bool]


def _most(limit: float, text: str) -> Goal:
    return Goal(text, lambda _least, median, _most: median <= limit)


def _least(limit: float, text: str) -> Goal:
    return Goal(text, lambda _least, median, _most: median >= limit)


# By the row's name, as a pattern of fnmatch.
GOALS: dict[str, Goal] = {
    "gap over 200 changes, us": Goal(
        "median <= 50, most <= 1,000", lambda _least, median, most: median <= 50 and most <= 1000
    ),
    "zram: user time, ratio to fio": _most(0.4, "<= 0.4"),
    "zram: IOPS, ratio to fio": _least(1.03, ">= 1.03"),
    "no-ops through the ring: M I/Os per s": _least(5, ">= 5"),
    "loop, queue depth *, ratio to fio": Goal("1 within the spread", lambda least, _median, most: least <= 1 <= most),
    "loop, queue depth 1: host overhead, mean, us": _most(3, "<= 3"),
    "loop, queue depth 1: host overhead by counters, mean, us": _most(3, "<= 3"),
    "*, *, * IOPS: error at the end, %": _most(0.1, "<= 0.1"),
    "*, *, * IOPS: drift, % of the time": _most(0.1, "<= 0.1"),
    "open 32 threads, ms": _most(20, "<= 20"),
    "from 1 to 32 threads, ms": _most(20, "<= 20"),
    "memory after *, MiB": _most(100, "<= 100"),
}


def goal_of(what: str) -> Goal | None:
    return next((goal for pattern, goal in GOALS.items() if fnmatchcase(what, pattern)), None)
