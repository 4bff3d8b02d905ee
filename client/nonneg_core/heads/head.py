"""A head as arrays: roots of features -> weight, bias -> ReLU -> gate -> power, and the analytic way to one."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from nonneg_core.heads.rotated import Basis, Matrix, check_width, strongest
from nonneg_core.heads.spread import Rows
from nonneg_core.shortening import Vectors

POWER = 0.6
Row = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Head:
    """z = p^power where p = relu(x weight + bias) is above the gate, and 0 elsewhere; nothing is subtracted."""

    weight: Matrix  # (features, D)
    bias: Row  # (D,)
    gate: Row  # (D,): 0 is the ReLU alone
    power: float = POWER

    @property
    def dimensions(self) -> int:
        """D."""
        return int(self.weight.shape[1])

    def pressed(self, rows: Rows) -> Vectors:
        """Return the columns before gate and power: relu(x weight + bias)."""
        found: Vectors = np.maximum(rows @ self.weight + self.bias, 0)
        return found

    def embed(self, rows: Rows) -> Vectors:
        """Return the embedding of every row of roots."""
        p = self.pressed(rows)
        found: Vectors = np.where(p > self.gate, p, np.float32(0)) ** np.float32(self.power)
        return found

    def gated(self, gate: Row) -> Head:
        """Return the same head behind another gate."""
        return replace(self, gate=np.asarray(gate, dtype=np.float32))


def roots(pooled: Rows) -> Rows:
    """Return square roots of pooled features, which are >= 0: their cosines retrieve better."""
    found: Rows = np.sqrt(np.maximum(pooled, 0))
    return found


def analytic(basis: Basis, rows: Rows, dimensions: int) -> Head:
    """Return the strongest `dimensions` of the columns p and -p."""
    check_width(dimensions, basis.matrix.shape[1])
    p = basis.coordinates(rows)
    order = strongest(p, np.linalg.norm(p, axis=1, keepdims=True), dimensions)
    return along(basis, basis.matrix, order)


def along(basis: Basis, directions: Matrix, order: NDArray[np.int64]) -> Head:
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
