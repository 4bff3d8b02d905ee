"""What an image costs the queue, or why it may not enter it."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from nonneg_core.errors import ImageTooLarge, ImageUnreadable, NonnegError
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.preprocess import PhotoInput, Preprocessor
from nonneg_server.engine.encoded import too_late
from nonneg_server.engine.fair_queue import Cost

logger = logging.getLogger("nonneg")
Priced = TypeVar("Priced")
AT_ONCE = 0.005  # seconds that one request's headers are read for on the event loop; a hundred photos take 2 ms
_one_by_one = ThreadPoolExecutor(1, "pricing")


async def all_priced(
    images: Sequence[Priced], price: Callable[[Priced], Price | NonnegError], *, deadline: float | None = None
) -> list[Price | NonnegError]:
    """Return the price of each image: on the event loop while that is quick, the rest on a thread."""
    found: list[Price | NonnegError] = []
    until = time.perf_counter() + AT_ONCE
    for at, image in enumerate(images):
        if at and time.perf_counter() > until:
            break
        found.append(price(image))
    rest = images[len(found) :]
    if rest:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                found += await loop.run_in_executor(_one_by_one, lambda: [price(image) for image in rest])
        except TimeoutError:
            raise too_late() from None
    return found


def priced(preprocessor: Preprocessor, image: PhotoInput, most: int) -> Price | NonnegError:
    """Return the price by the image's header, or the error of one beyond a limit; `most` bytes may one job take."""
    try:
        price = preprocessor.price(image)
    except NonnegError as error:
        return error
    except Exception:  # one image must not fail the others of its request, whatever its header does to the code here
        logger.exception("the price of an image could not be read")
        return ImageUnreadable(
            "the image's header cannot be read", fix="re-save it, and send the file again", field="images"
        )
    if price.bytes > most:
        return ImageTooLarge(
            f"decoding this {price.format} of {price.width} x {price.height} pixels takes up to {price.bytes} "
            f"bytes, more than the limit of {most}",
            fix="scale it down, save it as a JPEG, or raise --image-memory",
            field="image_memory",
            value=price.bytes,
            limit=most,
        )
    return price


def cost_of(price: Price) -> Cost:
    """Return what an image of this price costs the queue."""
    return Cost(price.seconds, price.bytes)
