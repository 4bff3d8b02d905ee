"""What every answer has in common: a request id, the total time, and an error body even where the code failed."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
import uuid

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nonneg_client.errors import NonnegError
from nonneg_server.failures import respond

logger = logging.getLogger("nonneg")


class Envelope:
    """Pure ASGI: no task, no queue, a few microseconds."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started = time.perf_counter()
        request_id = request_id_of(scope)
        state = scope.setdefault("state", {})
        state["request_id"], state["task"] = request_id, asyncio.current_task()
        answered = False

        async def wrapped(message: Message) -> None:
            nonlocal answered
            if message["type"] == "http.response.start":
                answered = True
                total = f"{(time.perf_counter() - started) * 1e3:.3f}".encode()
                message["headers"] = [
                    *message["headers"],
                    (b"x-request-id", request_id.encode()),
                    (b"x-total-time", total),
                ]
            await send(message)

        try:
            await self._app(scope, receive, wrapped)
        except asyncio.CancelledError:
            if "abandoned" not in state:  # the client is gone: nobody is left to answer
                raise
        except Exception:
            logger.exception("request %s to %s failed", request_id, scope["path"])
            if not answered:
                await respond(_internal(), request_id, scope["path"])(scope, receive, wrapped)


def request_id_of(scope: Scope) -> str:
    """The client's X-Request-Id where it is short and printable, else a new one."""
    for name, value in scope["headers"]:
        if name == b"x-request-id" and 0 < len(value) <= 128 and all(33 <= byte <= 126 for byte in value):
            return str(value.decode("ascii"))
    return uuid.UUID(bytes=secrets.token_bytes(16), version=4).hex


def _internal() -> NonnegError:
    return NonnegError("the server failed", fix="try again; the server's log has the cause under this request_id")
