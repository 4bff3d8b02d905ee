"""What non-negative columns keep of the features they were made of, by length: neighbours, without any labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from nonneg_core.evaluation.lengths import DENSE_BYTES, SPARSE_BYTES
from nonneg_core.evaluation.quality import LENGTHS
from nonneg_core.shortening import shorten
from nonneg_export.checks.agreement import NEIGHBOURS, agreement
from nonneg_runtime.evidence import Kept, KeptRow
from nonneg_runtime.manifest import Manifest

MOST, SHARE, FEWEST = 500, 5, 20  # photos held out: at most, one of so many, and none of fewer
SPARSE = 0.5  # active entries of a vector, at most, for it to be called sparse
SHORTENABLE = 0.8  # of the neighbours that all columns keep, the share that a quarter of them keeps, at least


def held_out(photos: int) -> NDArray[np.bool_]:
    """Return which photos a head is not computed from: some that lie evenly between the others."""
    found = np.zeros(photos, dtype=np.bool_)
    if photos >= FEWEST:
        count = min(MOST, photos // SHARE)
        found[np.arange(count) * photos // count] = True
    return found


def kept(features: NDArray[np.float32], z: NDArray[np.float32], data: str) -> Kept | None:
    """Return how many of the nearest by `features` stay the nearest by `z`, row for row; None without photos to ask."""
    if len(z) < 2:
        return None
    full = z.shape[1]
    quarter = max(1, full // 4)
    lengths = sorted({full, quarter, *(n for n in LENGTHS if n < full)}, reverse=True)
    nearest = min(NEIGHBOURS, max(1, len(z) // NEIGHBOURS))  # of few photos ten are nearly all
    rows = tuple(_row(features, shorten(z, n), n, nearest) for n in lengths)
    return Kept(data=data, images=len(z), nearest=nearest, features=features.shape[1], rows=rows)


def _row(features: NDArray[np.float32], z: NDArray[np.float32], n: int, nearest: int) -> KeptRow:
    nnz = np.count_nonzero(z, axis=1)
    return KeptRow(
        dimensions=n,
        neighbours=round(agreement(features, z, same=False, nearest=nearest).neighbours_kept, 4),
        zero_share=round(float((nnz == 0).mean()), 4),
        mean_nnz=round(float(nnz.mean()), 1),
        bytes=round(min(DENSE_BYTES * n, SPARSE_BYTES * float(nnz.mean())), 1),
    )


def doubts(manifest: Manifest) -> Iterator[str]:
    """Yield what is wrong with a bundle that is neither sparse nor shortenable, in a sentence."""
    active = float(np.mean(manifest.columns.frequency))
    if manifest.kept is None or active <= SPARSE:
        return
    by_length = {row.dimensions: row.neighbours for row in manifest.kept.rows}
    full = manifest.dimensions
    quarter = max(1, full // 4)
    if by_length[quarter] < SHORTENABLE * by_length[full]:
        yield (
            f"this bundle is neither sparse nor shortenable: {active:.0%} of the entries are active, and {quarter} of "
            f"{full} columns keep {by_length[quarter]:.2f} of the nearest neighbours where all keep "
            f"{by_length[full]:.2f}; use --head analytic"
        )
