"""Local mode: a bundle embeds images in this process, without a server."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import numpy as np

from nonneg_client.embedder import Embedder, Model
from nonneg_client.sources.image_sources import Item, downscaled
from nonneg_client.wire.protocol import Options
from nonneg_core.arrays import Floats
from nonneg_core.errors import ModelNotFound, NonnegError
from nonneg_core.process.long_runs import bounded_map
from nonneg_core.shortening import check_dimensions, check_top_k, shorten
from nonneg_runtime.bundle.bundle_folder import Bundle, open_bundle
from nonneg_runtime.inference.encoder import BundleEncoder
from nonneg_runtime.inference.runner import on_cores, provider_names
from nonneg_runtime.inference.variants import PrecisionChoice, open_variant
from nonneg_runtime.seeing.preprocess import Decoding, PhotoInput
from nonneg_runtime.words.column_facts import chance_of
from nonneg_runtime.words.text_vector import resolved, vector_of
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.search.query_and_hits import Query, of_photos
from nonneg_vectors.storage.bits import BitForm
from nonneg_vectors.storage.results import BatchResult, Failure, SparseVector

AHEAD = 4  # images that wait for each thread


class Encoder(Embedder):
    """A bundle that embeds images here: the same decoder, view, runtime and shortening as the server's.

    >>> with Encoder() as encoder:                       # the default model
    ...     encoder.embed(["a.jpg"], dimensions=256)     # as `Client.embed` -> Embeddings
    """

    def __init__(
        self,
        bundle: Bundle | str | os.PathLike[str] | None = None,
        *,
        threads: int | None = None,
        decode: Decoding = "fast",
        precision: PrecisionChoice = "auto",
        provider: str | None = None,
    ) -> None:
        """Open a folder, or a model that comes with nonneg by its name.

        precision, provider: as for `nonneg serve`; on a GPU "auto" takes the bundle as it is.
        """
        providers = None if provider is None else provider_names(provider)
        chosen = precision if precision != "auto" or on_cores(providers) else None
        self.bundle = bundle if isinstance(bundle, Bundle) else open_variant(bundle, chosen)
        self._encoder = BundleEncoder(self.bundle, threads=threads, decode=decode, providers=providers)

    def stream(
        self, images: Iterable[Item], options: Options, *, downscale: int | None = None
    ) -> Generator[BatchResult, None, None]:
        """Yield the outcomes in order, one image each, with a bounded number under way."""
        self._check(options)

        def submit(item: Item) -> Future[Floats]:
            try:
                if item.text is not None:
                    return _done(self._of_text(item.text, options))
                photo = _photo(item, downscale)
                inspect = item.inspect
                if inspect is None or not isinstance(photo, bytes):
                    return self._encoder.submit(photo)
                return self._encoder.submit(photo, partial(inspect, photo))
            except NonnegError as error:
                failed: Future[Floats] = Future()
                failed.set_exception(error)
                return failed

        for item, job in bounded_map(submit, images, ahead=AHEAD * self._encoder.threads):
            yield self._part(item, job, options)

    def _of_text(self, text: str, options: Options) -> Floats:
        return vector_of(self.bundle, text, truncate=options.truncate)

    def model(self, name: str | None = None) -> Model:
        """Return the bundle's own; another is not here."""
        self._check(Options(model=name))
        manifest = self.bundle.manifest
        return Model(manifest.name, manifest.fingerprint, manifest.dimensions)

    def query(self, expression: str, dimensions: int | None = None, *, model: str | None = None) -> Query:
        """Return what an expression stands for: its photos embedded here, its dimensions by the bundle's names."""
        read = parse(expression)
        manifest = self.bundle.manifest
        self._check(Options(dimensions, model=model))
        length = check_dimensions(dimensions, manifest.dimensions)
        photos = read.photos()
        vectors = of_photos(read, self.embed([photo.name for photo in photos], length)) if photos else {}
        meaning = resolved(self.bundle, read, length, vectors)
        chance = chance_of(self.bundle, length).of_query(read, meaning.parts).best
        return Query(read, meaning, length, manifest.fingerprint, chance)

    def bit_form(self, model: str | None = None) -> BitForm:
        """Return which columns of the bundle have a bit, and how whole vectors ask vectors of bits."""
        self._check(Options(model=model))
        columns = self.bundle.manifest.columns
        return BitForm.of(columns.expected_activation, columns.variance)

    def close(self) -> None:
        """End the threads."""
        self._encoder.close()

    def _check(self, options: Options) -> None:
        manifest = self.bundle.manifest
        if options.model and "@" not in options.model and options.model != manifest.name:
            raise ModelNotFound(
                f"this bundle is {manifest.name}, not {options.model}", fix="omit model=", value=options.model
            )
        manifest.check_pin(options.model or "")
        check_dimensions(options.dimensions, manifest.dimensions)
        check_top_k(options.top_k)

    def _part(self, item: Item, job: Future[Floats], options: Options) -> BatchResult:
        """Return the outcome of one image, waited for."""
        try:
            raw = job.result()  # (D,)
        except NonnegError as error:
            return BatchResult((Failure(item.id, error),))
        (z,) = shorten(raw[None], options.dimensions, options.top_k, normalize=options.normalize)  # (k,)
        (indices,) = np.nonzero(z)
        vector = SparseVector(item.id, indices.astype(np.int32), z[indices])
        manifest = self.bundle.manifest
        return BatchResult((vector,), manifest.name, manifest.fingerprint, len(z), options.normalize)


def folder_of(bundle: str | None) -> Path:
    """Return where the files of a bundle lie; every one is verified."""
    return open_bundle(bundle).path


def _done(vector: Floats) -> Future[Floats]:
    """Return a result that nothing has to be waited for."""
    done: Future[Floats] = Future()
    done.set_result(vector)
    return done


def _photo(item: Item, downscale: int | None) -> PhotoInput:
    """Return what the encoder takes: a file's bytes, or pixels that are there already."""
    if downscale is not None:
        return downscaled(item.load(), downscale)
    return item.load() if item.picture is None else item.picture()
