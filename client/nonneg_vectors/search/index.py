"""An index: images under their ids, searched by vector or by dimensions, with the reasons for every hit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_vectors.expressions.weightings import ColumnStatistics, Lines, Unlike
from nonneg_vectors.search.converters import checked_ids
from nonneg_vectors.search.query_and_hits import (
    DimensionNames,
    Hit,
    HitLimits,
    Hits,
    Query,
    QueryReader,
    check_line,
    marked,
    of_dimensions,
    reasons_of,
    shown,
)
from nonneg_vectors.search.vector_engine import (
    Description,
    Engine,
    EngineHit,
    Payload,
    SparseWeights,
    Where,
    check_where,
)
from nonneg_vectors.storage.embeddings import Embeddings


class Index:
    """Vectors of one model in an engine.

    with Index.open("photos.index", like=embeddings) as index:
        index.add(embeddings)
        hits = index.search(query, k=10)
    """

    def __init__(
        self, engine: Engine, *, names: DimensionNames | None = None, statistics: ColumnStatistics | None = None
    ) -> None:
        """Search in an engine's vectors.

        names: of dimensions, for the reasons of hits. statistics: of the columns, which say where matches end. Names
            of the model are shown where they hold for a photo; the caller's own ones always.
        """
        self.engine = engine
        self.names: DimensionNames = names or {}
        self._always: DimensionNames = {}  # the caller's own names
        self.know(statistics)

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        like: Embeddings | Description | None = None,
        names: DimensionNames | None = None,
        statistics: ColumnStatistics | None = None,
    ) -> Self:
        """Open the index in this folder; made for vectors `like` these if it does not exist. The rest: as `Index`."""
        from nonneg_vectors.search.local_engine import LocalEngine

        made_for = like if like is None or isinstance(like, Description) else describe(like)
        return cls(LocalEngine(path, made_for), names=names, statistics=statistics)

    @classmethod
    def of(
        cls,
        embeddings: Embeddings,
        payloads: Sequence[Payload] = (),
        *,
        names: DimensionNames | None = None,
        statistics: ColumnStatistics | None = None,
    ) -> Self:
        """Return an index of these vectors in memory, which needs no extra and no folder. The rest: as `Index`."""
        from nonneg_vectors.search.columns import ColumnEngine

        index = cls(ColumnEngine(embeddings[:0].named(())), names=names, statistics=statistics)
        index.add(embeddings, payloads)
        return index

    def know(self, statistics: ColumnStatistics | None) -> None:
        """Tell matches from other hits by these statistics of the model's columns; by none, not at all."""
        profile = self.description
        self._chance = None if statistics is None else statistics.at(profile.dimensions, profile.kept)

    @property
    def description(self) -> Description:
        return self.engine.description

    def __len__(self) -> int:
        return self.engine.count()

    def add(self, embeddings: Embeddings, payloads: Sequence[Payload] | None = None) -> None:
        """Store vectors under their ids; an id that is there already is replaced."""
        self._same(embeddings)
        ids = checked_ids(embeddings, payloads)
        unit = embeddings if embeddings.normalized else embeddings.shorten()
        last = {name: i for i, name in enumerate(ids)}  # an id given twice: the last one counts
        rows = sorted(last.values())
        chosen = unit if len(rows) == len(unit) else unit[rows]
        self.engine.upsert(chosen, [dict(payloads[i]) for i in rows] if payloads else [{}] * len(rows))

    def delete(self, ids: Sequence[str]) -> None:
        """Forget vectors; unknown ids do not matter."""
        self.engine.delete(list(ids))

    def search(
        self,
        query: Embeddings | Query | str,
        k: int = 10,
        *,
        through: QueryReader | None = None,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Sequence[str] = (),
        exact: bool = False,
        reasons: bool = True,
        matches_only: bool = False,
    ) -> Hits:
        """Return the k nearest to one vector, or to what an expression says (`photo.jpg + dim:17 !dim:40`), by cosine.

        through: what embeds the photos and words of an expression: a `Client`, or `local()`.
        where: conditions on the payload. without: dimensions that must not be active in a hit. exclude: ids that are
            not wanted, such as the query's own.
        exact: compare with every vector, and not with candidates alone; `hits.exact` says which it was.
        matches_only: end the list where random photos may score as much; it may be empty.
        """
        if isinstance(query, str):
            query = self.read(query, through)
        limits = HitLimits(where, without, exclude, exact, reasons, matches_only)
        if isinstance(query, Query):
            return self._by_query(query, k, limits)
        if len(query) != 1:
            raise DataInvalid(f"a search takes one vector, not {len(query)}", fix="query[i]")
        self._same(query)
        unit = query if query.normalized else query.shorten()
        return self._by_parts([unit.row(0)], k, limits, self._line(unit.row(0)))

    def read(self, expression: str, through: QueryReader | None = None, *, model: str | None = None) -> Query:
        """Return the query that an expression stands for, among vectors as they are here."""
        profile = self.description
        if through is None:
            return of_dimensions(expression, profile.dimensions, profile.fingerprint)
        return through.query(expression, profile.dimensions, model=model or profile.pinned)

    def by_dimensions(
        self,
        more: Mapping[int, float],
        k: int = 10,
        *,
        without: Sequence[int] = (),
        where: Where | None = None,
        matches_only: bool = False,
    ) -> Hits:
        """Return the images in which these dimensions are strongest: `more={17: 1.0}, without=[40]`."""
        self._are_there(more)
        if not more or any(weight <= 0 for weight in more.values()):
            raise ConfigInvalid(
                f"more={dict(more)} names no dimension with a weight above 0",
                fix="give at least one: {17: 1.0}",
                field="more",
            )
        indices = np.array(sorted(more), dtype=np.int32)
        values = np.array([more[int(i)] for i in indices], dtype=np.float32)
        limits = HitLimits(where, without, matches_only=matches_only)
        return self._by_parts([(indices, values)], k, limits, self._line((indices, values)))

    def _by_query(self, query: Query, k: int, limits: HitLimits) -> Hits:
        """Return the k with the largest smallest cosine with the query's parts, without what is unwanted."""
        self._same(Embeddings.from_rows([], dimensions=query.dimensions, fingerprint=query.fingerprint))
        limits = replace(limits, without=(*query.without, *limits.without))
        line = _one_line(query.chance) if self._chance is None else self._chance.of_query(query.expression, query.parts)
        unlike = [
            one if self._chance is None else replace(one, line=self._chance.of_words(one.row)) for one in query.unlike
        ]
        return self._by_parts(query.parts, k, limits, line, unlike)

    def _by_parts(
        self,
        parts: Sequence[SparseWeights],
        k: int,
        limits: HitLimits,
        line: Lines | None,
        unlike: Sequence[Unlike] = (),
    ) -> Hits:
        """Return the k largest inner products, of several parts the smallest; `line`: what random photos reach."""
        check_where(limits.where)
        self._are_there(limits.without)
        k = _at_least_one(k)
        together = np.zeros(self.description.dimensions, dtype=np.float32)
        for indices, values in parts:
            together[indices] += values / len(parts)
        (there,) = np.nonzero(together)
        if not len(there):
            return Hits()  # a zero vector is near to nothing
        check_line(line, limits)
        left_out = frozenset(limits.exclude)
        matches = self.engine.best(parts, k, limits.where, limits.without, left_out, unlike, exact=limits.exact)
        hits = self._explained(matches, (there.astype(np.int32), together[there]), explained=limits.reasons)
        return Hits(marked(hits, line, limits), exact=all(match.exact for match in matches))

    def _line(self, query: SparseWeights) -> Lines | None:
        """Return the score that a random photo may reach; None where the model's statistics are not at hand."""
        return None if self._chance is None else _one_line(self._chance.line([query]))

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _explained(self, matches: Sequence[EngineHit], query: SparseWeights, *, explained: bool) -> list[Hit]:
        """Return hits, with reasons if wanted: the stored vectors are fetched only for these."""
        if not explained:
            return [Hit(f.id, f.score, shown(f.payload)) for f in matches]
        stored = self.engine.get([f.id for f in matches])
        weights = np.zeros(self.description.dimensions)
        weights[query[0]] = query[1]
        parts = weights[stored.indices] * stored.values  # (nnz,): every entry's part of its vector's score
        rows = {name: slice(*stored.indptr[i : i + 2]) for i, name in enumerate(stored.ids or ())}
        hits = []
        for f in matches:
            row = rows[f.id]
            why = reasons_of(stored.indices[row], parts[row])
            called = self._called([d for d, _ in why], stored.indices[row], stored.values[row])
            hits.append(Hit(f.id, f.score, shown(f.payload), why, called))
        return hits

    def _called(self, dimensions: Sequence[int], indices: NDArray[np.int32], values: Floats) -> dict[int, str]:
        """Return the names of some dimensions of a stored vector, those that hold for it by the model's statistics."""
        if self._chance is None:
            return {d: self.names[d] for d in dimensions if d in self.names}
        hold = self._chance.shown(self.names, dimensions, values[np.searchsorted(indices, dimensions)])
        return hold | {d: self._always[d] for d in dimensions if d in self._always}

    def _are_there(self, dimensions: Iterable[int]) -> None:
        for dimension in dimensions:
            if not 0 <= dimension < self.description.dimensions:
                raise ConfigInvalid(
                    f"dimension={dimension} is not one of this index",
                    fix=f"ask for 0 to {self.description.dimensions - 1}",
                )

    def _same(self, embeddings: Embeddings) -> None:
        profile = self.description
        Embeddings.from_rows(
            [], dimensions=profile.dimensions, fingerprint=profile.fingerprint, model=profile.model
        ).same_model(embeddings)
        if embeddings.dimensions != profile.dimensions:
            longer = embeddings.dimensions > profile.dimensions
            raise DataInvalid(
                f"the index holds vectors of {profile.dimensions} dimensions, these have {embeddings.dimensions}",
                fix=f"embeddings.shorten({profile.dimensions})"
                if longer
                else f"embed with dimensions={profile.dimensions}",
            )


def _one_line(line: float | None) -> Lines | None:
    return None if line is None else Lines(line, line)


def _at_least_one(k: int) -> int:
    if k < 1:
        raise ConfigInvalid(f"k={k} asks for nothing", fix="ask for 1 or more", field="k")
    return k


def describe(embeddings: Embeddings) -> Description:
    """Return what an index of these vectors would say of itself."""
    return Description(embeddings.fingerprint, embeddings.dimensions, embeddings.model)
