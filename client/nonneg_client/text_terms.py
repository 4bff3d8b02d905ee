"""Vectors as texts for engines that search text: each dimension a word, repeated the more often the stronger it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nonneg_client.csr import CsrRows
from nonneg_core.errors import ConfigInvalid

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


def _levels(rows: CsrRows, levels: int) -> NDArray[np.int64]:
    sizes = np.diff(rows.indptr)
    owners = np.repeat(np.arange(len(sizes)), sizes)
    squares = np.bincount(owners, rows.values.astype(np.float64) ** 2, len(sizes))
    usual = np.sqrt(squares / np.maximum(sizes, 1))[owners]
    return np.asarray(np.clip(np.ceil(rows.values / (TOP * usual) * levels), 1, levels), dtype=np.int64)
