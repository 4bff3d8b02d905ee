"""One photo as bars, and two photos side by side: only here, shared, only there."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.shortening import Vectors
from nonneg_server.studio.dimension_cards import Cards


def bars(z: Vectors, cards: Cards, limit: int, *, named: bool = False) -> list[dict[str, Any]]:
    """Return the strongest dimensions of a vector of length one; `share` is their part of its squared length."""
    active = np.flatnonzero((z > 0) & cards.named[: len(z)] if named else z > 0)
    order = active[np.argsort(-z[active], kind="stable")][:limit].tolist()
    return [_bar(j, float(z[j]), float(z[j]) ** 2, cards) for j in order]


def pair(a: Vectors, b: Vectors, cards: Cards, limit: int) -> dict[str, Any]:
    """Return what two vectors of length one share and do not; the parts of what is shared sum to the cosine."""
    products = a.astype(np.float64) * b.astype(np.float64)
    cosine = float(products.sum())
    shared = [
        {**_bar(int(j), float(products[j]), float(products[j]) / cosine, cards), "values": [float(a[j]), float(b[j])]}
        for j in _largest(products, limit)
    ]
    return {
        "cosine": cosine,
        "shared": shared,
        "only_a": _only(a, b, cards, limit),
        "only_b": _only(b, a, cards, limit),
        "counts": [int(((a > 0) & (b == 0)).sum()), int((products > 0).sum()), int(((b > 0) & (a == 0)).sum())],
        "rest": cosine - sum(bar["value"] for bar in shared),
    }


def _only(one: Vectors, other: Vectors, cards: Cards, limit: int) -> list[dict[str, Any]]:
    alone = np.where(other > 0, np.float32(0), one)
    return bars(alone, cards, limit)


def _largest(products: NDArray[np.float64], limit: int) -> list[int]:
    order = np.argsort(-products, kind="stable")[:limit]
    return [int(j) for j in order if products[j] > 0]


def _bar(j: int, value: float, share: float, cards: Cards) -> dict[str, Any]:
    return {**cards(j), "value": value, "share": share}
