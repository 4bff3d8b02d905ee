"""The analytic head of any backbone's pooled features, signed or not: what it takes of them, columns and gate.

Features that never go below zero are taken as their square roots, others as their directions (rows of length one):
both are what their cosines retrieve best by. The columns in front stay open, so that short prefixes keep photos apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid
from nonneg_core.heads.head import Head, analytic, roots
from nonneg_core.heads.rotated import EDGES, fit_basis, within
from nonneg_core.heads.spread import Rows, Spread, spread
from nonneg_core.shortening import unit

Takes = Literal["roots", "features", "directions"]
GATE = 0.75  # of the columns behind the open ones: about a quarter of them is active on a photo
OPEN = 192  # columns without a gate, at most
OPEN_SHARE = 4  # and at most one of so many


@dataclass(frozen=True, eq=False)
class FittedHead:
    """A head, what it takes of the features, and what it was computed from."""

    head: Head
    takes: Takes
    spread: Spread
    trained: int = 0  # columns in front that were trained

    def embed(self, features: NDArray[Any]) -> Rows:
        """Return the embedding of every row of features."""
        return self.head.embed(taken(features, self.takes))


def fit_head(features: NDArray[Any], *, dimensions: int | None = None, gate: float = GATE, seed: int = 0) -> FittedHead:
    """Compute the analytic head of these rows; without `dimensions` as wide as it can be: two columns a component."""
    if not np.isfinite(features).all():
        raise DataInvalid(
            "the features hold NaN or infinity", fix="check the encoder's weights and its pixels' scaling"
        )
    takes = suited(features)
    rows = taken(features, takes)
    of = spread(rows)
    if not np.diag(of.covariance).any():
        raise DataInvalid(
            f"the features of all {len(rows)} photos are the same", fix="check which output is taken, and the photos"
        )
    basis = fit_basis(rows, of, seed=seed)
    columns = analytic(basis, rows, dimensions or 2 * within(EDGES, rows.shape[1])[-1])
    return FittedHead(columns.gated(gates(columns.dimensions, gate)), takes, of)


def suited(features: NDArray[Any]) -> Takes:
    """Return what a head should take of such features."""
    return "directions" if np.min(features, initial=0) < 0 else "roots"


def taken(features: NDArray[Any], takes: Takes) -> Rows:
    """Return what a head takes of rows of features."""
    rows: Rows = np.asarray(features, dtype=np.float32)
    return roots(rows) if takes == "roots" else unit(rows) if takes == "directions" else rows


def gates(dimensions: int, gate: float = GATE) -> NDArray[np.float32]:
    """Return each column's gate: 0 for the first columns, `gate` for the others."""
    found = np.full(dimensions, gate, dtype=np.float32)
    found[: min(OPEN, dimensions // OPEN_SHARE)] = 0
    return found
