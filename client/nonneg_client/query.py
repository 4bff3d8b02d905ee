"""A query: an expression with the weightings of a model's dimensions that it stands for."""

from __future__ import annotations

from dataclasses import dataclass

from nonneg_client.embeddings import Embeddings
from nonneg_core.errors import DataInvalid, ExpressionInvalid
from nonneg_core.expressions.expression import Expression, Photo, Words
from nonneg_core.expressions.parse import parse
from nonneg_core.expressions.resolve import Meanings, Resolved, SparseRow, resolve
from nonneg_core.shortening import Vectors


@dataclass(frozen=True)
class Query:
    """What is looked for: the smallest of the cosines with all parts counts; none of `without` may be active."""

    expression: Expression
    resolved: Resolved
    dimensions: int
    fingerprint: str
    chance: float | None = None  # the score that few random photos reach, where the model says so

    @property
    def parts(self) -> tuple[SparseRow, ...]:
        """Indices and values of each part, of length one; what is subtracted may be below zero."""
        return self.resolved.parts

    @property
    def without(self) -> tuple[int, ...]:
        """The dimensions that must not be active in a hit."""
        return self.resolved.without


def of_dimensions(text: str, dimensions: int, fingerprint: str) -> Query:
    """Return a query in which dimensions stand by their numbers: no model is asked."""
    expression = parse(text)
    for leaf in expression.leaves():
        if isinstance(leaf, (Photo, Words)) or not leaf.name.isdecimal():
            raise ExpressionInvalid(
                f"character {leaf.at + 1} of the expression: {leaf} needs a model that knows it",
                fix="give through=Client(), or through=local() for a model in this process",
                field=f"expression[{leaf.at}]",
                value=str(leaf),
            )
    return Query(expression, resolve(expression, Meanings(dimensions, {}, {}, {})), dimensions, fingerprint)


def of_photos(expression: Expression, vectors: Embeddings) -> dict[Photo, Vectors]:
    """Return the vector of each of an expression's photos, from those of all of them in the order of the text."""
    photos = expression.photos()
    if len(vectors) != len(photos):
        raise DataInvalid(
            f"{', '.join(map(str, photos))}: {len(vectors)} images for {len(photos)} places of the expression",
            fix="name one photo, not a folder or a pattern, at each place",
        )
    return dict(zip(photos, vectors.numpy(), strict=True))
