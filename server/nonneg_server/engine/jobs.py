"""What is queued and what comes back: images by their price, texts, other work on an image, and encoded vectors."""

import asyncio
import logging
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

from nonneg_core.arrays import Floats
from nonneg_core.errors import DeadlineExceeded, ImageTooLarge, ImageUnreadable, NonnegError, ParameterInvalid
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.inference.bundle_sessions import Sessions
from nonneg_runtime.seeing.preprocess import PhotoInput, Preprocessor, weight_of
from nonneg_runtime.words.text_vector import no_texts, with_names
from nonneg_server.engine.admission import Cost
from nonneg_server.engine.workers import Workers


class Encoded(NamedTuple):
    """One image's raw vector and where its time went."""

    vector: Floats  # (D,)
    queue_seconds: float
    decode_seconds: float
    run_seconds: float
    wide: bool = False  # every core worked on this image alone
    of_text: bool = False  # by the text tower


def too_late() -> DeadlineExceeded:
    """Return the error of a request whose deadline has passed."""
    return DeadlineExceeded(
        "the deadline passed before the vectors were ready",
        fix="ask again later, or with fewer images, or with a longer timeout",
        field="timeout",
    )


# A text in the queue: priced as it is admitted, and embedded by a model's text tower on a thread, as an image is.

CHARACTER = 4  # bytes that one may take


@dataclass(frozen=True, slots=True)
class Text:
    """A text in the place of an image, for the model's text tower."""

    text: str
    field: str
    truncate: bool = False  # read its beginning where it is too long

    @property
    def weight(self) -> int:
        """Bytes that it holds while it waits."""
        return CHARACTER * len(self.text)

    @property
    def price(self) -> Price:
        """What it costs the queue: it is never a large job, so that none waits behind large images."""
        return Price("TEXT", 0, 0, 0.0, self.weight)

    @property
    def way(self) -> str:
        """How it is read, for a cache to tell it from the bytes of an image."""
        return "text, cut" if self.truncate else "text"


def text_job(sessions: Sessions, text: Text, queued: float) -> Callable[[], Encoded]:
    """Return what a thread does with a text that was queued at this time."""
    return partial(_embed, sessions, text, queued)


def _embed(sessions: Sessions, text: Text, queued: float) -> Encoded:
    tower = sessions.text()
    started = time.perf_counter()
    try:
        if tower is None:
            raise no_texts(sessions.bundle)
        tokens = tower.tokens(text.text, truncate=text.truncate)
    except ParameterInvalid as error:
        error.field = text.field
        raise
    read = time.perf_counter()
    vector = with_names(sessions.bundle, tower, text.text, tower.run(tokens))
    return Encoded(vector, started - queued, read - started, time.perf_counter() - read, of_text=True)


# What an image costs the queue, or why it may not enter it.

logger = logging.getLogger("nonneg")
Priced = TypeVar("Priced")
AT_ONCE = 0.005  # seconds that one request's headers are read for on the event loop; a hundred photos take 2 ms
_one_by_one = ThreadPoolExecutor(1, "pricing")


async def all_priced(
    images: Sequence[Priced], price: Callable[[Priced], Price | NonnegError], *, deadline: float | None = None
) -> list[Price | NonnegError]:
    """Return the price of each image: on the event loop while that is quick, the rest on a thread."""
    prices: list[Price | NonnegError] = []
    until = time.perf_counter() + AT_ONCE
    for at, image in enumerate(images):
        if at and time.perf_counter() > until:
            break
        prices.append(price(image))
    rest = images[len(prices) :]
    if rest:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(deadline):
                prices += await loop.run_in_executor(_one_by_one, lambda: [price(image) for image in rest])
        except TimeoutError:
            raise too_late() from None
    return prices


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


# Other work on an image than encoding it, a smaller copy, say: in the same queue, by its price, until the deadline.

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
