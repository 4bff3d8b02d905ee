"""A log handler that never waits: a thread of its own writes the lines, and those it has no room for are counted.

A pipe that is not read any more, or a terminal that was stopped, takes no lines, and a server that writes its own would
stand still with it. The queue here is bounded; what does not fit is dropped, and the log says so when it is read again.
"""

from __future__ import annotations

import logging
import os
import queue
import select
from logging.handlers import QueueHandler, QueueListener

MOST = 1024  # lines that wait to be written
PATIENCE = 1.0  # seconds that the end of the process waits for them


class NonBlockingHandler(QueueHandler):
    """Puts formatted lines on a bounded queue, from which they are written to a file descriptor."""

    queue: queue.Queue[logging.LogRecord]

    def __init__(self, descriptor: int) -> None:
        super().__init__(queue.Queue(MOST))
        self.lost = 0
        _Writer(self, descriptor).start()

    def enqueue(self, record: logging.LogRecord) -> None:
        """Queue a line, or count it while the queue is full."""
        try:
            self.queue.put_nowait(record)
        except queue.Full:
            self.lost += 1

    def put(self, line: str) -> None:
        """Queue a line as it is."""
        self.acquire()  # as `handle` does
        try:
            self.enqueue(logging.makeLogRecord({"msg": line}))
        finally:
            self.release()

    def flush(self) -> None:
        """Wait until all is written, but not for long."""
        with self.queue.all_tasks_done:
            self.queue.all_tasks_done.wait_for(lambda: not self.queue.unfinished_tasks, PATIENCE)


class _Writer(QueueListener):
    """Writes each line whole, and after lines that were lost how many they were."""

    def __init__(self, handler: NonBlockingHandler, descriptor: int) -> None:
        super().__init__(handler.queue)
        self._handler = handler
        self._descriptor = descriptor
        self._reported = 0  # of the lost ones

    def handle(self, record: logging.LogRecord) -> None:
        """Write a line; without any handler's lock, which the end of the process would wait for."""
        if not self._write(record.getMessage()):
            self._handler.lost += 1
        elif (lost := self._handler.lost - self._reported) > 0:
            self._reported += lost
            message = f"{lost} lines of the log before this one were lost: they were not read in time"
            report = logging.LogRecord("nonneg", logging.WARNING, __file__, 0, message, None, None)
            self._write(self._handler.format(report))

    def _write(self, line: str) -> bool:
        """Write all of it, however long that takes; False where it cannot be written at all."""
        rest = memoryview(f"{line}\n".encode(errors="backslashreplace"))
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process made it non-blocking
                select.select([], [self._descriptor], [])
            except OSError:  # the reader is gone, the disk is full
                return False
        return True
