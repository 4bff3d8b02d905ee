"""The native API: GET /models and below, health, metrics, the pages about them; and all its routes as one dialect."""

import asyncio

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST

from nonneg_core.errors import NotFound
from nonneg_core.version import __version__
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import names_of
from nonneg_server.api import native_answers as schemas
from nonneg_server.api.embed_routes import embed_router
from nonneg_server.api.native_answers import ErrorAnswer, Health
from nonneg_server.api.native_request import error_body, query_parameters
from nonneg_server.api.query_routes import query_router
from nonneg_server.api.route import BINARY, EXAMPLES, Dialect, Route, documented, health, json_response, open_to_all
from nonneg_server.models.dimensions import dimension_details, list_dimensions, thumbnail
from nonneg_server.models.served_models import check_alive, check_ready, lengths, summary
from nonneg_server.observation.drift import moved_at, sentences
from nonneg_server.requests.parameters import Listing

models_router = APIRouter(route_class=Route, tags=["models"])


@models_router.get("/models", summary="The models served here; the first is the default")
@documented(schemas.ModelList, EXAMPLES["models"])
async def get_models(request: Request) -> Response:
    return json_response({"models": [summary(engine.bundle.manifest) for engine in request.app.state.registry.all()]})


@models_router.get(
    "/models/{model}", summary="One model: its manifest, its measured quality by length, and how images drift"
)
@documented(schemas.ModelDetails, EXAMPLES["model"])
async def get_model(request: Request) -> Response:
    engine = request.app.state.registry.get(request.path_params["model"])
    manifest = engine.bundle.manifest
    whole = manifest.model_dump(mode="json", exclude={"columns", "golden"})
    shifts = moved_at(engine)
    names = await asyncio.to_thread(names_of, engine.bundle) if shifts else {}
    drift = sentences(shifts, names, engine.stats.images, engine.stats.since)
    return json_response({**whole, "lengths": lengths(manifest), "drift": drift})


@models_router.get("/models/{model}/dimensions", summary="The dimensions: names, evidence and frequencies, in pages")
@documented(schemas.DimensionList, EXAMPLES["dimensions"], query=Listing)
async def get_dimensions(request: Request) -> Response:
    bundle = _bundle(request)
    listing = query_parameters(request.scope["query_string"], Listing)
    return json_response(await asyncio.to_thread(list_dimensions, bundle, listing))


@models_router.get("/models/{model}/dimensions/{dimension}", summary="One dimension: its statistics and examples")
@documented(schemas.DimensionDetails, EXAMPLES["dimension"])
async def get_dimension(request: Request) -> Response:
    return json_response(await asyncio.to_thread(dimension_details, _bundle(request), _number(request, "dimension")))


@models_router.get("/models/{model}/dimensions/{dimension}/examples/{example}", summary="The picture of one example")
@documented(others={"image/*": BINARY}, says="A picture.")
async def get_example(request: Request) -> Response:
    dimension, place = _number(request, "dimension"), _number(request, "example")
    picture = await asyncio.to_thread(thumbnail, _bundle(request), dimension, place)
    return Response(picture, media_type="image/jpeg", headers=_PICTURE)


_PICTURE = {"cache-control": "max-age=86400", "x-content-type-options": "nosniff"}


def _bundle(request: Request) -> Bundle:
    model_bundle: Bundle = request.app.state.registry.get(request.path_params["model"]).bundle
    return model_bundle


def _number(request: Request, what: str) -> int:
    text: str = request.path_params[what]
    if not (text.isascii() and text.isdecimal()) or len(text) > 9:
        raise NotFound(f"{what} {text!r} is not a number", fix="name it by its number", field=what, value=text[:40])
    return int(text)


# GET /livez and /readyz: whether the process should be restarted, and whether it should be sent work.

health_router = APIRouter(route_class=Route, tags=["health"])


@health_router.get("/livez", summary="Alive: the process and its threads work")
@health
@documented(Health, {"status": "alive"})
async def livez(request: Request) -> Response:
    check_alive(request.app.state)
    return json_response({"status": "alive"})


@health_router.get("/readyz", summary="Ready: a model is loaded, has passed its self-test, and takes work")
@health
@documented(Health, {"status": "alive"})
async def readyz(request: Request) -> Response:
    check_ready(request.app.state)
    return json_response({"status": "ready"})


# GET /metrics: what Prometheus scrapes.


@health_router.get("/metrics", summary="Counts and times for Prometheus")
@documented(others={"text/plain": {"schema": {"type": "string"}}}, says="Prometheus's text format.")
async def get_metrics(request: Request) -> Response:
    return Response(request.app.state.metrics.render(), headers={"content-type": CONTENT_TYPE_LATEST})


# GET /docs: the API for people, /openapi.json: the same for programs, and / which points to both.

docs_router = APIRouter(route_class=Route, tags=["models"])


POINTERS = {
    "docs": "/docs",
    "openapi": "/openapi.json",
    "embed": "/embed",
    "models": "/models",
    "ready": "/readyz",
    "metrics": "/metrics",
}


@docs_router.get("/", summary="Where to go from here; for browsers the studio, or a page of pointers where that is off")
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
    from nonneg_server.http.origin import is_ours
    from nonneg_server.studio.browser_access import is_on

    settings = request.app.state.settings
    if is_on(settings) and is_ours(request.headers.get("host", ""), settings.host, settings.allow_host):
        from nonneg_server.studio.browser_access import HEADERS, asset

        return Response(asset("index.html").content, headers=HEADERS, media_type="text/html")
    from nonneg_server.api.docs_page import POLICY, front

    return Response(front(__version__, POINTERS), headers={"content-security-policy": POLICY}, media_type="text/html")


@docs_router.get("/docs", include_in_schema=False)
async def get_docs(request: Request) -> Response:
    """Answer the API as a page for people."""
    from nonneg_server.api.docs_page import POLICY, page

    address = f"{request.url.scheme}://{request.url.netloc}"
    headers = {"content-security-policy": POLICY, "x-content-type-options": "nosniff"}
    return Response(page(request.app.openapi(), address), headers=headers, media_type="text/html")


@docs_router.get("/openapi.json", include_in_schema=False)
async def get_openapi(request: Request) -> Response:
    """Answer the OpenAPI document."""
    return json_response(request.app.openapi())


# The native API: images, stored vectors, models, health, and the pages about them.

_ROUTERS = (embed_router, query_router, models_router, health_router, docs_router)
NATIVE = Dialect(
    "native", ("",), error_body, ErrorAnswer, tuple(route for router in _ROUTERS for route in router.routes)
)
