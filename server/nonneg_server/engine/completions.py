"""Results on their way from the threads back to the event loop: those that come together wake it once.

Waking the loop costs its thread a cold start amid the inference, and the thread that it displaces another one
afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from nonneg_server.engine.pool import LONGEST_HELD, Patient, Pool


class Landing(Patient):
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

    def hand_out(self) -> None:
        self._strip.call()

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
        """From a worker thread; `call` follows."""
        self._down.append((future, result, error))

    def call(self) -> None:
        """From a worker thread: wake the loop, if nobody has."""
        if self._called:
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
        self._pool.hand_over()
        self._ticking = self._pool.waiting > 0
        if self._ticking:
            self.loop.call_later(LONGEST_HELD, self._tick)
