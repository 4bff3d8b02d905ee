"""An expression in a bundle's terms: its words by the model, its dimensions by the names, its photos as given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from nonneg_core.errors import ExpressionInvalid, ParameterInvalid
from nonneg_core.expressions.expression import Expression, Leaf, Words
from nonneg_core.expressions.resolve import Meanings, Resolved, SparseRow, resolve
from nonneg_core.shortening import Vectors
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.words.known_names import names_of
from nonneg_runtime.words.text_vector import unwanted, vector_of

Given = Mapping[Any, Vectors]  # of `Photo` and `Words`


def resolved(bundle: Bundle, expression: Expression, dimensions: int, given: Given) -> Resolved:
    """Weigh an expression's parts; `given`: vectors of that many dimensions, of its photos, perhaps its words."""
    rows: dict[Leaf, SparseRow] = {leaf: _row(z) for leaf, z in given.items()}
    for words in expression.searched():
        rows[words] = _within(words, rows.get(words) or _of_words(bundle, words, dimensions), dimensions)
    without = {leaf: _unwanted(bundle, leaf, dimensions) for leaf in expression.without if isinstance(leaf, Words)}
    return resolve(expression, Meanings(dimensions, names_of(bundle), rows, without))


def _of_words(bundle: Bundle, words: Words, dimensions: int) -> SparseRow:
    try:
        return _row(vector_of(bundle, words.text).vector[:dimensions])
    except ParameterInvalid as error:
        raise _placed(error, words) from None


def _within(words: Words, found: SparseRow, dimensions: int) -> SparseRow:
    """Return what words stand for, some of which must lie within the dimensions."""
    if not len(found[0]):
        raise ExpressionInvalid(
            f"character {words.at + 1} of the expression: nothing of {words} lies within {dimensions} dimensions",
            fix="ask vectors of the model's full length",
            field=f"expression[{words.at}]",
            value=words.text[:200],
        )
    return found


def _unwanted(bundle: Bundle, words: Words, dimensions: int) -> list[int]:
    """Return the dimensions that must not be active, all of which must lie within the length."""
    try:
        found = unwanted(bundle, words.text)
    except ParameterInvalid as error:
        raise _placed(error, words) from None
    beyond = sum(dimension >= dimensions for dimension in found)
    if beyond:
        raise ExpressionInvalid(
            f"character {words.at + 1} of the expression: {beyond} of the {len(found)} dimensions that stand for "
            f"{words} lie beyond {dimensions} dimensions: !{words} cannot be told there",
            fix=f"take vectors of at least {max(found) + 1} dimensions",
            field=f"expression[{words.at}]",
            value=words.text[:200],
            limit=dimensions,
        )
    return found


def _placed(error: ParameterInvalid, words: Words) -> ParameterInvalid:
    """Return the error with the place of the words in the expression."""
    error.field = f"expression[{words.at}]"
    return error


def _row(z: Vectors) -> SparseRow:
    there = np.flatnonzero(z).astype(np.int32)
    return there, np.asarray(z[there], dtype=np.float32)
