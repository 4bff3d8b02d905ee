"""Embeddings: many vectors of one model, held sparsely, with a dense and a CSR face."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nonneg_client.errors import DataInvalid, FingerprintMismatch, MissingExtra
from nonneg_client.shortening import Vectors, shorten

if TYPE_CHECKING:
    from scipy.sparse import csr_array


@dataclass(frozen=True, eq=False)
class Embeddings:
    """`len(self)` vectors in compressed rows: row i is indices/values[indptr[i]:indptr[i+1]].

    Indices are 0-based, sorted and unique within a row; values are > 0. `ids` name the rows (paths, mostly).
    """

    indptr: NDArray[np.int64]  # (batch + 1,)
    indices: NDArray[np.int32]  # (nnz,)
    values: NDArray[np.float32]  # (nnz,)
    dimensions: int
    fingerprint: str
    model: str = ""
    ids: tuple[str, ...] | None = None
    normalized: bool = True

    @classmethod
    def from_dense(cls, z: NDArray[Any], *, fingerprint: str, **rest: Any) -> Embeddings:
        """The sparse form of dense rows; what is not above zero is left out."""
        z = np.atleast_2d(np.asarray(z, dtype=np.float32))  # (batch, k)
        active = z > 0
        indptr = np.concatenate([[0], np.cumsum(active.sum(axis=1))]).astype(np.int64)
        indices = np.nonzero(active)[1].astype(np.int32)
        return cls(indptr, indices, z[active], z.shape[1], fingerprint, **rest)

    @classmethod
    def from_rows(
        cls,
        rows: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]],
        *,
        dimensions: int,
        fingerprint: str,
        **rest: Any,
    ) -> Embeddings:
        """From one (indices, values) pair a vector."""
        lengths = [len(indices) for indices, _ in rows]
        indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        indices = np.concatenate([np.zeros(0, np.int32), *(i for i, _ in rows)]).astype(np.int32)
        values = np.concatenate([np.zeros(0, np.float32), *(v for _, v in rows)]).astype(np.float32)
        return cls(indptr, indices, values, dimensions, fingerprint, **rest)

    def __post_init__(self) -> None:
        if self.ids is not None and len(self.ids) != len(self):
            raise DataInvalid(f"{len(self.ids)} ids for {len(self)} vectors", fix="give one id a vector")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        return (self.row(i) for i in range(len(self)))

    def row(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """The indices and the values of one vector."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[span], self.values[span]

    @property
    def nnz(self) -> NDArray[np.int64]:
        """The number of active dimensions of each vector."""
        return np.diff(self.indptr)

    def numpy(self) -> Vectors:
        """The dense face: float32 (batch, dimensions)."""
        dense = np.zeros((len(self), self.dimensions), dtype=np.float32)
        dense[np.repeat(np.arange(len(self)), self.nnz), self.indices] = self.values
        return dense

    def csr(self) -> csr_array[Any, Any]:
        """The sparse face: a scipy CSR array that shares this one's memory."""
        try:
            from scipy.sparse import csr_array
        except ModuleNotFoundError:
            raise MissingExtra("a CSR array needs scipy", fix='pip install "nonneg[search]"') from None
        return csr_array((self.values, self.indices, self.indptr), shape=(len(self), self.dimensions))

    def shorten(self, dimensions: int | None = None, top_k: int | None = None, *, normalize: bool = True) -> Embeddings:
        """The same vectors, shorter, by the rule the server follows."""
        z = shorten(self.numpy(), dimensions, top_k, normalize=normalize)
        return Embeddings.from_dense(
            z, fingerprint=self.fingerprint, model=self.model, ids=self.ids, normalized=normalize
        )

    def same_model(self, other: Embeddings) -> None:
        """Raise unless both come from one model: distances across models mean nothing."""
        if self.fingerprint != other.fingerprint:
            raise FingerprintMismatch(
                f"vectors of {self.fingerprint} and of {other.fingerprint} cannot be compared",
                fix="embed both collections with the same model",
                value=other.fingerprint,
            )
