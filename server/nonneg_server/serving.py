"""From a request's images and parameters to its answer: what every dialect's route does in between."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import numpy as np
from starlette.requests import Request
from starlette.responses import Response

from nonneg_core.errors import ParameterInvalid
from nonneg_runtime.bundle import Bundle
from nonneg_server.embedding import Answer, embed, lengths_of
from nonneg_server.engine.encoded import too_late
from nonneg_server.engine.texts import Text
from nonneg_server.requests.images import Incoming, Link, ReadyImage, check_count, sized
from nonneg_server.requests.parameters import Parameters
from nonneg_server.requests.texts import understood


async def serve(
    request: Request,
    images: Sequence[Incoming | ReadyImage],
    parameters: Parameters,
    *,
    field: str = "images",
    deadline: float | None = None,
) -> Answer:
    """Check, fetch what are links, encode and shorten; `field` is what the dialect calls its images.

    deadline: the request's, where its route has asked for it already.
    """
    state = request.app.state
    limits = state.settings.limits
    check_count(len(images), limits.images, field)
    engine = state.registry.get(parameters.model)
    fewest = min(lengths_of(parameters, engine.bundle.manifest))
    deadline = deadline or deadline_of(request, state.settings.timeout)
    known = await _understood(engine.bundle, [sized(image, limits) for image in images], fewest)
    async with fetched(request, known, deadline) as ready:
        answer = await embed(engine, ready, parameters, field=field, deadline=deadline)
    engine.stats.zero_vectors += zeros_of(answer)
    request.scope["state"]["answer"] = answer
    return answer


@asynccontextmanager
async def fetched(
    request: Request, images: Sequence[Link | ReadyImage], deadline: float
) -> AsyncIterator[list[ReadyImage]]:
    """Yield the images with the bytes that links lead to in their place, which the server holds until the end of it."""
    ready = [image for image in images if not isinstance(image, Link)]
    if len(ready) == len(images):
        yield ready
        return
    state = request.app.state
    async with AsyncExitStack() as held:
        try:
            async with asyncio.timeout_at(deadline):
                arriving = state.fetcher.fetched(images, budget=state.settings.max_body)
                found: list[ReadyImage] = await held.enter_async_context(arriving)
        except TimeoutError:
            raise too_late() from None
        yield found


def zeros_of(answer: Answer) -> int:
    """Count the vectors of which nothing is left."""
    return sum([len(z) - int(np.add.reduce(np.logical_or.reduce(z, axis=1))) for z in answer.vectors])


async def _understood(
    bundle: Bundle, images: Sequence[Incoming | ReadyImage], dimensions: int
) -> list[Link | ReadyImage]:
    """Return the images, with the vectors of texts in their place where words are looked up, which waits for no thread.

    A text tower takes time as an encoder does: its texts are queued with the images.
    """
    if bundle.manifest.text is not None or not any(isinstance(image, Text) for image in images):
        return list(images)
    return await asyncio.to_thread(
        lambda: [understood(bundle, image, dimensions) if isinstance(image, Text) else image for image in images]
    )


def deadline_of(request: Request, timeout: float) -> float:
    """Return when a request has to be answered, by the server's timeout or the client's, in the event loop's time."""
    now, given = asyncio.get_running_loop().time(), request.headers.get("x-request-timeout")
    if given is None:
        return now + timeout
    try:
        seconds = float(given)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds < math.inf:
        raise ParameterInvalid(
            f"x-request-timeout: {given!r} is not a positive number",
            fix="give seconds, as in 2.5, or omit it",
            field="x-request-timeout",
            value=given[:40],
        )
    return now + min(seconds, timeout)


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
