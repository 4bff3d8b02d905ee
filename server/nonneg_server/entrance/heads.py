"""Knowing a request's head again: a client that keeps its connection sends the same one, but for the length.

What was parsed once need not be parsed again. Byte for byte the same head means the same request, so that nothing is
decided here but whether it is the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

MOST = 4096  # bytes; longer heads are parsed each time
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,15})\r\n", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Head:
    """One head, with a gap where the body's length stands."""

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


def head_of(data: bytes) -> Head | None:
    """The head that `data` begins with, if it is whole, short, and tells one length."""
    end = data.find(b"\r\n\r\n", 0, MOST)
    if end < 0:
        return None
    lines = data[: end + 4]
    found = _LENGTH.findall(lines)
    if len(found) != 1 or lines.lower().count(b"content-length") != 1:
        return None
    match = _LENGTH.search(lines)
    assert match is not None
    return Head(lines[: match.start(1)], lines[match.end(1) :])
