"""The engine: image bytes in, or texts for a text tower, raw vectors out. It knows nothing of HTTP."""

import asyncio
import logging
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import numpy as np

from nonneg_core.arrays import Floats
from nonneg_core.errors import DeadlineExceeded, MissingExtra, NonnegError, NotReady
from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.pixels.view import has_simd
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.inference.bundle_sessions import SHARED_FROM, Sessions
from nonneg_runtime.inference.runner import on_cores, test_pattern
from nonneg_runtime.seeing.preprocess import Decoding, PhotoInput, Preprocessor, weight_of
from nonneg_server.engine.batcher import Batcher
from nonneg_server.engine.canary import Canary
from nonneg_server.engine.jobs import Encoded, Text, all_priced, cost_of, priced, text_job, too_late
from nonneg_server.engine.model_stats import ModelStats
from nonneg_server.engine.vector_cache import Cache, key_of
from nonneg_server.engine.workers import LoopFuture, Workers

logger = logging.getLogger("nonneg")
T = TypeVar("T")
Input = PhotoInput | Text
PricedInput = tuple[Input, Price]


class InferenceEngine:
    """One bundle, loaded: every image is one job (decode -> view -> run) that one thread does from end to end.

    So is a text, where the bundle has a text tower: it waits in the same queue, and is bounded and refused by it.

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
        self._preprocessor = Preprocessor(bundle.manifest.view, max_pixels=max_pixels, decode=decode)
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
        self.canary: Canary | None = None  # once it is warm
        self.cache = cache
        resized = "simd" if decode == "fast" and has_simd() else decode  # other pixels: a cache keeps them apart
        self._way = f"{resized} {(providers or ('CPU',))[0]}"
        self._closed = False

    def warm_up(self) -> None:
        """Run the session, at every size to come, and its own text tower against what the exporter wrote down."""
        self.sessions.warm_up()
        try:
            self.sessions.warm_up_text()
        except MissingExtra as error:  # images are served all the same
            logger.warning("%s embeds no texts: %s; %s", self.name, error, error.fix)
        manifest = self.bundle.manifest
        canary = Canary(self.name, manifest.view, manifest.golden)
        pixels, *_ = self._preprocessor.timed(canary.picture, None)
        if not np.array_equal(pixels[None], test_pattern(manifest.view.size)):
            canary.expect(self.sessions.run(pixels[None])[0])
        self.canary = canary

    async def send_canary(self) -> None:
        """Encode the canary's picture, beside the bounds of the queue, the cache and the counts, and note its vector.

        A model that is being closed or replaced is not judged.
        """
        canary = self.canary
        assert canary is not None
        vector: Floats | None = None
        try:
            price = self._priced(canary.picture)
            if isinstance(price, NonnegError):
                raise price
            if self._batcher is not None:
                encoded = await self._in_batch(canary.picture, price, canary)
            else:
                encoded = await self._on_a_thread(self._job(canary.picture, price), price, canary)
            vector = encoded.vector
        except NotReady:
            return
        except Exception:
            logger.exception("the canary of %s failed", self.name)
        canary.note(vector)

    def _note_use(self, image: PhotoInput) -> None:
        """Take note that the model was used, and not by its canary: models used longest ago are unloaded first."""
        if self.canary is None or image is not self.canary.picture:
            self.used = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether a thread has nothing to do."""
        return self.admission.images < self.threads and not self.workers.pool.waiting

    async def encode(self, image: PhotoInput, *, deadline: float | None = None) -> Encoded:
        """Encode one image; `deadline` is a time of the running event loop."""
        outcome = (await self.encode_all([image], deadline=deadline))[0]
        if isinstance(outcome, NonnegError):
            raise outcome
        return outcome

    async def encode_all(
        self, images: Sequence[Input], *, deadline: float | None = None
    ) -> list[Encoded | NonnegError]:
        """Encode images and texts, admitted together or not at all; each has its vector or its own error."""
        if self.canary is not None:
            self.canary.check()
        if self.cache is None:
            return await self._admitted(images, deadline)
        return await self._remembered(images, deadline, self.cache)

    async def _remembered(
        self, images: Sequence[Input], deadline: float | None, cache: Cache
    ) -> list[Encoded | NonnegError]:
        """Encode only what the cache does not know, and remember it."""
        keys = [self._key(image) for image in images]
        known = await cache.get_all(keys)
        unknown = [image for image, vector in zip(images, known, strict=True) if vector is None]
        fresh = iter(await self._admitted(unknown, deadline) if unknown else [])
        outcomes: list[Encoded | NonnegError] = []
        for key, vector in zip(keys, known, strict=True):
            encoded = next(fresh) if vector is None else Encoded(vector, 0.0, 0.0, 0.0)
            if vector is None and key is not None and isinstance(encoded, Encoded):
                cache.put(key, encoded.vector)
            outcomes.append(encoded)
        return outcomes

    def _key(self, image: Input) -> bytes | None:
        """Return the cache key; None for pixels."""
        fingerprint = self.bundle.manifest.fingerprint
        if isinstance(image, Text):
            return key_of(fingerprint, image.text.encode("utf-8", "surrogatepass"), image.way)
        return key_of(fingerprint, image, self._way) if isinstance(image, bytes) else None

    async def _admitted(self, images: Sequence[Input], deadline: float | None) -> list[Encoded | NonnegError]:
        """Price each image by its header and queue it; images over a limit get their error without being queued."""
        prices = await all_priced(images, self._priced, deadline=deadline)
        orders = [(image, price) for image, price in zip(images, prices, strict=True) if isinstance(price, Price)]
        outcomes = iter(await self._queued(orders, deadline) if orders else [])
        return [next(outcomes) if isinstance(price, Price) else self._noted(price) for price in prices]

    async def _queued(self, orders: Sequence[PricedInput], deadline: float | None) -> list[Encoded | NonnegError]:
        weight = sum(image.weight if isinstance(image, Text) else weight_of(image) for image, _ in orders)
        work = sum(cost.seconds for _, price in orders if (cost := cost_of(price)).large)
        self.admission.enter(len(orders), weight, work)
        try:
            self.stats.request_images.observe(len(orders))
            wait = self._landed if self._batcher is None else self._batched
            return await wait(orders, deadline)
        finally:
            self.admission.leave(len(orders), weight, work)

    def _priced(self, image: Input) -> Price | NonnegError:
        return image.price if isinstance(image, Text) else priced(self._preprocessor, image, self.workers.pool.most)

    async def _landed(self, orders: Sequence[PricedInput], deadline: float | None) -> list[Encoded | NonnegError]:
        """Queue all at once, and wait in their order: a task for each would cost more than it does."""
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
        """End the request whose deadline has passed: the first image that is still waited for gets the error."""
        late = next((future for future in futures if not future.outcome.done()), None)
        if late is not None:
            late.outcome.set_exception(too_late())
            self.workers.pool.withdraw(late)

    def submit(self, image: PhotoInput) -> Future[Encoded]:
        """Queue one image, unbounded and from any thread; the future holds its vector or the typed error."""
        return self.workers.pool.submit(self._job(image))

    def failure_reason(self) -> str | None:
        """Return why this engine can no longer be trusted; None while it works."""
        of_batcher = None if self._batcher is None else self._batcher.failure_reason()
        return self.sessions.failure_reason() or of_batcher or self.workers.pool.failure_reason()

    def close(self) -> None:
        self._closed = True
        if self._owns_workers:
            self.workers.close()
        if self._batcher is not None:
            self._batcher.close()

    def _job(self, image: Input, price: Price | None = None) -> Callable[[], Encoded]:
        if self._closed:
            raise NotReady("this model was closed", fix="ask again: another one is being loaded", retry_after=1)
        if isinstance(image, Text):
            return text_job(self.sessions, image, time.perf_counter())
        return partial(self._encode, image, price, time.perf_counter())

    async def _heard(self, future: Awaitable[Encoded]) -> Encoded | NonnegError:
        """Return one image's vector, noted, or its own error."""
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
        if outcome.of_text:
            self.stats.texts, self.used = self.stats.texts + 1, time.monotonic()
        else:
            self.stats.record(outcome)
        return outcome

    async def _batched(self, orders: Sequence[PricedInput], deadline: float | None) -> list[Encoded | NonnegError]:
        request = object()
        try:
            async with asyncio.timeout_at(deadline):
                return await asyncio.gather(*(self._heard(self._one(*order, request)) for order in orders))
        except TimeoutError:
            raise too_late() from None

    async def _one(self, image: Input, price: Price, request: object) -> Encoded:
        if isinstance(image, Text):
            return await self._on_a_thread(self._job(image), price, request)
        return await self._in_batch(image, price, request)

    async def _on_a_thread(self, work: Callable[[], T], price: Price, request: object) -> T:
        future = self.workers.pool.submit(work, cost_of(price), request)
        try:
            return await asyncio.wrap_future(future)
        except asyncio.CancelledError:  # the client is gone or the deadline has passed
            self.workers.pool.withdraw(future)
            raise

    async def _in_batch(self, image: PhotoInput, price: Price, request: object) -> Encoded:
        assert self._batcher is not None
        queued = time.perf_counter()
        work = partial(self._preprocessor.timed, image, price)
        pixels, started, decoded = await self._on_a_thread(work, price, request)
        vector = await asyncio.wrap_future(self._batcher.submit(pixels))  # (D,)
        self._note_use(image)
        return Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded)

    def _encode(self, image: PhotoInput, price: Price | None, queued: float) -> Encoded:
        pixels, started, decoded = self._preprocessor.timed(image, price)
        alone = self.admission.images == 1
        wide = alone and self.sessions.wide
        vector = self.sessions.run(pixels[None], wide=wide)[0]  # (D,)
        self._note_use(image)
        encoded = Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded, wide)
        if alone and not wide:
            self.sessions.open_all_cores()
        return encoded


def _noting(engine: InferenceEngine) -> Callable[[int], None]:
    """Count batches in the engine's stats, without keeping the engine alive."""
    known = weakref.ref(engine)

    def note(size: int) -> None:
        owner = known()
        if owner is not None:
            owner.stats.batches.observe(size)

    return note
