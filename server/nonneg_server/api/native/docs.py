"""GET /docs: the API for people, and /openapi.json: the same for programs."""

from __future__ import annotations

import orjson
from fastapi import APIRouter, Request, Response

from nonneg_server.api.route import Route

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get("/docs")
async def get_docs(request: Request) -> Response:
    from nonneg_server.documentation.page import POLICY, page

    address = f"{request.url.scheme}://{request.url.netloc}"
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
    return Response(page(request.app.openapi(), address), headers=headers, media_type="text/html")


@router.get("/openapi.json")
async def get_openapi(request: Request) -> Response:
    return Response(orjson.dumps(request.app.openapi()), media_type="application/json")
