"""One client's answers, sent by whichever thread made them, in the order of what was asked.

The threads have a file of their own to the client's socket: the event loop closes its one whenever it likes, and the
number might by then belong to somebody else. What the socket does not take at once, and whatever has to be in order
behind something else, goes through the loop.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress

from nonneg_server.entrance.errand import Errand

AGAIN = 0.001  # seconds after which the loop looks whether the answer before has gone


class Handle:
    """A socket's second file, open for as long as somebody holds it."""

    __slots__ = ("number",)

    def __init__(self, number: int) -> None:
        self.number = os.dup(number)

    def __del__(self) -> None:
        os.close(self.number)


class Voice:
    """Speaks to one client."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, spoken: Callable[[Errand], None]
    ) -> None:
        self.awaited = False  # whether the loop has something to do when an answer has gone
        self._loop = loop
        self._transport = transport
        self._spoken = spoken
        self._handle: Handle | None = None

    def take_handle(self) -> bool:
        """Let the threads answer without the loop; True if that took a file."""
        if self._handle is not None:
            return False
        with suppress(OSError):  # no more files: it goes through the loop
            self._handle = Handle(self._transport.get_extra_info("socket").fileno())
        return self._handle is not None

    def fall_silent(self) -> bool:
        """The connection is over; True if there was a file, which closes when the last thread has sent."""
        self._spoken = _nobody_hears
        handle, self._handle = self._handle, None
        return handle is not None

    def say(self, errand: Errand, content: bytes) -> None:
        """From any thread: send what the socket takes at once, leave the rest to the loop."""
        handle, before = self._handle, errand.after
        if handle is None or not errand.direct or (before is not None and (before.told or not before.said)):
            self._tell(errand, content)
            return
        errand.after = None
        try:
            sent = os.write(handle.number, content)
        except BlockingIOError:
            sent = 0
        except OSError:
            sent = len(content)  # the client is gone, which the loop hears of as well
        if sent < len(content) or errand.closing:
            self._tell(errand, content[sent:])
            return
        errand.said = True
        if self.awaited:
            self._tell(errand, b"")

    def _tell(self, errand: Errand, rest: bytes) -> None:
        errand.told = True
        with suppress(RuntimeError):  # the loop is closed: nobody is left to hear it
            self._loop.call_soon_threadsafe(self._speak, errand, rest)

    def _speak(self, errand: Errand, rest: bytes) -> None:
        """On the loop: send the rest, in its order."""
        if errand.after is not None and not errand.after.said:
            self._loop.call_later(AGAIN, self._speak, errand, rest)
            return
        if rest and not self._transport.is_closing():
            self._transport.write(rest)
        errand.said, errand.after = True, None
        self._spoken(errand)


def _nobody_hears(_: Errand) -> None:
    """What was said to a connection that is over."""
