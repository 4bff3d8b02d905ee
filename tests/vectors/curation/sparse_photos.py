"""Sparse vectors for the tests of curation, from dense ones."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Rows:
    indptr: np.ndarray
    indices: np.ndarray
    values: np.ndarray
    dimensions: int


def sparse(z: np.ndarray) -> Rows:
    z = np.asarray(z, np.float32)
    where, what = np.nonzero(z)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(where, minlength=len(z)))])
    return Rows(indptr, what.astype(np.int32), z[where, what], z.shape[1])


def unit(z: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(z, axis=1, keepdims=True)
    return np.divide(z, norms, out=np.zeros_like(z), where=norms > 0).astype(np.float32)


def photos(n: int = 300, d: int = 40, *, themes: int = 6, seed: int = 0) -> np.ndarray:
    """Unit rows around a few themes, a fifth of their entries active; a few are copies of others."""
    rng = np.random.default_rng(seed)
    centres = np.maximum(rng.normal(size=(themes, d)) - 0.5, 0)
    z = centres[np.arange(n) % themes] + 0.4 * np.maximum(rng.normal(size=(n, d)) - 0.5, 0)
    z[-5:] = z[:5]
    return unit(z)
