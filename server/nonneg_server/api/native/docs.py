"""GET /docs: the API for people, /openapi.json: the same for programs, and / which points to both."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from nonneg_core.version import __version__
from nonneg_server.api.openapi import documented
from nonneg_server.api.route import Route, json_response, open_to_all

router = APIRouter(route_class=Route, tags=["models"])


POINTERS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "embed": "/embed",
    "models": "/models",
    "ready": "/readyz",
    "metrics": "/metrics",
}


@router.get("/", summary="Where to go from here; for browsers the studio, or a page of pointers where that is off")
@open_to_all
@documented(
    dict[str, str],
    {"name": "nonneg", "version": "0.1.0", **POINTERS},
    others={"text/html": {"schema": {"type": "string"}}},
    says="Paths by what they lead to.",
)
async def get_root(request: Request) -> Response:
    if "text/html" not in request.headers.get("accept", ""):
        return json_response({"name": "nonneg", "version": __version__, **POINTERS})
    from nonneg_server.studio.host_check import is_on, is_ours

    settings = request.app.state.settings
    if is_on(settings) and is_ours(request.headers.get("host", ""), settings.host, settings.studio_host):
        from nonneg_server.studio.page_files import HEADERS, asset

        return Response(asset("index.html").content, headers=HEADERS, media_type="text/html")
    from nonneg_server.documentation.docs_page import POLICY, front

    return Response(front(__version__, POINTERS), headers={"content-security-policy": POLICY}, media_type="text/html")


@router.get("/docs", include_in_schema=False)
async def get_docs(request: Request) -> Response:
    """Answer the API as a page for people."""
    from nonneg_server.documentation.docs_page import POLICY, page

    address = f"{request.url.scheme}://{request.url.netloc}"
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
    return Response(page(request.app.openapi(), address), headers=headers, media_type="text/html")


@router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Answer the OpenAPI document."""
    return json_response(request.app.openapi())
