"""What a server may answer: how long it may take, how many bytes that may be, and what counts as unreadable.

A server may be anyone's. Timeouts of httpx are for each read and write: a byte now and then would hold a call for ever.
So each read gets what is left of the whole time, which begins when the request is sent, and each write what is left of
the time for sending.
"""

import asyncio
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

from nonneg_core.errors import ResponseInvalid

ANSWER_BYTES = 64 * 2**20
MAX_DIMENSIONS = 2**24  # of a model; a vector of so many takes 64 MB
UNREADABLE = (ValueError, KeyError, TypeError, AttributeError, IndexError, OverflowError, RecursionError)
BEGUN, SENT = "http11.send_request_headers.started", "http11.send_request_body.complete"
SENDING = 10  # times the seconds of an answer: a request is large, and a slow line is not a slow server
PIECE = 2**16  # bytes that are written at once
_CONNECTED = ("connection.connect_tcp.complete", "connection.start_tls.complete")


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn whatever an answer of another form makes of the code that reads it into ResponseInvalid."""
    try:
        yield
    except UNREADABLE as error:
        raise ResponseInvalid(
            f"the server's answer is not {what} ({type(error).__name__}: {str(error)[:200]})",
            fix="check that the address is a nonneg server of this version",
        ) from error


def dimensions_of(answer: Any) -> int:
    """Return how many dimensions an answer says; ValueError where no model has so many."""
    dimensions = int(answer["dimensions"])
    if not 0 < dimensions <= MAX_DIMENSIONS:
        raise ValueError(f"dimensions={dimensions} is not between 1 and {MAX_DIMENSIONS}")
    return dimensions


def refuse_size() -> NoReturn:
    """Raise for an answer that goes on behind the limit."""
    raise ResponseInvalid(
        f"the server's answer is larger than {ANSWER_BYTES} bytes",
        fix="send smaller batches (batch_size=), or check what answers at this address",
        limit=ANSWER_BYTES,
    )


class Gathered(bytearray):
    """The body of an answer, as its parts come."""

    def add(self, part: bytes) -> None:
        """Add a part; an error where there are too many bytes."""
        self.extend(part)
        if len(self) > ANSWER_BYTES:
            refuse_size()


class ReadDeadline:
    """The time of each thread's request: a trace of httpx that gives every read and write what is left of it."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._thread = threading.local()

    def __call__(self, event: str, details: dict[str, Any]) -> None:
        """Take an event of the connection: a stream that was opened is bounded, a request that was sent begins."""
        if event in _CONNECTED:
            self._bound(details["return_value"])
        elif event in (BEGUN, SENT):
            self._thread.end = time.monotonic() + self._seconds * (SENDING if event == BEGUN else 1)

    def _bound(self, stream: Any) -> None:
        from httpcore import ReadTimeout

        read, write = stream.read, stream.write

        def left(timeout: float | None) -> float:
            seconds: float = getattr(self._thread, "end", math.inf) - time.monotonic()
            if seconds <= 0:
                raise ReadTimeout(f"{self._seconds:g} s are over")
            return seconds if timeout is None else min(timeout, seconds)

        def read_bounded(most: int, timeout: float | None = None) -> bytes:
            data: bytes = read(most, left(timeout))
            return data

        def write_bounded(data: bytes, timeout: float | None = None) -> None:
            for piece in range(0, len(data), PIECE):
                write(data[piece : piece + PIECE], left(timeout))

        stream.read, stream.write = read_bounded, write_bounded


class AsyncDeadline:
    """The same for a task: a context that ends it, and a trace that sets the time for sending and for the answer."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._clock = asyncio.timeout(None)

    async def __aenter__(self) -> "AsyncDeadline":
        await self._clock.__aenter__()
        return self

    async def __aexit__(self, *details: Any) -> None:
        await self._clock.__aexit__(*details)

    async def __call__(self, event: str, _: dict[str, Any]) -> None:
        """Begin where a request is sent, and again where it has been."""
        if event in (BEGUN, SENT):
            seconds = self._seconds * (SENDING if event == BEGUN else 1)
            self._clock.reschedule(asyncio.get_running_loop().time() + seconds)
