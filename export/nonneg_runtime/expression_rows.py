"""An expression in a bundle's terms: its words by the lexicon, its dimensions by the names, its photos as given."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nonneg_core.errors import ExpressionInvalid, ParameterInvalid
from nonneg_core.expressions.expression import Expression, Leaf, Photo, Words
from nonneg_core.expressions.resolve import Meanings, Resolved, Row, resolve
from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.known_names import names_of
from nonneg_runtime.words import unwanted, vector_of


def resolved(bundle: Bundle, expression: Expression, dimensions: int, photos: Mapping[Photo, Vectors]) -> Resolved:
    """The weightings of an expression; `photos`: the vectors of its photos, of that many dimensions."""
    rows: dict[Leaf, Row] = {photo: _row(z) for photo, z in photos.items()}
    rows |= {words: _of_words(bundle, words, dimensions) for words in _wanted(expression)}
    without = {leaf: _unwanted(bundle, leaf, dimensions) for leaf in expression.without if isinstance(leaf, Words)}
    return resolve(expression, Meanings(dimensions, names_of(bundle), rows, without))


def _wanted(expression: Expression) -> set[Words]:
    return {term.leaf for part in expression.parts for term in part if isinstance(term.leaf, Words)}


def _of_words(bundle: Bundle, words: Words, dimensions: int) -> Row:
    try:
        found = _row(vector_of(bundle, words.text).vector[:dimensions])
    except ParameterInvalid as error:
        raise _placed(error, words) from None
    if not len(found[0]):
        raise ExpressionInvalid(
            f"character {words.at + 1} of the expression: nothing of {words} lies within {dimensions} dimensions",
            fix="ask vectors of the model's full length",
            field=f"expression[{words.at}]",
            value=words.text[:200],
        )
    return found


def _unwanted(bundle: Bundle, words: Words, dimensions: int) -> list[int]:
    try:
        return [dimension for dimension in unwanted(bundle, words.text) if dimension < dimensions]
    except ParameterInvalid as error:
        raise _placed(error, words) from None


def _placed(error: ParameterInvalid, words: Words) -> ParameterInvalid:
    """The error with the place of the words in the expression."""
    error.field = f"expression[{words.at}]"
    return error


def _row(z: Vectors) -> Row:
    there = np.flatnonzero(z).astype(np.int32)
    return there, np.asarray(z[there], dtype=np.float32)
