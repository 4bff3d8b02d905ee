"""What is typed as queries: images, which are embedded together, and expressions; and the hits of each."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg_client.sources.image_sources import Item, items
from nonneg_core.files.image_files import identity
from nonneg_vectors.expressions.expression import Dimension, Expression, Photo
from nonneg_vectors.expressions.expression_parser import parse

if TYPE_CHECKING:
    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_client.embedder import Embedder
    from nonneg_client.model_of_vectors import Index
    from nonneg_vectors.search.query_and_hits import Hit


@dataclass(frozen=True)
class SearchOptions:
    """What every query asks for."""

    k: int
    where: dict[str, Any]
    without: tuple[int, ...]
    exclude_self: bool
    exact: bool
    matches_only: bool


def hits_of(
    index: Index, queries: Sequence[str], options: SearchOptions, through: EmbedderOptions, model: str | None
) -> dict[str, list[Hit]]:
    """Return the hits of every query, in their order; a folder or a pattern is several."""
    read = {query: _expression(query) for query in queries}
    images = {query: list(items(query)) for query, expression in read.items() if expression is None}
    with ExitStack() as stack:
        needed = any(expression is None or _needs_a_model(expression) for expression in read.values())
        embedder: Embedder | None = None
        if needed:
            embedder, model = through.for_index(index.description, model)
            stack.enter_context(embedder)
        by_image = _by_images(index, list(chain(*images.values())), options, embedder, model) if images else {}
        answers: dict[str, list[Hit]] = {}
        for query, expression in read.items():
            if expression is None:
                answers |= {item.id: by_image[item.id] for item in images[query]}
            else:
                answers[query] = _by_expression(index, query, expression, options, embedder, model)
    return answers


def _expression(query: str) -> Expression | None:
    """Return what a query says, or nothing where it is images: a file or folder that is there, a URL, or a pattern."""
    if os.path.exists(query) or (glob.has_magic(query) and glob.glob(query, recursive=True)):  # noqa: PTH110, PTH207
        return None
    expression = parse(query)
    return expression if list(expression.leaves()) != [Photo(query)] else None


def _needs_a_model(expression: Expression) -> bool:
    return not all(isinstance(leaf, Dimension) and leaf.name.isdecimal() for leaf in expression.leaves())


def _by_images(
    index: Index, sources: Sequence[Item], options: SearchOptions, embedder: Embedder | None, model: str | None
) -> dict[str, list[Hit]]:
    """Return the hits of each photo, looked for at the index's length; all photos are embedded together."""
    assert embedder is not None
    vectors = embedder.embed(sources, model=model or index.description.pinned)
    if vectors.fingerprint == index.description.fingerprint:  # else it is refused as another model's
        vectors = vectors.shorten(index.description.dimensions)
    return {
        item.id: index.search(
            vectors[number],
            options.k,
            where=options.where,
            without=options.without,
            exclude=_own(index, [item]) if options.exclude_self else (),
            exact=options.exact,
            matches_only=options.matches_only,
        )
        for number, item in enumerate(sources)
    }


def _by_expression(
    index: Index,
    query: str,
    expression: Expression,
    options: SearchOptions,
    embedder: Embedder | None,
    model: str | None,
) -> list[Hit]:
    names = [photo.name for photo in expression.photos()] if options.exclude_self else []
    return index.search(
        index.read(query, embedder, model=model),
        options.k,
        where=options.where,
        without=options.without,
        exclude=_own(index, items(names)),
        exact=options.exact,
        matches_only=options.matches_only,
    )


def _own(index: Index, photos: Iterable[Item]) -> list[str]:
    """Return the ids that these photos have, or would have, in the index."""
    own = []
    for item in photos:
        if item.path is None:
            own.append(item.id)
        else:
            place = Path(os.path.realpath(item.path.parent)) / item.path.name
            own.append(identity(place, Path(index.description.root)))
    return own
