"""Local mode: the server's path from image to vector, in process and without a server."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Generator, Iterable
from concurrent.futures import Future

import numpy as np

from nonneg_client.embedder import Embedder, Model
from nonneg_client.errors import ModelNotFound, NonnegError
from nonneg_client.results import Failure, Part, Vector
from nonneg_client.shortening import check_dimensions, check_top_k, shorten
from nonneg_client.sources.images import Item
from nonneg_client.sources.loading import downscaled
from nonneg_client.wire.protocol import Options
from nonneg_export.bundle import Bundle, open_bundle
from nonneg_server.engine.encoded import Encoded
from nonneg_server.engine.engine import Engine
from nonneg_server.engine.viewer import Photo

AHEAD = 4  # images that wait for each thread


class Encoder(Embedder):
    """A bundle that embeds images here: the same decoder, view, runtime and shortening as the server's.

    >>> with Encoder() as encoder:                       # the default model
    ...     encoder.embed(["a.jpg"], dimensions=256)     # as `Client.embed` -> Embeddings
    """

    def __init__(self, bundle: Bundle | str | os.PathLike[str] | None = None, *, threads: int | None = None) -> None:
        self.bundle = bundle if isinstance(bundle, Bundle) else open_bundle(bundle)
        self._engine = Engine(self.bundle, threads=threads)

    def stream(
        self, images: Iterable[Item], options: Options, *, downscale: int | None = None
    ) -> Generator[Part, None, None]:
        """The outcomes in order, one image each, with a bounded number under way."""
        self._check(options)
        pending: deque[tuple[Item, Future[Encoded] | NonnegError]] = deque()
        try:
            for item in images:
                pending.append((item, self._begun(item, downscale)))
                if len(pending) > AHEAD * self._engine.threads:
                    yield self._part(*pending.popleft(), options)
            while pending:
                yield self._part(*pending.popleft(), options)
        finally:  # left early: what has not begun never will
            for _, job in pending:
                if isinstance(job, Future):
                    job.cancel()

    def model(self) -> Model:
        """The bundle's own."""
        held = self.bundle.manifest
        return Model(held.name, held.fingerprint, held.dimensions)

    def close(self) -> None:
        self._engine.close()

    def _check(self, options: Options) -> None:
        manifest = self.bundle.manifest
        if options.model not in (None, manifest.name):
            raise ModelNotFound(
                f"this bundle is {manifest.name}, not {options.model}", fix="omit model=", value=options.model
            )
        check_dimensions(options.dimensions, manifest.dimensions)
        check_top_k(options.top_k)

    def _begun(self, item: Item, downscale: int | None) -> Future[Encoded] | NonnegError:
        try:
            return self._engine.submit(_photo(item, downscale))
        except NonnegError as error:
            return error

    def _part(self, item: Item, job: Future[Encoded] | NonnegError, options: Options) -> Part:
        """The outcome of one image, waited for."""
        try:
            if isinstance(job, NonnegError):
                raise job
            raw = job.result().vector
        except NonnegError as error:
            return Part((Failure(item.id, error),))
        (z,) = shorten(raw[None], options.dimensions, options.top_k, normalize=options.normalize)  # (k,)
        (indices,) = np.nonzero(z)
        vector = Vector(item.id, indices.astype(np.int32), z[indices])
        held = self.bundle.manifest
        return Part((vector,), held.name, held.fingerprint, len(z), options.normalize)


def _photo(item: Item, downscale: int | None) -> Photo:
    """What the engine takes: a file's bytes, or pixels that are there already."""
    if downscale is not None:
        return downscaled(item.load(), downscale)
    return item.load() if item.picture is None else item.picture()
