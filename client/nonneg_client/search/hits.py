"""What a search answers: hits with their reasons, what keeps vectors out of it, and where its matches end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from nonneg_client.model_of_vectors import DimensionNames, name_of
from nonneg_client.search.connectors.engine import Payload, Where
from nonneg_core.errors import ConfigInvalid

REASONS = 5


@dataclass(frozen=True)
class Hit:
    """One answer: how near, and which dimensions made it so."""

    id: str
    score: float
    payload: Payload = field(default_factory=dict)
    reasons: tuple[tuple[int, float], ...] = ()  # (dimension, its part of the score), the largest first
    names: DimensionNames = field(default_factory=dict)  # of those of these dimensions that have one
    match: bool | None = None  # False: a random photo may score as much; None: the model's statistics are not at hand

    def told(self, most: int = REASONS) -> str:
        """Return its reasons in words: `goldfish 0.310, dim 17 0.120`."""
        return ", ".join(f"{name_of(d, self.names)} {part:.3f}" for d, part in self.reasons[:most])


@dataclass(frozen=True)
class HitLimits:
    """What keeps vectors out of an answer, and what an answer says."""

    where: Where | None = None
    without: Sequence[int] = ()
    exclude: Sequence[str] = ()
    cut: int | None = None
    reasons: bool = True
    matches_only: bool = False


def marked(hits: Sequence[Hit], line: float | None, limits: HitLimits) -> list[Hit]:
    """Return the hits with what chance says of them; without those below its line, where these are not wanted."""
    if line is None:
        return list(hits)
    told = [replace(hit, match=hit.score >= line) for hit in hits]
    return [hit for hit in told if hit.match] if limits.matches_only else told


def check_line(line: float | None, limits: HitLimits) -> None:
    """Raise where matches alone are wanted and nothing says which hits they are."""
    if line is None and limits.matches_only:
        raise ConfigInvalid(
            "what random photos share among these vectors is not known, so matches cannot be told from others",
            fix="give the bundle that they were made with: --bundle FOLDER, or Index.open(..., statistics=...)",
            field="matches_only",
        )


def shown(payload: Payload) -> Payload:
    """Return a payload without the fields that are for other commands, such as `_thumbnail`."""
    return {name: value for name, value in payload.items() if not name.startswith("_")}


def reasons_of(indices: NDArray[np.int32], parts: NDArray[np.float64]) -> tuple[tuple[int, float], ...]:
    """Return the dimensions with the largest parts of a score; the lower dimension among equals."""
    order = np.argsort(-parts, kind="stable")[:REASONS]
    return tuple((int(indices[o]), float(parts[o])) for o in order if parts[o] > 0)
