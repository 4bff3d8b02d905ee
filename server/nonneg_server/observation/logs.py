"""The log: lines for people or JSON for machines, written by a thread of its own, and standard error that it owns.

A pipe that is not read any more, or a terminal that was stopped, takes no lines, and a server that writes its own would
stand still with it. The queue here is bounded; what does not fit is dropped, and the log says so when it is read again.
"""

import contextlib
import fcntl
import io
import logging
import os
import queue
import select
import sys
import threading
import time
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Literal

import orjson

from nonneg_server.http.context import Completed

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


# Standard error, owned by the log: no thread waits that writes there, and what C libraries write is taken.
#
# Descriptor 2 becomes a pipe that is read all the time and never waits; the log keeps a copy of the real one. What
# Python writes to `sys.stderr` goes to the log as lines; what libraries write by themselves, as libtiff does of a bad
# file, is told at the level "debug" only: clients could fill a log with it.

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


# The log: lines for people or JSON for machines, with request ids and never with an image's content.

access = logging.getLogger("nonneg.access")
FIELDS = ("request_id", "route", "method", "status", "milliseconds", "images", "model", "key", "client")


def configure(form: Literal["text", "json"], level: str) -> None:
    """Send everything to stderr in one form, the messages of uvicorn and other libraries included."""
    handler = _to_stderr(form)
    handler.setFormatter(Json() if form == "json" else logging.Formatter("%(asctime)s %(levelname)-8s %(message)s"))
    for name in ("nonneg", "uvicorn", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = ([handler] if name != "uvicorn.error" else []), name == "uvicorn.error"
        logger.setLevel(level.upper())
    logging.getLogger().handlers = [handler]  # what libraries warn of comes in the same form
    logging.getLogger("uvicorn.error").addFilter(_of_the_server)
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it logs what clients send amiss, byte by byte
    logging.getLogger("PIL").setLevel(logging.CRITICAL)  # what it says of broken files, clients are told in our words
    access.setLevel(logging.INFO)  # an access log that was asked for is written at every level


def lines_lost() -> int:
    """Return how many lines of the log were dropped because they were not read in time."""
    return sum(
        handler.lost for handler in logging.getLogger("nonneg").handlers if isinstance(handler, NonBlockingHandler)
    )


def _to_stderr(form: Literal["text", "json"]) -> logging.Handler:
    try:
        number = copy_of_stderr()
    except (ImportError, AttributeError, OSError, ValueError):  # it is not a file: a test's; or this is Windows
        return logging.StreamHandler(sys.stderr)
    to_stderr = NonBlockingHandler(number)

    def tell(line: str) -> None:
        """Print what Python itself says, as a traceback: as it is, or as JSON."""
        if form == "json":
            to_stderr.handle(logging.LogRecord("stderr", logging.ERROR, "", 0, "%s", (line,), None))
        else:
            to_stderr.put(line)

    take_over(tell, number)
    return to_stderr


def _of_the_server(record: logging.LogRecord) -> bool:
    """Return whether it tells of the server: what clients send amiss they are told, and could fill a log with it."""
    return not str(record.msg).startswith(
        ("Invalid HTTP request", "Unsupported upgrade request", "No supported WebSocket library")
    )


def log_access(completed: Completed) -> None:
    """Write one line for an answered request."""
    state, client = completed.scope["state"], completed.scope.get("client")
    answer = state.get("answer")
    fields: dict[str, Any] = {
        "request_id": state["request_id"],
        "route": completed.route,
        "method": completed.method,
        "status": completed.status,
        "milliseconds": round(completed.seconds * 1e3, 2),
        "images": None if answer is None else answer.images,
        "model": None if answer is None else answer.manifest.name,
        "key": state.get("key"),
        "client": client[0] if client else None,
    }
    text = f"{completed.method} {completed.route} {completed.status} {fields['milliseconds']} ms {fields['request_id']}"
    access.info(text, extra={name: value for name, value in fields.items() if value is not None})


def as_json(message: str) -> str:
    """Return a message as the log would have it, to be written elsewhere."""
    return Json().format(logging.makeLogRecord({"name": "nonneg", "levelname": "INFO", "msg": message}))


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        entry |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(entry, default=str).decode()
