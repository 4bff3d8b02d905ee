"""Standard error, owned by the log: no thread waits that writes there, and what C libraries write is taken.

Descriptor 2 becomes a pipe that is read all the time and never waits; the log keeps a copy of the real one. What Python
writes to `sys.stderr` goes to the log as lines; what libraries write by themselves, as libtiff does of a bad file, is
told at the level "debug" only: clients could fill a log with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import logging
import os
import sys
import threading
from collections.abc import Callable

PIECE = 2**16  # bytes
LONGEST = 500  # characters of a library's line that are told
logger = logging.getLogger("nonneg.libraries")


class LineStream(io.TextIOBase):
    """A text stream whose whole lines are handed to a function, which does not wait."""

    encoding = "utf-8"
    errors = "backslashreplace"

    def __init__(self, put: Callable[[str], None], number: int) -> None:
        super().__init__()
        self._put = put
        self._number = number
        self._rest = ""

    def write(self, text: str) -> int:
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._put(line)
        return len(text)

    def flush(self) -> None:
        """Report a line that has not ended as one."""
        if self._rest:
            rest, self._rest = self._rest, ""
            self._put(rest)

    def fileno(self) -> int:
        return self._number

    def writable(self) -> bool:
        return True


def copy_of_stderr() -> int:
    """Return a descriptor of the real standard error, for the log alone."""
    return fcntl.fcntl(sys.stderr.fileno(), fcntl.F_DUPFD_CLOEXEC, 3)


def take_over(put: Callable[[str], None], number: int) -> None:
    """Read descriptor 2 from here on, with `sys.stderr` calling `put` for each line; `number` is the copy."""
    sys.stderr.flush()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    os.dup2(writing, 2)
    os.close(writing)
    threading.Thread(target=_drain, args=(reading,), name="stderr", daemon=True).start()
    sys.stderr = LineStream(put, number)


def _drain(number: int) -> None:
    rest = b""
    with contextlib.suppress(OSError):
        while piece := os.read(number, PIECE):
            if not logger.isEnabledFor(logging.DEBUG):
                continue
            *lines, rest = (rest[-LONGEST:] + piece).split(b"\n")
            for line in lines:
                logger.debug("a library says: %s", line[:LONGEST].decode(errors="backslashreplace"))
