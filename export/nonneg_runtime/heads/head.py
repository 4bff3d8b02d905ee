"""A head as arrays: roots of features -> weight, bias -> ReLU -> gate -> power; and columns that have a name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats, Numbers, Rows
from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import Vectors
from nonneg_runtime.heads.analytic_head import Basis, check_width, polar, strongest

POWER = 0.6


@dataclass(frozen=True, eq=False)
class Head:
    """z = p^power where p = relu(x weight + bias) is above the gate, and 0 elsewhere; nothing is subtracted."""

    weight: Rows  # (features, D)
    bias: Floats  # (D,)
    gate: Floats  # (D,): 0 is the ReLU alone
    power: float = POWER

    @property
    def dimensions(self) -> int:
        """D."""
        return int(self.weight.shape[1])

    def pressed(self, rows: Rows) -> Vectors:
        """Return the columns before gate and power: relu(x weight + bias)."""
        activations: Vectors = np.maximum(rows @ self.weight + self.bias, 0)
        return activations

    def embed(self, rows: Rows) -> Vectors:
        """Return the embedding of every row of roots."""
        p = self.pressed(rows)
        vectors: Vectors = np.where(p > self.gate, p, np.float32(0)) ** np.float32(self.power)
        return vectors

    def gated(self, gate: Floats) -> Head:
        """Return the same head behind another gate."""
        return replace(self, gate=np.asarray(gate, dtype=np.float32))


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
    return Head(weight, np.asarray(-(basis.mean @ weight), dtype=np.float32), np.zeros(len(order), dtype=np.float32))


def joined(*heads: Head) -> Head:
    """Return their columns one after the other."""
    return Head(
        np.concatenate([head.weight for head in heads], axis=1),
        np.concatenate([head.bias for head in heads]),
        np.concatenate([head.gate for head in heads]),
        heads[0].power,
    )


def first(head: Head, count: int) -> Head:
    """Return the first `count` columns."""
    return replace(head, weight=head.weight[:, :count], bias=head.bias[:count], gate=head.gate[:count])


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


def with_names(head: Head, basis: Basis, named: Named, rows: Rows, opposites: int) -> Head:
    """Return the head with its last columns replaced by the strongest `opposites` of the names, then by the names."""
    turned = np.asarray(basis.matrix @ named.directions, dtype=np.float32)  # (features, names)
    names = np.arange(len(named.classes))
    unnamed = head.dimensions - opposites - len(names)
    if not (0 <= opposites <= len(names) and unnamed > 0):
        raise ConfigInvalid(
            f"{len(names)} names and {opposites} of their opposites leave no room in {head.dimensions} dimensions",
            fix="ask for fewer",
            field="head.names",
            value=len(names),
            limit=head.dimensions,
        )
    p = basis.coordinates(rows)
    length = np.linalg.norm(p, axis=1, keepdims=True)
    mirrored = strongest(-(p @ named.directions.astype(np.float32)), length, 2 * len(names))
    weakest_side = mirrored[mirrored < len(names)][:opposites] + len(names)  # of -p only
    return joined(first(head, unnamed), along(basis, turned, weakest_side), along(basis, turned, names))
