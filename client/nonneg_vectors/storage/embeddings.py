"""Embeddings: many vectors of one model, held sparsely, with a dense and a CSR face."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import DataInvalid, FingerprintMismatch
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, shorten, unit
from nonneg_core.terminal.installing import needing
from nonneg_vectors.storage import csr
from nonneg_vectors.storage.csr import LEVELS, CsrRows, texts_of

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    from nonneg_vectors.storage.results import Failure

BLOCK = 4096  # rows made dense at a time


def model_label(name: str, fingerprint: str) -> str:
    """Return what tells a model from others in a sentence: its name, as far as it is known, and its fingerprint."""
    return f"{name} ({fingerprint[:8]})" if name else fingerprint[:8]


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
    failures: tuple[Failure, ...] = ()  # images that were asked for and could not be embedded

    @classmethod
    def from_dense(cls, z: NDArray[Any], *, fingerprint: str, **rest: Any) -> Embeddings:
        """Return the sparse form of dense, non-negative rows."""
        z = np.atleast_2d(np.asarray(z, dtype=np.float32))  # (batch, k)
        if z.size and z.min() < 0:
            raise DataInvalid(
                f"these vectors go below zero (to {z.min():.3g}), and embeddings hold no such entries",
                fix="cut them yourself if that is meant, np.maximum(z, 0); measure signed vectors as a plain array, "
                "nonneg_training.structure(z, labels) or `nonneg evaluate z.npy --structure`",
                value=float(z.min()),
            )
        return cls(*csr.from_dense(z), z.shape[1], fingerprint, **rest)

    @classmethod
    def from_rows(
        cls,
        pairs: Sequence[tuple[NDArray[np.int32], NDArray[np.float32]]],
        *,
        dimensions: int,
        fingerprint: str,
        **rest: Any,
    ) -> Embeddings:
        """Make embeddings of one (indices, values) pair a vector."""
        return cls(*csr.from_pairs(pairs), dimensions, fingerprint, **rest)

    @classmethod
    def concatenate(cls, parts: Sequence[Embeddings]) -> Embeddings:
        """Join them one after the other; raises where they come from different models, lengths or norms."""
        if not parts:
            raise DataInvalid("nothing to concatenate", fix="give at least one part")
        for other in parts[1:]:
            parts[0].same_form(other)
        named = all(part.ids is not None for part in parts)
        return parts[0]._with(
            csr.concatenate([part.rows for part in parts]),
            ids=tuple(name for part in parts for name in part.ids or ()) if named else None,
            failures=tuple(failure for part in parts for failure in part.failures),
        )

    def __post_init__(self) -> None:
        if self.ids is not None and len(self.ids) != len(self):
            raise DataInvalid(f"{len(self.ids)} ids for {len(self)} vectors", fix="give one id a vector")

    def __len__(self) -> int:
        return len(self.indptr) - 1

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.float32]]]:
        return (self.row(i) for i in range(len(self)))

    def __getitem__(self, which: int | slice | Sequence[int] | NDArray[Any]) -> Embeddings:
        """Return some of the vectors: a number, a slice, a list of numbers or a mask; always Embeddings again."""
        chosen = np.atleast_1d(np.arange(len(self))[which])
        ids = None if self.ids is None else tuple(self.ids[i] for i in chosen)
        return self._with(csr.pick(self.rows, chosen), ids=ids, failures=())

    def __repr__(self) -> str:
        return f"Embeddings({len(self)} x {self.dimensions}, {self.model or 'model'} {self.fingerprint[:8]})"

    @property
    def rows(self) -> CsrRows:
        """The three arrays together."""
        return CsrRows(self.indptr, self.indices, self.values)

    def row(self, i: int) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        """Return the indices and the values of one vector."""
        span = slice(self.indptr[i], self.indptr[i + 1])
        return self.indices[span], self.values[span]

    @property
    def nnz(self) -> NDArray[np.int64]:
        """The number of active dimensions of each vector."""
        return np.diff(self.indptr)

    def sparsity(self) -> float:
        """Return the share of entries that are zero."""
        return 1 - len(self.indices) / max(1, len(self) * self.dimensions)

    def numpy(self) -> Vectors:
        """Return the dense face: float32 (batch, dimensions)."""
        dense = np.zeros((len(self), self.dimensions), dtype=np.float32)
        dense[np.repeat(np.arange(len(self)), self.nnz), self.indices] = self.values
        return dense

    def csr(self) -> csr_array[Any, Any]:
        """Return the sparse face: a scipy CSR array that shares this one's memory."""
        with needing("a CSR array", extra="search"):
            from scipy.sparse import csr_array
        return csr_array((self.values, self.indices, self.indptr), shape=(len(self), self.dimensions))

    def shorten(self, dimensions: int | None = None, top_k: int | None = None, *, normalize: bool = True) -> Embeddings:
        """Return the same vectors, shorter, by the rule the server follows."""
        dimensions = check_dimensions(dimensions, self.dimensions, "these vectors'")
        check_top_k(top_k)
        short = [
            csr.from_dense(shorten(self[start : start + BLOCK].numpy(), dimensions, top_k, normalize=normalize))
            for start in range(0, max(1, len(self)), BLOCK)
        ]
        return self._with(csr.concatenate(short), dimensions=dimensions, normalized=normalize)

    def similarity(self, other: Embeddings | None = None) -> Vectors:
        """Return cosines between these vectors and the others', (batch, others); among themselves without `other`."""
        other = self if other is None else other
        self.same_form(other)
        return np.asarray(unit(self.numpy()) @ unit(other.numpy()).T)

    def explain(self, i: int, j: int, other: Embeddings | None = None) -> list[tuple[int, float]]:
        """Return why two vectors are alike: each shared dimension's part of their cosine, the largest first."""
        other = self if other is None else other
        self.same_form(other)
        parts = (unit(self[i].numpy()) * unit(other[j].numpy()))[0]  # (dimensions,): they sum to the cosine
        order = np.lexsort((np.arange(len(parts)), -parts))
        return [(int(d), float(parts[d])) for d in order if parts[d] > 0]

    def to_terms(self, names: Mapping[int, str] | None = None, *, levels: int = LEVELS) -> list[str]:
        """Return each vector as a text of words, one a dimension, repeated the more often the stronger it is.

        For engines that search text, such as SQLite FTS5. names: of the dimensions, as an `Index` has them; a dimension
        without one is `d17`. levels: how often a word stands at most.
        """
        return texts_of(self.rows, self.dimensions, names or {}, levels)

    def named(self, ids: Sequence[str] | None) -> Embeddings:
        """Return the same vectors under these ids."""
        return replace(self, ids=None if ids is None else tuple(ids))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write to .npz, .safetensors, .parquet or .npy, with ids and fingerprint."""
        from nonneg_vectors.storage.vector_files import save

        save(self, path)

    @staticmethod
    def load(path: str | os.PathLike[str]) -> Embeddings:
        """Read what `save` wrote, or all shards of a data set."""
        from nonneg_vectors.storage.vector_files import load

        return load(path)

    @staticmethod
    def scan(target: str | os.PathLike[str]) -> Iterator[Embeddings]:
        """Return the vectors of a data set, a shard at a time: a folder, or an address as s3://bucket/folder."""
        from nonneg_vectors.storage.addresses import Address
        from nonneg_vectors.storage.data_set_files import scan

        return scan(Address.of(os.fspath(target)))

    def same_model(self, other: Embeddings) -> None:
        """Raise unless both come from one model: distances across models mean nothing."""
        if self.fingerprint != other.fingerprint:
            raise FingerprintMismatch(
                f"vectors of {model_label(self.model, self.fingerprint)} and of "
                f"{model_label(other.model, other.fingerprint)} cannot be compared",
                fix="embed both with the same model; for an index of another one: nonneg index PHOTOS -o NEW",
                field="fingerprint",
                value=other.fingerprint,
            )

    def same_form(self, other: Embeddings) -> None:
        """Raise unless both come from one model, at one length, both normalised or both not."""
        self.same_model(other)
        if (self.dimensions, self.normalized) != (other.dimensions, other.normalized):
            raise DataInvalid(
                f"vectors of {self.dimensions} and of {other.dimensions} dimensions, normalised {self.normalized} and "
                f"{other.normalized}, do not belong together",
                fix="shorten both alike first",
            )

    def _with(self, made: CsrRows, **changes: Any) -> Embeddings:
        return replace(self, indptr=made.indptr, indices=made.indices, values=made.values, **changes)
