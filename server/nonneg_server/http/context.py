"""What every answer has in common: a request id, the total time, and an error body even where the code failed."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nonneg_core.errors import NonnegError
from nonneg_server.http.error_responses import respond

logger = logging.getLogger("nonneg")
_draw = random.Random().getrandbits  # seeded by the system
GONE = 499  # what nginx made customary for a client that left before its answer


class Seen(NamedTuple):
    """A request that was answered, for whoever counts, logs or traces."""

    scope: Scope
    status: int
    began: float  # seconds since the epoch
    seconds: float

    @property
    def method(self) -> str:
        return str(self.scope["method"])

    @property
    def route(self) -> str:
        """The route's template: never the path as the client wrote it, which could be anything."""
        known = self.scope["state"].get("route") or getattr(self.scope.get("route"), "path", None)
        return str(known or "other")


Observer = Callable[[Seen], None]


class Envelope:
    """Pure ASGI: no task, no queue, a few microseconds."""

    def __init__(self, app: ASGIApp, observers: Sequence[Observer] = ()) -> None:
        self._app = app
        self._observers = observers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started, began = time.perf_counter(), time.time()
        state = scope.setdefault("state", {})
        request_id = state.get("request_id") or request_id_of(scope)
        state["request_id"], state["task"] = request_id, asyncio.current_task()
        status = 0

        async def wrapped(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                total = f"{(time.perf_counter() - started) * 1e3:.3f}".encode()
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-total-time", total),
                ]
            await send(message)

        try:
            if "abandoned" in state:
                status = state["abandoned"]
            else:
                await self._app(scope, receive, wrapped)
        except asyncio.CancelledError:
            if "abandoned" not in state:  # the client is gone, or was refused by the protocol: there is none to answer
                raise
            status = state["abandoned"]
        except Exception:
            logger.exception("request %s to %s failed", request_id, scope["path"])
            if not status:
                await respond(internal(), request_id, scope["path"])(scope, receive, wrapped)
        seen = Seen(scope, status, began, time.perf_counter() - started)
        for observe in self._observers:
            observe(seen)


def request_id_of(scope: Scope) -> str:
    """The client's X-Request-Id where it is short and printable, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= 128 and all(33 <= byte <= 126 for byte in value):
            return str(value.decode("ascii"))
    return f"{_draw(128):032x}"  # unlike all others, which is all that is asked of it: no secret


def internal() -> NonnegError:
    return NonnegError("the server failed", fix="try again; the server's log has the cause under this request_id")
