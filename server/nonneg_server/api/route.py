"""What a route says of itself, so that no list of paths has to: whether it embeds, and whether it tells health."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import orjson
from fastapi.routing import APIRoute
from starlette.responses import Response
from starlette.routing import BaseRoute, request_response

from nonneg_server.api.openapi import Endpoint, Operation


class Route(APIRoute):
    """A route whose endpoint takes the request and nothing else: FastAPI has nothing to inject, and is not asked to."""

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options)
        self.app = request_response(endpoint)

    @property
    def embeds(self) -> bool:
        """Whether what is sent goes through the queue, so that a full one refuses it before its body."""
        return getattr(self.endpoint, "embeds", False)

    @property
    def operation(self) -> Operation | None:
        """What it says of itself in the OpenAPI document."""
        return getattr(self.endpoint, "operation", None)

    @property
    def tells_health(self) -> bool:
        """Whether it is answered without a key, and while models load."""
        return getattr(self.endpoint, "tells_health", False)

    @property
    def is_open(self) -> bool:
        """Whether it is answered without a key: health, and files that hold no data."""
        return self.tells_health or getattr(self.endpoint, "open_to_all", False)


def embedding(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that embeds the images it is sent."""
    vars(endpoint)["embeds"] = True
    return endpoint


def health(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that tells how the server is."""
    vars(endpoint)["tells_health"] = True
    return endpoint


def open_to_all(endpoint: Endpoint) -> Endpoint:
    """Mark an endpoint that is answered without a key: the files of the page that asks for one."""
    vars(endpoint)["open_to_all"] = True
    return endpoint


def json_response(content: Any) -> Response:
    """Return what is not an answer to images, as JSON."""
    return Response(orjson.dumps(content), media_type="application/json")


class RouteTable:
    """Finds a route before the application does."""

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self._routes = [route for route in routes if isinstance(route, Route)]
        self._known = {(method, route.path): route for route in self._routes for method in route.methods or ()}

    def find(self, method: str, path: str) -> Route | None:
        """Return the route of a path, the one that answers the method if there are several."""
        known = self._known.get((method, path))  # the path of one without parameters is its own template
        if known is not None:
            return known
        found = [route for route in self._routes if route.path_regex.match(path)]
        return next((route for route in found if method in (route.methods or ())), next(iter(found), None))
