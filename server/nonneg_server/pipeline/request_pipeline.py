"""From a request's images and parameters to its answer: fetched, encoded, shortened; a bad image fails alone.

Each station comes once, in the order of the file. What a body holds was counted and sized where it was read.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from functools import partial
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray
from starlette.requests import Request
from starlette.responses import Response

from nonneg_core.errors import OF_AN_IMAGE, LinkFailed, NonnegError, ParameterInvalid
from nonneg_core.shortening import Vectors, check_dimensions, shorten
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.jobs import Encoded, too_late
from nonneg_server.requests.bodies import serialized
from nonneg_server.requests.inputs import Incoming, Link, ReadyImage
from nonneg_server.requests.parameters import Parameters
from nonneg_server.requests.vectors import check_size
from nonneg_vectors.storage.bits import BitForm

T = TypeVar("T")
Number = TypeVar("Number", bound=np.generic)
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
    vectors: tuple[Vectors, ...]  # one (good, length) array a length; with encoding=binary of bits, 0 or 1
    positions: list[int]
    errors: dict[int, NonnegError]
    timing: Timing
    whole: Vectors  # (good, D): as the encoder made them

    @property
    def images(self) -> int:
        """How many images there were, those with an error included."""
        return len(self.positions) + len(self.errors)

    @property
    def rows(self) -> Vectors:
        """One vector an image, in order, at the first length: zeros where there is an error, so that widths agree."""
        return self.placed(self.vectors[0])

    @property
    def bits(self) -> NDArray[np.uint8]:
        """The bits of one vector an image, in order, the first `lengths[0]` at most: zeros where there is an error."""
        form = bit_form(self.manifest)
        return self.placed(form.first(min(self.lengths[0], len(form))).pack(self.whole))

    def placed(self, rows: NDArray[Number]) -> NDArray[Number]:
        """Return a row an image: zeros where there is an error."""
        if not self.errors:
            return rows
        z = np.zeros((self.images, rows.shape[1]), rows.dtype)
        z[self.positions] = rows
        return z

    @property
    def several(self) -> bool:
        """Whether a list of lengths was asked for, be it a list of one."""
        return isinstance(self.parameters.dimensions, list)


async def serve(
    request: Request, images: Sequence[Incoming | ReadyImage], parameters: Parameters, *, field: str = "images"
) -> Answer:
    """Check the lengths, fetch what are links, encode and shorten; `field` is what the dialect calls its images."""
    async with served(request, images, parameters, field=field) as (answer, _):
        return answer


@asynccontextmanager
async def served(
    request: Request, images: Sequence[Incoming | ReadyImage], parameters: Parameters, *, field: str = "images"
) -> AsyncIterator[tuple[Answer, list[ReadyImage]]]:
    """Yield the answer, and the images with what links lead to, which the server holds until the end of it."""
    engine = request.app.state.registry.get(parameters.model)
    manifest = engine.bundle.manifest
    lengths = lengths_of(parameters, manifest)
    check_size(len(images), sum(lengths), "dimensions")
    if (charge := request.scope["state"].get("charge")) is not None:  # where there is a rate
        charge(len(images))
    deadline = request.scope["state"]["deadline"]()
    here = [image for image in images if not isinstance(image, Link)]
    async with _fetched(request, images, deadline) if len(here) < len(images) else nullcontext(here) as ready:
        raw = await encode(engine, ready, fail=fails_request(parameters, len(images)), field=field, deadline=deadline)
        answer = await priced_answer(request, manifest, raw, parameters, lengths)
        engine.stats.zero_vectors += zeros_of(answer)
        request.scope["state"]["answer"] = answer
        yield answer, ready


def lengths_of(parameters: Parameters, manifest: Manifest, width: int | None = None) -> tuple[int, ...]:
    """Check the lengths asked for, each within the vectors' width: the model's unless they were cut before."""
    lengths = parameters.dimensions if isinstance(parameters.dimensions, list) else [parameters.dimensions]
    if parameters.encoding == "binary":
        check_whole(parameters, width or manifest.dimensions, manifest)
        width = len(bit_form(manifest))
    try:
        return tuple(check_dimensions(k, width or manifest.dimensions) for k in lengths)
    except ParameterInvalid as error:
        if parameters.encoding == "binary":
            error.fix = f"{error.fix}: with encoding=binary dimensions= counts bits"
        elif error.limit == manifest.dimensions:
            error.fix = "; ".join([str(error.fix), *measured(manifest)])
        raise


def check_whole(parameters: Parameters, width: int, manifest: Manifest) -> None:
    """Refuse the bits of shortened vectors."""
    if parameters.top_k is not None:
        raise ParameterInvalid(
            f"top_k={parameters.top_k} does not go with encoding=binary: bits are of whole vectors",
            fix="omit top_k; dimensions= says how many bits to answer",
            field="top_k",
            value=parameters.top_k,
        )
    if width != manifest.dimensions:
        raise ParameterInvalid(
            f"vectors of {width} dimensions have no bits: those are of all {manifest.dimensions}",
            fix="send whole vectors",
            field="vectors",
            value=width,
            limit=manifest.dimensions,
        )


def bit_form(manifest: Manifest) -> BitForm:
    """Return which columns of a model have a bit."""
    return BitForm.of(manifest.columns.expected_activation, manifest.columns.variance)


def measured(manifest: Manifest) -> list[str]:
    """Return what the lengths that were measured are good for, in one sentence, or none."""
    rows = () if manifest.quality is None else manifest.quality.rows
    precisions = {
        row.dimensions: row.p_at_1 for row in rows if row.selection == "expected-activation" and row.top_k is None
    }
    figures = ", ".join(f"{k}: {precisions[k]:.3f}" for k in sorted(precisions, reverse=True))
    return [f"P@1 as measured at each length: {figures}"] if figures else []


@asynccontextmanager
async def _fetched(
    request: Request, images: Sequence[Link | ReadyImage], deadline: float
) -> AsyncIterator[list[ReadyImage]]:
    """Yield the images with the bytes that links lead to in their place, until the deadline."""
    state = request.app.state
    async with AsyncExitStack() as stack:
        try:
            async with asyncio.timeout_at(deadline):
                arriving = state.fetcher.fetched(images, budget=state.settings.max_body)
                downloads: list[ReadyImage] = await stack.enter_async_context(arriving)
        except TimeoutError:
            raise too_late() from None
        yield downloads


def fails_request(parameters: Parameters, count: int) -> bool:
    """Return whether one bad image fails the request; a request's only image does, unless its item was asked for."""
    return parameters.errors == "fail" or (count == 1 and "errors" not in parameters.model_fields_set)


async def encode(
    engine: InferenceEngine, images: Sequence[ReadyImage], *, fail: bool, field: str, deadline: float | None
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


def shortened(manifest: Manifest, raw: EncodedBatch, parameters: Parameters, lengths: tuple[int, ...]) -> Answer:
    """Shorten the raw vectors to every length, by the one rule."""
    z = raw.vectors
    if parameters.encoding == "binary":
        above = (bit_form(manifest).centred(z) > 0).astype(np.float32)  # (good, bits)
        vectors = tuple(above[:, :k] for k in lengths)
    else:
        vectors = tuple(shorten(z, k, parameters.top_k, normalize=parameters.normalize) for k in lengths)
    return Answer(manifest, parameters, lengths, vectors, raw.positions, raw.errors, raw.timing, z)


# An answer may be many times as large as its images: it has a price, too, and a large one is not made on the loop.

LARGE = 100_000  # numbers that the event loop shortens and writes itself: a hundredth of a second
DENSE, DIGITS, SPARSE = 6, 12, 24  # bytes of a number, of what is above zero in it, of an index and value; at most


async def priced_answer(
    request: Request, manifest: Manifest, raw: EncodedBatch, parameters: Parameters, lengths: tuple[int, ...]
) -> Answer:
    """Reserve what the answer will take, and shorten the vectors."""
    reserve(request, bytes_of(raw, parameters, lengths))
    work = partial(shortened, manifest, raw, parameters, lengths)
    return await serialized(work) if len(raw.vectors) * sum(lengths) > LARGE else work()


def reserve(request: Request, size: int) -> None:
    """Take what the answer will need from the memory that `--upload-bytes` bounds, until it is sent."""
    take = request.scope["state"].get("reserve")  # by the connection; none once it is over
    if take is not None:
        take(size)


def bytes_of(raw: EncodedBatch, parameters: Parameters, lengths: tuple[int, ...]) -> int:
    """Return what an answer takes at most: its vectors at every length, and as they are written."""
    numbers = (len(raw.positions) + len(raw.errors)) * sum(lengths)
    active = int(np.count_nonzero(raw.vectors)) * len(lengths)
    size = numbers * raw.vectors.itemsize
    if parameters.format != "sparse":
        size += numbers * DENSE + active * DIGITS
    return size if parameters.format == "dense" else size + active * SPARSE


def zeros_of(answer: Answer) -> int:
    """Count the vectors of which nothing is left."""
    return sum([len(z) - int(np.add.reduce(np.logical_or.reduce(z, axis=1))) for z in answer.vectors])


async def written(answer: Answer, write: Callable[[Answer], T]) -> T:
    """Return what writes the answer, a large one on another thread."""
    large = sum(z.size for z in answer.vectors) > LARGE
    return await serialized(lambda: write(answer)) if large else write(answer)


def reply(content: bytes, answer: Answer, media_type: str = "application/json") -> Response:
    """Return the answer with the headers that say which vectors these are and where the milliseconds went."""
    response = Response(content, media_type=media_type)
    response.raw_headers.extend(timing_headers(answer))
    return response


def timing_headers(answer: Answer) -> list[tuple[bytes, bytes]]:
    """Return the headers that say which vectors these are and where the milliseconds went."""
    queue, decode, inference = answer.timing
    return [
        (b"x-fingerprint", answer.manifest.fingerprint.encode()),
        (b"x-queue-time", b"%.3f" % (queue * 1e3)),
        (b"x-decode-time", b"%.3f" % (decode * 1e3)),
        (b"x-inference-time", b"%.3f" % (inference * 1e3)),
    ]
