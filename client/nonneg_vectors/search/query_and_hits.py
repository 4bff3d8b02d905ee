"""What is searched for and what a search answers: a query, and hits with their reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Doubles
from nonneg_core.errors import ConfigInvalid, DataInvalid, ExpressionInvalid
from nonneg_core.shortening import Vectors
from nonneg_vectors.expressions.expression import Expression, Photo, Words
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import Lines, Meanings, Resolved, SparseRow, Unlike, resolve
from nonneg_vectors.search.vector_engine import Payload, Where
from nonneg_vectors.storage.embeddings import Embeddings

DimensionNames: TypeAlias = Mapping[int, str]  # of dimensions


def name_of(dimension: int, names: DimensionNames) -> str:
    """Return what a dimension is called: its name, or its number where it has none."""
    return names.get(dimension) or f"dim {dimension}"


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

    @property
    def unlike(self) -> tuple[Unlike, ...]:
        """What must not be in a hit."""
        return self.resolved.unlike


class QueryReader(Protocol):
    """What embeds the photos and words of an expression: a client of a server, or a model in this process."""

    def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Read an expression as weightings of the first `dimensions`."""


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
    return Query(expression, resolve(expression, Meanings(dimensions, {}, {})), dimensions, fingerprint)


def of_photos(expression: Expression, vectors: Embeddings) -> dict[Photo, Vectors]:
    """Return the vector of each of an expression's photos, from those of all of them in the order of the text."""
    photos = expression.photos()
    if len(vectors) != len(photos):
        raise DataInvalid(
            f"{', '.join(map(str, photos))}: {len(vectors)} images for {len(photos)} places of the expression",
            fix="name one photo, not a folder or a pattern, at each place",
        )
    return dict(zip(photos, vectors.numpy(), strict=True))


# What a search answers: hits with their reasons, what keeps vectors out of it, and where its matches end.

REASONS = 5


@dataclass(frozen=True)
class Hit:
    """One answer: how near, and which dimensions made it so."""

    id: str
    score: float
    payload: Payload = field(default_factory=dict)
    reasons: tuple[tuple[int, float], ...] = ()  # (dimension, its part of the score), the largest first
    names: DimensionNames = field(default_factory=dict)  # of those of these dimensions that have one
    match: bool | None = None  # False: a random photo may score as much; None: the model's statistics are not at hand

    def reasons_text(self, most: int = REASONS) -> str:
        """Return its reasons in words: `goldfish 0.310, dim 17 0.120`."""
        return ", ".join(f"{name_of(d, self.names)} {part:.3f}" for d, part in self.reasons[:most])


class Hits(list[Hit]):
    """The hits of a search, the nearest first, and whether every vector was compared."""

    def __init__(self, hits: Iterable[Hit] = (), *, exact: bool = True) -> None:
        super().__init__(hits)
        self.exact = exact


@dataclass(frozen=True)
class HitLimits:
    """What keeps vectors out of an answer, and what an answer says."""

    where: Where | None = None
    without: Sequence[int] = ()
    exclude: Sequence[str] = ()
    exact: bool = False
    reasons: bool = True
    matches_only: bool = False


def marked(hits: Sequence[Hit], lines: Lines | None, limits: HitLimits) -> list[Hit]:
    """Return the hits with what chance says of them; without those below its line, where these are not wanted."""
    if lines is None or not hits:
        return list(hits)
    line = lines.at(hits[0].score)
    marked_hits = [replace(hit, match=hit.score >= line) for hit in hits]
    return [hit for hit in marked_hits if hit.match] if limits.matches_only else marked_hits


def check_line(line: Lines | None, limits: HitLimits) -> None:
    """Raise where matches alone are wanted and nothing says which hits they are."""
    if line is None and limits.matches_only:
        raise ConfigInvalid(
            "what random photos share among these vectors is not known, so matches cannot be told from others",
            fix="give the bundle that they were made with: --bundle FOLDER, or Index.open(..., statistics=...)",
            field="matches_only",
        )


def shown(payload: Payload) -> Payload:
    """Return a payload without the fields that are for other commands, such as `_thumbnail`."""
    return {name: value for name, value in payload.items() if not name.startswith("_")}


def reasons_of(indices: NDArray[np.int32], parts: Doubles) -> tuple[tuple[int, float], ...]:
    """Return the dimensions with the largest parts of a score; the lower dimension among equals."""
    order = np.argsort(-parts, kind="stable")[:REASONS]
    return tuple((int(indices[o]), float(parts[o])) for o in order if parts[o] > 0)
