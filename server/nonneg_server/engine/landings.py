"""Results on their way from the threads back to the event loop: several by one wake-up while there is enough to do.

Waking the loop costs its thread a cold start amid the inference, and the thread that it displaces another one
afterwards. While the queue is deep, nobody idles if a finished image waits for its neighbours; as soon as it is not,
every result wakes the loop at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from nonneg_server.engine.pool import Pool

MOST_HELD = 8
DEEP = 4  # images that wait for each thread; with two of them, the threads ran dry before the answers' successors came
LONGEST_HELD = 0.05  # seconds, where the next image turns out to be a large one


class Landing:
    """One image's place on the loop's side: for the pool a future like another."""

    __slots__ = ("_strip", "future")

    def __init__(self, strip: Strip) -> None:
        self.future: asyncio.Future[Any] = strip.loop.create_future()
        self._strip = strip

    def set_running_or_notify_cancel(self) -> bool:
        return not self.future.done()

    def set_result(self, result: object) -> None:
        self._strip.put(self.future, result, None)

    def set_exception(self, error: BaseException) -> None:
        self._strip.put(self.future, None, error)

    def cancel(self) -> bool:
        return self.future.cancel()


class Strip:
    """Where one event loop's landings come down."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: Pool) -> None:
        self.loop = loop
        self._pool = pool
        self._down: deque[tuple[asyncio.Future[Any], object, BaseException | None]] = deque()
        self._called = False
        self._ticking = False

    def expect(self) -> Landing:
        """A landing for one job, to be submitted at once."""
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(LONGEST_HELD, self._tick)
        return Landing(self)

    def put(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        """From a worker thread."""
        self._down.append((future, result, error))
        enough_to_do = self._pool.waiting >= DEEP * self._pool.size
        if self._called or (enough_to_do and len(self._down) < MOST_HELD):
            return
        self._called = True
        try:
            self.loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:  # the loop is closed: nobody is left to hear it
            self._down.clear()

    def deliver(self) -> None:
        """On the loop: hand out all that is down."""
        self._called = False
        while self._down:
            future, result, error = self._down.popleft()
            if future.done():  # cancelled, or expired
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _tick(self) -> None:
        self.deliver()
        self._ticking = self._pool.waiting > 0
        if self._ticking:
            self.loop.call_later(LONGEST_HELD, self._tick)
