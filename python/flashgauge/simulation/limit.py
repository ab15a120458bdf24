"""One limit of a simulated device, derived from its parameters."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limit:
    """A derived figure and the law behind it. `value` None: there is no closed form, and `law` says why."""

    name: str
    what: str
    value: float | None
    unit: str
    law: str
