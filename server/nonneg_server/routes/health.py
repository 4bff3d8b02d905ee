"""GET /livez and /readyz: whether the process should be restarted, and whether it should be sent work."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_client.errors import NotReady

router = APIRouter(tags=["health"])


@router.get("/livez", summary="Alive: the process answers")
async def livez() -> Response:
    return Response(b'{"status":"alive"}', media_type="application/json")


@router.get("/readyz", summary="Ready: a model is loaded and takes work")
async def readyz(request: Request) -> Response:
    if not request.app.state.registry.ready():
        raise NotReady("no model is ready", fix="wait for the model to load", retry_after=1)
    return Response(b'{"status":"ready"}', media_type="application/json")
