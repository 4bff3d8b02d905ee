"""The log's lines, written by a thread of their own: no other thread waits for the reader.

A pipe that is not read any more, or a terminal that was stopped, takes no lines, and a server that writes its own would
stand still with it. Here so many wait, what is more is lost and counted, and the log says so when it is read again.
"""

from __future__ import annotations

import logging
import os
import select
import threading
import time

MOST = 2**18  # bytes that wait to be written
PATIENCE = 1.0  # seconds that the end of the process waits for them


class Scribe(logging.Handler):
    """Writes whole lines to a file descriptor."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.lost = 0
        self._number = number
        self._told = 0  # of the lost ones
        self._lines: list[bytes] = []
        self._bytes = 0  # of all that is not written yet
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = f"{self.format(record)}\n".encode(errors="backslashreplace")
        except Exception:
            self.handleError(record)
            return
        self.put(line)

    def put(self, line: bytes) -> None:
        """A line as it is."""
        with self._changed:
            if self._bytes + len(line) > MOST:
                self.lost += 1
                return
            if self._thread is None and not self._begin():
                self._put(line)
                return
            self._lines.append(line)
            self._bytes += len(line)
            self._changed.notify_all()

    def flush(self) -> None:
        """Wait until all is written, but not for long."""
        until = time.monotonic() + PATIENCE
        with self._changed:
            while self._bytes and (left := until - time.monotonic()) > 0:
                self._changed.wait(left)

    def _begin(self) -> bool:
        """Start the thread; False where no more threads can be: the process ends."""
        thread = threading.Thread(target=self._write, name="log", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            return False
        self._thread = thread
        return True

    def _write(self) -> None:
        while True:
            with self._changed:
                while not self._lines:
                    self._changed.wait()
                lines, self._lines = self._lines, []
            written = self._put(b"".join(lines))
            with self._changed:
                self._bytes -= sum(map(len, lines))
                self.lost += 0 if written else len(lines)
                if written and self.lost > self._told:
                    self._confess()
                self._changed.notify_all()

    def _put(self, text: bytes) -> bool:
        """All of it, however long that takes; False where it cannot be written at all."""
        rest = memoryview(text)
        while rest:
            try:
                rest = rest[os.write(self._number, rest) :]
            except BlockingIOError:  # another process made it non-blocking
                select.select([], [self._number], [])
            except OSError:  # the reader is gone, the disk is full
                return False
        return True

    def _confess(self) -> None:
        """What was lost, in a line that is the next to be written."""
        message = f"{self.lost - self._told} lines of the log before this one were lost: they were not read in time"
        self._told = self.lost
        record = logging.LogRecord("nonneg", logging.WARNING, __file__, 0, message, None, None)
        line = f"{self.format(record)}\n".encode()
        self._lines.insert(0, line)
        self._bytes += len(line)
