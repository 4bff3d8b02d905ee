"""A head as arrays: roots of features -> weight, bias -> ReLU -> power; and columns that have a name."""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers, Rows
from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import Vectors, unit
from nonneg_runtime.heads.analytic_head import Basis, check_width, polar, strongest

POWER = 0.6


@dataclass(frozen=True, eq=False)
class Head:
    """z = relu(x weight + bias)^power."""

    weight: Rows  # (features, D)
    bias: Floats  # (D,)
    power: float = POWER

    @property
    def dimensions(self) -> int:
        """D."""
        return int(self.weight.shape[1])

    def embed(self, rows: Rows) -> Vectors:
        """Return the embedding of every row of roots."""
        vectors: Vectors = np.maximum(rows @ self.weight + self.bias, 0) ** np.float32(self.power)
        return vectors


def roots(pooled: Rows) -> Rows:
    """Return square roots of pooled features, which are >= 0: their cosines retrieve better."""
    values: Rows = np.sqrt(np.maximum(pooled, 0))
    return values


def analytic(basis: Basis, rows: Rows, dimensions: int) -> Head:
    """Return the strongest `dimensions` of the columns p and -p."""
    check_width(dimensions, basis.matrix.shape[1])
    p = basis.coordinates(rows)
    order = strongest(p, np.linalg.norm(p, axis=1, keepdims=True), dimensions)
    return along(basis, basis.matrix, order)


def along(basis: Basis, directions: Rows, order: Numbers) -> Head:
    """Make columns +-(x - mean) . direction at the basis's scale; `order` counts directions, then their opposites."""
    both = np.concatenate([directions, -directions], axis=1)[:, order] / basis.scale
    weight = np.asarray(both, dtype=np.float32)
    return Head(weight, np.asarray(-(basis.mean @ weight), dtype=np.float32))


def joined(*heads: Head) -> Head:
    """Return their columns one after the other."""
    return Head(
        np.concatenate([head.weight for head in heads], axis=1),
        np.concatenate([head.bias for head in heads]),
        heads[0].power,
    )


def first(head: Head, count: int) -> Head:
    """Return the first `count` columns."""
    return taken(head, np.arange(min(count, head.dimensions)))


def taken(head: Head, columns: Numbers) -> Head:
    """Return these columns, in this order."""
    return replace(head, weight=head.weight[:, columns], bias=head.bias[columns])


# Columns that have a name: the directions of a classifier's classes, as an orthonormal basis.
#
# A class's logit is linear in the pooled features f, so near the mean it is linear in their roots x: its gradient
# there is w_c * 2 sqrt(mean f). In the coordinates p of the head these directions are neither orthogonal nor equally
# long; the nearest orthonormal matrix keeps what they point at and shares out what they have in common.


@dataclass(frozen=True, eq=False)
class Named:
    """Orthonormal directions in a basis, and which classes they are."""

    classes: Numbers  # (names,) rows of the classifier, ascending
    directions: Doubles  # (components, names)
    faithfulness: Doubles  # (names,) cosine of each direction with its class's own

    def columns(self, basis: Basis) -> Head:
        """Return a column along each direction."""
        directions = np.asarray(basis.matrix @ self.directions, dtype=np.float32)  # (features, names)
        return along(basis, directions, np.arange(len(self.classes)))


def class_directions(basis: Basis, classifier: NDArray[Any], pooled_mean: NDArray[Any]) -> Doubles:
    """Return each class's unit vector u with p . u = its logit's change, (components, classes)."""
    gradients = classifier * (2 * np.sqrt(np.maximum(pooled_mean, 0)))  # (classes, features): d logit / d root
    directions = np.linalg.lstsq(basis.matrix.astype(np.float64), gradients.T.astype(np.float64), rcond=None)[0]
    return np.asarray(directions / np.maximum(np.linalg.norm(directions, axis=0), 1e-12), dtype=np.float64)


def choose_names(directions: Doubles, count: int) -> Named:
    """Return the `count` classes that an orthonormal basis of all of them is truest to; no photo is looked at."""
    components, classes = directions.shape
    if not 0 < count <= min(classes, components):
        raise ConfigInvalid(
            f"{count} names do not fit {classes} classes in {components} components",
            fix=f"ask for 1 to {min(classes, components)}",
            field="head.names",
            value=count,
            limit=min(classes, components),
        )
    truest = np.argsort(-(polar(directions) * directions).sum(axis=0), kind="stable")[:count]
    chosen = np.sort(truest)
    nearest = polar(directions[:, chosen])
    return Named(chosen, nearest, (nearest * directions[:, chosen]).sum(axis=0))


PREFIX = 512  # the length that most store: named columns stand within it


def with_names(front: Head, basis: Basis, named: Head, rows: Rows, dimensions: int) -> tuple[Head, Numbers]:
    """Return a head of three parts in their order, and where each named column stands.

    The parts: `front`, both sides of the strongest components of the basis, and `named`.
    """
    sides, odd = divmod(dimensions - front.dimensions - named.dimensions, 2)
    components = basis.matrix.shape[1]
    if odd or not 0 < sides <= components:
        raise ConfigInvalid(
            f"{dimensions} dimensions hold no whole pairs beside {front.dimensions} columns in front and "
            f"{named.dimensions} with names",
            fix=f"leave room for 2 to {2 * components} more columns, an even number",
            field="head.names",
            value=named.dimensions,
        )
    strongest = np.argsort(-energy(basis, rows), kind="stable")[:sides]
    both = along(basis, basis.matrix, np.concatenate([strongest, strongest + components]))
    whole = joined(front, both, named)
    order = nested_order(unit(whole.embed(rows)).mean(axis=0), front.dimensions, named.dimensions)
    places = np.empty(dimensions, dtype=np.int64)
    places[order] = np.arange(dimensions)
    return taken(whole, order), places[dimensions - named.dimensions :]


def energy(basis: Basis, rows: Rows) -> Floats:
    """Return each component's mean share of a row's squared length."""
    p = basis.coordinates(rows)
    shares = p / np.maximum(np.linalg.norm(p, axis=1, keepdims=True), np.float32(1e-12))
    return np.asarray(np.square(shares).mean(axis=0))


def nested_order(expected: Floats, front: int, named: int) -> Numbers:
    """Return the order of columns of which the last `named` have a name; `expected`: their mean in a unit vector.

    The front stays; then come the most active named columns, as many as the first 512 hold; then all others by
    expected activation.
    """
    falling = np.argsort(-expected, kind="stable")
    early = falling[falling >= len(expected) - named][: max(0, PREFIX - front)]
    rest = falling[(falling >= front) & ~np.isin(falling, early)]
    return np.concatenate([np.arange(front), early, rest])
