"""A shorter form of vectors that bounds their inner products from above, so that few need to be computed in full.

With Q (D, r) of orthonormal columns, a = Q Q'a + rest, and by Cauchy and Schwarz

    a . b  <=  (Q'a) . (Q'b) + |rest of a| |rest of b|.

The row [Q'a, |rest of a|] of r + 1 numbers therefore has an inner product that is never below a . b. Q holds the
directions of most energy among the vectors themselves, so that little is left over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nonneg_core.curation.sparse_rows import Floats, SparseRows, count, dense

SAMPLE = 8192  # rows that the directions are found on
BLOCK = 2048
EXACT = 20_000  # up to so many rows nothing is projected: all pairs are computed in full
KEPT = 0.9  # of the energy: what is left over bounds little, and beyond it nearly all pairs would be computed twice


def bounding(
    rows: SparseRows, others: SparseRows | None = None, *, exact: int = EXACT, kept: float = KEPT
) -> tuple[Floats, Floats] | None:
    """Return short forms of `rows` and `others` (or `rows` twice) whose inner products bound those of the full rows.

    None where it is as well to compute these in full: for at most `exact` rows, or where it takes half of the
    directions to keep the share `kept` of the energy.
    """
    total = count(rows) + (0 if others is None else count(others))
    basis = None if total <= exact else directions(rows, kept)
    if basis is None:
        return None
    first = projected(rows, basis)
    return first, first if others is None else projected(others, basis)


def directions(rows: SparseRows, kept: float) -> Floats | None:
    """Return the fewest orthonormal directions (D, r) with this share of a sample's energy; None if over half of D."""
    step = max(1, count(rows) // SAMPLE)
    energy = np.zeros((rows.dimensions, rows.dimensions), np.float32)
    for start in range(0, count(rows), BLOCK):
        z = dense(rows, start, start + BLOCK)[-start % step :: step]
        energy += z.T @ z
    energies, vectors = np.linalg.eigh(energy)  # rising
    shares = np.cumsum(energies[::-1]) / max(float(energies.sum()), 1e-30)
    rank = int(np.searchsorted(shares, kept)) + 1
    return None if rank > rows.dimensions // 2 else np.ascontiguousarray(vectors[:, ::-1][:, :rank])


def projected(rows: SparseRows, basis: NDArray[np.float32]) -> Floats:
    """Return [Q'a, |rest of a|] for every row a, (n, r + 1), where Q is the basis."""
    short = np.empty((count(rows), basis.shape[1] + 1), np.float32)
    for start in range(0, count(rows), BLOCK):
        z = dense(rows, start, start + BLOCK)
        kept = z @ basis
        energy = np.einsum("ij,ij->i", z, z) - np.einsum("ij,ij->i", kept, kept)
        short[start : start + len(z), :-1] = kept
        short[start : start + len(z), -1] = np.sqrt(np.maximum(energy, 0))
    return short
