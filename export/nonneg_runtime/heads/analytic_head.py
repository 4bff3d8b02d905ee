"""The analytic head: principal components, half whitened, turned to sparse positive parts; and what it is taught.

A feature row x (the square root of pooled features) becomes p = (x - mean) S R. S are the first components, each
divided by its eigenvalue^exponent. R turns every block of them by itself: blocks of small components stay behind
blocks of large ones. The columns are p and -p, strongest positive part first. No gradient, seconds on one core.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers, Rows
from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import unit
from nonneg_runtime.heads.moments import Spread, spread

EDGES = (0, 64, 128, 256, 512, 1024)  # between the blocks of components that are turned together
EXPONENT = 0.42  # half whitening: .25 for a teacher's dense features, more for columns that are cut at zero
FLOOR = 0.02  # of the mean eigenvalue, added to each: the smallest components are noise
ROUNDS = 30
TURNED_ON = 10_000  # rows: more would not turn the blocks any further


@dataclass(frozen=True, eq=False)
class Basis:
    """p = (x - mean) @ matrix / scale has a mean square of one."""

    mean: Floats  # (features,)
    matrix: Rows  # (features, components)
    scale: float

    def coordinates(self, rows: Rows) -> Rows:
        """Return p of every row, (rows, components)."""
        return np.asarray((rows - self.mean) @ self.matrix / self.scale, dtype=np.float32)


def fit_basis(
    rows: Rows,
    of: Spread,
    *,
    edges: Sequence[int] = EDGES,
    exponent: float = EXPONENT,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> Basis:
    """Return half-whitened components of `of`, their blocks turned on (some of) `rows`."""
    edges = within(edges, len(of.mean))
    some = rows if len(rows) <= TURNED_ON else rows[np.random.default_rng(seed + 1).permutation(len(rows))[:TURNED_ON]]
    mean = of.mean.astype(np.float32)
    matrix = components(of, edges[-1], exponent).astype(np.float32)
    p = np.asarray((some - mean) @ matrix, dtype=np.float32)
    points = p / np.maximum(np.linalg.norm(p, axis=1, keepdims=True), np.float32(1e-12))
    for first, last in pairwise(edges):
        block = np.ascontiguousarray(points[:, first:last])
        matrix[:, first:last] = matrix[:, first:last] @ rotation(block, rounds, seed)
    p = np.asarray((some - mean) @ matrix, dtype=np.float32)
    return Basis(mean, matrix, float(np.sqrt(np.square(p, dtype=np.float64).mean())))


def within(edges: Sequence[int], features: int) -> tuple[int, ...]:
    """Return the edges up to as many components as there are features."""
    return (*(edge for edge in edges if edge < features), min(features, edges[-1]))


def components(of: Spread, keep: int, exponent: float, *, floor: float = FLOOR) -> Doubles:
    """Compute the first principal axes, each divided by (eigenvalue + floor)^exponent; a rule fixes their signs."""
    values, axes = np.linalg.eigh(of.covariance)
    values, axes = values[::-1].clip(min=0), axes[:, ::-1]
    largest = np.take_along_axis(axes, np.abs(axes).argmax(axis=0)[None], axis=0)  # (1, features)
    powers: Doubles = np.maximum(values + floor * values.mean(), 1e-12) ** exponent
    directions: Doubles = (axes * np.where(largest < 0, -1, 1) / powers)[:, :keep]
    return directions


def rotation(points: Rows, rounds: int, seed: int = 0) -> Rows:
    """Return an orthogonal matrix under which the positive part of `points` holds as much energy as it can.

    R <- polar(points' relu(points R)) climbs E|relu(points R)|^2 from a random start.
    """
    turn = random_rotation(points.shape[1], seed)
    for _ in range(rounds):
        turn = polar(points.T @ np.maximum(points @ turn, 0))
    return turn


def polar(matrix: NDArray[Any]) -> NDArray[Any]:
    """Return the nearest matrix with orthonormal columns."""
    left, _, right = np.linalg.svd(matrix, full_matrices=False)
    nearest: NDArray[Any] = left @ right
    return nearest


def random_rotation(size: int, seed: int) -> Rows:
    """Return a uniformly drawn orthogonal matrix."""
    q, r = np.linalg.qr(np.random.default_rng(seed).normal(size=(size, size)))
    return np.asarray(q * np.sign(np.diag(r)), dtype=np.float32)


def strongest(p: Rows, length: Floats, count: int) -> Numbers:
    """Choose of the columns p and -p the `count` whose positive parts hold most, as indices into [p, -p].

    length: (rows, 1) of the vectors that the columns are seen as a share of.
    """
    share = p / np.maximum(length, np.float32(1e-12))
    energy = np.concatenate([np.square(np.maximum(side * share, 0)).mean(axis=0) for side in (1, -1)])
    return np.argsort(-energy, kind="stable")[:count]


def check_width(dimensions: int, components: int) -> None:
    """Refuse a head of more than two columns a component."""
    if dimensions > 2 * components:
        raise ConfigInvalid(
            f"an analytic head of {dimensions} dimensions needs {-(-dimensions // 2)} components, not {components}",
            fix=f"use model.dimensions={2 * components}",
            field="model.dimensions",
            value=dimensions,
            limit=2 * components,
        )


# What a head is taught: dense vectors of one or several backbones, each half whitened, whose cosines retrieve best.

TEACHER_EXPONENT = 0.25
TEACHER_FLOOR = 0.02  # of the mean eigenvalue: no smaller one is divided by


def half_whitened(rows: Rows) -> Rows:
    """Return all principal components of the rows, each divided by eigenvalue^.25, at a mean length of one."""
    of = spread(rows)
    values, axes = np.linalg.eigh(of.covariance)
    turned = ((rows - of.mean) @ (axes / np.maximum(values, values.mean() * TEACHER_FLOOR) ** TEACHER_EXPONENT)).astype(
        np.float32
    )
    scaled_rows: Rows = turned / np.linalg.norm(turned, axis=1).mean()
    return scaled_rows


def teacher_vectors(backbones: list[Rows]) -> Rows:
    """Return the teacher's vectors of length one: those of all backbones side by side."""
    side_by_side = np.concatenate([half_whitened(rows) for rows in backbones], axis=1)
    return unit(side_by_side)
