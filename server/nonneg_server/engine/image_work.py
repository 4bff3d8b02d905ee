"""Other work on an image than encoding it, a smaller copy, say: in the same queue, by its price, until the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from functools import partial
from typing import TypeVar

from nonneg_core.errors import NonnegError
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.preprocess import PhotoInput, Preprocessor, weight_of
from nonneg_server.engine.encoded import too_late
from nonneg_server.engine.pricing import cost_of, priced
from nonneg_server.engine.workers import Workers

T = TypeVar("T")


async def done_by_worker(
    workers: Workers,
    preprocessor: Preprocessor,
    image: PhotoInput,
    work: Callable[[Price], T],
    *,
    deadline: float | None = None,
    request: Hashable = None,
) -> T:
    """Return what `work` makes of the image, whose price it is given, on one of the threads that encode.

    Overloaded while the queue is full. Images of one `request` take turns with those of others.
    """
    price = priced(preprocessor, image, workers.pool.most)
    if isinstance(price, NonnegError):
        raise price
    cost, weight = cost_of(price), weight_of(image)
    seconds = cost.seconds if cost.large else 0.0
    workers.admission.enter(1, weight, seconds)
    try:
        async with asyncio.timeout_at(deadline):
            future = workers.pool.submit(partial(work, price), cost, request or object())
            try:
                return await asyncio.wrap_future(future)
            except asyncio.CancelledError:  # the client is gone or the deadline has passed
                workers.pool.withdraw(future)
                raise
    except TimeoutError:
        raise too_late() from None
    finally:
        workers.admission.leave(1, weight, seconds)
