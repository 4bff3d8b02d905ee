"""The engine: image bytes in, raw vectors out. It knows nothing of HTTP."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from nonneg_client.decode import MAX_PIXELS, decode, upright_rgb
from nonneg_client.errors import CheckFailed, DeadlineExceeded, NonnegError, NotReady
from nonneg_client.view import Pixels
from nonneg_export.bundle import ENCODER, Bundle, open_bundle
from nonneg_export.runtime import Session
from nonneg_server.engine_lanes import Lanes
from nonneg_server.golden import golden_cosine
from nonneg_server.ledger import Ledger

Photo = bytes | Image.Image
Sessions = tuple[Session, ...]  # the narrow one, then perhaps the wide one
FAILURES_THAT_MEAN_DEATH = 3  # runs of the encoder that fail one after the other, none succeeding in between


@dataclass(frozen=True, slots=True)
class Encoded:
    """One image's raw vector and where its time went."""

    vector: NDArray[np.float32]  # (D,)
    queue_seconds: float
    decode_seconds: float
    run_seconds: float
    wide: bool = False  # every core worked on this image alone


class Engine:
    """One bundle, loaded: every image is one job (decode -> view -> run) that one thread does from end to end.

    The threads share one session that computes on the caller's thread. While a single image is in flight there is
    nothing to share the cores with, so that a second, wide session spreads it over all of them.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        threads: int | None = None,
        max_pixels: int = MAX_PIXELS,
        lanes: Lanes | None = None,
        wide: bool = True,
        timeout: float | None = None,
        exact: bool = False,
    ) -> None:
        self.bundle = bundle
        self.name = bundle.manifest.name
        self._own_lanes = Lanes(threads) if lanes is None else None
        self._lanes = lanes or self._own_lanes or Lanes(threads)
        self.threads = self._lanes.threads
        self.admission = self._lanes.admission
        self.ledger = Ledger(bundle.manifest.dimensions)
        self.used = time.monotonic()
        self.on_load: Callable[[Engine], None] | None = None
        self._max_pixels = max_pixels
        self._timeout = timeout
        self._at_least = None if exact else bundle.manifest.view.ample
        self._widths = (1, self.threads) if wide and self.threads > 1 else (1,)
        self._loading = threading.Lock()
        self._sessions: Sessions | None = None
        self._opened_before = False
        self._failures = 0
        self._closed = False
        self._load()

    @property
    def loaded(self) -> bool:
        return self._sessions is not None

    @property
    def weight(self) -> int:
        """Bytes of weights that it holds while it is loaded."""
        return self.bundle.manifest.files[ENCODER].bytes * len(self._widths)

    def rest(self) -> None:
        """Forget the weights; whoever needs them next loads them again."""
        self._sessions = None

    def warm_up(self) -> None:
        """Run every session once, against the vector that the exporter wrote down."""
        for session in self._load():
            _self_test(self.bundle, session)

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
        with self.admission.entered(len(images), sum(map(_weight, images))):
            self.ledger.request_images.observe(len(images))
            try:
                async with asyncio.timeout_at(self._earlier(deadline)):
                    if len(images) == 1:
                        return [await self._one(images[0])]
                    return await asyncio.gather(*map(self._one, images))
            except TimeoutError:
                raise _too_late() from None

    def submit(self, image: Photo) -> Future[Encoded]:
        """Queue one image, unbounded and from any thread; the future holds its vector or the typed error."""
        if self._closed:
            raise NotReady("this model was closed", fix="ask again: another one is being loaded", retry_after=1)
        return self._lanes.pool.submit(partial(self._encode, image, time.perf_counter()))

    def ailment(self) -> str | None:
        """Why this engine can no longer be trusted; None while it works."""
        if self._failures >= FAILURES_THAT_MEAN_DEATH:
            return f"the encoder of {self.name} failed {self._failures} times in a row"
        return self._lanes.pool.ailment()

    def close(self) -> None:
        self._closed = True
        if self._own_lanes is not None:
            self._own_lanes.close()

    def _earlier(self, deadline: float | None) -> float | None:
        """The client's deadline or the server's own."""
        if self._timeout is None:
            return deadline
        own = asyncio.get_running_loop().time() + self._timeout
        return own if deadline is None else min(own, deadline)

    async def _one(self, image: Photo) -> Encoded | NonnegError:
        future = self.submit(image)
        try:
            encoded = await asyncio.wrap_future(future)
        except NonnegError as error:
            self.ledger.errors[error.type] += 1
            return error
        except asyncio.CancelledError:  # the client is gone or the deadline has passed
            self._lanes.pool.withdraw(future)
            raise
        if not encoded.wide:
            self.admission.served(encoded.decode_seconds + encoded.run_seconds)
        self.ledger.note(encoded.vector, encoded.queue_seconds, encoded.decode_seconds, encoded.run_seconds)
        return encoded

    def _encode(self, image: Photo, queued: float) -> Encoded:
        started = time.perf_counter()
        pixels = self._pixels(image)[None]  # (1, size, size, 3)
        decoded = time.perf_counter()
        sessions = self._sessions or self._load()
        alone = len(sessions) > 1 and self.admission.images == 1
        vector = self._run(sessions[-1 if alone else 0], pixels)[0]  # (D,)
        self.used = time.monotonic()
        return Encoded(vector, started - queued, decoded - started, time.perf_counter() - decoded, alone)

    def _load(self) -> Sessions:
        """The sessions, opened if they are not; a bundle that changed since it was first opened is refused."""
        with self._loading:
            if self._sessions is not None:
                return self._sessions
            if self._opened_before:
                reopened = open_bundle(self.bundle.path).manifest.fingerprint
                if reopened != self.bundle.manifest.fingerprint:
                    raise NotReady(f"the bundle of {self.name} was replaced", fix="reload the model", retry_after=1)
            self._opened_before = True
            sessions = tuple(Session(self.bundle.encoder, threads=width) for width in self._widths)
            self._sessions = sessions
        if self.on_load is not None:
            self.on_load(self)
        return sessions

    def _pixels(self, image: Photo) -> Pixels:
        view = self.bundle.manifest.view
        if isinstance(image, bytes):
            photo = decode(image, max_pixels=self._max_pixels, background=view.background, at_least=self._at_least)
            return view.apply(photo)
        return view.apply(upright_rgb(image, background=view.background))

    def _run(self, session: Session, pixels: Pixels) -> NDArray[np.float32]:
        try:
            vectors = session.run(pixels)
        except Exception as error:  # pixels of the right shape never fail: it is the runtime that does
            self._failures += 1
            raise NonnegError(
                f"the encoder failed on an image ({type(error).__name__})", fix="try again; the server's log says more"
            ) from error
        self._failures = 0
        return vectors


def _self_test(bundle: Bundle, session: Session) -> None:
    found, wanted = golden_cosine(bundle, session), bundle.manifest.golden.tolerance
    if not found >= wanted:
        raise CheckFailed(
            f"{bundle.path} fails its self-test: cosine {found:.6f} to the exporter's vector, at least {wanted} is due",
            fix="reinstall onnxruntime, or export the bundle again on this machine",
            value=found,
            limit=wanted,
        )


def _weight(image: Photo) -> int:
    return len(image) if isinstance(image, bytes) else image.width * image.height * 4


def _too_late() -> DeadlineExceeded:
    return DeadlineExceeded(
        "the deadline passed before the vectors were ready",
        fix="ask again later, or with fewer images, or with a longer timeout",
        field="timeout",
    )
