"""Serving: the images of one request through the engine, then shortened; a bad image fails alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nonneg_client.errors import ImageTooLarge, ImageUnreadable, ImageUnsupported, NonnegError, ParameterInvalid
from nonneg_client.shortening import Vectors, check_dimensions, shorten
from nonneg_export.manifest import Manifest
from nonneg_server.engine import Encoded, Engine
from nonneg_server.native import Incoming
from nonneg_server.parameters import Parameters

_OF_ITS_OWN = (ImageUnsupported, ImageUnreadable, ImageTooLarge, ParameterInvalid)  # anything else fails the request


@dataclass(frozen=True)
class Timing:
    """Seconds, summed over the request's images; the queue's is the longest wait."""

    queue: float
    decode: float
    inference: float


@dataclass(frozen=True)
class Answer:
    """The vectors of those images that could be read, and the errors of the others."""

    manifest: Manifest
    parameters: Parameters
    dimensions: int
    vectors: Vectors  # (good, dimensions)
    positions: list[int]  # the image each vector belongs to
    errors: dict[int, NonnegError]
    timing: Timing


async def embed(
    engine: Engine, images: Sequence[Incoming], parameters: Parameters, *, deadline: float | None = None
) -> Answer:
    """Encode and shorten; parameters are checked before any work is done."""
    manifest = engine.bundle.manifest
    dimensions = check_dimensions(parameters.dimensions, manifest.dimensions)
    found = await _encode(engine, images, deadline)
    encoded, errors = _sorted_out(found, fail=parameters.errors == "fail" or len(images) == 1)
    raw = [found.vector for found in encoded.values()]
    z = np.stack(raw) if raw else np.zeros((0, manifest.dimensions), np.float32)  # (good, D)
    vectors = shorten(z, dimensions, parameters.top_k, normalize=parameters.normalize)
    return Answer(manifest, parameters, dimensions, vectors, list(encoded), errors, _timing(list(encoded.values())))


async def _encode(engine: Engine, images: Sequence[Incoming], deadline: float | None) -> list[Encoded | NonnegError]:
    readable = [image for image in images if not isinstance(image, NonnegError)]
    results = iter(await engine.encode_all(readable, deadline=deadline) if readable else [])
    return [image if isinstance(image, NonnegError) else next(results) for image in images]


def _sorted_out(
    found: Sequence[Encoded | NonnegError], *, fail: bool
) -> tuple[dict[int, Encoded], dict[int, NonnegError]]:
    encoded: dict[int, Encoded] = {}
    errors: dict[int, NonnegError] = {}
    for i, result in enumerate(found):
        if isinstance(result, Encoded):
            encoded[i] = result
            continue
        result.field = result.field or f"images[{i}]"
        if fail or not isinstance(result, _OF_ITS_OWN):
            raise result
        errors[i] = result
    return encoded, errors


def _timing(encoded: list[Encoded]) -> Timing:
    return Timing(
        max((e.queue_seconds for e in encoded), default=0.0),
        sum(e.decode_seconds for e in encoded),
        sum(e.run_seconds for e in encoded),
    )
