"""Near-duplicates: groups of images that are linked by a cosine above a threshold."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from nonneg_client.search.index import Index
from nonneg_core.errors import ConfigInvalid

AT_ONCE = 500  # vectors fetched
FIRST_LOOK = 10  # neighbours asked for; more where all of them are near


@dataclass(frozen=True)
class Pair:
    """Two images and how alike they are."""

    one: str
    other: str
    score: float


def pairs(index: Index, threshold: float = 0.95) -> Iterator[Pair]:
    """Every pair of indexed images whose cosine is at least the threshold; each pair once."""
    if not 0 < threshold <= 1:
        raise ConfigInvalid(f"threshold={threshold} is no cosine of likes", fix="give one above 0, at most 1")
    names = sorted(index.engine.payloads())
    for start in range(0, len(names), AT_ONCE):
        vectors = index.engine.get(names[start : start + AT_ONCE])
        for name, (indices, values) in zip(vectors.ids or (), vectors, strict=True):
            yield from (
                Pair(name, other, score) for other, score in _near(index, (indices, values), threshold) if name < other
            )


def _near(index: Index, row: tuple[np.ndarray, np.ndarray], threshold: float) -> list[tuple[str, float]]:
    k = FIRST_LOOK
    while True:
        hits = index.by_weights(row, k, reasons=False)
        near = [(hit.id, hit.score) for hit in hits if hit.score >= threshold]
        if len(near) < k:
            return near
        k *= 4


def groups(found: Iterator[Pair] | list[Pair]) -> list[list[str]]:
    """The images that are linked, directly or through others; the largest group first."""
    leader: dict[str, str] = {}

    def lead(name: str) -> str:
        while leader.setdefault(name, name) != name:
            leader[name] = leader[leader[name]]
            name = leader[name]
        return name

    for pair in found:
        leader[max(lead(pair.one), lead(pair.other))] = min(lead(pair.one), lead(pair.other))
    gathered: dict[str, list[str]] = {}
    for name in sorted(leader):
        gathered.setdefault(lead(name), []).append(name)
    return sorted(gathered.values(), key=lambda group: (-len(group), group[0]))
