"""What is searched for: an expression over the folder's photos, its conditions, and its terms beyond a length."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.errors import ExpressionInvalid, NonnegError, ParameterInvalid
from nonneg_core.shortening import Vectors, shorten, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import names_of
from nonneg_runtime.words.text_vector import resolved
from nonneg_server.models.explanation import queried
from nonneg_vectors.expressions.expression import Dimension, Expression, Leaf, Photo, Term, Words, dimension_of
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import Resolved, SparseRow

NeedsOf = Callable[[Leaf], int | None]  # the least length at which a leaf says something; None: at none


class LeftOut(NamedTuple):
    """A leaf that a length leaves out, and the least length at which it counts; None where no length is known."""

    leaf: Leaf
    needs: int | None


@dataclass(frozen=True)
class Fitting:
    """What of an expression can be asked for at a length; `expression` is None where that is nothing."""

    expression: Expression | None
    left_out: tuple[LeftOut, ...]


def fitting(expression: Expression, dimensions: int, needs_of: NeedsOf) -> Fitting:
    """Leave out the terms that lie beyond a length, and the parts of which only what is subtracted would be left."""
    parts, left_out = [], []
    for part in expression.parts:
        needs = [needs_of(term.leaf) for term in part]
        within = [need is not None and need <= dimensions for need in needs]
        terms = tuple(term for term, there in zip(part, within, strict=True) if there)
        if _asks(terms) or terms == part:
            parts.append(terms)
            left_out += [LeftOut(t.leaf, n) for t, n, there in zip(part, needs, within, strict=True) if not there]
        else:
            left_out += [LeftOut(term.leaf, need) for term, need in zip(part, _counting(part, needs), strict=True)]
    return Fitting(Expression(tuple(parts)) if parts else None, tuple(dict.fromkeys(left_out)))


def _counting(part: Sequence[Term], needs: Sequence[int | None]) -> list[int | None]:
    """Return from which length on each term counts in a part that is left out: not before one that is looked for."""
    first = min((need for term, need in zip(part, needs, strict=True) if term.weight > 0 and need), default=None)
    return [None if need is None or first is None else max(need, first) for need in needs]


def _asks(part: Sequence[Term]) -> bool:
    return any(term.weight > 0 for term in part)


# What is searched for: an expression over the folder's photos, and dimensions that must be active.

NOTHING: tuple[SparseRow, ...] = ((np.zeros(0, np.int32), np.zeros(0, np.float32)),)
NamesByDimension = Mapping[int, str]


@dataclass(frozen=True, eq=False)
class PhotoQuery:
    """An expression with its photos' vectors, which can be asked at any length."""

    bundle: Bundle
    width: int  # of the vectors that are stored: D, or fewer of the model's dimensions
    expression: Expression | None  # None: all that has `only`
    photos: Mapping[Photo, Vectors]  # (width,), not shortened
    only: Sequence[int] = ()
    words: Mapping[Words, Vectors] = field(default_factory=dict)  # the same, of what a text tower embedded

    def resolved(self, dimensions: int, top_k: int | None) -> Resolved:
        """Return the weightings at a length: photos are cut as what is stored is."""
        return self.at(dimensions, top_k)[0]

    def at(self, dimensions: int, top_k: int | None) -> tuple[Resolved, tuple[LeftOut, ...]]:
        """Return the weightings at a length, and what the length leaves out of the query."""
        if self.expression is None:
            indices = np.array([j for j in sorted(self.only) if j < dimensions], np.int32)
            beyond = tuple(LeftOut(Dimension(str(j)), j + 1) for j in self.only if j >= dimensions)
            return Resolved(((indices, unit(np.ones(len(indices), np.float32))),)), beyond
        fit = fitting(self.expression, dimensions, self._needs)
        parts, left_out = NOTHING, fit.left_out
        if fit.expression is not None:
            try:
                parts = self._parts(fit.expression, dimensions, top_k)
            except ExpressionInvalid:
                self._check_whole()
                left_out += tuple(LeftOut(leaf, None) for leaf in fit.expression.leaves())
        unknown = tuple(LeftOut(Dimension(str(j)), None) for j in self.without if j >= self.width)
        return Resolved(parts, tuple(j for j in self.without if j < self.width)), left_out + unknown

    def _check_whole(self) -> None:
        """Raise ExpressionInvalid where nothing would be left to look for at the whole length either."""
        assert self.expression is not None
        whole = fitting(self.expression, self.width, self._needs).expression
        if whole is not None:
            self._parts(whole, self.width, None)

    def _parts(self, expression: Expression, dimensions: int, top_k: int | None) -> tuple[SparseRow, ...]:
        cut = {photo: shorten(z, dimensions, top_k) for photo, z in self.photos.items()}
        texts = {words: shorten(z, dimensions) for words, z in self.words.items()}
        return queried(self.bundle, expression, dimensions, {**cut, **texts}).resolved.parts

    def _needs(self, leaf: Leaf) -> int | None:
        """Return the least length at which a leaf says something; None for a vector of zeros."""
        if isinstance(leaf, Dimension):
            return dimension_of(leaf, names_of(self.bundle), self.bundle.manifest.dimensions) + 1
        z = self.photos[leaf] if isinstance(leaf, Photo) else self._said(leaf)
        active = np.flatnonzero(z)
        return int(active[0]) + 1 if len(active) else None

    def _said(self, words: Words) -> Vectors:
        """Return the whole vector of words; a word that is not known is told where it stands."""
        if words in self.words:
            return self.words[words]
        width = self.bundle.manifest.dimensions
        ((indices, values),) = resolved(self.bundle, Expression(((Term(1, words),),)), width, {}).parts
        vector = np.zeros(width, np.float32)
        vector[indices] = values
        return vector

    @cached_property
    def without(self) -> tuple[int, ...]:
        """What must not be active, at whatever length is asked: the stored vectors are whole."""
        if self.expression is None or not self.expression.without:
            return ()
        alone = Expression((), self.expression.without)
        return resolved(self.bundle, alone, self.bundle.manifest.dimensions, {}).without


def read_query(
    bundle: Bundle,
    width: int,
    text: str | None,
    only: Sequence[int],
    vector_of: Callable[[str], Vectors],
    words: Mapping[Words, Vectors],
) -> PhotoQuery:
    """Read the query in a text; `vector_of` knows the photos that it may name, `words` are embedded texts.

    width: how many dimensions the stored vectors have.
    """
    check_there(only, width, "only")
    if text is None or not text.strip():
        if not only:
            raise ParameterInvalid(
                "nothing is searched for", fix="give expression=photo.jpg, or only=17", field="expression"
            )
        return PhotoQuery(bundle, width, None, {}, only)
    expression = parse(text)
    photos = {photo: _vector(photo, vector_of) for photo in expression.photos()}
    return PhotoQuery(bundle, width, expression, photos, only, words)


def as_json(query: PhotoQuery, names: NamesByDimension) -> dict[str, Any] | None:
    """Return the expression in its parts, so that a page can change one of them."""
    expression = query.expression
    if expression is None:
        return None
    width = query.bundle.manifest.dimensions
    return {
        "text": str(expression),
        "parts": [
            [{"weight": term.weight, **_leaf(term.leaf, names, width)} for term in part] for part in expression.parts
        ],
        "without": [_leaf(leaf, names, width) for leaf in expression.without],
    }


def left_out_as_json(left_out: Sequence[LeftOut], query: PhotoQuery, names: NamesByDimension) -> list[dict[str, Any]]:
    """Return what a length leaves out, each with the least length at which it counts."""
    width = query.bundle.manifest.dimensions
    return [{**_leaf(leaf, names, width), "needs": needs} for leaf, needs in left_out]


def check_there(dimensions: Sequence[int], width: int, field: str) -> None:
    """Raise ParameterInvalid for a dimension that the stored vectors do not have."""
    for j in dimensions:
        if not 0 <= j < width:
            raise ParameterInvalid(
                f"dimension {j} is not one of the {width} that are searched",
                fix=f"ask for 0 to {width - 1}",
                field=field,
                value=j,
                limit=width - 1,
            )


def _vector(photo: Photo, vector_of: Callable[[str], Vectors]) -> Vectors:
    try:
        return vector_of(photo.name)
    except NonnegError as error:
        raise ExpressionInvalid(
            f"character {photo.at + 1} of the expression: {error.message}",
            fix=error.fix,
            field=f"expression[{photo.at}]",
            value=photo.name[:200],
        ) from None


def _leaf(leaf: Leaf, names: NamesByDimension, width: int) -> dict[str, Any]:
    if isinstance(leaf, Dimension):
        j = dimension_of(leaf, names, width)
        return {"kind": "dimension", "text": str(leaf), "dimension": j, "name": names.get(j)}
    kind, name = ("words", leaf.text) if isinstance(leaf, Words) else ("photo", leaf.name)
    return {"kind": kind, "text": str(leaf), "dimension": None, "name": name}
