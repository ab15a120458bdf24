"""Steady state for any test: the measurement window plot (7-2.x) and the determination table under it (7.3.4)."""

from __future__ import annotations

from math import isnan

from flashgauge.report import palette
from flashgauge.report.model import Band, Choice, Column, LineFigure, Series, Style, Table, Value
from flashgauge.steadystate import WINDOW_ROUNDS, Verdict

UNJUDGED = f"Nothing is judged on fewer than {WINDOW_ROUNDS} rounds."


def is_full(verdict: Verdict) -> bool:
    """Whether the window has as many rounds as 2.1.24 asks for; nothing is judged on fewer."""
    return len(verdict.values) == WINDOW_ROUNDS


def _word(verdict: Verdict) -> str:
    """2.1.24 in a word."""
    if not is_full(verdict):
        return "not judged"
    return "steady" if verdict.steady else "NOT steady"


def _ok(verdict: Verdict, passed: bool) -> str:
    if not is_full(verdict):
        return "not judged"
    return "pass" if passed else "FAIL"


def window_figure(title: str, verdict: Verdict, *, y_title: str, y_name: str, color: str, marker: int) -> LineFigure:
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
    label = "Average \N{PLUS-MINUS SIGN} 10 %: the allowed 20 % excursion, centred"
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


def determination_table(verdict: Verdict, unit: str) -> Table:
    """2.1.24 and 7.3.4, allowed against measured. Excursions in `unit`."""
    v = verdict
    rows: list[tuple[str, Value, Value, str, str, str]] = [
        ("Measurement window, first round", "", v.first_round, "", "", ",d"),
        ("Measurement window, last round", "", v.last_round, "", "", ",d"),
        ("Average in the window", "", v.average, unit, "", ",.1f"),
        *((f"Round {v.first_round + i}", "", value, unit, "", ",.1f") for i, value in enumerate(v.values)),
        (
            "Data excursion (max \N{MINUS SIGN} min), 20 % of average",
            v.data_excursion_allowed,
            v.data_excursion,
            unit,
            _ok(v, v.data_excursion_ok),
            ",.1f",
        ),
        (
            "Slope excursion over the window, 10 % of average",
            v.slope_excursion_allowed,
            v.slope_excursion,
            unit,
            _ok(v, v.slope_excursion_ok),
            ",.1f",
        ),
        (
            "Slope of the best linear fit (7.3.4)",
            10.0,
            v.slope_percent if v.average else None,
            "%",
            _ok(v, v.slope_excursion_ok),
            ",.2f",
        ),
        (
            "Maximum, average + 10 % (7.3.4)",
            v.band_max,
            max(v.values),
            unit,
            _ok(v, max(v.values) <= v.band_max),
            ",.1f",
        ),
        (
            "Minimum, average \N{MINUS SIGN} 10 % (7.3.4)",
            v.band_min,
            min(v.values),
            unit,
            _ok(v, min(v.values) >= v.band_min),
            ",.1f",
        ),
        ("Measured range within \N{PLUS-MINUS SIGN}10 % (7.3.4)", "", "", "", _ok(v, v.band_ok), ""),
        ("Best linear fit, slope", "", v.slope, f"{unit}/round", "", "+,.2f"),
        ("Best linear fit, value at round 0", "", v.intercept, unit, "", ",.1f"),
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
        notes=(f"Best linear fit: {v.line}. {UNJUDGED if not is_full(v) else ''}".rstrip(),),
        name="determination",
    )


def verdict_table(verdicts: dict[str, Verdict], unit: str) -> Table:
    """One line for each tracking variable."""
    return Table(
        title="Steady state",
        columns=(
            Column("Tracking variable", "tracking_variable"),
            Column("Rounds", "rounds"),
            Column(f"Average, {unit}", "average", ",.1f"),
            Column(
                "Data excursion, % (\N{LESS-THAN OR EQUAL TO}\N{NO-BREAK SPACE}20)", "data_excursion_percent", ",.2f"
            ),
            Column(
                "Slope excursion, % (\N{LESS-THAN OR EQUAL TO}\N{NO-BREAK SPACE}10)", "slope_excursion_percent", ",.2f"
            ),
            Column("Within \N{PLUS-MINUS SIGN}10 % (7.3.4)", "band"),
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
        notes=() if all(is_full(v) for v in verdicts.values()) else (UNJUDGED,),
        name="steady-state",
    )
