"""What an engine must be able to do so that an `Index` can stand on it, and what all of them do alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nonneg_core.arrays import Floats
from nonneg_core.errors import ConfigInvalid, DataInvalid, FingerprintMismatch
from nonneg_vectors.expressions.weightings import Unlike
from nonneg_vectors.storage.embeddings import Embeddings, model_label

SparseWeights = tuple[NDArray[np.int32], Floats]  # indices, sorted and unique, and what each is worth


def ascending(indices: ArrayLike, values: ArrayLike) -> SparseWeights:
    """Return a sparse vector's entries in the order of their indices."""
    i, v = np.asarray(indices, np.int32), np.asarray(values, np.float32)
    if (i[1:] > i[:-1]).all():
        return i, v
    order = np.argsort(i)
    return i[order], v[order]


FEW = 16  # dimensions of a query whose answer candidates by likeness would miss: it is asked exactly
CANDIDATES = 400  # of a first stage, at least; so many times `k` where that is more:
TIMES = 10
EACH = 500  # vectors of a small index, of which one more is a candidate beside half of these


def candidates_for(k: int, vectors: int | None = None) -> int:
    """Return how many candidates the second stage ranks for k hits; fewer of a small index."""
    enough = CANDIDATES if vectors is None else min(CANDIDATES, CANDIDATES // 2 + vectors // EACH)
    return max(enough, TIMES * k)


Payload: TypeAlias = Mapping[str, Any]
# A field must equal a value, be one of a list, or lie in a range {"gte": .., "gt": .., "lte": .., "lt": ..};
# {"not": [..]} keeps out those with one of these values, and may stand beside a range. Ranges may stand in lists.
Where: TypeAlias = Mapping[str, Any]
SIGNS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<"}
BOUNDS = tuple(SIGNS)


@dataclass(frozen=True)
class Description:
    """Which vectors an index holds; kept with it, so that no others get in."""

    fingerprint: str
    dimensions: int
    model: str = ""
    root: str = ""  # the folder within which ids are paths; empty if they are something else
    fields: Mapping[str, str] = field(default_factory=dict)  # number, date, truth or text, of those that were declared
    kept: int | None = None  # values that are stored of each vector, its largest; queries are asked whole

    @property
    def pinned(self) -> str:
        """The model to ask queries of: no other is compared with what is stored."""
        return f"{self.model}@{self.fingerprint}"


@dataclass(frozen=True)
class EngineHit:
    """One answer of an engine."""

    id: str
    score: float  # the inner product of the query with the stored vector
    payload: Payload
    exact: bool = True  # False: it is the nearest among candidates


class Engine(ABC):
    """Vectors under names, searched by inner product: in two stages, or exactly."""

    noun: ClassVar[str] = "index"  # what it calls the place of the vectors: a collection, a table
    description: Description

    @abstractmethod
    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        """Store every vector under its id, in place of what stood there."""

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> None:
        """Forget these ids; unknown ones do not matter."""

    @abstractmethod
    def nearest(
        self, indices: NDArray[np.int32], values: Floats, limit: int, where: Where | None, *, exact: bool = False
    ) -> list[EngineHit]:
        """Return the `limit` largest inner products, falling: of all vectors if `exact`, else of candidates."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> Embeddings:
        """Return the stored vectors of those ids that exist, named."""

    @abstractmethod
    def payloads(self) -> dict[str, Payload]:
        """Return every id with its payload."""

    @abstractmethod
    def count(self) -> int:
        """Return how many vectors are stored."""

    def close(self) -> None:  # noqa: B027  most have nothing to give back
        """Do nothing: the connection is the caller's."""

    def best(
        self,
        parts: Sequence[SparseWeights],
        k: int,
        where: Where | None = None,
        without: Sequence[int] = (),
        exclude: Collection[str] = (),
        unlike: Sequence[Unlike] = (),
        *,
        exact: bool = False,
    ) -> list[EngineHit]:
        """Return the k vectors with the largest smallest inner product with the parts, above zero.

        without: dimensions that are not active in them. exclude: ids of others. unlike: what is below its line in them.
        """
        (first, *others), unwanted = parts, bool(without or exclude or unlike)
        if not others and not unwanted and (first[1] > 0).all():
            return self.nearest(*first, k, where, exact=exact)
        return best(self, parts, k, where, without, exclude, unlike, exact=exact)

    def _open(self, name: str, made_for: Description | None) -> Description:
        """Return what the index of this name holds; where there is none, it is made for these vectors."""
        description = self._held()
        if description is None:
            if made_for is None:
                raise DataInvalid(f"{self.noun} {name} does not exist", fix="give made_for= to make it")
            self._create(made_for)
            return made_for
        if made_for is not None and made_for.fingerprint != description.fingerprint:
            raise FingerprintMismatch(
                f"{name} holds vectors of {model_label(description.model, description.fingerprint)}, not of "
                f"{model_label(made_for.model, made_for.fingerprint)}",
                fix=f"use the model it was made with, or make another {self.noun}: nonneg index PHOTOS -o NEW",
                field="fingerprint",
                value=made_for.fingerprint,
            )
        return description

    def _check_model(self, fingerprint: str | None) -> None:
        """Raise where what a search found was made by another model than what was opened."""
        if fingerprint not in (None, self.description.fingerprint):
            raise FingerprintMismatch(
                f"this {self.noun} holds vectors of {fingerprint} by now, and held those of {self.description.pinned}",
                fix="open it again: the name leads to another one since",
                field="fingerprint",
                value=fingerprint,
            )

    @abstractmethod
    def _held(self) -> Description | None:
        """Return what is kept as the description; None before the index is made."""

    @abstractmethod
    def _create(self, made_for: Description) -> None:
        """Make the index, and keep the description with it."""

    def _not_ours(self, name: str) -> DataInvalid:
        return DataInvalid(f"the {self.noun} {name} belongs to another program", fix="use another name")

    def _embeddings(self, rows: Iterable[tuple[ArrayLike, ArrayLike]], ids: Iterable[str]) -> Embeddings:
        """Return stored vectors, in whatever order their entries come, as embeddings of this index's model."""
        description = self.description
        return Embeddings.from_rows(
            [ascending(*row) for row in rows],
            dimensions=description.dimensions,
            fingerprint=description.fingerprint,
            model=description.model,
            ids=tuple(ids),
        )


def check_where(where: Where | None) -> None:
    """Raise unless every condition is a value, a list or a range."""
    for name, condition in (where or {}).items():
        good = isinstance(condition, (str, int, float, bool))
        if isinstance(condition, Mapping):
            good = bool(condition) and all(map(_is_part, condition.items()))
        elif isinstance(condition, Sequence) and not isinstance(condition, str):
            good = bool(condition) and all(map(_is_one, condition))
        if not good:
            raise ConfigInvalid(
                f"{name}={condition!r} is not a condition",
                fix='give a value, a list of values, or a range of numbers like {"gte": 2001, "lt": 2010}; '
                'or, without some values, {"not": [...]}',
                field=name,
            )


def split_condition(condition: Mapping[str, Any]) -> tuple[dict[str, float], list[Any]]:
    """Return the bounds of a range, and the values and ranges that it leaves out."""
    return {key: float(bound) for key, bound in condition.items() if key != "not"}, list(condition.get("not", ()))


def _is_part(part: tuple[str, Any]) -> bool:
    key, value = part
    if key == "not":
        return isinstance(value, (list, tuple)) and all(map(_is_one, value)) and bool(value)
    return key in BOUNDS and isinstance(value, (int, float))


def _is_one(value: Any) -> bool:
    """Return whether this may stand in a list: a value, or a range."""
    if isinstance(value, Mapping):
        return bool(value) and "not" not in value and all(map(_is_part, value.items()))
    return isinstance(value, (str, int, float))


# The k best for a query of several parts, of which a vector's worst counts, or of weights below zero: exactly, where
# the engine's lists are exact.
#
# Any engine gives the largest inner products with weights above zero. The positive weights alone of a part bound it
# from above; and a vector that an engine has not listed for a part has no larger inner product with it than the last
# that it has. So the lists grow until the k-th score is above what any vector outside of them can have.

GROWTH = 4
FIRST = 64  # vectors of a part that are listed at first, at least


def best(
    engine: Engine,
    parts: Sequence[SparseWeights],
    k: int,
    where: Where | None,
    without: Sequence[int],
    exclude: Collection[str],
    unlike: Sequence[Unlike],
    *,
    exact: bool,
) -> list[EngineHit]:
    """Find the k vectors with the largest smallest inner product with the parts, above zero, with nothing unwanted."""
    known: dict[str, EngineHit] = {}  # with their scores; zero for those that are unwanted
    depth = max(FIRST, GROWTH * k)
    while True:
        lists = [engine.nearest(*_positive(part), depth, where, exact=exact) for part in parts]
        fresh = {hit.id: hit for listed in lists for hit in listed if hit.id not in known}
        known |= _scored(engine, list(fresh.values()), parts, without, unlike)
        beyond = min((listed[-1].score if len(listed) >= depth else 0.0) for listed in lists)
        hits = [hit for hit in known.values() if hit.score > 0 and hit.id not in exclude]
        hits.sort(key=lambda hit: (-hit.score, hit.id))
        if not beyond or (len(hits) >= k and hits[k - 1].score >= beyond):
            return hits[:k]
        depth *= GROWTH


def _positive(part: SparseWeights) -> SparseWeights:
    return part[0][part[1] > 0], part[1][part[1] > 0]


def _scored(
    engine: Engine,
    hits: Sequence[EngineHit],
    parts: Sequence[SparseWeights],
    without: Sequence[int],
    unlike: Sequence[Unlike],
) -> dict[str, EngineHit]:
    """Return the same with the score that counts: of the worst part, or zero where something unwanted is active."""
    stored = engine.get([one.id for one in hits])
    weights = np.zeros((engine.description.dimensions, len(parts) + len(unlike)))
    for column, (indices, values) in enumerate([*parts, *(one.row for one in unlike)]):
        weights[indices, column] = values
    lines = np.array([one.line for one in unlike])
    unwanted = np.zeros(len(weights), dtype=bool)
    unwanted[list(without)] = True
    by_id = {one.id: one for one in hits}
    scored = {}
    for i, name in enumerate(stored.ids or ()):
        indices, values = stored.row(i)
        cosines = values @ weights[indices]
        excluded = unwanted[indices].any() or (cosines[len(parts) :] >= lines).any()
        score = 0.0 if excluded else float(cosines[: len(parts)].min())
        scored[name] = replace(by_id[name], score=score)
    return scored
