"""Refuse requests at their headers while the queue is full, without reading the body.

Only what the application would refuse after its body as well: a request to a route that embeds, with a key if one is
needed, while as many images are in flight as may be.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from nonneg_server.api import dialect_of
from nonneg_server.http.context import Completed, Observer, request_id_of
from nonneg_server.http.error_responses import respond
from nonneg_server.http.refusals import serialized

if TYPE_CHECKING:
    from starlette.types import Scope

    from nonneg_server.api.route import RouteTable
    from nonneg_server.engine.admission import Admission

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
        cross_origin: bool = False,
    ) -> None:
        self._admission = admission
        self._routes = routes
        self._is_authorized = is_authorized
        self._observers = observers
        self._cross_origin = cross_origin
        self._prepared: dict[tuple[str, bool], tuple[float, bytes]] = {}

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
        if self._cross_origin and any(name == b"origin" for name, _ in scope["headers"]):
            return None  # a browser shows its page only what has the headers that the application adds
        if not self._is_authorized(scope):
            return None
        request_id, path = request_id_of(scope), str(scope["path"])
        admission.refused += 1
        scope["state"]["request_id"], scope["route"] = request_id, route
        answer = self._written(admission, path, request_id, keep_alive=keep_alive)
        seconds = time.perf_counter() - scope["state"]["started"]
        for observe in self._observers:
            observe(Completed(scope, 429, time.time() - seconds, seconds))
        return answer

    def _written(self, admission: Admission, path: str, request_id: str, *, keep_alive: bool) -> bytes:
        if len(request_id) != len(_ID):
            return serialized(respond(admission.refusal(), request_id, path), request_id, 0.0, keep_alive=keep_alive)
        kind, now = (dialect_of(path).name, keep_alive), time.monotonic()
        until, answer = self._prepared.get(kind, (0.0, b""))
        if now > until:
            answer = serialized(respond(admission.refusal(), _ID, path), _ID, 0.0, keep_alive=keep_alive)
            self._prepared[kind] = now + FRESH, answer
        return answer.replace(_ID.encode(), request_id.encode())
