"""The TARGET of the command line: `sim:PRESET?...`, `file:PATH?size=8GiB`, or a block device's path."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qsl

from flashgauge._core import TargetError

_UNITS = {"": 1, "B": 1}
_UNITS |= {f"{letter}B": 1000**power for power, letter in enumerate("KMGTP", 1)}
_UNITS |= {f"{letter}IB": 1024**power for power, letter in enumerate("KMGTP", 1)}
_UNITS |= {letter: 1024**power for power, letter in enumerate("KMGTP", 1)}


@dataclass(frozen=True)
class Target:
    text: str
    kind: Literal["sim", "file", "block"]
    path: str
    options: dict[str, str] = field(default_factory=dict)


def parse_target(text: str) -> Target:
    """Raises TargetError when it is none of the three forms."""
    for kind in ("sim", "file"):
        if text.startswith(f"{kind}:"):
            path, _, query = text[len(kind) + 1 :].partition("?")
            pairs = parse_qsl(query, keep_blank_values=True)
            options = dict(pairs)
            if len(options) != len(pairs):
                raise TargetError(f"{text}: an option is given twice")
            return Target(text, kind, path, options)
    if text.startswith("/"):
        return Target(text, "block", text)
    raise TargetError(f"{text}: a target is sim:PRESET, file:PATH or /dev/NAME")


def parse_size(text: str) -> int:
    """Bytes of "8GiB", "200GB", "4096"; K, M, G alone are powers of 1024. Raises TargetError."""
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    factor = _UNITS.get(match[2].upper()) if match else None
    if match is None or factor is None:
        raise TargetError(f"{text!r} is not a size; write for example 8GiB or 200GB")
    return int(float(match[1]) * factor)
