"""Compressed rows: the arithmetic of `indptr`, `indices` and `values`, and rows as texts of words."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Numbers, Places
from nonneg_core.errors import ConfigInvalid, DataInvalid


class CsrRows(NamedTuple):
    """Row i is indices/values[indptr[i]:indptr[i+1]]."""

    indptr: Numbers  # (batch + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    values: Floats  # (nnz,)


def from_dense(z: Floats) -> CsrRows:
    """Return the entries above zero."""
    active = z > 0  # (batch, D)
    indptr = np.concatenate([[0], np.cumsum(active.sum(axis=1))]).astype(np.int64)
    return CsrRows(indptr, np.nonzero(active)[1].astype(np.int32), z[active])


def from_pairs(pairs: Sequence[tuple[NDArray[np.int32], Floats]]) -> CsrRows:
    """Make rows of one (indices, values) pair each; entries of exactly zero are left out."""
    indices = np.concatenate([np.zeros(0, np.int32), *(i for i, _ in pairs)]).astype(np.int32)
    values = np.concatenate([np.zeros(0, np.float32), *(v for _, v in pairs)]).astype(np.float32)
    indptr = np.concatenate([[0], np.cumsum([len(i) for i, _ in pairs])]).astype(np.int64)
    if values.all():
        return CsrRows(indptr, indices, values)
    offsets = np.concatenate([[0], np.cumsum(values != 0)])
    return CsrRows(offsets[indptr], indices[values != 0], values[values != 0])


def concatenate(parts: Sequence[CsrRows]) -> CsrRows:
    """Join rows, one part after the other."""
    starts = np.cumsum([0, *(len(part.indices) for part in parts)])
    indptr = [part.indptr[1:] + start for part, start in zip(parts, starts[:-1], strict=True)]
    return CsrRows(
        np.concatenate([np.zeros(1, np.int64), *indptr]),
        np.concatenate([part.indices for part in parts]),
        np.concatenate([part.values for part in parts]),
    )


def pick(rows: CsrRows, chosen: Places) -> CsrRows:
    """Return some rows, in the order asked for; a run of neighbours is a view, nothing is copied."""
    lengths = np.diff(rows.indptr)[chosen]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    entries: Any
    if len(chosen) and (np.diff(chosen) == 1).all():
        entries = slice(rows.indptr[chosen[0]], rows.indptr[chosen[-1] + 1])
    else:
        entries = np.repeat(rows.indptr[chosen] - indptr[:-1], lengths) + np.arange(indptr[-1])
    return CsrRows(indptr, rows.indices[entries], rows.values[entries])


def row_sums(rows: CsrRows, entries: Floats) -> Floats:
    """Return the sum of each row's entries."""
    sums = np.zeros(len(rows.indptr) - 1, np.float32)
    filled = np.flatnonzero(np.diff(rows.indptr))
    if len(filled):
        sums[filled] = np.add.reduceat(entries, rows.indptr[filled])
    return sums


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


# Vectors as texts for engines that search text: each dimension a word, repeated the more often the stronger it is.

LEVELS = 2  # a word stands once to so many times; more add little where BM25 ranks, benchmarks/terms.py
MOST_LEVELS = 64
TOP = 2.0  # a value from here on gets the highest level: so many times the root mean square of its vector's


def texts_of(rows: CsrRows, dimensions: int, names: Mapping[int, str], levels: int) -> list[str]:
    """Return one text a row, its words in the order of the dimensions."""
    if not 1 <= levels <= MOST_LEVELS:
        raise ConfigInvalid(
            f"levels={levels}", fix=f"give 1 to {MOST_LEVELS}", field="levels", value=levels, limit=MOST_LEVELS
        )
    words = words_of(dimensions, names)
    times = _levels(rows, levels)
    texts = []
    for start, end in zip(rows.indptr, rows.indptr[1:], strict=False):
        entries = zip(rows.indices[start:end].tolist(), times[start:end].tolist(), strict=True)
        texts.append(" ".join(word for j, n in entries for word in [words[j]] * n))
    return texts


def words_of(dimensions: int, names: Mapping[int, str]) -> list[str]:
    """Return the word of each dimension: the letters and digits of its name, where it alone has it; else `d17`."""
    spelled = {j: "".join(filter(str.isalnum, name.casefold())) for j, name in names.items()}
    having = Counter(spelled.values())
    numbers = {f"d{j}" for j in range(dimensions)}

    def word(j: int) -> str:
        own = spelled.get(j, "")
        return own if own and having[own] == 1 and own not in numbers else f"d{j}"

    return [word(j) for j in range(dimensions)]


def _levels(rows: CsrRows, levels: int) -> Numbers:
    sizes = np.diff(rows.indptr)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    squares = np.bincount(owners, rows.values.astype(np.float64) ** 2, len(sizes))
    usual = np.sqrt(squares / np.maximum(sizes, 1))[owners]
    return np.asarray(np.clip(np.ceil(rows.values / (TOP * usual) * levels), 1, levels), dtype=np.int64)
