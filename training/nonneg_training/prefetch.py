"""The next batch is fetched while this one is learnt from; it depends on its number only, so nothing gets mixed up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

Fetched = TypeVar("Fetched")
Finished = TypeVar("Finished")


class Prefetcher(Generic[Fetched, Finished]):
    """`take(i)` answers finish(fetch(i)), and has fetch(i + 1) begun in the background while i + 1 < end."""

    def __init__(self, fetch: Callable[[int], Fetched], finish: Callable[[Fetched], Finished], end: int) -> None:
        self._fetch, self._finish, self._end = fetch, finish, end
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._next: tuple[int, Future[Fetched]] | None = None

    def __enter__(self) -> Self:
        return self

    def take(self, i: int) -> Finished:
        """Return batch number i, or the error it raised."""
        begun = self._next
        fetched = begun[1].result() if begun and begun[0] == i else self._fetch(i)
        self._next = (i + 1, self._pool.submit(self._fetch, i + 1)) if i + 1 < self._end else None
        return self._finish(fetched)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
