"""Departures from the standard, found by the program and shown at the top of every report.

A disclosure names its clause, says what happened, and says what to do about it. `invalidates` marks those
with which the result may not be called a PTS result at all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class Kind(StrEnum):
    PURGE_NOT_RUN = "purge_not_run"
    PURGE_BY_DISCARD = "purge_by_discard"
    PURGE_NOT_VERIFIED = "purge_not_verified"
    WRITE_CACHE_STATE = "write_cache_state"
    GAP_OVER_LIMIT = "gap_over_limit"
    STEADY_STATE_NOT_REACHED = "steady_state_not_reached"
    INTERRUPTED = "interrupted"
    PARAMETER_CHANGED = "parameter_changed"
    IO_ERRORS = "io_errors"
    NOT_DEVICE_LEVEL = "not_device_level"
    SIMULATED = "simulated"
    DATA_MISSING = "data_missing"
    FEW_IOS = "few_ios"
    SHARES_OFF = "shares_off"
    NO_OPERATING_POINT = "no_operating_point"
    MIXED_DEVICES = "mixed_devices"
    HOST_CONDITIONS = "host_conditions"
    FAULTS_INJECTED = "faults_injected"
    THERMAL_THROTTLING = "thermal_throttling"
    DATA_MISMATCH = "data_mismatch"
    IO_LOG_INCOMPLETE = "io_log_incomplete"
    DRIVE_HEALTH = "drive_health"
    HOST_LIMITED = "host_limited"


@dataclass(frozen=True)
class Disclosure:
    """One departure. `clause`: of PTS 2.0.1. `message`: what is so. `advice`: what would cure it."""

    kind: Kind
    clause: str
    message: str
    advice: str
    invalidates: bool = False

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Disclosure:
        return cls(**{**data, "kind": Kind(data["kind"])})


def is_valid_pts_result(disclosures: Iterable[Disclosure]) -> bool:
    return not any(disclosure.invalidates for disclosure in disclosures)
