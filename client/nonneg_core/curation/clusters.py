"""Clusters of photos that share dimensions: spherical k-means, each cluster told by what its photos have in common.

Centres are found on a sample, then every photo goes to the centre with the largest cosine. A dimension tells of a
cluster what others lack: the difference of its shares of photos, weighted by its rarity, log(1 / share).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.sparse_rows import Floats, Places, SparseRows, count, dense, entries, picked, shares

SAMPLE = 16_384
ROUNDS = 25
BLOCK = 2048
TOLD = 5  # dimensions by which a cluster is told


@dataclass(frozen=True)
class Shared:
    """A dimension that a cluster's photos have in common."""

    dimension: int
    inside: float  # share of the cluster's photos in which it is active
    outside: float  # share of all others


@dataclass(frozen=True)
class Cluster:
    """Photos with the most typical first, their cosines to the centre, and what they share."""

    members: Places
    cosines: Floats
    shared: tuple[Shared, ...]


def usual_number(photos: int) -> int:
    """Return how many clusters to look for by default: the root of half the photos, 2 to 60."""
    return int(min(max(2, round((photos / 2) ** 0.5)), 60, max(1, photos)))


def clusters(rows: SparseRows, k: int, *, seed: int = 0) -> list[Cluster]:
    """Return at most k clusters, the largest first; the same seed gives the same clusters."""
    size = count(rows)
    if not size:
        return []
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.choice(size, min(size, SAMPLE), replace=False))
    centres = _centres(picked(rows, sample), min(k, size), rng)
    nearest, cosine = _assigned(rows, centres)
    of_all = shares(rows)
    found = [_cluster(rows, np.flatnonzero(nearest == c), cosine, of_all) for c in np.unique(nearest)]
    return sorted(found, key=lambda cluster: (-len(cluster.members), int(cluster.members[0])))


def _centres(z: Floats, k: int, rng: np.random.Generator) -> Floats:
    """Find k centres of unit rows: k-means++, then rounds of assigning and averaging until nothing moves."""
    centres = z[_spread_out(z, k, rng)]
    nearest = np.full(len(z), -1)
    for _ in range(ROUNDS):
        before, nearest = nearest, (z @ centres.T).argmax(axis=1)
        if (before == nearest).all():
            break
        sums = np.eye(len(centres), dtype=np.float32)[:, nearest] @ z
        empty = np.bincount(nearest, minlength=len(centres)) == 0
        sums[empty] = centres[empty]
        centres = _unit(sums)
    return centres


def _spread_out(z: Floats, k: int, rng: np.random.Generator) -> list[int]:
    """Draw rows to start from: each next by chance, in proportion to its distance from those chosen."""
    chosen = [int(rng.integers(len(z)))]
    distance = np.full(len(z), np.inf)
    for _ in range(k - 1):
        distance = np.minimum(distance, np.maximum(1 - z @ z[chosen[-1]], 0))
        total = distance.sum()
        if total <= 1e-6 * len(z):
            break  # all others are copies of those chosen
        chosen.append(int(rng.choice(len(z), p=distance / total)))
    return chosen


def _assigned(rows: SparseRows, centres: Floats) -> tuple[Places, Floats]:
    nearest, cosine = np.zeros(count(rows), np.intp), np.zeros(count(rows), np.float32)
    for start in range(0, count(rows), BLOCK):
        stop = min(start + BLOCK, count(rows))
        scores = dense(rows, start, stop) @ centres.T
        nearest[start:stop], cosine[start:stop] = scores.argmax(axis=1), scores.max(axis=1)
    return nearest, cosine


def _cluster(rows: SparseRows, members: Places, cosine: Floats, of_all: Floats) -> Cluster:
    order = members[np.argsort(-cosine[members], kind="stable")]
    inside = _activity(rows, members)
    others = count(rows) - len(members)
    outside = (of_all * count(rows) - inside * len(members)) / max(1, others)
    rarity = np.log(1 / np.clip(of_all, 1 / count(rows), 1))
    telling = (inside - outside) * rarity  # common to these, rare elsewhere
    dimensions = np.argsort(-telling, kind="stable")[:TOLD]
    shared = [Shared(int(d), float(inside[d]), float(max(outside[d], 0))) for d in dimensions if inside[d] > outside[d]]
    return Cluster(order, cosine[order], tuple(shared))


def _activity(rows: SparseRows, members: Places) -> Floats:
    where, _ = entries(rows, members)
    return np.asarray(np.bincount(rows.indices[where], minlength=rows.dimensions) / len(members), np.float32)


def _unit(z: NDArray[np.float32]) -> Floats:
    norms = np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(np.divide(z, norms, out=np.zeros_like(z), where=norms > 0))
