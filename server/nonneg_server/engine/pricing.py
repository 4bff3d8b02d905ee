"""What an image costs the queue, or why it may not enter it."""

from __future__ import annotations

from nonneg_core.errors import ImageTooLarge, NonnegError
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.preprocess import PhotoInput, Preprocessor
from nonneg_server.engine.fair_queue import Cost


def priced(preprocessor: Preprocessor, image: PhotoInput, most: int) -> Price | NonnegError:
    """Return the price by the image's header, or the error of one beyond a limit; `most` bytes may one job take."""
    try:
        price = preprocessor.price(image)
    except NonnegError as error:
        return error
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
