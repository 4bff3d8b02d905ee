"""Refuse requests at their headers while the queue is full, without reading the body.

Only what the application would refuse after its body as well: a request to a route that embeds, with a key if one is
needed, while as many images are in flight as may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from nonneg_server.api import dialect_of
from nonneg_server.http.context import Completed, Observer, request_id_of
from nonneg_server.http.error_responses import respond
from nonneg_server.http.refusals import serialized

if TYPE_CHECKING:
    from starlette.types import Scope

    from nonneg_server.api.route import RouteTable
    from nonneg_server.engine.admission import Admission

READABLE_HEADERS = ("retry-after", "retry-after-ms", "x-fingerprint", "x-request-id", "x-total-time")  # by web pages
FRESH = 0.05  # seconds for which one answer is as good as another
_ID = "0" * 32  # stands where the request's id will be


class EarlyRejection:
    """The 429 of a full queue, prepared."""

    def __init__(
        self,
        admission: Callable[[], Admission | None],
        routes: RouteTable,
        is_authorized: Callable[[Scope], bool],
        observers: Sequence[Observer],
        *,
        origins: Collection[str] = (),
    ) -> None:
        self._admission = admission
        self._routes = routes
        self._is_authorized = is_authorized
        self._observers = observers
        self._origins = origins  # whose pages may read the answer
        self._prepared: dict[tuple[str, bool, str], tuple[float, bytes]] = {}

    @property
    def full(self) -> bool:
        """Whether not even one image more is let in."""
        admission = self._admission()
        return admission is not None and admission.full

    def answer(self, scope: Scope, *, keep_alive: bool) -> bytes | None:
        """Return the whole answer, counted and logged; None if the application has to answer."""
        admission, route = self._admission(), self._routes.find(scope["method"], scope["path"])
        if admission is None or route is None or not route.embeds or scope["method"] not in (route.methods or ()):
            return None
        if not self._is_authorized(scope):
            return None
        request_id, path = request_id_of(scope), str(scope["path"])
        admission.refused += 1
        scope["state"]["request_id"], scope["route"] = request_id, route
        answer = self._written(admission, path, request_id, self._readable_by(scope), keep_alive=keep_alive)
        seconds = time.perf_counter() - scope["state"]["started"]
        for observe in self._observers:
            observe(Completed(scope, 429, time.time() - seconds, seconds))
        return answer

    def _readable_by(self, scope: Scope) -> str:
        """Return the origin whose page may read the answer; empty where none asks or may."""
        if not self._origins:
            return ""
        origin: str = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"origin"), "")
        if origin and "*" in self._origins:
            return "*"
        return origin if origin in self._origins else ""

    def _written(self, admission: Admission, path: str, request_id: str, origin: str, *, keep_alive: bool) -> bytes:
        if len(request_id) != len(_ID):
            return _serialized(admission, path, request_id, origin, keep_alive=keep_alive)
        kind, now = (dialect_of(path).name, keep_alive, origin), time.monotonic()
        until, answer = self._prepared.get(kind, (0.0, b""))
        if now > until:
            answer = _serialized(admission, path, _ID, origin, keep_alive=keep_alive)
            self._prepared[kind] = now + FRESH, answer
        return answer.replace(_ID.encode(), request_id.encode())


def _serialized(admission: Admission, path: str, request_id: str, origin: str, *, keep_alive: bool) -> bytes:
    response = respond(admission.refusal(), request_id, path)
    if origin:
        response.headers["access-control-allow-origin"] = origin
        response.headers["access-control-expose-headers"] = ", ".join(READABLE_HEADERS)
        response.headers["vary"] = "Origin"
    return serialized(response, request_id, 0.0, keep_alive=keep_alive)
