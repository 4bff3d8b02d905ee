"""What bounds all connections: shared limits and counts, open files, unread output, and the bytes that links bring."""

from __future__ import annotations

import asyncio
import struct
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING

from nonneg_core.errors import ConfigInvalid, Overloaded

if TYPE_CHECKING:
    from nonneg_server.http.context import Completed, Observer
    from nonneg_server.http.refusals import EarlyRejection


@dataclass(frozen=True)
class ConnectionLimits:
    """What a connection may take."""

    read_timeout: float = 15.0  # seconds without a byte, while a request is arriving
    receive_timeout: float = 120.0  # seconds a whole request may take to arrive
    connections: int = 4096
    bytes: int = 512 * 2**20  # of all bodies that are arriving or being worked on


@dataclass
class ConnectionState:
    """The limits and the present state."""

    limits: ConnectionLimits = ConnectionLimits()
    buffered: int = 0  # bytes of bodies that are arriving or being worked on, and of answers not taken yet
    open: int = 0  # connections
    handshakes: int = 0  # of TLS that are under way: not connections yet
    turned_away: Counter[str] = field(default_factory=Counter)  # requests the application never saw, by error
    loading: bool = False
    draining: bool = False
    early: EarlyRejection | None = None
    proxies: Sequence[IPv4Network | IPv6Network] = ()  # whose X-Forwarded-For is believed
    observers: Sequence[Observer] = ()  # of every request
    logs: Sequence[Observer] = ()  # of what was refused before its head was whole

    def report(self, completed: Completed) -> None:
        """Count and log a request that was refused by its connection."""
        for observe in self.observers if "path" in completed.scope else self.logs:
            observe(completed)


# How many files this process may open: each connection is one.

FEWEST = 160  # a server with fewer would have none left for connections


def raise_file_limit(files: int) -> int:
    """Return this many open files, unless so few leave nothing for connections."""
    if files < FEWEST:
        raise ConfigInvalid(
            f"this process may open {files} files, a server needs {FEWEST} or more",
            fix="raise the limit: ulimit -n 1024, or LimitNOFILE= of systemd",
            field="open files",
            value=files,
            limit=FEWEST,
        )
    return files


def open_files() -> int:
    """Return how many files this process may open, after asking for all that it may ask for."""
    try:
        import resource
    except ModuleNotFoundError:  # Windows
        return 8192
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = 65536 if hard == resource.RLIM_INFINITY else min(hard, 65536)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most


# Output that a client does not read, and that therefore stays in the server's memory.

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
        unread = unread_bytes(transport)
        if unread != self.bytes:
            self._moved = now
        self._since = (self._since or now) if unread else None
        self.bytes = unread

    def too_long(self, now: float, *, read_timeout: float, receive_timeout: float) -> bool:
        """Return whether nothing was taken for so long, or not all of it for longer."""
        return self._since is not None and (now - self._moved > read_timeout or now - self._since > receive_timeout)


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Count bytes that wait for the client; under TLS, where the transport does not tell, those in the kernel."""
    buffered = transport.get_write_buffer_size()
    if buffered or fcntl is None or transport.get_extra_info("sslcontext") is None:
        return buffered
    socket = transport.get_extra_info("socket")
    if socket is None:  # it is being closed
        return 0
    try:
        packed = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # it has just been closed
        return 0
    (count,) = struct.unpack("i", packed)
    return int(count)


# Bytes that links have brought: counted with the bodies of requests, of which they may take the half.

PART = 2  # of --upload-bytes, the half: slow links do not keep the bodies of other requests out


class FetchedBytes:
    """What the process holds of them, until their requests are answered; used on the event loop alone."""

    def __init__(self, shared: ConnectionState) -> None:
        self._shared = shared
        self._bytes = 0

    def take(self, size: int) -> None:
        """Count bytes that came, until they are given back; Overloaded where they are too many."""
        self._bytes += size
        self._shared.buffered += size
        most = self._shared.limits.bytes
        if self._bytes > most // PART or self._shared.buffered > most:
            raise Overloaded(
                f"{self._bytes} bytes of images are fetched from links at once, the limit is {most // PART}",
                fix="send fewer links at once, or raise --upload-bytes",
                field="upload_bytes",
                value=self._bytes,
                limit=most // PART,
                retry_after=1,
            )

    def give_back(self, size: int) -> None:
        """Count them no more: their request is answered."""
        self._bytes -= size
        self._shared.buffered -= size
