"""Ctrl-C and SIGTERM in a long run: an exception between two steps, put off while something is being written."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

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
        self._held = False
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
    def held(self) -> Iterator[None]:
        """Put signals off until the end of this block."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
        if self._pending is not None:
            raise Interrupted(self._pending)

    def _on_signal(self, number: int, _: FrameType | None) -> None:
        repeated, self._pending = self._pending is not None, number
        if not self._held and not repeated:  # a second one must not keep the first from putting away what is done
            raise Interrupted(number)
