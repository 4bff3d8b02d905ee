"""From the figures and their floors to a verdict with its reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nonneg_core.evaluation.estimates import Estimate
from nonneg_core.evaluation.meaning import DECIDING, Estimates
from nonneg_core.evaluation.uncertainty import Interval
from nonneg_runtime.certificate import Bounds, CheckOutcome, FigureRecord

DIGITS = 4
CHANCE = "shuffled"
FLOORS = {
    "shuffled": "shuffled labels",
    "rotated": "the same codes randomly rotated",
    "untrained": "an untrained head",
}


def records(found: Mapping[str, Estimates], dimensions: int) -> tuple[FigureRecord, ...]:
    """Return every figure that was measured on so many dimensions, beside its floors."""
    floors = {name: figures for name, figures in found.items() if name != "measured"}
    return tuple(
        FigureRecord(
            name=name,
            dimensions=dimensions,
            decides=name in DECIDING,
            measured=_bounds(estimate),
            floors={floor: _bounds(figures[name]) for floor, figures in floors.items()},
            above={floor: _bounds(estimate - figures[name]) for floor, figures in floors.items()},
        )
        for name, estimate in found["measured"].items()
    )


def verdict(figures: Sequence[FigureRecord], missing: Sequence[str]) -> tuple[CheckOutcome, str]:
    """Pass where deciding figures lie above every floor, and the others above chance; and why."""
    asked = [(figure, floor) for figure in figures for floor in figure.floors if figure.decides or floor == CHANCE]
    short = [_short_of(figure, floor) for figure, floor in asked if not figure.above[floor].low > 0]
    if short:
        return "fail", "; ".join(short)
    if missing:
        return "not decided", "; ".join(missing)
    deciding = ", ".join(figure.name for figure in figures if figure.decides)
    return "pass", f"{deciding} lie above {', '.join(FLOORS.values())}, by more than chance"


def not_above(figures: Sequence[FigureRecord]) -> tuple[str, ...]:
    """Return where figures that do not decide are not above a floor: it is said all the same."""
    return tuple(
        f"{_short_of(figure, floor)}: means over dimensions do not decide"
        for figure in figures
        for floor in figure.floors
        if not figure.decides and floor != CHANCE and not figure.above[floor].low > 0
    )


def _short_of(figure: FigureRecord, floor: str) -> str:
    above = figure.above[floor]
    return (
        f"{figure.name} of {figure.dimensions} dimensions, {figure.measured.value:.3f}, is not above {FLOORS[floor]}, "
        f"{figure.floors[floor].value:.3f} (difference {above.value:+.3f} [{above.low:+.3f} {above.high:+.3f}])"
    )


def _bounds(estimate: Estimate) -> Bounds:
    found: Interval = estimate.interval()
    return Bounds(value=_short(found.mean), low=_short(found.low), high=_short(found.high))


def _short(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
