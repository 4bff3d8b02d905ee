"""Knowing a request's head again: a client that keeps its connection sends the same one, but for the length.

What was parsed once need not be parsed again. Byte for byte the same head means the same request, so that nothing is
decided here but whether it is the same. Some headers only tell of a request, as proxies and tracers write them, others
with each: leaving these out, two heads may be the same, too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST = 4096  # bytes; longer heads are parsed each time
PASSING = (  # as regular expressions; no meaning for any answer, but X-Request-Id, which is read anew
    rb"accept-encoding", rb"accept-language", rb"b3", rb"baggage", rb"cdn-loop", rb"cf-[a-z-]+", rb"forwarded",
    rb"traceparent", rb"tracestate", rb"uber-trace-id", rb"user-agent", rb"via", rb"x-amz-cf-id", rb"x-amzn-trace-id",
    rb"x-b3-[a-z]+", rb"x-cloud-trace-context", rb"x-correlation-id", rb"x-datadog-[a-z-]+", rb"x-envoy-[a-z-]+",
    rb"x-forwarded-[a-z-]+", rb"x-real-ip", rb"x-request-id", rb"x-request-start",
)  # fmt: skip
_PASSING = re.compile(rb"\r\n(?:%b):[\t\x20-\x7e\x80-\xff]*(?=\r\n)" % b"|".join(PASSING), re.IGNORECASE)
_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})\r\n", re.IGNORECASE)

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Lines:
    """A head's bytes, with a gap where the body's length stands."""

    before: bytes
    after: bytes  # ends with the empty line

    def read(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins in `data` and how long it will be, if `data` begins with this head."""
        start = len(self.before)
        if not data.startswith(self.before):
            return None
        end = data.find(b"\r", start, start + 16)
        digits = data[start:end]
        if end < 0 or not digits.isdigit() or not data.startswith(self.after, end):
            return None
        return end + len(self.after), int(digits)


@dataclass(frozen=True, slots=True)
class Head:
    """One head: as it came, and without what only tells of the request."""

    whole: Lines
    core: Lines

    def read(self, data: bytes) -> tuple[int, int] | None:
        """Where the body begins in `data` and how long it will be, if `data` begins with this head."""
        return self.whole.read(data)

    def read_core(self, data: bytes) -> tuple[int, int, Headers] | None:
        """The same, if `data` begins with a head that asks for the same; and its own headers."""
        end = data.find(b"\r\n\r\n", 0, MOST) + 4
        if end < 4:
            return None
        lines = data[:end]
        core = _PASSING.sub(b"", lines)
        found = self.core.read(core)
        headers = headers_of(lines) if found is not None and found[0] == len(core) else None
        return None if found is None or headers is None else (end, found[1], headers)


def headers_of(lines: bytes) -> Headers | None:
    """A head's headers, names in lower case; None where they would want a parser."""
    found = []
    for line in lines[:-4].split(b"\r\n")[1:]:
        name, _, value = line.partition(b":")
        if _NAME.fullmatch(name) is None:
            return None
        found.append((name.lower(), value.strip(b" \t")))
    return found


def head_of(data: bytes) -> Head | None:
    """The head that `data` begins with, if it is whole, short, and tells one length."""
    end = data.find(b"\r\n\r\n", 0, MOST)
    if end < 0:
        return None
    lines = data[: end + 4]
    found = _LENGTH.findall(lines)
    if len(found) != 1 or lines.lower().count(b"content-length") != 1:
        return None
    return Head(_around_length(lines), _around_length(_PASSING.sub(b"", lines)))


def _around_length(lines: bytes) -> Lines:
    match = _LENGTH.search(lines)
    assert match is not None
    return Lines(lines[: match.start(1)], lines[match.end(1) :])
