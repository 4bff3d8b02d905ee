"""Clusters of photos that share dimensions, a diverse subset by greedy k-centre, and photos that are like no other.

Centres are found on a sample, then every photo goes to the centre with the largest cosine. A dimension tells of a
cluster what others lack: the difference of its shares of photos, weighted by its rarity, log(1 / share).
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from nonneg_core.arrays import Doubles, Floats, Places
from nonneg_vectors.curation.row_blocks import SparseRows, column_means, count, dense, entries, picked, times

SAMPLE = 16_384
ROUNDS = 25
BLOCK = 2048
TOLD = 5  # dimensions by which a cluster is told
COMMON = 0.25  # share of its photos that show such a dimension, where it is known from which value on they do


@dataclass(frozen=True)
class Shared:
    """A dimension that a cluster's photos have in common."""

    dimension: int
    inside: float  # share of the cluster's photos that show it
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


def clusters(rows: SparseRows, k: int, *, lines: Doubles | None = None, seed: int = 0) -> list[Cluster]:
    """Return at most k clusters, the largest first; the same seed gives the same clusters.

    lines: from which value on a photo shows each dimension; without them it is enough that it is active.
    """
    size = count(rows)
    if not size:
        return []
    rng = np.random.default_rng(seed)
    sample = np.sort(rng.choice(size, min(size, SAMPLE), replace=False))
    centres = _centres(picked(rows, sample), min(k, size), rng)
    nearest, cosine = _assigned(rows, centres)
    least = np.zeros(rows.dimensions) if lines is None else lines
    of_all = _activity(rows, np.arange(size), least)
    groups = [_cluster(rows, np.flatnonzero(nearest == c), cosine, of_all, least) for c in np.unique(nearest)]
    return sorted(groups, key=lambda cluster: (-len(cluster.members), int(cluster.members[0])))


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


def _cluster(rows: SparseRows, members: Places, cosine: Floats, of_all: Floats, least: Doubles) -> Cluster:
    order = members[np.argsort(-cosine[members], kind="stable")]
    inside = _activity(rows, members, least)
    others = count(rows) - len(members)
    outside = (of_all * count(rows) - inside * len(members)) / max(1, others)
    rarity = np.log(1 / np.clip(of_all, 1 / count(rows), 1))
    telling = (inside - outside) * rarity  # common to these, rare elsewhere
    dimensions = np.argsort(-telling, kind="stable")[:TOLD]
    few = outside if not least.any() else np.maximum(outside, COMMON)
    shared = [Shared(int(d), float(inside[d]), float(max(outside[d], 0))) for d in dimensions if inside[d] > few[d]]
    return Cluster(order, cosine[order], tuple(shared))


def _activity(rows: SparseRows, members: Places, least: Doubles) -> Floats:
    """Return the share of some photos in which each dimension has its least value or more, (D,)."""
    where, _ = entries(rows, members)
    shown = where[rows.values[where] >= least[rows.indices[where]]]
    return np.asarray(np.bincount(rows.indices[shown], minlength=rows.dimensions) / len(members), np.float32)


def _unit(z: Floats) -> Floats:
    norms = np.linalg.norm(z, axis=1, keepdims=True)
    return np.asarray(np.divide(z, norms, out=np.zeros_like(z), where=norms > 0))


# A diverse subset by greedy k-centre: each next photo is the one that is farthest from all chosen so far.
#
# The largest distance that is left is at most twice that of the best subset of this size (Gonzalez 1985). The first
# is the photo nearest to the mean; distance is 1 - cosine, whose order is the Euclidean one of unit vectors.


@dataclass(frozen=True)
class Subset:
    """The chosen photos in the order of choice; how near each photo is to the nearest of them, and which that is."""

    chosen: Places
    cosine: Floats  # (n,)
    nearest: Places  # (n,)


def k_centres(rows: SparseRows, n: int, moved: Callable[[int], object] | None = None) -> Subset:
    """Choose n photos, each the farthest from those before; fewer where only copies of chosen ones are left."""
    size = count(rows)
    cosine, nearest = np.full(size, -1, np.float32), np.full(size, -1)
    chosen: list[int] = []
    candidate = int(times(rows, column_means(rows)).argmax()) if size else 0
    while len(chosen) < min(n, size):
        near = times(rows, dense(rows, candidate, candidate + 1)[0])
        near[candidate] = 1
        closer = near > cosine
        cosine[closer], nearest[closer] = near[closer], candidate
        chosen.append(candidate)
        if moved is not None:
            moved(len(chosen))
        candidate = int(cosine.argmin())
        if cosine[candidate] >= 1 - 1e-5:
            break  # all that is left are copies
    return Subset(np.array(chosen, np.intp), cosine, nearest)


# Photos that are like no other: the mean cosine to the nearest few, the smallest first.
#
# Below the bound of three robust standard deviations under the median it is unusual; a collection may have no such
# photo.

NEAREST = 5
SHARE = 0.01  # of the photos are always listed
FAR = 3.0  # robust standard deviations below the median: about one in 700 of a normal distribution


@dataclass(frozen=True)
class Outliers:
    """Photos, the loneliest first, and every photo's mean cosine to its nearest."""

    photos: Places
    closeness: Floats  # (n,)
    bound: float  # below it a mean cosine is unusual


def outliers(cosines: Floats) -> Outliers:
    """Return the loneliest hundredth of the photos, and all whose mean cosine is unusually low.

    cosines: of each photo to its nearest others, (n, k), the nearest first.
    """
    closeness = cosines[:, :NEAREST].mean(axis=1) if cosines.size else np.zeros(len(cosines), np.float32)
    if len(closeness) < 3:
        return Outliers(np.zeros(0, np.intp), closeness, 0.0)
    middle = float(np.median(closeness))
    below = closeness[closeness <= middle]
    spread = 1.4826 * float(np.median(middle - below))  # of the lower half: that above the median says nothing of it
    bound = middle - FAR * spread
    order = np.argsort(closeness, kind="stable")
    lonely = max(round(len(order) * SHARE), int((closeness < bound).sum()))
    return Outliers(order[:lonely], closeness, bound)
