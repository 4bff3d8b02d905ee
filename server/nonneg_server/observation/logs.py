"""The log: lines for people or JSON for machines, with request ids and never with an image's content."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any, Literal

import orjson

from nonneg_server.http.context import Completed
from nonneg_server.observation.log_handler import NonBlockingHandler

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
        from nonneg_server.observation.stderr import copy_of_stderr, take_over

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
    found: dict[str, Any] = {
        "request_id": state["request_id"],
        "route": completed.route,
        "method": completed.method,
        "status": completed.status,
        "milliseconds": round(completed.seconds * 1e3, 2),
        "images": None if answer is None else len(answer.positions) + len(answer.errors),
        "model": None if answer is None else answer.manifest.name,
        "key": state.get("key"),
        "client": client[0] if client else None,
    }
    text = f"{completed.method} {completed.route} {completed.status} {found['milliseconds']} ms {found['request_id']}"
    access.info(text, extra={name: value for name, value in found.items() if value is not None})


def as_json(message: str) -> str:
    """Return a message as the log would have it, to be written elsewhere."""
    return Json().format(logging.makeLogRecord({"name": "nonneg", "levelname": "INFO", "msg": message}))


class Json(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        found: dict[str, Any] = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        found |= {name: getattr(record, name) for name in FIELDS if hasattr(record, name)}
        if record.exc_info:
            found["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(found, default=str).decode()
