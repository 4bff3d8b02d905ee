"""Work ahead of the reader: jobs are submitted in order, a bounded number of them at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import Any, Protocol, TypeVar


class Cancellable(Protocol):
    """A future or an asyncio task."""

    def cancel(self) -> Any:
        """Drop it, if it has not begun."""


T = TypeVar("T")
F = TypeVar("F", bound=Cancellable)


def bounded_map(
    submit: Callable[[T], F], items: Iterable[T], *, ahead: int | Callable[[], int]
) -> Generator[tuple[T, F], None, None]:
    """Yield each item with its future, in order, at most `ahead` more under way; closing it cancels the rest."""
    most = ahead if callable(ahead) else lambda: ahead
    waiting: deque[tuple[T, F]] = deque()
    try:
        for item in items:
            waiting.append((item, submit(item)))
            while len(waiting) > most():
                yield waiting.popleft()
        while waiting:
            yield waiting.popleft()
    finally:
        for _, future in waiting:
            future.cancel()
