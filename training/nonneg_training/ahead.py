"""The next batch is drawn while this one is learnt from; it depends on its number only, so nothing can get mixed up."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")


class Ahead(Generic[T]):
    """`take(i)` answers make(i), and has make(i + 1) begun in the background while i + 1 < end."""

    def __init__(self, make: Callable[[int], T], end: int) -> None:
        self._make, self._end = make, end
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ahead")
        self._next: tuple[int, Future[T]] | None = None

    def __enter__(self) -> Self:
        return self

    def take(self, i: int) -> T:
        """What make(i) made, or the error it raised."""
        begun = self._next
        made = begun[1].result() if begun and begun[0] == i else self._make(i)
        self._next = (i + 1, self._pool.submit(self._make, i + 1)) if i + 1 < self._end else None
        return made

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
