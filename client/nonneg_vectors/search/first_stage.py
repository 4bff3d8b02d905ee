"""The first of a search's two stages: short codes of all vectors, from which FAISS finds candidates.

A vector is turned onto the axes along which the stored vectors are largest, and cut to the first of them; two
neighbouring axes share a code of four bits, which FAISS compares without leaving the processor's registers. The codes
say nothing that the rows do not: where the file is missing or behind, it is made from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.files.atomic import atomic_write
from nonneg_core.terminal.installing import needing
from nonneg_vectors.storage.csr import CsrRows

AXES = 384  # two of them in four bits: 96 bytes a vector
TURNS = 2  # of the axes towards the largest ones
SAMPLE = 4096  # vectors that the axes and codes are fitted to


class FirstStage:
    """An index of FAISS, in which a vector's number is its row's."""

    def __init__(self, index: Any) -> None:
        self._index = index

    @classmethod
    def read(cls, path: Path) -> FirstStage:
        """Read what `write` wrote."""
        return cls(import_faiss().read_index(str(path)))

    @classmethod
    def fit(cls, sample: Floats) -> FirstStage:
        """Make an empty one for vectors like these."""
        faiss = import_faiss()
        dimensions = sample.shape[1]
        axes = min(AXES, dimensions) // 2 * 2
        turn = faiss.LinearTransform(dimensions, axes, False)
        faiss.copy_array_to_vector(largest_axes(sample, axes).T.ravel(), turn.A)
        turn.is_trained = True
        codes = faiss.IndexPQFastScan(axes, axes // 2, 4, faiss.METRIC_INNER_PRODUCT)
        index = faiss.IndexPreTransform(turn, codes)
        index.train(sample)
        return cls(index)

    def __len__(self) -> int:
        return int(self._index.ntotal)

    def add(self, rows: CsrRows, dimensions: int) -> None:
        """Append the codes of some rows."""
        self._index.add(dense(rows, dimensions))

    def candidates(self, weights: Floats, count: int) -> Numbers:
        """Return the numbers of the vectors that seem to have the largest inner products, falling."""
        numbers = self._index.search(weights[None], min(count, len(self)))[1][0]
        return np.asarray(numbers[numbers >= 0], np.int64)

    def write(self, path: Path) -> None:
        """Put it on disk, whole or not at all."""
        with atomic_write(path) as temporary:
            import_faiss().write_index(self._index, str(temporary))


def largest_axes(sample: Floats, count: int) -> Floats:
    """Return orthonormal axes along which the rows are largest, nearly the best ones, the largest first: (D, count)."""
    axes = np.random.default_rng(0).standard_normal((sample.shape[1], count), np.float32)
    for _ in range(TURNS):
        axes = np.linalg.qr(sample.T @ (sample @ axes))[0]
    along = sample @ axes
    turned: Floats = axes @ np.linalg.eigh(along.T @ along)[1][:, ::-1]
    return turned


def dense(rows: CsrRows, dimensions: int) -> Floats:
    """Return rows with their zeros."""
    z = np.zeros((len(rows.indptr) - 1, dimensions), np.float32)
    z[np.repeat(np.arange(len(z)), np.diff(rows.indptr)), rows.indices] = rows.values
    return z


def import_faiss() -> Any:
    """Return FAISS; MissingExtra where it is not installed."""
    with needing("the local index", extra="search"):
        import faiss
    faiss.omp_set_num_threads(1)  # more wait for each other actively, minutes where other work has the cores
    return faiss
