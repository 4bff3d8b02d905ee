"""From an expression and vectors to weightings of dimensions, and the score below which a hit of these may be chance.

A part is the sum of its terms' vectors, each of length one times its weight, and itself of length one again. Its inner
product with a stored vector of length one is a cosine. What is subtracted may leave weights below zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles, Floats
from nonneg_core.errors import ExpressionInvalid
from nonneg_core.shortening import Vectors, shorten, unit
from nonneg_vectors.expressions.expression import Dimension, Expression, Leaf, Term, dimension_of

SparseRow: TypeAlias = tuple[NDArray[np.int32], Floats]  # indices, sorted and unique, and their values


@dataclass(frozen=True)
class Unlike:
    """What must not be there: no hit has this cosine, or a larger one, with these weights."""

    row: SparseRow
    line: float


@dataclass(frozen=True)
class Resolved:
    """What is looked for: the smallest of the cosines with all parts counts; none of `without` may be active."""

    parts: tuple[SparseRow, ...]
    without: tuple[int, ...] = ()
    unlike: tuple[Unlike, ...] = ()


@dataclass(frozen=True)
class Meanings:
    """What the leaves of an expression stand for."""

    dimensions: int
    names: Mapping[int, str]
    vectors: Mapping[Leaf, SparseRow]
    chance: "Chance | None" = None  # of the vectors; words cannot be left out without it


def resolve(expression: Expression, meanings: Meanings) -> Resolved:
    """Return an expression's weightings of dimensions; raise where one does not exist or nothing is left of a part.

    Where nothing is looked for, what all photos have in common is.
    """
    parts = tuple(_summed(part, meanings) for part in expression.parts)
    if not parts and meanings.chance is not None:
        parts = (as_row(unit(meanings.chance.mean.astype(np.float32))),)
    numbers = {_number(leaf, meanings) for leaf in expression.without if isinstance(leaf, Dimension)}
    rows = [unit_row(meanings.vectors[leaf]) for leaf in expression.without if not isinstance(leaf, Dimension)]
    assert meanings.chance is not None or not rows
    unlike = tuple(Unlike(row, meanings.chance.of_words(row)) for row in rows) if meanings.chance else ()
    return Resolved(parts, tuple(sorted(numbers)), unlike)


def as_row(z: Vectors) -> SparseRow:
    """Return a vector's entries other than zero."""
    there = np.flatnonzero(z).astype(np.int32)
    return there, np.asarray(z[there], dtype=np.float32)


def unit_row(row: SparseRow) -> SparseRow:
    """Return the same at a length of one."""
    return row[0], unit(row[1])


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
        return np.array([_number(leaf, meanings)], dtype=np.int32), np.ones(1, dtype=np.float32)
    return meanings.vectors[leaf]


def _number(leaf: Dimension, meanings: Meanings) -> int:
    return dimension_of(leaf, meanings.names, meanings.dimensions)


# What a random photo shares with a query: the score below which a hit may be chance.
#
# A score is a sum over dimensions, weight times value. With ordinary photos its mean is the sum of weight times each
# dimension's mean over them. Its spread follows from the dimensions' variances, taken as independent; since a
# vector's length is one, what it has along the mean of all photos cannot vary, and does not count (the derivative of
# a cosine). The line lies some deviations above that mean, the fewer the more of a vector's length all photos have in
# common. So a query of frequent dimensions, which many photos share by chance, has a higher line than a query of rare
# ones.

TEXT = 6.0  # deviations, of a query of words alone
LEVELS = {128: 3.5, 512: 4.25, 1024: 5.5, 2048: 6.5}  # by dimensions: what a sentence's best photo reaches
HEAVY = 7.0  # more, times the text's largest weight: one column varies more than a sum; benchmarks/sentences.py
DEVIATIONS = 7.5  # benchmarks/matches.py says what this loses and lets through
NAMED = 9.0  # of a column along a class: photos above it show the class; benchmarks/names_shown.py
MORE = 2.0  # of a dimension without a name: photos above it have clearly more of it than ordinary ones
HIGHEST = 0.99  # of all lines: a copy is a match at any length
DRAWN = 256  # vectors that say what `top_k` leaves


class Lines(NamedTuple):
    """The score that the best hit must reach for any to match, and the score from which the others then match."""

    best: float
    others: float

    def at(self, best: float) -> float:
        """Return from which score on hits match where the best one has this score."""
        return self.others if best >= self.best else self.best


@dataclass(frozen=True, eq=False)
class Chance:
    """Mean and variance of every dimension over ordinary photos, whose vectors have length one."""

    mean: Doubles  # (k,)
    variance: Doubles  # (k,)
    of_sentences: bool = False  # the model's texts come from a map of sentences, for which `LEVELS` were measured
    levels: Doubles | None = None  # (k,) deviations from which on a photo shows what a dimension is called, or NaN
    of_cut: Doubles | None = None  # (k,) the lines where `top_k` cuts: small values are gone, the others are longer

    @cached_property
    def deviations(self) -> Doubles:
        """The standard deviation of each dimension by itself over unit vectors, (k,)."""
        squares = self.mean**2
        spread = (1 - 2 * squares) * self.variance + squares * float(squares @ self.variance)
        return np.sqrt(max(0.0, 1 - float(squares.sum())) * spread)

    @cached_property
    def lines(self) -> Doubles:
        """From which value on a photo shows each dimension, (k,)."""
        if self.of_cut is not None:
            return self.of_cut
        levels = np.full(len(self.mean), np.nan) if self.levels is None else self.levels
        return self.mean + np.where(np.isnan(levels), MORE, levels) * self.deviations

    def shown(self, names: Mapping[int, str], indices: Iterable[int], values: Iterable[float]) -> dict[int, str]:
        """Return the names that hold for a photo with these values; a name without a level always does."""
        return {
            j: names[j]
            for j, value in zip(indices, values, strict=True)
            if j in names and (self.levels is None or np.isnan(self.levels[j]) or value >= self.lines[j])
        }

    def line(self, parts: Sequence[SparseRow], deviations: float = DEVIATIONS) -> float:
        """Return the score that few random photos reach with a query of these parts.

        Of several parts the worst counts: what is rare for one of them is rare for all, so the lowest line holds.
        """
        return min(self._of(indices, values, deviations) for indices, values in parts)

    def of_words(self, row: SparseRow) -> float:
        """Return the line of a text's vector: texts share less with photos than photos do."""
        return self._of(*row, TEXT)

    def of_query(self, expression: Expression, parts: Sequence[SparseRow]) -> Lines:
        """Return the lines of an expression with these parts; zero where nothing is looked for."""
        if not expression.parts:
            return Lines(0.0, 0.0)
        line = self.line(parts, TEXT if expression.only_words else DEVIATIONS)
        if not (expression.only_words and self.of_sentences):
            return Lines(line, line)
        level = np.interp(np.log2(len(self.mean)), np.log2(list(LEVELS)), list(LEVELS.values()))
        best = min(self._of(*row, float(level) + HEAVY * float(row[1].max())) for row in parts)
        return Lines(best, min(best, line))

    def _of(self, indices: NDArray[np.int32], values: Vectors, deviations: float) -> float:
        weights = np.zeros(len(self.mean))
        weights[indices] = values
        usual = float(weights @ self.mean)
        weights -= usual * self.mean
        own = max(0.0, 1 - float(self.mean @ self.mean))  # of the squared length, what photos have not in common
        spread = float(np.sqrt(own * (weights**2 @ self.variance)))
        return min(HIGHEST, usual + deviations * spread)


@dataclass(frozen=True, eq=False)
class ColumnStatistics:
    """What a manifest says of every column, over photos whose vectors have length one."""

    mean: Doubles  # (D,)
    variance: Doubles  # (D,)
    frequency: Doubles  # (D,): the share of photos in which it is above zero
    of_sentences: bool = False  # the model's texts come from a map of sentences
    levels: Doubles | None = None  # (D,): see `Chance`
    of_cut: Doubles | None = None  # (k,) the lines where `top_k` cuts vectors: small values are gone, the others longer

    def at(self, dimensions: int, top_k: int | None = None) -> Chance:
        """Return the same of vectors that are shortened so, and have length one again."""
        mean, variance = self.mean[:dimensions], self.variance[:dimensions]
        left = float((mean**2 + variance).sum()) or 1.0  # of the squared length, on average
        levels = None if self.levels is None else self.levels[:dimensions]
        chance = Chance(mean / left**0.5, variance / left, self.of_sentences, levels)
        if top_k is None or top_k >= dimensions:
            return chance
        whole, cut = (shorten(self._drawn, dimensions, m).astype(np.float64) for m in (None, top_k))
        change = [_ratio((cut**n).mean(axis=0), (whole**n).mean(axis=0)) for n in (1, 2)]
        longer = float(_ratio(cut.max(axis=1), whole.max(axis=1)).mean())
        mean, variance = chance.mean * change[0], chance.variance * change[1]
        return replace(chance, mean=mean, variance=variance, of_cut=chance.lines * longer)

    @cached_property
    def _drawn(self) -> Vectors:
        """Vectors whose columns are active as often and as strong, each drawn from a gamma distribution by itself."""
        often = np.maximum(self.frequency, 1e-9)
        active = np.maximum(self.mean / often, 1e-9)
        spread = np.maximum((self.variance + self.mean**2) / often - active**2, 1e-4 * active**2)
        rng = np.random.default_rng(0)
        z = rng.gamma(active**2 / spread, spread / active, (DRAWN, len(often)))
        return np.where(rng.random(z.shape) < self.frequency, z, 0).astype(np.float32)


def _ratio(after: Doubles, before: Doubles) -> Doubles:
    return np.divide(after, before, out=np.ones_like(after), where=before > 0)
