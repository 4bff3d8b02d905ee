"""Daemon worker threads: unlike an executor's they do not delay the exit of the interpreter."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Jobs = SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None]


class Threads:
    """At most so many, each started when there is a job for it."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._started = 0
        self._jobs: Jobs = SimpleQueue()
        self._running: set[Future[Any]] = set()  # those that wait for a thread, too

    def submit(self, act: Callable[[], T]) -> Future[T]:
        """Have it done; the future holds its result."""
        future: Future[T] = Future()
        self._running.add(future)
        future.add_done_callback(self._running.discard)
        self._jobs.put((future, act))
        if self._started < self._most:
            threading.Thread(target=_work, args=(self._jobs,), daemon=True, name="nonneg").start()
            self._started += 1
        return future

    def close(self, seconds: float) -> None:
        """End each thread after its job, and wait so long for it; cancel jobs that have not begun before."""
        wait(list(self._running), timeout=seconds)
        for _ in range(self._started):
            self._jobs.put(None)


def _work(jobs: Jobs) -> None:
    while (job := jobs.get()) is not None:
        future, act = job
        if future.set_running_or_notify_cancel():
            try:
                result = act()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
        del job, future, act  # images are not kept while the thread waits for the next
