"""The engine: image bytes in, raw vectors out. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial

from nonneg_core.errors import DeadlineExceeded, ImageTooLarge, MissingExtra, NonnegError, NotReady
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.resizing import has_simd
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.preprocess import Decoding, Photo, Preprocessor, weight_of
from nonneg_runtime.providers import on_cores
from nonneg_runtime.sessions import SHARED_FROM, Sessions
from nonneg_runtime.text_tower import text_tower
from nonneg_server.engine.batcher import Batcher
from nonneg_server.engine.cache import Cache, key_of
from nonneg_server.engine.completions import LoopFuture
from nonneg_server.engine.encoded import Encoded, too_late
from nonneg_server.engine.fair_queue import Cost
from nonneg_server.engine.model_stats import ModelStats
from nonneg_server.engine.workers import Workers

logger = logging.getLogger("nonneg")
Order = tuple[Photo, Price]


class InferenceEngine:
    """One bundle, loaded: every image is one job (decode -> view -> run) that one thread does from end to end.

    The threads share one session that computes on the caller's thread. While a single image is in flight there is
    nothing to share the cores with: a second session, opened when that first happens, spreads it over all of them.
    With `batch`, for devices that want many images at once, the threads decode and one more runs whatever they have
    ready.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        max_pixels: int = MAX_PIXELS,
        workers: Workers | None = None,
        all_cores: bool = True,
        decode: Decoding = "fast",
        providers: tuple[str, ...] | None = None,
        batch: int = 0,
        cache: Cache | None = None,
        shared_from: int = SHARED_FROM,
    ) -> None:
        self.bundle = bundle
        self.name = bundle.manifest.name
        self._owns_workers = workers is None
        self.workers = workers or Workers(threads)
        self.threads = self.workers.threads
        self.admission = self.workers.admission
        self.stats = ModelStats(bundle.manifest.dimensions)
        self.used = time.monotonic()
        self._preprocessor = Preprocessor(bundle.manifest.view, max_pixels=max_pixels, decode=decode, apart=True)
        self.sessions = Sessions(
            bundle,
            providers,
            threads=self.threads if batch else 1,
            spread=self.threads if all_cores and self.threads > 1 and not batch and on_cores(providers) else 0,
            callers=self.threads,
            largest=max(1, batch),
            shared_from=shared_from,
        )
        self._batcher = Batcher(self.sessions.run, largest=batch, observe=_noting(self)) if batch else None
        self.cache = cache
        resized = "simd" if decode == "fast" and has_simd() else decode  # other pixels: a cache keeps them apart
        self._way = f"{resized} {(providers or ('CPU',))[0]}"
        self._closed = False

    def warm_up(self) -> None:
        """Run the session, at every size to come, and the text tower against what the exporter wrote down."""
        self.sessions.warm_up()
        try:
            text_tower(self.bundle)
        except MissingExtra as error:  # images are served all the same
            logger.warning("%s embeds no texts: %s; %s", self.name, error, error.fix)

    async def encode(self, image: Photo, *, deadline: float | None = None) -> Encoded:
        """One image's vector; `deadline` is a time of the running event loop."""
        found = (await self.encode_all([image], deadline=deadline))[0]
        if isinstance(found, NonnegError):
            raise found
        return found

    async def encode_all(
        self, images: Sequence[Photo], *, deadline: float | None = None
    ) -> list[Encoded | NonnegError]:
        """A request's images: admitted together or not at all; each has its vector or its own error."""
        if self.cache is None:
            return await self._admitted(images, deadline)
        return await self._remembered(images, deadline, self.cache)

    async def _remembered(
        self, images: Sequence[Photo], deadline: float | None, cache: Cache
    ) -> list[Encoded | NonnegError]:
        """Only what the cache does not know is encoded, and then known."""
        fingerprint = self.bundle.manifest.fingerprint
        keys = [key_of(fingerprint, image, self._way) if isinstance(image, bytes) else None for image in images]
        known = await cache.get_all(keys)
        unknown = [image for image, vector in zip(images, known, strict=True) if vector is None]
        fresh = iter(await self._admitted(unknown, deadline) if unknown else [])
        found: list[Encoded | NonnegError] = []
        for key, vector in zip(keys, known, strict=True):
            encoded = next(fresh) if vector is None else Encoded(vector, 0.0, 0.0, 0.0)
            if vector is None and key is not None and isinstance(encoded, Encoded):
                cache.put(key, encoded.vector)
            found.append(encoded)
        return found

    async def _admitted(self, images: Sequence[Photo], deadline: float | None) -> list[Encoded | NonnegError]:
        """Each image is priced by its header; those that are over a limit have their error without being queued."""
        prices = [self._priced(image) for image in images]
        orders = [(image, price) for image, price in zip(images, prices, strict=True) if isinstance(price, Price)]
        found = iter(await self._queued(orders, deadline) if orders else [])
        return [next(found) if isinstance(price, Price) else self._noted(price) for price in prices]

    async def _queued(self, orders: Sequence[Order], deadline: float | None) -> list[Encoded | NonnegError]:
        weight = sum(weight_of(image) for image, _ in orders)
        work = sum(cost.seconds for _, price in orders if (cost := cost_of(price)).large)
        self.admission.enter(len(orders), weight, work)
        try:
            self.stats.request_images.observe(len(orders))
            wait = self._landed if self._batcher is None else self._batched
            return await wait(orders, deadline)
        finally:
            self.admission.leave(len(orders), weight, work)

    def _priced(self, image: Photo) -> Price | NonnegError:
        try:
            price = self._preprocessor.price(image)
        except NonnegError as error:
            return error
        if price.bytes > self.workers.pool.most:
            return ImageTooLarge(
                f"decoding this {price.format} of {price.width} x {price.height} pixels takes up to {price.bytes} "
                f"bytes, more than the limit of {self.workers.pool.most}",
                fix="scale it down, save it as a JPEG, or raise --image-memory",
                field="image_memory",
                value=price.bytes,
                limit=self.workers.pool.most,
            )
        return price

    async def _landed(self, orders: Sequence[Order], deadline: float | None) -> list[Encoded | NonnegError]:
        """All are queued at once, and heard in their order: a task for each would cost more than it does."""
        completions = self.workers.completions()
        if deadline is not None and deadline <= completions.loop.time():
            raise too_late()
        futures: list[LoopFuture] = []
        timer = None if deadline is None else completions.loop.call_at(deadline, self._expire, futures)
        request = object()
        try:
            for image, price in orders:
                futures.append(completions.expect())
                self.workers.pool.enqueue(futures[-1], self._job(image, price), cost_of(price), request)
            return [await self._heard(future.outcome) for future in futures]
        finally:
            if timer is not None:
                timer.cancel()
            for future in futures:
                if future.outcome.cancelled() or not future.outcome.done():  # the client is gone, or another was late
                    self.workers.pool.withdraw(future)
                else:
                    future.outcome.exception()  # retrieved, so that asyncio does not warn of an unused exception

    def _expire(self, futures: list[LoopFuture]) -> None:
        """The deadline has passed: the first that is still waited for says so, and ends its request."""
        late = next((future for future in futures if not future.outcome.done()), None)
        if late is not None:
            late.outcome.set_exception(too_late())
            self.workers.pool.withdraw(late)

    def submit(self, image: Photo) -> Future[Encoded]:
        """Queue one image, unbounded and from any thread; the future holds its vector or the typed error."""
        return self.workers.pool.submit(self._job(image))

    def failure_reason(self) -> str | None:
        """Why this engine can no longer be trusted; None while it works."""
        of_batcher = None if self._batcher is None else self._batcher.failure_reason()
        return self.sessions.failure_reason() or of_batcher or self.workers.pool.failure_reason()

    def close(self) -> None:
        self._closed = True
        if self._owns_workers:
            self.workers.close()
        if self._batcher is not None:
            self._batcher.close()

    def _job(self, image: Photo, price: Price | None = None) -> Callable[[], Encoded]:
        if self._closed:
            raise NotReady("this model was closed", fix="ask again: another one is being loaded", retry_after=1)
        return partial(self._encode, image, price, time.perf_counter())

    async def _heard(self, future: Awaitable[Encoded]) -> Encoded | NonnegError:
        """One image's vector, noted, or its own error."""
        try:
            encoded = await future
        except DeadlineExceeded:
            raise
        except NonnegError as error:
            return self._noted(error)
        return self._noted(encoded)

    def _noted(self, outcome: Encoded | NonnegError) -> Encoded | NonnegError:
        if isinstance(outcome, NonnegError):
            self.stats.errors[outcome.type] += 1
            return outcome
        if not outcome.wide:
            self.admission.served(outcome.decode_seconds + outcome.run_seconds)
        self.stats.record(outcome)
        return outcome

    async def _batched(self, orders: Sequence[Order], deadline: float | None) -> list[Encoded | NonnegError]:
        request = object()
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.gather(*(self._heard(self._in_batch(*order, request)) for order in orders))
        except TimeoutError:
            raise too_late() from None

    async def _in_batch(self, image: Photo, price: Price, request: object) -> Encoded:
        assert self._batcher is not None
        queued = time.perf_counter()
        future = self.workers.pool.submit(partial(self._preprocessor.timed, image, price), cost_of(price), request)
        try:
            pixels, started, decoded = await asyncio.wrap_future(future)
        except asyncio.CancelledError:  # the client is gone or the deadline has passed
            self.workers.pool.withdraw(future)
            raise
        vector = await asyncio.wrap_future(self._batcher.submit(pixels))  # (D,)
        self.used = time.monotonic()
        return Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded)

    def _encode(self, image: Photo, price: Price | None, queued: float) -> Encoded:
        pixels, started, decoded = self._preprocessor.timed(image, price)
        alone = self.admission.images == 1
        wide = alone and self.sessions.wide
        vector = self.sessions.run(pixels[None], wide=wide)[0]  # (D,)
        self.used = time.monotonic()
        encoded = Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded, wide)
        if alone and not wide:
            self.sessions.open_all_cores()
        return encoded


def cost_of(price: Price) -> Cost:
    """What an image of this price costs the queue."""
    return Cost(price.seconds, price.bytes)


def _noting(engine: InferenceEngine) -> Callable[[int], None]:
    """Counts batches in the engine's stats, without keeping the engine alive."""
    known = weakref.ref(engine)

    def note(size: int) -> None:
        found = known()
        if found is not None:
            found.stats.batches.observe(size)

    return note
