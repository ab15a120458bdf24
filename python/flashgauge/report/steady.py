"""Steady state for any test: the measurement window plot (7-2.x) and the determination table under it."""

from __future__ import annotations

from math import isnan

from flashgauge.report import palette
from flashgauge.report.model import Band, Choice, Column, LineFigure, Series, Style, Table, Value
from flashgauge.steadystate import Criteria, Verdict

# The clause that asks for the verification figures; TP and LAT have their own.
VERIFIED = "7.3.4"


def unjudged(verdict: Verdict) -> str:
    return f"Nothing is judged on fewer than {verdict.criteria.window_rounds} rounds."


def is_full(verdict: Verdict) -> bool:
    """Whether the window has as many rounds as 2.1.24 asks for; nothing is judged on fewer."""
    return len(verdict.values) == verdict.criteria.window_rounds


def _word(verdict: Verdict) -> str:
    """2.1.24 in a word."""
    if not is_full(verdict):
        return "not judged"
    return "steady" if verdict.steady else "NOT steady"


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _ok(verdict: Verdict, passed: bool) -> str:
    if not is_full(verdict):
        return "not judged"
    return "pass" if passed else "FAIL"


def window_figure(
    title: str, verdict: Verdict, *, y_title: str, y_name: str, color: str, marker: int, clause: str = VERIFIED
) -> LineFigure:
    """7.3.5: the window's values, their average, the fitted line and the allowed band."""
    rounds = tuple(float(verdict.first_round + i) for i in range(len(verdict.values)))
    ends = (rounds[0], rounds[-1])

    def level(name: str, value: float, color: str, style: Style) -> Series:
        return Series(name, ends, (value, value), color, style)

    fit = tuple(verdict.slope * x + verdict.intercept for x in ends)
    series = (
        Series("Measured, each round", rounds, verdict.values, color, "points", marker),
        level("Average", verdict.average, palette.AVERAGE, "solid"),
        Series("Best linear fit", ends, fit, palette.FIT, "dash"),
        level("Average + 10 %", verdict.band_max, palette.BAND, "dot"),
        level("Average \N{MINUS SIGN} 10 %", verdict.band_min, palette.BAND, "dot"),
    )
    label = f"Average \N{PLUS-MINUS SIGN} 10 % (the band of {clause})"
    return LineFigure(
        title=title,
        x_title="Round",
        y_title=y_title,
        x_name="round",
        y_name=y_name,
        choices=(Choice("", series),),
        bands=(Band("y", verdict.band_min, verdict.band_max, label, palette.BAND),),
        x_ticks=tuple((x, f"{x:g}") for x in rounds),
    )


def digits(unit: str) -> str:
    """Response times in ms need more digits than rates."""
    return ",.4f" if unit == "ms" else ",.1f"


def determination_table(verdict: Verdict, unit: str, clause: str = VERIFIED) -> Table:
    """2.1.24 and the verification clause, allowed against measured. Excursions in `unit`."""
    v, spec = verdict, digits(unit)
    rows: list[tuple[str, Value, Value, str, str, str]] = [
        ("Measurement window, first round", "", v.first_round, "", "", ",d"),
        ("Measurement window, last round", "", v.last_round, "", "", ",d"),
        ("Average in the window", "", v.average, unit, "", spec),
        *((f"Round {v.first_round + i}", "", value, unit, "", spec) for i, value in enumerate(v.values)),
        (
            f"Data excursion (max \N{MINUS SIGN} min), {_percent(v.criteria.data_excursion)} of average",
            v.data_excursion_allowed,
            v.data_excursion,
            unit,
            _ok(v, v.data_excursion_ok),
            spec,
        ),
        (
            f"Slope excursion over the window, {_percent(v.criteria.slope_excursion)} of average",
            v.slope_excursion_allowed,
            v.slope_excursion,
            unit,
            _ok(v, v.slope_excursion_ok),
            spec,
        ),
        (
            f"Slope of the best linear fit ({clause})",
            100 * v.criteria.slope_excursion,
            v.slope_percent if v.average else None,
            "%",
            _ok(v, v.slope_excursion_ok),
            ",.2f",
        ),
        (
            f"Maximum, average + 10 % ({clause})",
            v.band_max,
            max(v.values),
            unit,
            _ok(v, max(v.values) <= v.band_max),
            spec,
        ),
        (
            f"Minimum, average \N{MINUS SIGN} 10 % ({clause})",
            v.band_min,
            min(v.values),
            unit,
            _ok(v, min(v.values) >= v.band_min),
            spec,
        ),
        (f"Measured range within \N{PLUS-MINUS SIGN}10 % ({clause})", "", "", "", _ok(v, v.band_ok), ""),
        ("Best linear fit, slope", "", v.slope, f"{unit}/round", "", "+z,.5f" if unit == "ms" else "+,.2f"),
        ("Best linear fit, value at round 0", "", v.intercept, unit, "", spec),
        (
            "Correlation coefficient of the fit",
            "",
            "undefined: all values equal" if isnan(v.correlation) else v.correlation,
            "",
            "",
            "+.4f",
        ),
        ("Steady state (2.1.24)", "", "", "", _word(v), ""),
    ]
    return Table(
        title="Steady state determination",
        columns=(
            Column("Quantity", "quantity"),
            Column("Allowed", "allowed", "s"),
            Column("Measured", "measured", "s"),
            Column("Unit", "unit"),
            Column("Verdict", "verdict"),
        ),
        rows=tuple(row[:5] for row in rows),
        formats=tuple(row[5] for row in rows),
        notes=(f"Best linear fit: {v.line}. {unjudged(v) if not is_full(v) else ''}".rstrip(),),
        name="determination",
    )


def verdict_table(verdicts: dict[str, Verdict], unit: str, clause: str = VERIFIED) -> Table:
    """One line for each tracking variable."""
    limits = next((v.criteria for v in verdicts.values()), Criteria())
    at_most = "\N{LESS-THAN OR EQUAL TO}\N{NO-BREAK SPACE}"
    return Table(
        title="Steady state",
        columns=(
            Column("Tracking variable", "tracking_variable"),
            Column("Rounds", "rounds"),
            Column(f"Average, {unit}", "average", digits(unit)),
            Column(f"Data excursion, % ({at_most}{100 * limits.data_excursion:g})", "data_excursion_percent", ",.2f"),
            Column(
                f"Slope excursion, % ({at_most}{100 * limits.slope_excursion:g})", "slope_excursion_percent", ",.2f"
            ),
            Column(f"Within \N{PLUS-MINUS SIGN}10 % ({clause})", "band"),
            Column("Steady (2.1.24)", "verdict"),
        ),
        rows=tuple(
            (
                name,
                f"{v.first_round}\N{EN DASH}{v.last_round}",
                v.average,
                100 * v.data_excursion / v.average if v.average else None,
                v.slope_percent if v.average else None,
                _ok(v, v.band_ok),
                _word(v),
            )
            for name, v in verdicts.items()
        ),
        notes=tuple({unjudged(v) for v in verdicts.values() if not is_full(v)}),
        name="steady-state",
    )
