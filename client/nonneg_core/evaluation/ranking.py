"""Exact rankings of a gallery for many queries, in blocks that fit memory.

The order is by cosine, falling; among equals the lower gallery index comes first. A cosine of exactly zero means
that two non-negative vectors share no dimension: such an item may fill a place in the list but is never found.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Places = NDArray[np.int64]

BLOCK_BYTES = 64 * 2**20  # of scores at a time


@dataclass(frozen=True)
class Ranked:
    """The head of one query's list."""

    query: int
    order: Places  # (depth,) gallery indices, best first
    scores: Floats  # (depth,) their cosines


def rank(
    queries: NDArray[Any],
    gallery: NDArray[Any],
    depths: NDArray[Any],
    *,
    leave_one_out: bool = False,
    block_bytes: int = BLOCK_BYTES,
) -> Iterator[Ranked]:
    """Yield for each query the `depths[i]` best of the gallery; with `leave_one_out` item i does not answer query i.

    So many queries are scored at a time that their scores take about `block_bytes`.
    """
    queries, gallery = _float32(queries), _float32(gallery)  # (q, d), (g, d)
    inverse = _inverse_lengths(gallery)
    rows = max(1, block_bytes // (4 * max(1, len(gallery))))
    for start in range(0, len(queries), rows):
        block = queries[start : start + rows] * _inverse_lengths(queries[start : start + rows])[:, None]
        scores = block @ gallery.T  # (rows, g)
        scores *= inverse
        if leave_one_out:
            own = np.arange(len(block))
            scores[own, start + own] = -np.inf
        for i, row in enumerate(scores):
            depth = min(int(depths[start + i]), len(gallery) - leave_one_out)
            order = best(row, depth)
            yield Ranked(start + i, order, row[order])


def reranked(lists: Iterable[Ranked], queries: NDArray[Any], whole: NDArray[Any], first: int) -> Iterator[Ranked]:
    """Yield the lists with their first entries in the order of the cosines to the gallery's `whole` vectors."""
    queries, whole = _float32(queries), _float32(whole)
    inverse, asked = _inverse_lengths(whole), _inverse_lengths(queries)
    for found in lists:
        head, rest = found.order[:first], found.order[first:]
        scores = whole[head] @ queries[found.query] * inverse[head] * asked[found.query]
        places = np.argsort(-scores, kind="stable")
        yield Ranked(
            found.query, np.concatenate([head[places], rest]), np.concatenate([scores[places], found.scores[first:]])
        )


def best(scores: Floats, depth: int) -> Places:
    """Return the indices of the `depth` largest scores, falling; among equals the lower index first."""
    if depth <= 0:
        return np.zeros(0, dtype=np.int64)
    candidates = np.flatnonzero(scores > 0)  # selecting among thousands of equal zeros is ten times slower
    if len(candidates) < depth:
        candidates = np.arange(len(scores))
    found = scores[candidates]
    if depth < len(candidates):
        threshold = np.partition(found, len(found) - depth)[len(found) - depth]
        above = np.flatnonzero(found >= threshold)
        candidates, found = candidates[above], found[above]
    return candidates[np.argsort(-found, kind="stable")][:depth]


def _float32(z: NDArray[Any]) -> Floats:
    """Return rows as float32; a prefix of columns stays a view, which BLAS reads without a copy."""
    return np.atleast_2d(np.asarray(z, dtype=np.float32))


def _inverse_lengths(z: Floats) -> Floats:
    """Return 1 / |row|, 0 for a zero row: cosines come from dividing scores, not from copying a gallery."""
    lengths = np.sqrt(np.einsum("ij,ij->i", z, z, dtype=np.float64))
    return np.asarray(np.divide(1, lengths, out=np.zeros_like(lengths), where=lengths > 0), dtype=np.float32)
