"""What an adaptation came to, in sentences: gained and lost by length, and what cannot be known."""

from __future__ import annotations

from collections.abc import Sequence

from nonneg_export.adaptation.judging import FOUND, METRICS, losses
from nonneg_runtime.evidence import Gain

FEW = 200  # photos to judge by, below which an interval is wide


def verdict(gains: Sequence[Gain], judged: int, *, kept: bool = False) -> str:
    """One sentence on the gains, and what these photos can say; `kept`: the source's columns are still in front."""
    labelled = any(gain.metric in METRICS for gain in gains)
    return " ".join([_labelled(gains) if labelled else _unlabelled(gains), *_limits(judged, kept=kept)])


def _labelled(gains: Sequence[Gain]) -> str:
    first = [gain for gain in gains if gain.metric == METRICS[0]]
    told = ", ".join(f"{gain.difference:+.3f} at {gain.length}" for gain in first)
    gained = sum(gain.low > 0 for gain in gains)
    lost = losses(gains)
    if lost:
        where = ", ".join(f"{gain.metric} at {gain.length} ({gain.difference:+.3f})" for gain in lost)
        return f"Against the model it was made from it loses {where}; P@1 changed by {told}."
    return f"P@1 changed by {told}; {gained} of {len(gains)} measures are surely better, none is surely worse."


def _unlabelled(gains: Sequence[Gain]) -> str:
    told = ", ".join(f"{gain.difference:+.3f} at {gain.length}" for gain in gains if gain.metric == FOUND)
    return (
        f"The share of photos that a random part of them finds first changed by {told}. Without labels it cannot be "
        "known whether what is found is what people look for: label a few hundred photos and run it again."
    )


def _limits(judged: int, *, kept: bool) -> list[str]:
    few = [f"{judged} photos to judge by are few: only large differences show."] if judged < FEW else []
    if kept:
        others = "on those of other kinds P@1 stayed within a point where that was measured"
    else:
        others = "on photos of other kinds short prefixes lose"
    return [*few, f"This holds for photos of this kind; {others}."]
