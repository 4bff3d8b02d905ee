"""A full queue refuses at the headers: what cannot be taken is not read, and costs a twentieth of what is.

Only what would be refused after its body as well: an image, while as many are in flight as may be, from somebody who
may ask. Everything else, and everything that is not plain, goes the long way.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from nonneg_core.errors import Overloaded
from nonneg_server.dialects.failing import dialect_of
from nonneg_server.http.context import Observer, Seen, request_id_of
from nonneg_server.http.error_responses import respond
from nonneg_server.http.serialize import ending, head_of, written
from nonneg_server.routes.embedding import embeds

if TYPE_CHECKING:
    from starlette.types import Scope

    from nonneg_server.engine.admission import Admission

FRESH = 0.05  # seconds for which one refusal is as good as another
_ID = "0" * 32  # stands where the request's id will be


class Gate:
    """Knows whether the queue is full, and what to say then."""

    def __init__(
        self,
        admission: Callable[[], Admission | None],
        may_ask: Callable[[Scope], bool],
        observers: Sequence[Observer],
        routes: Iterable[BaseRoute],
    ) -> None:
        self._routes = [route for route in routes if isinstance(route, APIRoute) and embeds(route)]
        self._admission = admission
        self._may_ask = may_ask
        self._observers = observers
        self._prepared: dict[str, tuple[float, bytes, bytes]] = {}

    def shut(self, method: bytes, path: str) -> bool:
        """Whether this request would be refused for certain."""
        admission = self._admission()
        full = method == b"POST" and admission is not None and admission.full
        return full and self._route_of(path) is not None

    def refusal(self, scope: Scope, *, keep_alive: bool) -> bytes | None:
        """The whole answer, counted and logged; None for who must be answered otherwise."""
        admission = self._admission()
        if admission is None or not self._may_ask(scope):
            return None
        began, started = time.time(), time.perf_counter()
        request_id, path = request_id_of(scope), str(scope["path"])
        admission.refused += 1
        scope.setdefault("state", {}).update(request_id=request_id, route=self._route_of(path))
        if len(request_id) == len(_ID):
            head, body = (part.replace(_ID.encode(), request_id.encode()) for part in self._template(admission, path))
        else:
            head, body = _written(admission.refusal(), request_id, path)
        for observe in self._observers:
            observe(Seen(scope, 429, began, time.perf_counter() - started))
        return head + ending(keep_alive=keep_alive) + body

    def _route_of(self, path: str) -> str | None:
        """The template of the route that would embed what is sent to this path."""
        return next((route.path for route in self._routes if route.path_regex.match(path)), None)

    def _template(self, admission: Admission, path: str) -> tuple[bytes, bytes]:
        dialect, now = dialect_of(path), time.monotonic()
        until, head, body = self._prepared.get(dialect, (0.0, b"", b""))
        if now > until:
            head, body = _written(admission.refusal(), _ID, path)
            self._prepared[dialect] = now + FRESH, head, body
        return head, body


def _written(error: Overloaded, request_id: str, path: str) -> tuple[bytes, bytes]:
    answer = written(respond(error, request_id, path))
    return head_of(answer, request_id, 0.0), answer.body
