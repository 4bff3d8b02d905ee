"""Embeds columns of images in data engines: one callable for Ray Data, datasets, Spark, Daft and pandas."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg_core.errors import DataInvalid, FingerprintMismatch, NonnegError
from nonneg_core.files.image_files import read_image
from nonneg_core.pixels.formats import from_array
from nonneg_core.shortening import check_dimensions, check_top_k, shorten

if TYPE_CHECKING:
    from nonneg_runtime.inference.encoder import BundleEncoder
    from nonneg_runtime.seeing.preprocess import PhotoInput


class Embed:
    """Embeds the images of a batch of columns and returns the batch with `indices`, `values` and `failure` added.

    An image is a file's bytes, a path, uint8 pixels, a PIL image, or a mapping with `bytes` or `path` as Hugging Face
    datasets hold them. An image that cannot be embedded has empty `indices` and `values`, and says why in `failure`,
    which is empty for the others. A column of one type, as files with a schema need it.

    >>> embed = Embed("photo", keep=205, column="image")
    >>> embed({"id": ["a", "b"], "image": ["a.jpg", "b.jpg"]})["indices"]

    The object is a few hundred bytes when it is pickled: every process opens the model when it embeds its first batch.
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | None = None,
        *,
        column: str = "image",
        dimensions: int | None = None,
        keep: int | None = None,
        threads: int | None = None,
        fingerprint: str | None = None,
    ) -> None:
        """Check what to embed with; `keep` is as a request's `top_k`; another model than `fingerprint` is refused."""
        check_top_k(keep)
        self.model = None if model is None else os.fspath(model)
        self.column = column
        self.dimensions = dimensions
        self.keep = keep
        self.threads = threads
        self.fingerprint = fingerprint
        self._encoder: BundleEncoder | None = None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Return the batch's columns, and `indices`, `values` and `failure` of each of its images."""
        images = self._images(batch)
        encoder = self._opened()
        jobs = [self._begun(encoder, image) for image in images]
        rows = [self._row(job) for job in jobs]
        indices, values, failure = zip(*rows, strict=True) if rows else ((), (), ())
        return {**batch, "indices": list(indices), "values": list(values), "failure": list(failure)}

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_encoder": None}

    def _images(self, batch: Mapping[str, Any]) -> Sequence[Any]:
        if self.column not in batch:
            raise DataInvalid(
                f"the batch has no column {self.column!r}",
                fix=f"pass column=, one of {', '.join(map(repr, batch)) or 'none here'}",
                field="column",
                value=self.column,
            )
        images: Sequence[Any] = batch[self.column]
        return images

    def _opened(self) -> BundleEncoder:
        """Return the encoder, opened on the first call in this process."""
        if self._encoder is None:
            from nonneg_runtime.inference.encoder import BundleEncoder
            from nonneg_runtime.inference.variants import open_variant

            bundle = open_variant(self.model, "auto")
            check_dimensions(self.dimensions, bundle.manifest.dimensions)
            if self.fingerprint not in (None, bundle.manifest.fingerprint):
                raise FingerprintMismatch(
                    f"the model {bundle.manifest.name} has the fingerprint {bundle.manifest.fingerprint}, "
                    f"and {self.fingerprint} is asked for",
                    fix="install the same version of nonneg, or copy the same bundle, on every machine",
                )
            self._encoder = BundleEncoder(bundle, threads=self.threads)
        return self._encoder

    def _begun(self, encoder: BundleEncoder, image: Any) -> Any:
        """Return the job of an image, or the error that keeps it from being one."""
        try:
            return encoder.submit(photo_of(image))
        except NonnegError as error:
            return error

    def _row(self, job: Any) -> tuple[list[int], list[float], str]:
        try:
            if isinstance(job, NonnegError):
                raise job
            vector = shorten(job.result(), self.dimensions, self.keep)  # (k,)
        except NonnegError as error:
            return [], [], str(error)
        (indices,) = vector.nonzero()
        return indices.tolist(), vector[indices].tolist(), ""


def photo_of(image: Any) -> PhotoInput:
    """Return what the encoder takes: a file's bytes, or a PIL image."""
    if isinstance(image, Mapping):
        image = image.get("bytes") or image.get("path")
    if isinstance(image, (bytes, bytearray, memoryview)):
        return bytes(image)
    if isinstance(image, (str, os.PathLike)):
        return read_image(Path(image))
    if hasattr(image, "dtype") and getattr(image, "ndim", 0) >= 2:
        return from_array(image)
    if hasattr(image, "convert"):
        picture: PhotoInput = image
        return picture
    raise DataInvalid(
        f"{type(image).__name__} is not an image", fix="give a file's bytes, a path, uint8 pixels or a PIL image"
    )
