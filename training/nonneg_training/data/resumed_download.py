"""The bytes at an http(s) address, in order; where the connection breaks off, it is taken up again."""

import io
import time
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import httpx

from nonneg_core.errors import ConnectionFailed, DataInvalid

ATTEMPTS = 6  # in a row without a single byte
PAUSE = 0.5  # seconds before the second attempt, twice as long before each further one
LONGEST_PAUSE = 30.0

TIMEOUT = httpx.Timeout(30.0, connect=10.0)
PASSING = {408, 425, 429, 500, 502, 503, 504}  # what a server may answer now and not in a while


class ConnectionBroken(Exception):
    """This connection is of no further use, another one may be."""


class Download(io.RawIOBase):
    """A file to be read once from front to back."""

    def __init__(self, url: str, client: httpx.Client, *, pause: float = PAUSE) -> None:
        super().__init__()
        self.url, self.name = url, shown(url)
        self._client, self._pause = client, pause
        self._at, self._length, self._mark = 0, None, ""  # type: tuple[int, int | None, str]
        self._open, self._rest = ExitStack(), b""
        self._chunks: Iterator[bytes] | None = None

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes; none at the end."""
        if not self._rest:
            self._rest = self._next()
        most = len(self._rest) if size is None or size < 0 else size
        chunk, self._rest = self._rest[:most], self._rest[most:]
        return chunk

    def close(self) -> None:
        self._open.close()
        super().close()

    def _next(self) -> bytes:
        """Return the next chunk, from this connection or the next."""
        for attempt in range(ATTEMPTS):
            try:
                if self._chunks is None:
                    self._chunks = self._connect()
                chunk = next(self._chunks, b"")
                self._at += len(chunk)
                if not chunk and self._length not in (None, self._at):
                    raise ConnectionBroken(f"ended at byte {self._at} of {self._length}")
                return chunk
            except (httpx.TransportError, ConnectionBroken) as error:
                reason = str(error) or type(error).__name__
                self._open.close()
                self._chunks = None
                if attempt < ATTEMPTS - 1:
                    time.sleep(min(LONGEST_PAUSE, self._pause * 2**attempt))
        raise ConnectionFailed(
            f"{self.name} broke off at byte {self._at}, {ATTEMPTS} times in a row ({reason})",
            fix="see whether the server is there; --resume goes on with the run",
            value=self.name,
        )

    def _connect(self) -> Iterator[bytes]:
        headers = {"Accept-Encoding": "identity"}
        if self._at:
            headers |= {"Range": f"bytes={self._at}-"} | ({"If-Range": self._mark} if self._mark else {})
        response = self._open.enter_context(self._client.stream("GET", self.url, headers=headers))
        if response.status_code in PASSING:
            raise ConnectionBroken(f"status {response.status_code}")
        if response.status_code not in (200, 206):
            raise DataInvalid(
                f"{self.name} cannot be had: the server answered {response.status_code}",
                fix="check the address and the rights to it",
                value=self.name,
            )
        chunks = response.iter_raw()  # as they arrive: of a fixed size, the last one before a break would be lost
        self._check_same(response)
        if response.status_code == 206:
            return chunks
        return _behind(chunks, self._at)  # a server that knows no ranges: read what we have once more

    def _check_same(self, response: httpx.Response) -> None:
        """Refuse a second half that does not belong to the first."""
        mark = response.headers.get("ETag") or response.headers.get("Last-Modified") or ""
        partial = response.status_code == 206
        stated = response.headers.get("Content-Range", "").rpartition("/")[2] if partial else None
        length = stated or response.headers.get("Content-Length")
        size = int(length) if length and length.isdigit() else None
        if self._at and (mark, size) != (self._mark, self._length):
            raise DataInvalid(
                f"{self.name} changed while it was read", fix="start the run again when it is whole", value=self.name
            )
        if partial and not response.headers.get("Content-Range", "").startswith(f"bytes {self._at}-"):
            raise ConnectionBroken("another range than the one asked for")
        self._mark, self._length = mark, size


def shown(url: str) -> str:
    """Return the address without what may be secret in it."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.hostname or ''}{f':{parts.port}' if parts.port else ''}{parts.path}"


def _behind(chunks: Iterator[bytes], skip: int) -> Iterator[bytes]:
    for chunk in chunks:
        rest = chunk[skip:]
        skip = max(0, skip - len(chunk))
        if rest:
            yield rest
