"""Long runs: Ctrl-C and SIGTERM between two steps, and work a bounded number of jobs ahead of the reader."""

import signal
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Protocol, Self, TypeVar

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interrupted(KeyboardInterrupt):
    """The run was asked to end by a signal."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number  # as shells count


class Interrupts:
    """While it is open, the first signal to end raises `Interrupted`; one that the process ignores stays ignored."""

    def __init__(self, signals: Sequence[signal.Signals] = SIGNALS) -> None:
        self._signals = signals
        self._deferred = False
        self._pending: int | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            for number in self._signals:
                if signal.getsignal(number) is not signal.SIG_IGN:
                    self._before[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Put signals off until the end of this block."""
        self._deferred = True
        try:
            yield
        finally:
            self._deferred = False
        if self._pending is not None:
            raise Interrupted(self._pending)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        repeated, self._pending = self._pending is not None, number
        if not self._deferred and not repeated:  # a second one must not keep the first from putting away what is done
            raise Interrupted(number)


# Work ahead of the reader: jobs are submitted in order, a bounded number of them at a time.


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
