"""The threads that do the work: each takes one job, does all of it, and takes the next.

A job is withdrawn by whoever waits for it (client gone, deadline passed) and then never runs. A thread that ends
without being told to, or a job that does not end, makes the pool unhealthy: `/livez` asks.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

from nonneg_client.errors import NotReady

T = TypeVar("T")


class Promise(Protocol):
    """What the pool needs of a future: `concurrent.futures.Future` has it, and so has a landing."""

    def set_running_or_notify_cancel(self) -> bool: ...

    def set_result(self, result: Any, /) -> None: ...

    def set_exception(self, exception: BaseException, /) -> None: ...

    def cancel(self) -> bool: ...


class Pool:
    """As many threads as cores, fed in order of arrival."""

    def __init__(self, threads: int, *, stall_seconds: float = 120.0) -> None:
        self.size = threads
        self._stall_seconds = stall_seconds
        self._waiting: OrderedDict[Promise, Callable[[], Any]] = OrderedDict()
        self._changed = threading.Condition()
        self._closing = False
        self._since: dict[int, float] = {}  # thread number -> when its present job began
        self._death: BaseException | None = None
        self._threads = [
            threading.Thread(target=self._work, args=(number,), name=f"encode-{number}", daemon=True)
            for number in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Queue `work`; the future holds what it returns or raises. Cancel the future to withdraw it."""
        future: Future[T] = Future()
        self.enqueue(future, work)
        return future

    def enqueue(self, future: Promise, work: Callable[[], Any]) -> None:
        """Queue `work` for a future of the caller's own kind."""
        with self._changed:
            if self._closing or self._death is not None:
                raise gone("the server is shutting down" if self._closing else "a worker thread died")
            self._waiting[future] = work
            self._changed.notify()

    def withdraw(self, future: Promise) -> None:
        """Forget a job that has not begun, and free what it holds; one that runs, runs on unheard."""
        future.cancel()
        with self._changed:
            self._waiting.pop(future, None)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ailment(self) -> str | None:
        """Why this pool can no longer be trusted; None while it works."""
        if self._death is not None:
            return f"a worker thread died ({type(self._death).__name__}: {self._death})"
        oldest = min(list(self._since.values()), default=None)
        if oldest is not None and time.monotonic() - oldest > self._stall_seconds:
            return f"a job has been running for more than {self._stall_seconds:g} s"
        return None

    def close(self, timeout: float | None = None) -> None:
        """Let what runs finish, give up what waits, end the threads."""
        with self._changed:
            self._closing = True
            self._give_up("the server is shutting down")
            self._changed.notify_all()
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(timeout)

    def _work(self, number: int) -> None:
        try:
            while self._serve_one(number):
                pass
        except BaseException as error:
            with self._changed:
                self._death = error
                self._give_up("a worker thread died")

    def _serve_one(self, number: int) -> bool:
        # A frame of its own, so that an idle thread does not keep the last image alive.
        taken = self._take()
        if taken is None:
            return False
        future, work = taken
        if not future.set_running_or_notify_cancel():
            return True
        self._since[number] = time.monotonic()
        try:
            result = work()
        except Exception as error:
            future.set_exception(error)
        except BaseException as error:
            future.set_exception(gone(f"a worker thread died ({type(error).__name__})"))
            raise
        else:
            future.set_result(result)
        finally:
            self._since.pop(number, None)
        return True

    def _take(self) -> tuple[Promise, Callable[[], Any]] | None:
        with self._changed:
            while not self._waiting and not self._closing:
                self._changed.wait()
            return None if self._closing else self._waiting.popitem(last=False)

    def _give_up(self, reason: str) -> None:
        while self._waiting:
            future, _ = self._waiting.popitem()
            if future.set_running_or_notify_cancel():
                future.set_exception(gone(reason))


def gone(reason: str) -> NotReady:
    """What those hear who wait for work that will not be done here any more."""
    return NotReady(reason, fix="ask another server, or this one after it has restarted", retry_after=1)
