"""Work ahead of the reader: jobs are submitted in order, a bounded number of them at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import Future
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def bounded_map(
    submit: Callable[[T], Future[R]], items: Iterable[T], *, ahead: int
) -> Generator[tuple[T, Future[R]], None, None]:
    """Each item with its future, in order, while at most `ahead` more are under way; closing it cancels the rest."""
    waiting: deque[tuple[T, Future[R]]] = deque()
    try:
        for item in items:
            waiting.append((item, submit(item)))
            if len(waiting) > ahead:
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()
