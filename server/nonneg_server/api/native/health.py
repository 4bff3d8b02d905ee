"""GET /livez and /readyz: whether the process should be restarted, and whether it should be sent work."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_core.errors import NotReady
from nonneg_server.api.route import Route, health
from nonneg_server.http.context import still_loading

router = APIRouter(route_class=Route, tags=["health"])


@router.get("/livez", summary="Alive: the process and its threads work")
@health
async def livez(request: Request) -> Response:
    reason = request.app.state.registry.failure_reason()
    if reason is not None:
        raise NotReady(reason, fix="restart this server; it ends by itself")
    return Response(b'{"status":"alive"}', media_type="application/json")


@router.get("/readyz", summary="Ready: a model is loaded, has passed its self-test, and takes work")
@health
async def readyz(request: Request) -> Response:
    state = request.app.state
    if state.shared.draining:
        raise NotReady("this server is shutting down", fix="ask another one", retry_after=1)
    if state.shared.loading:
        raise still_loading()
    if not state.registry.ready():
        raise NotReady("no model is ready", fix="wait for the model to load", retry_after=1)
    return Response(b'{"status":"ready"}', media_type="application/json")
