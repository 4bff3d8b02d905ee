"""Results on their way from the threads back to the event loop: those that come together wake it once.

Waking the loop costs its thread a cold start during the inference, and the thread that it displaces another one
afterwards.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from nonneg_server.engine.pool import LONGEST_HELD, BatchedFuture, WorkerPool


class LoopFuture(BatchedFuture):
    """One image's result on the loop's side; for the pool a future like another."""

    __slots__ = ("_completions", "outcome")

    def __init__(self, completions: Completions) -> None:
        self.outcome: asyncio.Future[Any] = completions.loop.create_future()
        self._completions = completions

    def set_running_or_notify_cancel(self) -> bool:
        return not self.outcome.done()

    def set_result(self, result: object) -> None:
        self._completions.put(self.outcome, result, None)

    def set_exception(self, error: BaseException) -> None:
        self._completions.put(self.outcome, None, error)

    def hand_out(self) -> None:
        self._completions.call()

    def cancel(self) -> bool:
        return self.outcome.cancel()


class Completions:
    """Collects worker results for one event loop and wakes it once a burst."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pool: WorkerPool) -> None:
        self.loop = loop
        self._pool = pool
        self._down: deque[tuple[asyncio.Future[Any], object, BaseException | None]] = deque()
        self._called = False
        self._ticking = False

    def expect(self) -> LoopFuture:
        """Return a future for one job, to be queued at once."""
        if not self._ticking:
            self._ticking = True
            self.loop.call_later(LONGEST_HELD, self._tick)
        return LoopFuture(self)

    def put(self, future: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
        """Take a result from a worker thread; `call` follows."""
        self._down.append((future, result, error))

    def call(self) -> None:
        """Wake the loop from a worker thread, unless it is being woken."""
        if self._called:
            return
        self._called = True
        try:
            self.loop.call_soon_threadsafe(self.deliver)
        except RuntimeError:  # the loop is closed
            self._down.clear()

    def deliver(self) -> None:
        """Set all collected results on the event loop."""
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
