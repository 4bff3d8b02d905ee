"""GET /metrics: what Prometheus scrapes."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route

router = APIRouter(route_class=Route, tags=["health"])


@router.get("/metrics", summary="Counts and times for Prometheus")
@documented(others={"text/plain": {"schema": {"type": "string"}}}, says="Prometheus's text format.")
async def get_metrics(request: Request) -> Response:
    return Response(request.app.state.metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})
