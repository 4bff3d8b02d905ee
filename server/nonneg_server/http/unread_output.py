"""Output that a client does not read, and that therefore stays in the server's memory."""

from __future__ import annotations

import asyncio
import struct

try:
    import fcntl
    import termios
except ModuleNotFoundError:  # Windows
    fcntl = None  # type: ignore[assignment]


class UnreadOutput:
    """How much output of one connection is unread, and since when; `look` is called once a second."""

    def __init__(self) -> None:
        self.bytes = 0
        self._since: float | None = None  # when there began to be some
        self._moved = 0.0  # when it was last seen to become less or more

    def look(self, transport: asyncio.WriteTransport, now: float) -> None:
        found = unread_bytes(transport)
        if found != self.bytes:
            self._moved = now
        self._since = (self._since or now) if found else None
        self.bytes = found

    def too_long(self, now: float, *, read_timeout: float, receive_timeout: float) -> bool:
        """Return whether nothing was taken for so long, or not all of it for longer."""
        return self._since is not None and (now - self._moved > read_timeout or now - self._since > receive_timeout)


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Count bytes that wait for the client; under TLS, where the transport does not tell, those in the kernel."""
    found = transport.get_write_buffer_size()
    if found or fcntl is None or transport.get_extra_info("sslcontext") is None:
        return found
    socket = transport.get_extra_info("socket")
    if socket is None:  # it is being closed
        return 0
    try:
        held = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # it has just been closed
        return 0
    (count,) = struct.unpack("i", held)
    return int(count)
