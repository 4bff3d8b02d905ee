"""An index: images under their ids, searched by vector or by dimensions, with the reasons for every hit."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np
from numpy.typing import NDArray

from nonneg_client.dimension_names import Names, name_of, names_of
from nonneg_client.embeddings import Embeddings
from nonneg_client.query import Query, of_dimensions
from nonneg_client.search.best_of_parts import best
from nonneg_client.search.connectors.engine import Description, Engine, Found, Payload, Where, check_where
from nonneg_client.search.sparse_vectors import Weights, largest
from nonneg_core.errors import ConfigInvalid, DataInvalid

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder

REASONS = 5


@dataclass(frozen=True)
class Hit:
    """One answer: how near, and which dimensions made it so."""

    id: str
    score: float
    payload: Payload = field(default_factory=dict)
    reasons: tuple[tuple[int, float], ...] = ()  # (dimension, its part of the score), the largest first
    names: Names = field(default_factory=dict)  # of those of these dimensions that have one

    def told(self, most: int = REASONS) -> str:
        """Its reasons in words: `goldfish 0.310, dim 17 0.120`."""
        return ", ".join(f"{name_of(d, self.names)} {part:.3f}" for d, part in self.reasons[:most])


class Index:
    """Vectors of one model in an engine.

    with Index.open("photos.index", like=embeddings) as index:
        index.add(embeddings)
        hits = index.search(query, k=10)
    """

    def __init__(self, engine: Engine, *, names: Names | None = None) -> None:
        """names: of dimensions, for the reasons of hits; by default those of the shipped model of these vectors."""
        self.engine = engine
        self.names: Names = names_of(engine.description.fingerprint) if names is None else names

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        *,
        like: Embeddings | Description | None = None,
        names: Names | None = None,
    ) -> Self:
        """The index in this folder; made for vectors `like` these if there is none yet. `names`: as for `Index`."""
        from nonneg_client.search.connectors.qdrant_local import LocalEngine

        made_for = like if like is None or isinstance(like, Description) else describe(like)
        return cls(LocalEngine(path, made_for), names=names)

    @property
    def description(self) -> Description:
        return self.engine.description

    def __len__(self) -> int:
        return self.engine.count()

    def add(self, embeddings: Embeddings, payloads: Sequence[Payload] | None = None) -> None:
        """Store vectors under their ids; an id that is there already is replaced."""
        self._same(embeddings)
        if embeddings.ids is None:
            raise DataInvalid("vectors without ids cannot be found again", fix="embeddings.named([...])")
        if payloads is not None and len(payloads) != len(embeddings):
            raise DataInvalid(f"{len(payloads)} payloads for {len(embeddings)} vectors", fix="give one a vector")
        if any("id" in payload for payload in payloads or ()):
            raise ConfigInvalid("a payload may not have the field id", fix="name it otherwise", field="id")
        unit = embeddings if embeddings.normalized else embeddings.shorten()
        last = {name: i for i, name in enumerate(embeddings.ids)}  # an id given twice: the last one counts
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
        through: Embedder | None = None,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Sequence[str] = (),
        cut: int | None = None,
        reasons: bool = True,
    ) -> list[Hit]:
        """The k nearest to one vector, or to what an expression says (`photo.jpg + dim:17 !dim:40`), by cosine.

        through: what embeds the photos and words of an expression: a `Client`, or `local()`.
        where: conditions on the payload. without: dimensions that must not be active in a hit. exclude: ids that are
            not wanted, such as the query's own.
        cut: ask with the query's `cut` largest entries only, for many times `k`, and rank these exactly: nearly always
            the same answer, for engines whose time grows with the query's entries (the local one's is shorter
            without). Without it the answer is exact.
        """
        if isinstance(query, str):
            query = self.read(query, through)
        if isinstance(query, Query):
            return self._by_query(query, k, where=where, without=without, exclude=exclude, cut=cut, reasons=reasons)
        if len(query) != 1:
            raise DataInvalid(f"a search takes one vector, not {len(query)}", fix="query[i]")
        self._same(query)
        unit = query if query.normalized else query.shorten()
        return self.by_weights(unit.row(0), k, where=where, without=without, exclude=exclude, cut=cut, reasons=reasons)

    def read(self, expression: str, through: Embedder | None = None, *, model: str | None = None) -> Query:
        """The query that an expression stands for, among vectors as they are here."""
        held = self.description
        if through is None:
            return of_dimensions(expression, held.dimensions, held.fingerprint)
        return through.query(expression, held.dimensions, model=model)

    def by_dimensions(
        self, more: Mapping[int, float], k: int = 10, *, without: Sequence[int] = (), where: Where | None = None
    ) -> list[Hit]:
        """The images in which these dimensions are strongest: `more={17: 1.0}, without=[40]`."""
        self._are_there(more)
        if not more or any(weight <= 0 for weight in more.values()):
            raise ConfigInvalid("more of which dimension?", fix="give at least one, with a weight above 0")
        indices = np.array(sorted(more), dtype=np.int32)
        values = np.array([more[int(i)] for i in indices], dtype=np.float32)
        return self.by_weights((indices, values), k, where=where, without=without)

    def by_weights(
        self,
        query: Weights,
        k: int,
        *,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Sequence[str] = (),
        cut: int | None = None,
        reasons: bool = True,
    ) -> list[Hit]:
        """The k largest inner products with a weighting of dimensions."""
        check_where(where)
        self._are_there(without)
        if not len(query[0]):
            return []  # a zero vector is near to nothing
        unwanted = frozenset(exclude)
        asked = _at_least_one(k) + len(unwanted)
        while True:
            if cut is None:
                found = self.engine.nearest(*query, asked, where)
            else:
                found = self.engine.reranked(largest(query, cut), query, max(200, 20 * asked), asked, where)
            wanted = [one for one in found if one.id not in unwanted]
            hits = self._ranked(wanted, query, without, explained=reasons)
            if len(hits) >= k or len(found) < asked:
                return hits[:k]
            asked *= 4  # those that are unwanted took the places

    def _by_query(
        self,
        query: Query,
        k: int,
        *,
        where: Where | None,
        without: Sequence[int],
        exclude: Sequence[str],
        cut: int | None,
        reasons: bool,
    ) -> list[Hit]:
        """The k with the largest smallest cosine with the query's parts, without what is unwanted."""
        held = self.description
        self._same(Embeddings.from_rows([], dimensions=query.dimensions, fingerprint=query.fingerprint))
        unwanted = (*query.without, *without)
        if len(query.parts) == 1 and (query.parts[0][1] > 0).all():
            return self.by_weights(
                query.parts[0], k, where=where, without=unwanted, exclude=exclude, cut=cut, reasons=reasons
            )
        check_where(where)
        self._are_there(unwanted)
        if cut is not None:
            raise ConfigInvalid(
                "cut= has no meaning beside & or -", fix="leave one of them out", field="cut", value=cut
            )
        left_out = frozenset(exclude)
        found = best(self.engine, query.parts, _at_least_one(k), where, unwanted, lambda name: name not in left_out)
        together = np.zeros(held.dimensions, dtype=np.float32)
        for indices, values in query.parts:
            together[indices] += values / len(query.parts)
        (there,) = np.nonzero(together)
        return self._ranked(found, (there.astype(np.int32), together[there]), (), explained=reasons)

    def close(self) -> None:
        """Close the engine."""
        self.engine.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _ranked(self, found: Sequence[Found], query: Weights, without: Sequence[int], *, explained: bool) -> list[Hit]:
        """Hits with reasons; the stored vectors are fetched only if something depends on them."""
        if not without and not explained:
            return [Hit(f.id, f.score, _shown(f.payload)) for f in found]
        stored = self.engine.get([f.id for f in found])
        weights = np.zeros(self.description.dimensions)
        weights[query[0]] = query[1]
        parts = weights[stored.indices] * stored.values  # (nnz,): every entry's part of its vector's score
        unwanted = np.isin(stored.indices, without) if without else None
        rows = {name: slice(*stored.indptr[i : i + 2]) for i, name in enumerate(stored.ids or ())}
        hits = []
        for f in found:
            row = rows[f.id]
            if unwanted is None or not unwanted[row].any():
                why = _reasons(stored.indices[row], parts[row])
                called = {d: self.names[d] for d, _ in why if d in self.names}
                hits.append(Hit(f.id, f.score, _shown(f.payload), why, called))
        return hits

    def _are_there(self, dimensions: Iterable[int]) -> None:
        for dimension in dimensions:
            if not 0 <= dimension < self.description.dimensions:
                raise ConfigInvalid(
                    f"there is no dimension {dimension}", fix=f"ask for 0 to {self.description.dimensions - 1}"
                )

    def _same(self, embeddings: Embeddings) -> None:
        held = self.description
        Embeddings.from_rows([], dimensions=held.dimensions, fingerprint=held.fingerprint).same_model(embeddings)
        if embeddings.dimensions != held.dimensions:
            longer = embeddings.dimensions > held.dimensions
            raise DataInvalid(
                f"the index holds vectors of {held.dimensions} dimensions, these have {embeddings.dimensions}",
                fix=f"embeddings.shorten({held.dimensions})" if longer else f"embed with dimensions={held.dimensions}",
            )


def _at_least_one(k: int) -> int:
    if k < 1:
        raise ConfigInvalid(f"k={k} asks for nothing", fix="ask for 1 or more", field="k")
    return k


def _shown(payload: Payload) -> Payload:
    """A payload without the fields that are for other commands, such as `_thumbnail`."""
    return {name: value for name, value in payload.items() if not name.startswith("_")}


def _reasons(indices: NDArray[np.int32], parts: NDArray[np.float64]) -> tuple[tuple[int, float], ...]:
    """The dimensions with the largest parts of a score; the lower dimension among equals."""
    order = np.argsort(-parts, kind="stable")[:REASONS]
    return tuple((int(indices[o]), float(parts[o])) for o in order if parts[o] > 0)


def describe(embeddings: Embeddings) -> Description:
    """What an index of these vectors would say of itself."""
    return Description(embeddings.fingerprint, embeddings.dimensions, embeddings.model)
