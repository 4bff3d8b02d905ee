"""Compressed rows: the arithmetic of `indptr`, `indices` and `values` behind `Embeddings`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid


class CsrRows(NamedTuple):
    """Row i is indices/values[indptr[i]:indptr[i+1]]."""

    indptr: NDArray[np.int64]  # (batch + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    values: NDArray[np.float32]  # (nnz,)


def from_dense(z: NDArray[np.float32]) -> CsrRows:
    """Return the entries above zero."""
    active = z > 0  # (batch, D)
    indptr = np.concatenate([[0], np.cumsum(active.sum(axis=1))]).astype(np.int64)
    return CsrRows(indptr, np.nonzero(active)[1].astype(np.int32), z[active])


def from_pairs(pairs: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]]) -> CsrRows:
    """Make rows of one (indices, values) pair each; entries of exactly zero are left out."""
    indices = np.concatenate([np.zeros(0, np.int32), *(i for i, _ in pairs)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.float32), *(v for _, v in pairs)]).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum([len(i) for i, _ in pairs])]).astype(np.int64)
    if values.all():
        return CsrRows(indptr, indices, values)
    kept = np.concatenate([[0], np.cumsum(values != 0)])
    return CsrRows(kept[indptr], indices[values != 0], values[values != 0])


def concatenate(parts: Sequence[CsrRows]) -> CsrRows:
    """Join rows, one part after the other."""
    starts = np.cumsum([0, *(len(part.indices) for part in parts)])
    indptr = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return CsrRows(
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def pick(rows: CsrRows, chosen: NDArray[np.intp]) -> CsrRows:
    """Return some rows, in the order asked for; a run of neighbours is a view, nothing is copied."""
    lengths = np.diff(rows.indptr)[chosen]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries: Any = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    if len(chosen) and (np.diff(chosen) == 1).all():
        entries = slice(rows.indptr[chosen[0]], rows.indptr[chosen[-1] + 1])
    return CsrRows(indptr, rows.indices[entries], rows.values[entries])


def check(rows: CsrRows, dimensions: int) -> None:
    """Raise unless indices are sorted, unique and below `dimensions`, and values finite and above zero."""
    indptr, indices, values = rows
    n = len(indices)
    ends = len(indptr) > 0 and indptr[0] == 0 and indptr[-1] == n == len(values)
    if not ends or (np.diff(indptr) < 0).any():
        raise DataInvalid("the rows do not fit their entries", fix="write the file again")
    if n and not (int(indices.min()) >= 0 and int(indices.max()) < dimensions):
        raise DataInvalid(f"an index is outside 0..{dimensions - 1}", fix="write the file again")
    falls = np.diff(indices) <= 0
    between = indptr[(indptr > 0) & (indptr < n)]
    falls[between - 1] = False  # from one row to the next the index may fall
    if falls.any():
        raise DataInvalid("the indices of a row are not sorted and unique", fix="write the file again")
    if n and not (np.isfinite(values).all() and float(values.min()) > 0):
        raise DataInvalid("a value is not finite and above zero", fix="write the file again")
