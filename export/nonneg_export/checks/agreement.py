"""How alike two encoders answer, and what columns keep of the features they were made of: cosines and neighbours."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Flags, Floats
from nonneg_core.errors import CheckFailed
from nonneg_core.shortening import shorten, unit
from nonneg_export.checks.quality import LENGTHS
from nonneg_runtime.bundle.evidence import Check, Kept, KeptRow
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_vectors.evaluation.ranking import rank
from nonneg_vectors.evaluation.retrieval import bytes_of

NEIGHBOURS = 10


@dataclass(frozen=True)
class Agreement:
    """The changed encoder against the one it was made from, on the same photos."""

    photos: int
    mean_cosine: float
    least_cosine: float
    neighbours_kept: float  # of each photo's nearest, the share that is still among them


def agreement(before: NDArray[Any], after: NDArray[Any], *, same: bool = True, nearest: int = NEIGHBOURS) -> Agreement:
    """Compare the rows of two encoders for the same photos; two zero vectors are alike.

    same: whether both are in one space; where not, the cosines between them are NaN.
    """
    a, b = unit(before), unit(after)
    cosines = (
        np.where(a.any(axis=1) | b.any(axis=1), np.einsum("ij,ij->i", a, b), 1) if same else np.full(len(a), np.nan)
    )
    depth = min(nearest, len(a) - 1)
    shares = (
        [
            len(set(x.order.tolist()) & set(y.order.tolist())) / depth
            for x, y in zip(_nearest(a, depth), _nearest(b, depth), strict=True)
        ]
        if depth
        else [1.0]
    )
    return Agreement(len(a), float(cosines.mean()), float(cosines.min()), float(np.mean(shares)))


def as_checks(likeness: Agreement, min_quality: float) -> tuple[Check, Check]:
    """Return the likeness as checks of a manifest; raises when too few neighbours stay."""
    scope = f"of the {NEIGHBOURS} nearest neighbours, on {likeness.photos} photos"
    if likeness.neighbours_kept < min_quality:
        raise CheckFailed(
            f"only {likeness.neighbours_kept:.3f} {scope}, are kept (mean cosine {likeness.mean_cosine:.4f}), "
            f"less than {min_quality}",
            fix="give more photos like those it will see, or lower --min-quality",
            field="min_quality",
            value=likeness.neighbours_kept,
            limit=min_quality,
        )
    cosine = f"1 - mean cosine to fp32 (least cosine {likeness.least_cosine:.4f})"
    return (
        Check(name="neighbours", what=f"share lost {scope}", value=1 - likeness.neighbours_kept, limit=1 - min_quality),
        Check(name="cosine", what=cosine, value=1 - likeness.mean_cosine, limit=1),
    )


def _nearest(z: NDArray[Any], depth: int) -> Any:
    return rank(z, z, np.full(len(z), depth), leave_one_out=True)


# What non-negative columns keep of the features they were made of, by length: neighbours, without any labels.

MOST, SHARE, FEWEST = 500, 5, 20  # photos held out: at most, one of so many, and none of fewer
SPARSE = 0.5  # active entries of a vector, at most, for it to be called sparse
SHORTENABLE = 0.8  # of the neighbours that all columns keep, the share that a quarter of them keeps, at least


def held_out(photos: int) -> Flags:
    """Return which photos a head is not computed from: some that lie evenly between the others."""
    mask = np.zeros(photos, dtype=np.bool_)
    if photos >= FEWEST:
        count = min(MOST, photos // SHARE)
        mask[np.arange(count) * photos // count] = True
    return mask


def shared_neighbours(features: Floats, z: Floats, data: str) -> Kept | None:
    """Return how many of the nearest by `features` stay the nearest by `z`, row for row; None without photos to ask."""
    if len(z) < 2:
        return None
    full = z.shape[1]
    quarter = max(1, full // 4)
    lengths = sorted({full, quarter, *(n for n in LENGTHS if n < full)}, reverse=True)
    nearest = min(NEIGHBOURS, max(1, len(z) // NEIGHBOURS))  # of few photos ten are nearly all
    rows = tuple(_row(features, shorten(z, n), n, nearest) for n in lengths)
    return Kept(data=data, images=len(z), nearest=nearest, features=features.shape[1], rows=rows)


def _row(features: Floats, z: Floats, n: int, nearest: int) -> KeptRow:
    nnz = np.count_nonzero(z, axis=1)
    return KeptRow(
        dimensions=n,
        neighbours=round(agreement(features, z, same=False, nearest=nearest).neighbours_kept, 4),
        zero_share=round(float((nnz == 0).mean()), 4),
        mean_nnz=round(float(nnz.mean()), 1),
        bytes=round(bytes_of(n, float(nnz.mean())), 1),
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
