"""Serving: the images of one request through the engine, then shortened; a bad image fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nonneg_core.errors import (
    OF_AN_IMAGE,
    LinkFailed,
    NonnegError,
    ParameterInvalid,
)
from nonneg_core.shortening import Vectors, check_dimensions, shorten
from nonneg_runtime.manifest import Manifest
from nonneg_server.engine.encoded import Encoded
from nonneg_server.engine.engine import InferenceEngine
from nonneg_server.requests.images import ReadyImage
from nonneg_server.requests.parameters import Parameters

_OF_ITS_OWN = (*OF_AN_IMAGE, LinkFailed, ParameterInvalid)  # an image's own errors; any other fails the request


class Timing(NamedTuple):
    """Seconds, summed over the request's images; the queue's is the longest wait."""

    queue: float = 0.0
    decode: float = 0.0
    inference: float = 0.0


class EncodedBatch(NamedTuple):
    """The encoder's own vectors of those images that could be read, and the errors of the others."""

    vectors: Vectors  # (good, D)
    positions: list[int]  # the image each vector belongs to
    errors: dict[int, NonnegError]
    timing: Timing = Timing()


class Answer(NamedTuple):
    """Shortened vectors, once for every length that was asked for."""

    manifest: Manifest
    parameters: Parameters
    lengths: tuple[int, ...]
    vectors: tuple[Vectors, ...]  # one (good, length) array a length
    positions: list[int]
    errors: dict[int, NonnegError]
    timing: Timing

    @property
    def images(self) -> int:
        """How many images there were, those with an error included."""
        return len(self.positions) + len(self.errors)

    @property
    def rows(self) -> Vectors:
        """One vector an image, in order, at the first length: zeros where there is an error, so that widths agree."""
        if not self.errors:
            return self.vectors[0]
        z = np.zeros((self.images, self.lengths[0]), np.float32)  # (images, k)
        z[self.positions] = self.vectors[0]
        return z

    @property
    def several(self) -> bool:
        """Whether a list of lengths was asked for, be it a list of one."""
        return isinstance(self.parameters.dimensions, list)


async def embed(
    engine: InferenceEngine,
    images: Sequence[ReadyImage],
    parameters: Parameters,
    *,
    field: str = "images",
    deadline: float | None = None,
) -> Answer:
    """Encode and shorten; parameters are checked before any work is done."""
    manifest = engine.bundle.manifest
    lengths_of(parameters, manifest)
    raw = await encode(engine, images, fail=fails_request(parameters, len(images)), field=field, deadline=deadline)
    return shortened(manifest, raw, parameters)


def fails_request(parameters: Parameters, count: int) -> bool:
    """Return whether one bad image fails the request; a request's only image does, unless its item was asked for."""
    return parameters.errors == "fail" or (count == 1 and "errors" not in parameters.model_fields_set)


def shortened(manifest: Manifest, raw: EncodedBatch, parameters: Parameters) -> Answer:
    """Shorten the raw vectors to every length, by the one rule."""
    lengths = lengths_of(parameters, manifest, raw.vectors.shape[1])
    vectors = tuple(shorten(raw.vectors, k, parameters.top_k, normalize=parameters.normalize) for k in lengths)
    return Answer(manifest, parameters, lengths, vectors, raw.positions, raw.errors, raw.timing)


def lengths_of(parameters: Parameters, manifest: Manifest, width: int | None = None) -> tuple[int, ...]:
    """Check the lengths asked for, each within the vectors' width: the model's unless they were cut before."""
    asked = parameters.dimensions if isinstance(parameters.dimensions, list) else [parameters.dimensions]
    try:
        return tuple(check_dimensions(k, width or manifest.dimensions) for k in asked)
    except ParameterInvalid as error:
        if error.limit == manifest.dimensions:
            error.fix = "; ".join([str(error.fix), *measured(manifest)])
        raise


def measured(manifest: Manifest) -> list[str]:
    """Return what the lengths that were measured are good for, in one sentence, or none."""
    rows = () if manifest.quality is None else manifest.quality.rows
    found = {row.dimensions: row.p_at_1 for row in rows if row.selection == "expected-activation" and row.top_k is None}
    said = ", ".join(f"{k}: {found[k]:.3f}" for k in sorted(found, reverse=True))
    return [f"P@1 as measured at each length: {said}"] if said else []


async def encode(
    engine: InferenceEngine,
    images: Sequence[ReadyImage],
    *,
    fail: bool,
    field: str = "images",
    deadline: float | None = None,
) -> EncodedBatch:
    """Encode every image as a job of its own; a bad one fails alone unless `fail`."""
    readable = [image for image in images if not isinstance(image, (Encoded, NonnegError))]
    results = iter(await engine.encode_all(readable, deadline=deadline) if readable else [])
    outcomes = [image if isinstance(image, (Encoded, NonnegError)) else next(results) for image in images]
    return collect(outcomes, engine.bundle.manifest.dimensions, fail=fail, field=field)


def collect(
    outcomes: Sequence[Encoded | NonnegError], width: int, *, fail: bool, field: str = "images"
) -> EncodedBatch:
    """Return the images' outcomes as one; an error that is not an image's own is raised, or any error if `fail`."""
    encoded: list[Encoded] = []
    positions: list[int] = []
    errors: dict[int, NonnegError] = {}
    for i, result in enumerate(outcomes):
        if isinstance(result, Encoded):
            encoded.append(result)
            positions.append(i)
            continue
        if fail or not isinstance(result, _OF_ITS_OWN):
            result.field = result.field or f"{field}[{i}]"
            raise result
        errors[i] = result
    if encoded:
        vectors = np.stack([e.vector for e in encoded]) if len(encoded) > 1 else encoded[0].vector[None]
    else:
        vectors = np.zeros((0, width), np.float32)
    return EncodedBatch(vectors, positions, errors, _timing(encoded))


def _timing(encoded: list[Encoded]) -> Timing:
    queue = decode = run = 0.0
    for image in encoded:
        queue = max(queue, image.queue_seconds)
        decode += image.decode_seconds
        run += image.run_seconds
    return Timing(queue, decode, run)
