"""The engine: image bytes in, raw vectors out. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_client.decode import MAX_PIXELS, decode, upright_rgb
from nonneg_client.errors import NotReady
from nonneg_export.bundle import Bundle
from nonneg_export.runtime import Session
from nonneg_server.cores import granted

Photo = bytes | Image.Image


@dataclass(frozen=True)
class Encoded:
    """One image's raw vector and where its time went."""

    vector: NDArray[np.float32]  # (D,)
    queue_seconds: float
    decode_seconds: float
    run_seconds: float


class Engine:
    """One bundle, loaded: every image is one job (decode -> view -> run) on a pool over one shared session."""

    def __init__(self, bundle: Bundle, *, threads: int | None = None, max_pixels: int = MAX_PIXELS) -> None:
        self.bundle = bundle
        self.threads = threads or granted()
        self._max_pixels = max_pixels
        self._session = Session(bundle.encoder)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")

    def submit(self, image: Photo) -> Future[Encoded]:
        """Queue one image; the future holds its vector or the typed error."""
        try:
            return self._pool.submit(self._encode, image, time.perf_counter())
        except RuntimeError:
            raise NotReady("this model was closed", fix="ask again: another one is being loaded") from None

    async def encode(self, image: Photo) -> Encoded:
        return await asyncio.wrap_future(self.submit(image))

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _encode(self, image: Photo, queued: float) -> Encoded:
        started = time.perf_counter()
        view = self.bundle.manifest.view
        if isinstance(image, bytes):
            photo = decode(image, max_pixels=self._max_pixels, background=view.background)
        else:
            photo = upright_rgb(image, background=view.background)
        pixels = view.apply(photo)[None]  # (1, size, size, 3)
        decoded = time.perf_counter()
        vector = self._session.run(pixels)[0]  # (D,)
        return Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded)
