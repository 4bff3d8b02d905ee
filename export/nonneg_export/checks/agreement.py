"""How alike two encoders answer: cosines, and whether the same photos are found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import CheckFailed
from nonneg_core.evaluation.ranking import rank
from nonneg_core.shortening import unit
from nonneg_runtime.evidence import Check

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
    kept = (
        [
            len(set(x.order.tolist()) & set(y.order.tolist())) / depth
            for x, y in zip(_nearest(a, depth), _nearest(b, depth), strict=True)
        ]
        if depth
        else [1.0]
    )
    return Agreement(len(a), float(cosines.mean()), float(cosines.min()), float(np.mean(kept)))


def as_checks(found: Agreement, min_quality: float) -> tuple[Check, Check]:
    """Return the likeness as checks of a manifest; raises when too few neighbours stay."""
    kept = f"of the {NEIGHBOURS} nearest neighbours, on {found.photos} photos"
    if found.neighbours_kept < min_quality:
        raise CheckFailed(
            f"only {found.neighbours_kept:.3f} {kept}, are kept (mean cosine {found.mean_cosine:.4f}), "
            f"less than {min_quality}",
            fix="give more photos like those it will see, or lower --min-quality",
            field="min_quality",
            value=found.neighbours_kept,
            limit=min_quality,
        )
    cosine = f"1 - mean cosine to fp32 (least cosine {found.least_cosine:.4f})"
    return (
        Check(name="neighbours", what=f"share lost {kept}", value=1 - found.neighbours_kept, limit=1 - min_quality),
        Check(name="cosine", what=cosine, value=1 - found.mean_cosine, limit=1),
    )


def _nearest(z: NDArray[Any], depth: int) -> Any:
    return rank(z, z, np.full(len(z), depth), leave_one_out=True)
