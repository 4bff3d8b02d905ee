"""The application: routes over a registry of models, in their envelope."""

from __future__ import annotations

from functools import partial
from typing import Any

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import BaseRoute

from nonneg_core.errors import NonnegError
from nonneg_core.version import __version__
from nonneg_server.engine.admission import Admission
from nonneg_server.http import error_responses as failures
from nonneg_server.http.auth import Guard, Rate, may_ask
from nonneg_server.http.connection import House
from nonneg_server.http.context import Envelope, Observer
from nonneg_server.http.direct import Direct
from nonneg_server.http.early_rejection import Gate
from nonneg_server.http.keys import Keys, read_keys, renew
from nonneg_server.observation.logs import log_access
from nonneg_server.observation.metrics import Metrics, Traffic
from nonneg_server.registry import Registry
from nonneg_server.repository import Repository
from nonneg_server.requests.fetch import Fetcher
from nonneg_server.routes import (
    cohere,
    docs,
    embed,
    explain,
    health,
    kserve,
    manage,
    metrics,
    models,
    openai,
    shorten,
    tei,
)
from nonneg_server.settings import Settings

TELLING = ("retry-after", "retry-after-ms", "x-fingerprint", "x-request-id", "x-total-time")  # for web pages, too


def create_app(
    registry: Registry, settings: Settings, house: House | None = None, repository: Repository | None = None
) -> FastAPI:
    """An ASGI application that serves these models."""
    app = FastAPI(
        title="nonneg",
        summary="Non-negative, sparse image embeddings that can be shortened.",
        version=__version__,
        redirect_slashes=False,
        openapi_url=None,  # its own pages would load their scripts from elsewhere: ours load nothing
    )
    app.state.registry = registry
    app.state.settings = settings
    app.state.house = house or House()
    app.state.repository = repository
    app.state.farewells = []
    app.state.renewals = []
    app.state.fetcher = Fetcher(settings.url_host, max_bytes=settings.url_bytes, timeout=settings.url_timeout)
    for routes in (embed, shorten, explain, models, health, openai, cohere, kserve, manage, tei, metrics, docs):
        app.router.routes.extend(routes.router.routes)  # flat: an included router costs each request a second match
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    app.add_exception_handler(NonnegError, failures.on_error)
    app.add_exception_handler(HTTPException, failures.on_http_exception)
    app.add_middleware(Direct, owner=app)
    keys = read_keys(settings.api_key, settings.api_key_file)
    if settings.api_key_file is not None:
        app.state.renewals.append(partial(renew, keys, settings.api_key, settings.api_key_file))
    protect(app, settings, keys)
    told = observers(app, settings)
    app.state.house.told = told
    app.state.house.logs = [log_access] if settings.access_log else []
    app.add_middleware(Envelope, observers=told)
    shorten_ways(app.state.house, registry, settings, keys, told, app.routes)
    return app


def shorten_ways(
    house: House, registry: Registry, settings: Settings, keys: Keys, told: list[Observer], routes: list[BaseRoute]
) -> None:
    """Let the protocol refuse and answer what it can, unless something has a say before the queue has."""
    if settings.cache or settings.cache_dir or settings.rate or settings.cors_origin:
        return
    allowed = partial(may_ask, keys)
    house.gate = Gate(partial(admission_of, registry), allowed, told, routes)


def admission_of(registry: Registry) -> Admission | None:
    """The gate that all models share; None while there is no model."""
    return next((engine.admission for engine in registry.all()), None)


def observers(app: FastAPI, settings: Settings) -> list[Observer]:
    """Who is told of every answered request: the metrics, and what the settings ask for."""
    traffic = Traffic()
    app.state.metrics = Metrics(app.state.registry, app.state.house, traffic)
    found: list[Observer] = [traffic]
    if settings.access_log:
        found.append(log_access)
    if settings.otel:
        from nonneg_server.observation.tracing import Tracer

        tracer = Tracer.to_collector()
        app.state.farewells.append(tracer.close)
        found.append(tracer)
    return found


def protect(app: FastAPI, settings: Settings, keys: Keys) -> None:
    """Put up the guards that the settings ask for; what is not asked for costs nothing."""
    rate = None if settings.rate is None else Rate(settings.rate, settings.burst)
    if len(keys) or rate is not None:
        app.add_middleware(
            Guard, keys=keys, rate=rate, routes=frozenset(getattr(route, "path", "") for route in app.routes)
        )
    if settings.cors_origin:  # outside the guard: a browser's preflight carries no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=TELLING,
            max_age=3600,
        )


def _document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, made once, when it is first asked for."""
    if app.openapi_schema is None:
        from nonneg_server.documentation.document import document

        app.openapi_schema = document(app)
    return app.openapi_schema
