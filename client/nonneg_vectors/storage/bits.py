"""Vectors as bits: which columns of a model have one, how whole vectors ask, and their file.

A bit for each of the 1,280 columns of largest variance over a model's calibration photos, in this order, so that the
first bits alone are a shorter form; all columns of a model that has no more. A bit is set where the vector, divided by
its length, is above the mean of its column. Whole vectors ask: by how far they lie from these means.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.arrays import Floats, Numbers
from nonneg_core.errors import DataInvalid
from nonneg_core.files import safetensors_file
from nonneg_core.shortening import Vectors, check_dimensions, unit
from nonneg_vectors.storage.embeddings import BLOCK, Embeddings
from nonneg_vectors.storage.safetensors_files import joined, metadata_of, parted

MOST = 1280  # bits of a vector
Bits = NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class BitForm:
    """Which columns of a model have a bit, the one of largest variance first, and from where on it is set."""

    columns: NDArray[np.int32]  # (bits,)
    means: Floats  # (bits,): over calibration photos whose vectors have length one
    dimensions: int  # of the model's vectors

    @classmethod
    def of(cls, means: Sequence[float], variances: Sequence[float]) -> BitForm:
        """Return the form of a model, from what its manifest says of every column."""
        columns = np.argsort(-np.asarray(variances), kind="stable")[:MOST]
        return cls(columns.astype(np.int32), np.asarray(means, np.float32)[columns], len(means))

    @classmethod
    def of_dimensions(cls, dimensions: Iterable[Mapping[str, Any]]) -> BitForm:
        """Return the form of a served model, from all of its dimensions as `Client.dimensions` lists them."""
        listed = sorted(dimensions, key=lambda one: int(one["dimension"]))
        return cls.of([one["expected_activation"] for one in listed], [one["variance"] for one in listed])

    def __len__(self) -> int:
        return len(self.columns)

    def first(self, bits: int | None) -> BitForm:
        """Return the form of the first bits alone; without a number, of all."""
        bits = check_dimensions(bits, len(self))
        return replace(self, columns=self.columns[:bits], means=self.means[:bits])

    def centred(self, z: Vectors) -> Vectors:
        """Return how a vector weighs the bits: how far it lies above the mean of each one's column."""
        if z.shape[-1] != self.dimensions:
            raise DataInvalid(
                f"these vectors have {z.shape[-1]} dimensions; bits are made and asked with all {self.dimensions}",
                fix="embed without dimensions=",
                value=z.shape[-1],
                limit=self.dimensions,
            )
        return np.asarray(np.take(unit(z), self.columns, axis=-1) - self.means)  # (batch, bits)

    def pack(self, z: Vectors) -> Bits:
        """Return the bits of vectors, the first in the highest bit of the first byte: 160 bytes for 1,280."""
        return np.packbits(self.centred(z) > 0, axis=-1)

    def scores(self, z: Vectors, packed: Bits) -> Floats:
        """Return the cosine of each vector that asks, as it weighs the bits, and each vector of bits as +1 and -1."""
        weights = unit(self.centred(z))  # (queries, bits)
        cosines = np.empty((len(weights), len(packed)), np.float32)
        for start in range(0, len(packed), BLOCK):
            signs = np.unpackbits(packed[start : start + BLOCK], axis=-1, count=len(self)).astype(np.float32) * 2 - 1
            cosines[:, start : start + BLOCK] = weights @ signs.T
        return cosines / np.float32(np.sqrt(len(self)))


@dataclass(frozen=True, eq=False)
class BitVectors:
    """Vectors of one model as bits, with their ids."""

    packed: Bits  # (batch, bytes)
    form: BitForm
    made_of: Embeddings  # without rows: what the vectors are of
    ids: tuple[str, ...] | None = None

    @classmethod
    def of(cls, embeddings: Embeddings, form: BitForm) -> BitVectors:
        """Return the bits of whole vectors."""
        rows = [form.pack(embeddings[i : i + BLOCK].numpy()) for i in range(0, max(1, len(embeddings)), BLOCK)]
        return cls(np.concatenate(rows), form, embeddings[:0].named(None), embeddings.ids)

    def __len__(self) -> int:
        return len(self.packed)

    def nearest(self, queries: Embeddings, k: int) -> tuple[Numbers, Floats]:
        """Return the numbers and scores of the k nearest to each whole vector that asks, the nearest first."""
        self.made_of.same_model(queries)
        scores = self.form.scores(queries.numpy(), self.packed)  # (queries, batch)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return order, np.take_along_axis(scores, order, axis=1)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a safetensors file of `bits`, `columns`, `means` and `ids`."""
        arrays: dict[str, NDArray[Any]] = {
            "columns": self.form.columns,
            "means": self.form.means,
            "bits": self.packed,
        }
        if self.ids is not None:
            arrays["ids"] = np.frombuffer(joined(self.ids), dtype=np.uint8)
        safetensors_file.write(Path(path), arrays, metadata_of(self.made_of))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> BitVectors:
        """Map what `save` wrote."""
        try:
            arrays, _, about = safetensors_file.read(Path(path))
            width = int(about["dimensions"])
            form = BitForm(arrays["columns"], arrays["means"], width)
            made_of = Embeddings.from_dense(
                np.zeros((0, width)),
                fingerprint=about["fingerprint"],
                model=about["model"],
                normalized=about["normalized"] == "true",
            )
            return cls(arrays["bits"], form, made_of, parted(arrays["ids"].tobytes()) if "ids" in arrays else None)
        except (OSError, KeyError, ValueError) as error:
            raise DataInvalid(f"{path} holds no vectors of bits ({error})", fix="save them again") from error
