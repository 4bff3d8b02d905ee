"""What a head is taught: dense vectors of one or several backbones, each half whitened, whose cosines retrieve best."""

from __future__ import annotations

import numpy as np

from nonneg_core.heads.rotated import Matrix
from nonneg_core.heads.spread import Rows, spread
from nonneg_core.shortening import unit

EXPONENT = 0.25
FLOOR = 0.02  # of the mean eigenvalue: no smaller one is divided by


def half_whitened(rows: Rows) -> Matrix:
    """Return all principal components of the rows, each divided by eigenvalue^.25, at a mean length of one."""
    of = spread(rows)
    values, axes = np.linalg.eigh(of.covariance)
    turned = ((rows - of.mean) @ (axes / np.maximum(values, values.mean() * FLOOR) ** EXPONENT)).astype(np.float32)
    found: Matrix = turned / np.linalg.norm(turned, axis=1).mean()
    return found


def taught(backbones: list[Rows]) -> Matrix:
    """Return the teacher's vectors of length one: those of all backbones side by side."""
    side_by_side = np.concatenate([half_whitened(rows) for rows in backbones], axis=1)
    return unit(side_by_side)
