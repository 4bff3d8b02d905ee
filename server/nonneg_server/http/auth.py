"""API keys and rates: every route but health needs a key as soon as there are keys at all."""

import math
import time
from collections import OrderedDict
from functools import partial

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from nonneg_core.errors import Forbidden, NonnegError, RateLimited, Unauthorized
from nonneg_server.api.route import RouteTable
from nonneg_server.http.context import on_error
from nonneg_server.http.keys import Keys, digest_of

MOST_CLIENTS = 10_000


class AuthMiddleware:
    """Pure ASGI: a request that is not authorized is answered before its body is read."""

    def __init__(self, app: ASGIApp, keys: Keys, rate: "RateLimiter | None", routes: RouteTable) -> None:
        self._app = app
        self._keys = keys
        self._rate = rate
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        route = self._routes.find(scope["method"], scope["path"])
        if route is None or not route.is_open:
            try:
                self._check(scope)
            except NonnegError as error:
                scope["route"] = route  # for the metrics and the log: the router never sees this request
                response = await on_error(Request(scope, receive), error)
                if isinstance(error, Unauthorized):
                    response.headers["www-authenticate"] = "Bearer"
                await response(scope, receive, send)
                return
        await self._app(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        client: str | bytes = (scope.get("client") or ("unknown",))[0]
        presented = presented_key(scope)
        if not is_authorized(self._keys, scope):
            if (name := scope["state"].get("key")) is not None:
                raise Forbidden(
                    f"the key {name} opens GET /metrics alone",
                    fix="send another key, made by `nonneg key` without --metrics",
                    field="authorization",
                )
            raise Unauthorized(
                "this server asks for an API key" if presented is None else "this API key is not known here",
                fix="send `Authorization: Bearer <key>` or `X-API-Key: <key>`",
                field="authorization",
            )
        if self._rate is not None:
            if len(self._keys) and presented is not None:  # by the key itself: a reload may give it another name
                client = digest_of(presented)
            self._rate.take(client, time.monotonic())
            scope["state"]["charge"] = partial(self._rate.charge, client)


class RateLimiter:
    """A token bucket for every key, or, without keys, for every address: an image takes one, as any other request does.

    A request is let in while one is left. Its images are counted later: more than are left are owed.
    """

    def __init__(self, per_second: float, burst: int) -> None:
        self._per_second = per_second
        self._burst = burst
        self._buckets: OrderedDict[str | bytes, tuple[float, float]] = OrderedDict()  # client -> tokens, when

    def take(self, client: str | bytes, now: float) -> None:
        """Take one token, or raise RateLimited with the time until there is one again."""
        tokens, since = self._buckets.pop(client, (float(self._burst), now))
        tokens = min(self._burst, tokens + (now - since) * self._per_second)
        allowed = tokens >= 1
        self._buckets[client] = (tokens - allowed, now)
        if len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = (1 - tokens) / self._per_second
            raise RateLimited(
                f"more than {self._per_second:g} images or requests without images a second",
                fix=f"try again in {math.ceil(wait * 1000)} ms",
                field="rate",
                limit=self._per_second,
                retry_after=wait,
            )

    def charge(self, client: str | bytes, images: int) -> None:
        """Take a token for every image of a request beyond its first."""
        tokens, since = self._buckets.get(client, (float(self._burst), time.monotonic()))
        self._buckets[client] = (tokens - max(0, images - 1), since)


def is_authorized(keys: Keys, scope: Scope) -> bool:
    """Return whether a key that opens this route came, or none is needed; the key's name is noted for the log."""
    if not len(keys):
        return True
    presented = presented_key(scope)
    name = None if presented is None else keys.name_of(presented)
    if name is not None:
        scope["state"]["key"] = name
    return name is not None and (name not in keys.of_metrics or scope["path"] == "/metrics")


def presented_key(scope: Scope) -> str | None:
    """Return the key in `Authorization: Bearer …` or in `X-API-Key`."""
    for name, value in scope["headers"]:
        if name == b"x-api-key":
            return str(value.decode("latin-1").strip())
        if name == b"authorization" and value[:7].lower() == b"bearer ":
            return str(value[7:].decode("latin-1").strip())
    return None
