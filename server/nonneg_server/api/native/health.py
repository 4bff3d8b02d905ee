"""GET /livez and /readyz: whether the process should be restarted, and whether it should be sent work."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_server.api.native.examples import ALIVE
from nonneg_server.api.native.schemas import Health
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route, health, json_response
from nonneg_server.health import check_alive, check_ready

router = APIRouter(route_class=Route, tags=["health"])


@router.get("/livez", summary="Alive: the process and its threads work")
@health
@documented(Health, ALIVE)
async def livez(request: Request) -> Response:
    check_alive(request.app.state)
    return json_response({"status": "alive"})


@router.get("/readyz", summary="Ready: a model is loaded, has passed its self-test, and takes work")
@health
@documented(Health, ALIVE)
async def readyz(request: Request) -> Response:
    check_ready(request.app.state)
    return json_response({"status": "ready"})
