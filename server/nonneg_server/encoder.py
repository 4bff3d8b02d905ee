"""Local mode: the server's path from image to vector, in process and without a server."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_client.embeddings import Embeddings
from nonneg_client.errors import DataInvalid
from nonneg_client.shortening import shorten
from nonneg_export.bundle import Bundle, open_bundle
from nonneg_server.engine.engine import Engine, Photo

Source = str | os.PathLike[str] | bytes | Image.Image | NDArray[np.uint8]


class Encoder:
    """A bundle that embeds images here: the same decoder, view, runtime and shortening as the server's.

    >>> with Encoder() as encoder:                       # the default model
    ...     encoder.embed(["a.jpg"], dimensions=256)     # -> Embeddings
    """

    def __init__(self, bundle: Bundle | str | os.PathLike[str] | None = None, *, threads: int | None = None) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else open_bundle(bundle)
        self._engine = Engine(self.bundle, threads=threads)

    def embed(
        self,
        images: Source | Iterable[Source],
        dimensions: int | None = None,
        top_k: int | None = None,
        *,
        normalize: bool = True,
    ) -> Embeddings:
        """Embed one image or many: paths, bytes, PIL images or uint8 arrays (height, width, 3)."""
        manifest = self.bundle.manifest
        sources = [images] if isinstance(images, (str, os.PathLike, bytes, Image.Image, np.ndarray)) else list(images)
        jobs = [self._engine.submit(photo(source)) for source in sources]
        raw = [job.result().vector for job in jobs]
        z = np.stack(raw) if raw else np.zeros((0, manifest.dimensions), np.float32)  # (batch, D)
        return Embeddings.from_dense(
            shorten(z, dimensions, top_k, normalize=normalize),
            fingerprint=manifest.fingerprint,
            model=manifest.name,
            normalized=normalize,
        )

    def close(self) -> None:
        self._engine.close()

    def __enter__(self) -> Encoder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def photo(source: Source) -> Photo:
    """What the engine takes: a file's bytes, or an image already decoded."""
    if isinstance(source, (bytes, Image.Image)):
        return source
    if isinstance(source, np.ndarray):
        return _from_array(source)
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise DataInvalid(
            f"{source} cannot be read ({error.strerror})", fix="check the path and its permissions", value=str(source)
        ) from None


def _from_array(array: NDArray[Any]) -> Image.Image:
    if array.dtype != np.uint8 or not (array.ndim == 2 or (array.ndim == 3 and array.shape[2] in (3, 4))):
        raise DataInvalid(
            f"an array of {array.dtype} {array.shape} is no image",
            fix="give uint8 (height, width), (height, width, 3) or (height, width, 4)",
        )
    return Image.fromarray(array)
