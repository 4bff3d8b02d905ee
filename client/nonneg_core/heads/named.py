"""Columns that have a name: the directions of a classifier's classes, as an orthonormal basis.

A class's logit is linear in the pooled features f, so near the mean it is linear in their roots x: its gradient there
is w_c * 2 sqrt(mean f). In the coordinates p of the head these directions are neither orthogonal nor equally long; the
nearest orthonormal matrix keeps what they point at and shares out what they have in common.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid
from nonneg_core.heads.head import Head, along, first, joined
from nonneg_core.heads.rotated import Basis, polar, strongest
from nonneg_core.heads.spread import Doubles, Rows


@dataclass(frozen=True, eq=False)
class Named:
    """Orthonormal directions in a basis, and which classes they are."""

    classes: NDArray[np.int64]  # (names,) rows of the classifier, ascending
    directions: Doubles  # (components, names)
    faithfulness: Doubles  # (names,) cosine of each direction with its class's own


def class_directions(basis: Basis, classifier: NDArray[Any], pooled_mean: NDArray[Any]) -> Doubles:
    """Return each class's unit vector u with p . u = its logit's change, (components, classes)."""
    gradients = classifier * (2 * np.sqrt(np.maximum(pooled_mean, 0)))  # (classes, features): d logit / d root
    found = np.linalg.lstsq(basis.matrix.astype(np.float64), gradients.T.astype(np.float64), rcond=None)[0]
    return np.asarray(found / np.maximum(np.linalg.norm(found, axis=0), 1e-12), dtype=np.float64)


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
