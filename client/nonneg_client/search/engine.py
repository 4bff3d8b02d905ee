"""What an engine must be able to do so that an `Index` can stand on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nonneg_client.embeddings import Embeddings
from nonneg_client.search.weights import Weights
from nonneg_core.errors import ConfigInvalid

Payload: TypeAlias = Mapping[str, Any]
# A field must equal a value, be one of a list, or lie in a range {"gte": .., "gt": .., "lte": .., "lt": ..};
# {"not": [..]} keeps out those with one of these values, and may stand beside a range.
Where: TypeAlias = Mapping[str, Any]
BOUNDS = ("gte", "gt", "lte", "lt")


@dataclass(frozen=True)
class Description:
    """Which vectors an index holds; kept with it, so that no others get in."""

    fingerprint: str
    dimensions: int
    model: str = ""
    root: str = ""  # the folder within which ids are paths; empty if they are something else
    fields: Mapping[str, str] = field(default_factory=dict)  # number, date, truth or text, of those that were declared
    kept: int | None = None  # values that are stored of each vector, its largest; queries are asked whole


@dataclass(frozen=True)
class Found:
    """One answer of an engine."""

    id: str
    score: float  # the inner product of the query with the stored vector
    payload: Payload


class Engine(Protocol):
    """Vectors under names, searched by inner product, exactly."""

    @property
    def description(self) -> Description: ...

    def upsert(self, embeddings: Embeddings, payloads: Sequence[Payload]) -> None:
        """Store every vector under its id, in place of what stood there."""

    def delete(self, ids: Sequence[str]) -> None:
        """Forget these ids; unknown ones do not matter."""

    def nearest(
        self, indices: NDArray[np.int32], values: NDArray[np.float32], limit: int, where: Where | None
    ) -> list[Found]:
        """The `limit` largest inner products, falling."""

    def reranked(self, cut: Weights, query: Weights, among: int, limit: int, where: Where | None) -> list[Found]:
        """The `limit` largest inner products with `query` among the `among` largest with `cut`."""

    def get(self, ids: Sequence[str]) -> Embeddings:
        """The stored vectors of those ids that exist, named."""

    def payloads(self) -> dict[str, Payload]:
        """Every id with its payload."""

    def count(self) -> int: ...

    def close(self) -> None: ...


def check_where(where: Where | None) -> None:
    """Raise unless every condition is a value, a list or a range."""
    for name, condition in (where or {}).items():
        good = isinstance(condition, (str, int, float, bool))
        if isinstance(condition, Mapping):
            good = bool(condition) and all(map(_is_part, condition.items()))
        elif isinstance(condition, Sequence) and not isinstance(condition, str):
            good = bool(condition) and all(isinstance(value, (str, int)) for value in condition)
        if not good:
            raise ConfigInvalid(
                f"{name}={condition!r} is no condition",
                fix='give a value, a list of values, or a range of numbers like {"gte": 2001, "lt": 2010}; '
                'or, without some values, {"not": [...]}',
                field=name,
            )


def parted(condition: Mapping[str, Any]) -> tuple[dict[str, float], list[Any]]:
    """The bounds of a range, and the values that it leaves out."""
    return {key: float(bound) for key, bound in condition.items() if key != "not"}, list(condition.get("not", ()))


def _is_part(part: tuple[str, Any]) -> bool:
    key, value = part
    if key == "not":
        return isinstance(value, (list, tuple)) and all(isinstance(v, (str, int, float)) for v in value) and bool(value)
    return key in BOUNDS and isinstance(value, (int, float))
