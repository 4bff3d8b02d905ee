"""The one implementation of shortening: prefix, then each vector's largest, then length one.

The order is the contract. Columns of a bundle stand in rank order, so that "the best k dimensions"
is the first k columns; normalising before cutting would leave vectors shorter than one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import ParameterInvalid

Vectors = NDArray[np.float32]


def shorten(
    z: NDArray[Any], dimensions: int | None = None, top_k: int | None = None, *, normalize: bool = True
) -> Vectors:
    """Keep the first `dimensions` columns, of these each row's `top_k` largest, then divide by the L2 norm.

    A row of which nothing is left stays a row of zeros: never NaN.
    """
    z = np.asarray(z, dtype=np.float32)  # (batch, D) or (D,)
    dimensions = check_dimensions(dimensions, z.shape[-1])
    check_top_k(top_k)
    z = z[..., :dimensions]  # (batch, k)
    if top_k is not None and top_k < dimensions:
        z = keep_largest(z, top_k)
    return unit(z) if normalize else np.ascontiguousarray(z)


def keep_largest(z: Vectors, m: int) -> Vectors:
    """Zero all but each row's m largest entries; among equals the lower index stays."""
    rows = z.reshape(-1, z.shape[-1])
    threshold = np.partition(rows, -m, axis=-1)[:, -m, None]  # (batch, 1): the m-th largest
    mask = rows >= threshold
    if np.count_nonzero(mask) != m * len(rows):  # equals, be it zeros: of these only so many
        above = rows > threshold
        ties = rows == threshold
        room = m - above.sum(axis=-1, keepdims=True)
        mask = above | (ties & (np.cumsum(ties, axis=-1) <= room))
    return np.where(mask, rows, np.float32(0)).reshape(z.shape)


def unit(z: Vectors) -> Vectors:
    """Return rows of length one; a zero row stays zero."""
    # Scaled by the largest entry first, so that the squares of tiny activations do not underflow to zero.
    # The ufuncs' own reduce and the tests for zero rows spare a lone vector half of the time.
    peak: NDArray[Any] = np.maximum.reduce(np.abs(z), axis=-1, keepdims=True, initial=np.float32(0))
    scaled: NDArray[Any] = z / _one_for_zero(peak)
    length: NDArray[Any] = np.sqrt(np.add.reduce(scaled * scaled, axis=-1, keepdims=True))
    return np.asarray(scaled / _one_for_zero(length), dtype=np.float32)


def _one_for_zero(divisors: NDArray[Any]) -> NDArray[Any]:
    positive = divisors > 0
    return divisors if np.logical_and.reduce(positive, axis=None) else np.where(positive, divisors, 1)


def check_dimensions(dimensions: int | None, limit: int, whose: str = "this model's") -> int:
    """Return the number of columns to keep: any 1 <= k <= D, D included; None means all."""
    if dimensions is None:
        return limit
    if isinstance(dimensions, bool) or not isinstance(dimensions, (int, np.integer)) or dimensions < 1:
        raise ParameterInvalid(
            f"dimensions={dimensions!r} is not a whole number of at least 1",
            fix=f"ask for 1 to {limit} or omit it",
            field="dimensions",
            value=dimensions if isinstance(dimensions, (int, float, str)) else repr(dimensions),
            limit=limit,
        )
    if dimensions > limit:
        raise ParameterInvalid(
            f"dimensions={dimensions} exceeds {whose} {limit}",
            fix=f"ask for at most {limit} or omit it",
            field="dimensions",
            value=int(dimensions),
            limit=limit,
        )
    return int(dimensions)


def check_top_k(top_k: int | None) -> None:
    """Refuse a `top_k` that is neither None nor at least 1; more than there are columns keeps them all."""
    if top_k is None or (isinstance(top_k, (int, np.integer)) and not isinstance(top_k, bool) and top_k >= 1):
        return
    raise ParameterInvalid(
        f"top_k={top_k!r} is not a whole number of at least 1",
        fix="ask for 1 or more, or omit it",
        field="top_k",
        value=top_k if isinstance(top_k, (int, float, str)) else repr(top_k),
    )
