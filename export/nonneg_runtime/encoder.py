"""A bundle in this process: images in, raw vectors out, on threads that share one session."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from nonneg_core.cores import available_cores
from nonneg_core.errors import NonnegError
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.inference.open_session import open_session
from nonneg_runtime.preprocess import Decoding, Inspect, PhotoInput, Preprocessor


class BundleEncoder:
    """Encodes images with one bundle: each is one job (decode, view, run) that one thread does from end to end."""

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        decode: Decoding = "fast",
        providers: tuple[str, ...] | None = None,
    ) -> None:
        self.bundle = bundle
        self.threads = threads or available_cores()
        self._preprocessor = Preprocessor(bundle.manifest.view, max_pixels=MAX_PIXELS, decode=decode)
        precision = bundle.manifest.precision
        self._session = open_session(bundle.encoder, callers=self.threads, providers=providers, precision=precision)
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="encode")

    def submit(self, image: PhotoInput, inspect: Inspect | None = None) -> Future[NDArray[np.float32]]:
        """Begin to encode a file's bytes or a PIL image; the future holds the raw vector (D,) or one of our errors.

        inspect: called with the decoded image, before it is shrunk to what the encoder sees.
        """
        return self._pool.submit(self._encode, image, inspect)

    def close(self) -> None:
        """Drop what has not begun, and wait for what has."""
        self._pool.shutdown(cancel_futures=True)

    def _encode(self, image: PhotoInput, inspect: Inspect | None) -> NDArray[np.float32]:
        pixels = self._preprocessor.pixels(image, inspect=inspect)
        try:
            vector: NDArray[np.float32] = self._session.run(pixels[None])[0]
        except Exception as error:  # the runtimes raise classes of their own, none of them public
            raise NonnegError(
                f"the encoder failed on an image ({type(error).__name__})", fix="run `nonneg doctor`"
            ) from error
        return vector
