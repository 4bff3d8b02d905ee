"""The analytic head of any backbone's pooled features, signed or not, and a head adapted to other photos.

Features that never go below zero are taken as their square roots, others as their directions (rows of length one):
both are what their cosines retrieve best by.
"""

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Rows
from nonneg_core.errors import DataInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.heads.analytic_head import (
    EDGES,
    EXPONENT,
    FLOOR,
    Basis,
    components,
    fit_basis,
    random_rotation,
    within,
)
from nonneg_runtime.heads.head import Head, analytic, first, joined, roots, taken
from nonneg_runtime.heads.moments import Spread, spread

Takes = Literal["roots", "features", "directions"]


@dataclass(frozen=True, eq=False)
class FittedHead:
    """A head, what it takes of the features, and what it was computed from."""

    head: Head
    takes: Takes
    spread: Spread
    trained: int = 0  # columns in front that were trained

    def embed(self, features: NDArray[Any]) -> Rows:
        """Return the embedding of every row of features."""
        return self.head.embed(head_input(features, self.takes))


def fit_head(features: NDArray[Any], *, dimensions: int | None = None, seed: int = 0) -> FittedHead:
    """Compute the analytic head of these rows; without `dimensions` as wide as it can be: two columns a component."""
    if not np.isfinite(features).all():
        raise DataInvalid(
            "the features hold NaN or infinity", fix="check the encoder's weights and its pixels' scaling"
        )
    takes = suitable_input(features)
    rows = head_input(features, takes)
    of = spread(rows)
    if not np.diag(of.covariance).any():
        raise DataInvalid(
            f"the features of all {len(rows)} photos are the same", fix="check which output is taken, and the photos"
        )
    basis = fit_basis(rows, of, seed=seed)
    columns = analytic(basis, rows, dimensions or 2 * within(EDGES, rows.shape[1])[-1])
    return FittedHead(columns, takes, of)


def suitable_input(features: NDArray[Any]) -> Takes:
    """Return what a head should take of such features."""
    return "directions" if np.min(features, initial=0) < 0 else "roots"


def head_input(features: NDArray[Any], takes: Takes) -> Rows:
    """Return what a head takes of rows of features."""
    rows: Rows = np.asarray(features, dtype=np.float32)
    return roots(rows) if takes == "roots" else unit(rows) if takes == "directions" else rows


# A head adapted to other photos: their mean, their directions, and their classes where labels are known.
#
# Rows are half whitened by the spread of ordinary photos - blended with how photos of one class differ, where there
# are labels - and turned so that what varies most among one's own photos comes first. Inside blocks of components the
# axes are turned at random: turns that are fitted to a few hundred photos hold energy on these and on no others.
# Columns that have names stay as they are, at the end.

FRONT, FACTOR = 512, 2.0  # columns in front, and how much more they count beside the others
HALF = 50  # photos that count half as much as any number of them


@dataclass(frozen=True)
class Weights:
    """How much of a head comes from one's own photos."""

    mean: float = 1.0
    covariance: float = 0.2
    labels: float = 0.3  # of the spread within classes, where ordinary photos have the rest
    emphasis: float = 0.15  # exponent of the eigenvalues by which what varies most among one's photos counts more

    def of(self, photos: int) -> "Weights":
        """Return smaller weights for fewer photos: half for fifty."""
        trust = photos / (photos + HALF)
        return replace(self, mean=self.mean * trust, covariance=self.covariance * trust, labels=self.labels * trust)


def adapted_basis(own: Spread, ordinary: Spread, rows: Rows, weights: Weights, classes: Spread | None = None) -> Basis:
    """Return where one's photos lie, and the directions in which they vary; `rows`: some of them, for the scale.

    classes: the spread of photos around the mean of their class.
    """
    blended = ordinary.blended(own, weights.mean, weights.covariance)
    whitening = _whitening(ordinary if classes is None else ordinary.blended(classes, 0, weights.labels))
    whitened = Spread(blended.mean, whitening @ blended.covariance @ whitening, blended.count)
    edges = within(EDGES, len(own.mean))
    matrix = np.asarray(whitening @ components(whitened, edges[-1], -weights.emphasis), dtype=np.float32)
    for begin, end in pairwise(edges):
        matrix[:, begin:end] = matrix[:, begin:end] @ random_rotation(end - begin, 0)
    mean = blended.mean.astype(np.float32)
    p = (rows - mean) @ matrix
    return Basis(mean, matrix, float(np.sqrt(np.square(p, dtype=np.float64).mean())))


def _whitening(of: Spread) -> Doubles:
    """Return the symmetric matrix that half whitens."""
    values, axes = np.linalg.eigh(of.covariance)
    values = values.clip(min=0)
    return np.asarray((axes / np.maximum(values + FLOOR * values.mean(), 1e-12) ** EXPONENT) @ axes.T)


def adapted_head(
    basis: Basis, rows: Rows, dimensions: int, *, front: Head | None = None, named: Head | None = None
) -> Head:
    """Return the strongest columns of the basis; `front`, `named`: columns that stay, before and behind the others."""
    reserved = sum(part.dimensions for part in (front, named) if part is not None)
    head = analytic(basis, rows, dimensions - reserved)
    head = head if front is None else joined(front, head)
    head = joined(scaled(first(head, FRONT), FACTOR), last(head, max(0, head.dimensions - FRONT)))
    return head if named is None else joined(head, named)


def scaled(head: Head, factor: float) -> Head:
    """Return the same columns, each so many times as large before the power."""
    weight, bias = (np.asarray(part * np.float32(factor)) for part in (head.weight, head.bias))
    return replace(head, weight=weight, bias=bias)


def last(head: Head, count: int) -> Head:
    """Return the last `count` columns."""
    return taken(head, np.arange(head.dimensions - count, head.dimensions))


def passing(features: int, like: Head) -> Head:
    """Make a head of the same shape that lets roots of features through, each to the power, in its first columns."""
    identity = np.eye(features, like.dimensions, dtype=np.float32)
    nothing = np.zeros(like.dimensions, dtype=np.float32)
    return Head(identity, nothing, like.power)
