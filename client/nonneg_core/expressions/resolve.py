"""From an expression and the vectors of its photos and words to weightings of dimensions, and what must not be there.

A part is the sum of its terms' vectors, each of length one times its weight, and itself of length one again: its inner
product with a stored vector of length one is a cosine. What is subtracted may leave weights below zero.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ExpressionInvalid
from nonneg_core.expressions.expression import Dimension, Expression, Leaf, Term, Words
from nonneg_core.expressions.names import dimension_of
from nonneg_core.shortening import unit

SparseRow: TypeAlias = tuple[NDArray[np.int32], NDArray[np.float32]]  # indices, sorted and unique, and their values


@dataclass(frozen=True)
class Resolved:
    """What is looked for: the smallest of the cosines with all parts counts; none of `without` may be active."""

    parts: tuple[SparseRow, ...]
    without: tuple[int, ...] = ()


@dataclass(frozen=True)
class Meanings:
    """What the leaves of an expression stand for."""

    dimensions: int
    names: Mapping[int, str]
    vectors: Mapping[Leaf, SparseRow]
    unwanted: Mapping[Words, Sequence[int]]  # dimensions that must not be active where these words are unwanted


def resolve(expression: Expression, meanings: Meanings) -> Resolved:
    """Return an expression's weightings of dimensions; raise where one does not exist or nothing is left of a part."""
    parts = tuple(_summed(part, meanings) for part in expression.parts)
    without = {dimension for leaf in expression.without for dimension in _unwanted(leaf, meanings)}
    return Resolved(parts, tuple(sorted(without)))


def _summed(part: Sequence[Term], meanings: Meanings) -> SparseRow:
    total = np.zeros(meanings.dimensions, dtype=np.float32)
    for term in part:
        indices, values = _row(term.leaf, meanings)
        total[indices] += term.weight * unit(values)
    if not (total > 0).any():
        raise ExpressionInvalid(
            f"character {part[0].leaf.at + 1} of the expression: nothing is left of this sum to look for",
            fix="subtract less", field=f"expression[{part[0].leaf.at}]", value=str(part[0].leaf),
        )  # fmt: skip
    left = np.flatnonzero(total).astype(np.int32)
    return left, unit(total[left])


def _row(leaf: Leaf, meanings: Meanings) -> SparseRow:
    if isinstance(leaf, Dimension):
        number = dimension_of(leaf, meanings.names, meanings.dimensions)
        return np.array([number], dtype=np.int32), np.ones(1, dtype=np.float32)
    return meanings.vectors[leaf]


def _unwanted(leaf: Leaf, meanings: Meanings) -> Sequence[int]:
    if isinstance(leaf, Dimension):
        return [dimension_of(leaf, meanings.names, meanings.dimensions)]
    assert isinstance(leaf, Words)  # the parser lets no photo through
    return meanings.unwanted[leaf]
