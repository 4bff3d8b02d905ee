"""What is searched for, and its answer: hits with their reasons, where chance begins, what a length loses, facets."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ExpressionInvalid, NonnegError, ParameterInvalid
from nonneg_core.shortening import Vectors, shorten, unit
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.text_vector import vector_of_words
from nonneg_server.studio.folder import IndexedFolder
from nonneg_server.studio.folder_answers import Cards, bars
from nonneg_vectors.expressions.expression import Dimension, Expression, Leaf, Photo, Term, Words, dimension_of
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import Chance, Meanings, Resolved, SparseRow, as_row, resolve
from nonneg_vectors.search.columns import Columns, Matches


class LeftOut(NamedTuple):
    """A leaf that a length leaves out, and the least length at which it counts; None where no length is known."""

    leaf: Leaf
    needs: int | None


NOTHING: tuple[SparseRow, ...] = ((np.zeros(0, np.int32), np.zeros(0, np.float32)),)
NOT_ASKED = Resolved(())
ONE_DIMENSION = parse("dim:0")  # what has `only` alone has the line of dimensions


@dataclass(frozen=True, eq=False)
class PhotoQuery:
    """An expression whose photos and words are vectors, which can be cut to any length; and further conditions."""

    bundle: Bundle
    width: int  # of the vectors that are stored: D, or fewer of the model's dimensions
    expression: Expression | None  # None: all that has `only`
    vectors: Mapping[Leaf, Vectors] = field(default_factory=dict)  # of its photos and words, not shortened
    names: Mapping[int, str] = field(default_factory=dict)  # of dimensions
    without: Resolved = NOT_ASKED  # what must not be there, at whatever length is searched
    beyond: Sequence[Leaf] = ()  # unwanted dimensions that the stored vectors do not have
    only: Sequence[int] = ()  # dimensions that must be
    excluded: Sequence[int] = ()  # rows that are left out of the hits: those of its photos, and by conditions

    def at(self, dimensions: int, top_k: int | None) -> tuple[Resolved, tuple[LeftOut, ...]]:
        """Return the weightings at a length, photos cut as what is stored is, and what the length leaves out."""
        if self.expression is None:
            indices = np.array([j for j in sorted(self.only) if j < dimensions], np.int32)
            beyond = tuple(LeftOut(Dimension(str(j)), j + 1) for j in self.only if j >= dimensions)
            return Resolved(((indices, unit(np.ones(len(indices), np.float32))),)), beyond
        expression, left_out = self._within(dimensions)
        parts = NOTHING
        if expression.parts or not self.expression.parts:
            try:
                parts = self._parts(expression, dimensions, top_k)
            except ExpressionInvalid:  # raised again where nothing is left to look for at the whole length either
                self._parts(self._within(self.width)[0], self.width, None)
                left_out += tuple(LeftOut(leaf, None) for leaf in expression.leaves())
        return replace(self.without, parts=parts), left_out + tuple(LeftOut(leaf, None) for leaf in self.beyond)

    def _within(self, dimensions: int) -> tuple[Expression, tuple[LeftOut, ...]]:
        """Leave out the terms beyond a length, and the parts of which only what is subtracted would be left."""
        assert self.expression is not None
        parts, left_out = [], list[LeftOut]()
        for part in self.expression.parts:
            needs = [self._needs(term.leaf) for term in part]
            terms = tuple(t for t, need in zip(part, needs, strict=True) if need is not None and need <= dimensions)
            if any(term.weight > 0 for term in terms):
                parts.append(terms)
            else:
                needs, terms = _counting(part, needs), ()
            left_out += [LeftOut(t.leaf, need) for t, need in zip(part, needs, strict=True) if t not in terms]
        return Expression(tuple(parts)), tuple(dict.fromkeys(left_out))

    def _parts(self, expression: Expression, dimensions: int, top_k: int | None) -> tuple[SparseRow, ...]:
        rows = {
            leaf: as_row(shorten(z, dimensions, top_k if isinstance(leaf, Photo) else None))
            for leaf, z in self.vectors.items()
        }
        return resolve(expression, meanings(self.bundle, dimensions, rows, self.names)).parts

    def _needs(self, leaf: Leaf) -> int | None:
        """Return the least length at which a leaf says something; None for a vector of zeros."""
        if isinstance(leaf, Dimension):
            return dimension_of(leaf, self.names, self.bundle.manifest.dimensions) + 1
        active = np.flatnonzero(self.vectors[leaf])
        return int(active[0]) + 1 if len(active) else None

    def as_json(self, names: Mapping[int, str]) -> dict[str, Any] | None:
        """Return the expression in its parts, so that a page can change one of them."""
        if self.expression is None:
            return None
        parts = self.expression.parts
        return {
            "text": str(self.expression),
            "parts": [[{"weight": term.weight, **self.leaf(term.leaf, names)} for term in part] for part in parts],
            "without": [self.leaf(leaf, names) for leaf in self.expression.without],
        }

    def leaf(self, leaf: Leaf, names: Mapping[int, str]) -> dict[str, Any]:
        """Return one of the expression's leaves for the page."""
        if isinstance(leaf, Dimension):
            j = dimension_of(leaf, names, self.bundle.manifest.dimensions)
            return {"kind": "dimension", "text": str(leaf), "dimension": j, "name": names.get(j)}
        kind, name = ("words", leaf.text) if isinstance(leaf, Words) else ("photo", leaf.name)
        return {"kind": kind, "text": str(leaf), "dimension": None, "name": name}


def _counting(part: Sequence[Term], needs: Sequence[int | None]) -> list[int | None]:
    """Return from which length on each term counts in a part that is left out: not before one that is looked for."""
    first = min((need for term, need in zip(part, needs, strict=True) if term.weight > 0 and need), default=None)
    return [None if need is None or first is None else max(need, first) for need in needs]


def photo_query(
    bundle: Bundle,
    folder: IndexedFolder,
    expression: Expression | None,
    only: Sequence[int],
    vector_of: Callable[[str], Vectors],
    texts: Mapping[Words, Vectors],
    names: Mapping[int, str],
    excluded: Sequence[int] = (),
) -> PhotoQuery:
    """Look up what an expression names; `vector_of` knows photos, `texts` are the words that a text tower embedded.

    names: of dimensions. excluded: rows that are left out.
    """
    width = folder.dimensions
    for j in only:
        if not 0 <= j < width:
            raise ParameterInvalid(
                f"dimension {j} is not one of the {width} that are searched",
                fix=f"ask for 0 to {width - 1}",
                field="only",
                value=j,
                limit=width - 1,
            )
    if expression is None:
        if not only:
            raise ParameterInvalid(
                "nothing is searched for", fix="give expression=photo.jpg, or only=17", field="expression"
            )
        return PhotoQuery(bundle, width, None, names=names, only=only, excluded=excluded)
    vectors: dict[Leaf, Vectors] = {photo: _vector(photo, vector_of) for photo in expression.photos()}
    vectors |= {
        words: texts[words] if words in texts else vector_of_words(bundle, words) for words in expression.words()
    }
    dimensions = bundle.manifest.dimensions
    numbers = {
        leaf: dimension_of(leaf, names, dimensions) for leaf in expression.without if isinstance(leaf, Dimension)
    }
    beyond = [leaf for leaf, number in numbers.items() if number >= width]
    alone = Expression((), tuple(leaf for leaf in expression.without if leaf not in beyond))
    rows = {leaf: as_row(shorten(z, width)) for leaf, z in vectors.items()}
    without = resolve(alone, meanings(bundle, width, rows, names))
    itself = [folder.by_name[photo.name] for photo in expression.photos() if photo.name in folder.by_name]
    return PhotoQuery(bundle, width, expression, vectors, names, without, beyond, only, [*itself, *excluded])


def meanings(bundle: Bundle, dimensions: int, rows: Mapping[Leaf, SparseRow], names: Mapping[int, str]) -> Meanings:
    """Return what leaves stand for at a length."""
    return Meanings(dimensions, names, rows, chance_of(bundle, dimensions))


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


# The answer to a search of the folder.

REASONS = 6
ASKED = 12  # dimensions of the query that are listed
COMPARED = 10  # hits that are compared with those of the whole vectors
FACETTED, FEWEST = 20, 6  # hits whose dimensions become facets: those above the line, but no fewer
FACETS = 16
UNNAMED = 0.5  # what has a name says more
BYTES = 4  # of an entry: index and value, two each; a dense one is a float32


@dataclass(frozen=True)
class SearchLength:
    """How much of each vector is used: of the query, and of what is stored."""

    dimensions: int
    top_k: int | None = None
    tenth: bool = False  # store each vector's largest tenth, ask with all that the length leaves of the query

    def stored(self, width: int) -> int | None:
        """Return `top_k` of what is stored."""
        if not self.tenth:
            return self.top_k
        tenth = max(1, round(width / 10))
        return tenth if self.top_k is None else min(tenth, self.top_k)


@dataclass(frozen=True)
class Page:
    """Which of the hits."""

    limit: int = 60
    offset: int = 0


def search(folder: IndexedFolder, query: PhotoQuery, length: SearchLength, page: Page, cards: Cards) -> dict[str, Any]:
    """Return hits and figures."""
    engine, top_k = folder.engine, length.stored(folder.dimensions)
    columns = engine.cut(length.dimensions, top_k)
    weighting, left_out = query.at(length.dimensions, length.top_k)
    started = time.perf_counter()
    matches = _matches(folder, query, columns, weighting, max(page.offset + page.limit, FACETTED))
    took = time.perf_counter() - started
    chance = chance_of(query.bundle, length.dimensions, top_k)
    best = float(matches.scores[matches.order].max(initial=0.0))
    line = chance.of_query(query.expression or ONE_DIMENSION, weighting.parts).at(best)
    above = matches.count(line)
    weights, stored = _together(weighting, length.dimensions), stored_chance(query.bundle, folder)
    whole = columns is engine.whole and length.top_k is None
    return {
        "asked": bars(unit(weights), cards, ASKED),
        "left_out": [{**query.leaf(leaf, cards.names), "needs": needs} for leaf, needs in left_out],
        "hits": [
            {
                **folder.entry(i),
                "score": float(matches.scores[i]),
                "reasons": _reasons(folder, i, weights, top_k, columns, cards, chance),
            }
            for i in matches.order[page.offset : page.offset + page.limit].tolist()
        ],
        "total": matches.count(),
        "above": above,
        "chance": line,
        "milliseconds": round(took * 1e3, 3),
        "bytes": round(min(BYTES * columns.entries, 4.0 * length.dimensions), 1),
        "whole_bytes": round(BYTES * engine.whole.entries, 1),
        "agreement": _agreement(folder, query, frozenset(matches.order[:COMPARED].tolist()), whole),
        "facets": facets(folder, matches.order[: min(FACETTED, max(above, FEWEST))], cards, stored),
    }


def _matches(folder: IndexedFolder, query: PhotoQuery, columns: Columns, weighting: Resolved, most: int) -> Matches:
    unwanted = {"without": weighting.without, "unlike": weighting.unlike}
    lines = stored_chance(query.bundle, folder).lines
    conditions: dict[str, Any] = {"only": {j: lines[j] for j in query.only}, "exclude": query.excluded, **unwanted}
    return folder.engine.matches(columns, weighting.parts, most, **conditions)


def _together(weighting: Resolved, dimensions: int) -> Vectors:
    """Return the mean of the query's parts, (k,): what the reasons are parts of."""
    mean = np.zeros(dimensions, np.float32)
    for indices, values in weighting.parts:
        mean[indices] += values / np.float32(len(weighting.parts))
    return mean


def _reasons(
    folder: IndexedFolder, i: int, weights: Vectors, top_k: int | None, columns: Columns, cards: Cards, chance: Chance
) -> list[dict[str, Any]]:
    """Return the largest parts of a score, and the largest of those whose dimension has a name."""
    z = shorten(folder.engine.dense(i), len(weights), top_k, normalize=False)
    z /= columns.lengths[i]
    parts, cards = weights * z, cards.of(z, chance)  # (k,)
    total = float(parts.sum()) or 1.0
    order = np.flatnonzero(z)
    order = order[np.lexsort((-z[order], -parts[order]))]
    order = order[parts[order] > 0]
    chosen = {*order[:REASONS].tolist(), *order[cards.named[order]][:REASONS].tolist()}
    listed = [j for j in order.tolist() if j in chosen]
    return [{**cards(j), "part": float(parts[j]), "share": float(parts[j]) / total} for j in listed]


def _agreement(folder: IndexedFolder, query: PhotoQuery, first: frozenset[int], whole: bool) -> float | None:
    """Return the share of the first hits that the whole vectors have first, too; `first` are theirs if `whole`."""

    def find() -> frozenset[int]:
        weighting = query.at(folder.dimensions, None)[0]
        return frozenset(_matches(folder, query, folder.engine.whole, weighting, COMPARED).order.tolist())

    best = folder.remembered(
        (str(query.expression), tuple(query.excluded), *query.only), (lambda: first) if whole else find
    )
    return len(best & first) / len(best) if best else None


def stored_chance(bundle: Bundle, folder: IndexedFolder) -> Chance:
    """Return what random photos share, of vectors as the folder stores them."""
    return chance_of(bundle, folder.dimensions, folder.collection.cut)


def facets(folder: IndexedFolder, result: NDArray[np.intp], cards: Cards, stored: Chance) -> list[dict[str, Any]]:
    """Return the dimensions whose mean in the result is the most standard deviations above that over all photos."""
    if not len(result):
        return []
    engine, z = folder.engine, folder.engine.vectors[result].numpy()
    variance = engine.norms.astype(np.float64) ** 2 / len(folder) - engine.means.astype(np.float64) ** 2
    telling = (z.sum(axis=0, dtype=np.float64) / len(z) - engine.means) / np.sqrt(np.maximum(variance, 1e-12))
    telling[~cards.named[: folder.dimensions]] *= UNNAMED
    inside = np.count_nonzero((z > 0) & (z >= stored.lines), axis=0)
    order = [j for j in np.argsort(-telling, kind="stable").tolist() if inside[j] and telling[j] > 0][:FACETS]
    return [
        {
            **cards(j),
            "in_result": int(inside[j]),
            "of": len(z),
            "count": int((engine.whole.strengths(j) >= stored.lines[j]).sum()),
        }
        for j in order
    ]
