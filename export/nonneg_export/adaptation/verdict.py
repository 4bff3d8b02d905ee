"""What an adaptation came to, in sentences: gained and lost by length, and what cannot be known."""

from __future__ import annotations

from collections.abc import Sequence

from nonneg_export.adaptation.judging import FOUND, METRICS, losses
from nonneg_runtime.evidence import OTHERS, Gain

FEW = 200  # photos to judge by, below which an interval is wide


def verdict(gains: Sequence[Gain], judged: int, *, kept: bool = False) -> str:
    """Say what was gained and lost, and what these photos can say; `kept`: the source's columns are still in front."""
    own = [gain for gain in gains if not gain.metric.startswith(OTHERS)]
    labelled = any(gain.metric in METRICS for gain in own)
    lost = losses(gains)
    where = ", ".join(f"{gain.metric} at {gain.length} ({gain.difference:+.3f})" for gain in lost)
    said = [f"Against the model it was made from it loses {where}."] if lost else []
    said += [_labelled(own) if labelled else _unlabelled(own)]
    if judged < FEW:
        said += [f"{judged} photos to judge by are few: only large differences show."]
    return " ".join([*said, _others(gains) if len(gains) > len(own) else _unknown(kept=kept)])


def _labelled(gains: Sequence[Gain]) -> str:
    gained = sum(gain.low > 0 for gain in gains)
    worse = "" if losses(gains) else ", none is surely worse"
    return f"P@1 changed by {_changes(gains, METRICS[0])}; {gained} of {len(gains)} measures are surely better{worse}."


def _unlabelled(gains: Sequence[Gain]) -> str:
    return (
        f"The share of photos that a random part of them finds first changed by {_changes(gains, FOUND)}. Without "
        "labels it cannot be known whether what is found is what people look for: label a few hundred photos and run "
        "it again."
    )


def _others(gains: Sequence[Gain]) -> str:
    if told := _changes(gains, OTHERS + METRICS[0]):
        return f"On the photos of other kinds P@1 changed by {told}."
    told = _changes(gains, OTHERS + FOUND)
    return f"On the photos of other kinds, which have no labels, the share that a part of them finds changed by {told}."


def _unknown(*, kept: bool) -> str:
    """Return what is known of photos of other kinds where none were given."""
    if kept:
        others = "on those of other kinds P@1 at 128 to 512 dimensions lost up to three points where that was measured"
    else:
        others = "on photos of other kinds short prefixes lose"
    return f"This holds for photos of this kind; {others} (--others FOLDER measures it)."


def _changes(gains: Sequence[Gain], metric: str) -> str:
    return ", ".join(f"{gain.difference:+.3f} at {gain.length}" for gain in gains if gain.metric == metric)
