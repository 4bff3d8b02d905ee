"""Who may ask, and how often: every route but health is closed without a key, as soon as there are keys at all."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Collection

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from nonneg_core.errors import NonnegError, RateLimited, Unauthorized
from nonneg_server.http import error_responses as failures
from nonneg_server.http.keys import Keys, digest_of

OPEN = frozenset({"/livez", "/readyz", "/v2/health/live", "/v2/health/ready"})
MOST_CLIENTS = 10_000


class Guard:
    """Pure ASGI: a request that may not pass is answered before its body is read."""

    def __init__(self, app: ASGIApp, keys: Keys, rate: Rate | None, routes: Collection[str] = ()) -> None:
        self._app = app
        self._keys = keys
        self._rate = rate
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["path"] in OPEN:
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
        except NonnegError as error:
            if scope["path"] in self._routes:  # nobody looked for the route: the metrics and the log shall know it
                scope["state"]["route"] = scope["path"]
            response = await failures.on_error(Request(scope, receive), error)
            if isinstance(error, Unauthorized):
                response.headers["www-authenticate"] = "Bearer"
            await response(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        client: str | bytes = (scope.get("client") or ("unknown",))[0]
        if len(self._keys):
            presented = presented_key(scope)
            name = None if presented is None else self._keys.name_of(presented)
            if name is None:
                raise Unauthorized(
                    "this server asks for an API key" if presented is None else "this API key is not known here",
                    fix="send `Authorization: Bearer <key>` or `X-API-Key: <key>`",
                    field="authorization",
                )
            scope["state"]["key"] = name
            if self._rate is not None and presented is not None:  # lines without names are numbered anew by a reload
                client = digest_of(presented)
        if self._rate is not None:
            self._rate.take(client, time.monotonic())


class Rate:
    """A token bucket for every key, or for every address where there are no keys."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str | bytes, tuple[float, float]] = OrderedDict()  # client -> tokens, when

    def take(self, client: str | bytes, now: float) -> None:
        """One token, or RateLimited with the time until there is one."""
        tokens, since = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = (1 - tokens) / self._per_second
            raise RateLimited(
                f"more than {self._per_second:g} requests a second",
                fix=f"try again in {math.ceil(wait * 1000)} ms",
                field="rate",
                limit=self._per_second,
                retry_after=wait,
            )


def may_ask(keys: Keys, scope: Scope) -> bool:
    """Whether somebody may be told at the door that the queue is full: with a key, if keys there are."""
    if not len(keys):
        return True
    presented = presented_key(scope)
    name = None if presented is None else keys.name_of(presented)
    if name is not None:
        scope["state"]["key"] = name
    return name is not None


def presented_key(scope: Scope) -> str | None:
    """The key in `Authorization: Bearer …` or in `X-API-Key`."""
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            return str(value.decode("latin-1").strip())
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return str(value[7:].decode("latin-1").strip())
    return None
