"""Requests whose endpoint takes nothing but the request itself skip the framework's routing and injection.

The routes stay FastAPI's, documented and matched there; this only finds the same endpoint by one look-up, which
spares every image a good part of the time that its request costs beside the inference.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from nonneg_core.errors import NonnegError
from nonneg_server.http.context import Envelope

Endpoint = Callable[[Request], Awaitable[Response]]


def entrance(app: FastAPI) -> ASGIApp:
    """The application without the two outermost layers, whose work the envelope does already."""
    stack: Any = app.build_middleware_stack()
    app.middleware_stack = stack
    while not isinstance(stack, Envelope):
        stack = stack.app
    envelope: Envelope = stack

    async def enter(scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = app
        await envelope(scope, receive, send)

    return enter


class Direct:
    """Pure ASGI, innermost: what it does not know goes on to the router."""

    def __init__(self, app: ASGIApp, owner: FastAPI) -> None:
        self._app = app
        self._handlers: dict[type[Exception], Any] = {
            kind: owner.exception_handlers[kind] for kind in (NonnegError, HTTPException)
        }
        self._endpoints = {
            (method, route.path): route.endpoint
            for route in owner.routes
            if isinstance(route, APIRoute) and takes_only_the_request(route)
            for method in route.methods or ()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") == "HEAD":
            await self._head(scope, receive, send)
        else:
            await self._respond(scope, receive, send)

    async def _head(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What GET would answer, without its body."""

        async def without_body(message: Message) -> None:
            await send({**message, "body": b""} if message["type"] == "http.response.body" else message)

        asked = {**scope, "method": "GET"}
        await self._respond(asked, receive, without_body)
        if "route" in asked:
            scope["route"] = asked["route"]

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoint = self._endpoints.get((scope.get("method", ""), scope.get("path", "")))
        if endpoint is None:
            await self._app(scope, receive, send)
            return
        scope["state"]["route"] = scope["path"]
        request = Request(scope, receive, send)
        try:
            response = await endpoint(request)
        except NonnegError as error:
            response = await self._answer(NonnegError, request, error)
        except HTTPException as error:
            response = await self._answer(HTTPException, request, error)
        await response(scope, receive, send)

    async def _answer(self, kind: type[Exception], request: Request, error: Exception) -> Response:
        response: Response = await self._handlers[kind](request, error)
        return response


def takes_only_the_request(route: APIRoute) -> bool:
    """Whether FastAPI would call the endpoint with the request and nothing else, and send what it returns."""
    needs = route.dependant
    injected = (
        needs.path_params, needs.query_params, needs.header_params, needs.cookie_params, needs.body_params,
        needs.dependencies,
    )  # fmt: skip
    alone = needs.request_param_name == "request" and not any(injected)
    return alone and "{" not in route.path and route.endpoint.__annotations__.get("return") in ("Response", Response)
