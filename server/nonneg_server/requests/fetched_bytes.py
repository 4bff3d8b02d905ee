"""Bytes that links have brought: counted with the bodies of requests, of which they may take the half."""

from __future__ import annotations

from nonneg_core.errors import Overloaded
from nonneg_server.http.connection_limits import ConnectionState

PART = 2  # of --upload-bytes, the half: slow links do not keep the bodies of other requests out


class FetchedBytes:
    """What the process holds of them, until their requests are answered; used on the event loop alone."""

    def __init__(self, shared: ConnectionState) -> None:
        self._shared = shared
        self._bytes = 0

    def take(self, size: int) -> None:
        """Count bytes that came, until they are given back; Overloaded where they are too many."""
        self._bytes += size
        self._shared.held += size
        most = self._shared.limits.bytes
        if self._bytes > most // PART or self._shared.held > most:
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
        self._shared.held -= size
