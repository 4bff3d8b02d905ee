"""Whether a claim holds: paired differences over seeds, their interval, and a word that may be "not decided"."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from research.study.plan import Claim, ClaimCheck
from research.study.result_files import Result

HELD, PART, FAILED, OPEN = "held", "held in part", "did not hold here", "not decided"
LEVEL = 0.95


@dataclass(frozen=True)
class SeedEstimate:
    """A mean over seeds and where it would lie with other seeds."""

    mean: float
    deviation: float
    low: float
    high: float
    seeds: int

    def __str__(self) -> str:
        spread = f" [{short(self.low)}, {short(self.high)}]" if self.seeds > 1 else ""
        return f"{short(self.mean)}{spread}"


@dataclass(frozen=True)
class Checked:
    """A check and how it came out."""

    check: ClaimCheck
    estimate: SeedEstimate | None  # of the figure, or of the paired difference; None where nothing was measured
    status: str
    of: SeedEstimate | None = None
    than: SeedEstimate | None = None

    def __str__(self) -> str:
        """Return one sentence with its numbers."""
        check = self.check
        bound = f"at least {short(check.at_least)}" if check.at_least is not None else f"at most {short(check.at_most)}"
        if self.estimate is None:
            return f"{check.figure} of {check.of}: not measured"
        if check.than is None:
            return f"{check.figure} of {check.of} is {self.estimate}, asked {bound}: {self.status}"
        sides = f"{self.of.mean if self.of else 0:.4g} against {self.than.mean if self.than else 0:.4g}"
        names = f"{check.figure} of {check.of} against {check.than}"
        left_out = "" if check.counts else " (by construction; not part of the verdict)"
        return f"{names}: {sides}, difference {self.estimate}, asked {bound}: {self.status}{left_out}"


@dataclass(frozen=True)
class Verdict:
    """A claim with its checks."""

    claim: Claim
    status: str
    checks: tuple[Checked, ...]
    seeds: int


def estimate(values: Sequence[float]) -> SeedEstimate:
    """Return mean, deviation and the t interval of a mean over seeds; of one seed the interval is everything."""
    numbers = np.asarray(values, dtype=np.float64)
    mean = float(numbers.mean())
    if len(numbers) < 2:
        return SeedEstimate(mean, float("nan"), -float("inf"), float("inf"), len(numbers))
    from scipy.stats import t

    deviation = float(numbers.std(ddof=1))
    half = float(t.ppf((1 + LEVEL) / 2, len(numbers) - 1)) * deviation / len(numbers) ** 0.5
    return SeedEstimate(mean, deviation, mean - half, mean + half, len(numbers))


def decide(claim: Claim, results: Sequence[Result]) -> Verdict:
    """Check a claim on these results."""
    checked = tuple(_checked(check, results) for check in claim.checks)
    seeds = min((outcome.estimate.seeds if outcome.estimate else 0) for outcome in checked)
    return Verdict(claim, together(checked), checked, seeds)


def together(checked: Sequence[Checked]) -> str:
    """Return the one word for several checks, of those that count.

    A claim says that all of them hold, so one that lies outside its bound decides, whatever is open.
    """
    statuses = [outcome.status for outcome in checked if outcome.check.counts]
    if FAILED in statuses:
        return PART if HELD in statuses else FAILED
    return HELD if all(status == HELD for status in statuses) else OPEN


def _checked(check: ClaimCheck, results: Sequence[Result]) -> Checked:
    of = by_seed(results, check.of, check.figure)
    if check.than is None:
        if not of:
            return Checked(check, None, OPEN)
        interval = estimate(list(of.values()))
        return Checked(check, interval, _status(check, interval))
    than = by_seed(results, check.than, check.figure_than or check.figure)
    shared = sorted(of.keys() & than.keys())
    if not shared:
        return Checked(check, None, OPEN)
    interval = estimate([of[seed] - than[seed] for seed in shared])
    sides = [estimate([side[seed] for seed in shared]) for side in (of, than)]
    return Checked(check, interval, _status(check, interval), *sides)


def by_seed(results: Sequence[Result], variant: str, figure: str) -> Mapping[int, float]:
    """Return a variant's figure for each seed that has it."""
    values = {r.seed: r.figures.get(figure) for r in results if r.variant == variant}
    return {seed: float(value) for seed, value in values.items() if isinstance(value, (int, float))}


def _status(check: ClaimCheck, interval: SeedEstimate) -> str:
    if check.at_least is not None:
        return HELD if interval.low >= check.at_least else FAILED if interval.high < check.at_least else OPEN
    assert check.at_most is not None
    return HELD if interval.high <= check.at_most else FAILED if interval.low > check.at_most else OPEN


def short(value: float | None) -> str:
    """Return a number as tables show it."""
    return "-" if value is None else f"{value:.3g}" if abs(value) < 0.0995 else f"{value:.4g}"
