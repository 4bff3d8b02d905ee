"""A length at which vectors are evaluated: how many dimensions, and how many values of each vector."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nonneg_core.shortening import Vectors, keep_largest

SPARSE_BYTES = 4  # an entry in a file: u16 index, f16 value
DENSE_BYTES = 4


@dataclass(frozen=True)
class Length:
    """What to keep of each vector.

    asked_whole: of each stored one, and ask with all `dimensions` of the query. reranked: and put the first of each
    answer in order by whole vectors.
    """

    dimensions: int
    top_k: int | None = None
    asked_whole: bool = False
    reranked: bool = False

    def __str__(self) -> str:
        between = "/" if self.asked_whole else ":"
        end = "+" if self.reranked else ""
        return str(self.dimensions) if self.top_k is None else f"{self.dimensions}{between}{self.top_k}{end}"


def asked(z: Vectors, length: Length) -> Vectors:
    """Return the vectors as they ask those that `cut` leaves."""
    return np.asarray(z[:, : length.dimensions]) if length.asked_whole else cut(z, length)


def cut(z: Vectors, length: Length) -> Vectors:
    """Return the prefix, and of it the largest; not divided by the length, which cosines do by themselves."""
    z = z[:, : length.dimensions]  # a view: at full size a copy is what memory cannot hold
    return keep_largest(z, length.top_k) if length.top_k and length.top_k < length.dimensions else np.asarray(z)
