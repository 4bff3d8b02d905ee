"""The application: routes over a registry of models, what surrounds every request, and the process that serves it."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from ipaddress import ip_network
from typing import TYPE_CHECKING, Any

import uvicorn
from fastapi import FastAPI
from starlette.datastructures import State
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from nonneg_core.errors import ConfigInvalid, NonnegError
from nonneg_core.version import __version__
from nonneg_server.api import DIALECTS
from nonneg_server.api.route import RouteTable
from nonneg_server.http.auth import AuthMiddleware, RateLimiter, is_authorized
from nonneg_server.http.connection import Connection
from nonneg_server.http.connection_limits import ConnectionLimits, ConnectionState, open_files, raise_file_limit
from nonneg_server.http.context import Observer, RequestContext, on_error, on_http_exception
from nonneg_server.http.keys import Keys, read_keys, reload_keys
from nonneg_server.http.origin import OriginCheck
from nonneg_server.http.refusals import READABLE_HEADERS, EarlyRejection
from nonneg_server.models.served_index import ServedIndex
from nonneg_server.models.served_models import Registry, Repository
from nonneg_server.observation.logs import log_access
from nonneg_server.observation.server_metrics import Metrics, Traffic
from nonneg_server.requests.fetch import Fetcher
from nonneg_server.startup.server_process import Process
from nonneg_server.startup.server_settings import Settings

if TYPE_CHECKING:
    from nonneg_vectors.curation.collection import Collection


def create_app(
    registry: Registry,
    settings: Settings,
    shared: ConnectionState | None = None,
    repository: Repository | None = None,
    collection: "Collection | None" = None,
) -> FastAPI:
    """Return an ASGI application that serves these models, and the photos of an indexed folder if there is one.

    Middleware that is added to it sees every request.
    """
    app = FastAPI(
        title="nonneg",
        summary="Non-negative, sparse image embeddings that can be shortened.",
        version=__version__,
        redirect_slashes=False,
        openapi_url=None,  # its own pages would load their scripts from elsewhere: ours load nothing
        telemetry={"tracing": False, "metrics": False, "logs": False},  # --otel has its own, and nothing else reports
    )
    shared = shared or ConnectionState()
    _fill(app.state, registry, settings, shared)
    app.state.repository = repository
    if collection is not None:
        from nonneg_server.studio.folder import IndexedFolder

        app.state.folder = IndexedFolder(collection)
    for dialect in DIALECTS:
        app.router.routes.extend(dialect.routes)  # flat: an included router costs each request a second match
    app.openapi = partial(_document, app)  # type: ignore[method-assign]
    app.add_exception_handler(NonnegError, on_error)
    app.add_exception_handler(HTTPException, on_http_exception)
    keys, table = read_keys(settings.api_key, settings.api_key_file), RouteTable(app.routes)
    if settings.api_key_file is not None:
        app.state.reload_hooks.append(partial(reload_keys, keys, settings.api_key, settings.api_key_file))
    protect(app, settings, keys, table)
    shared.observers = observers(app, settings)
    shared.logs = [log_access] if settings.access_log else []
    origins = OriginCheck(settings.host, settings.allow_host, settings.cors_origin, has_keys=len(keys) > 0)
    app.add_middleware(RequestContext, shared=shared, routes=table, timeout=settings.timeout, origins=origins)
    if not settings.cache and settings.cache_dir is None:  # what a cache knows needs no place in the queue
        shared.early = EarlyRejection(
            lambda: registry.admission,
            table,
            partial(is_authorized, keys),
            shared.observers,
            origins=settings.cors_origin,
        )
    return app


def _fill(state: State, registry: Registry, settings: Settings, shared: ConnectionState) -> None:
    """Put into an application's state what its routes and its process share."""
    state.registry = registry
    state.settings = settings
    state.shared = shared
    state.guests = [dialect for dialect in DIALECTS if dialect.guest is not None]
    state.folder = None  # that the studio shows
    state.index = None if settings.index is None else ServedIndex(settings.index)
    state.studio = None  # made when it is first asked for
    state.cell_maps = None
    state.shutdown_hooks = [] if state.index is None else [state.index.index.close]
    state.reload_hooks = []
    state.fetcher = Fetcher(
        settings.url_host, max_bytes=settings.url_bytes, timeout=settings.url_timeout, shared=shared
    )


def observers(app: FastAPI, settings: Settings) -> list[Observer]:
    """Return what is called with every answered request: the metrics, and what the settings ask for."""
    traffic = Traffic()
    app.state.metrics = Metrics(app.state.registry, app.state.shared, traffic)
    listeners: list[Observer] = [traffic]
    if settings.access_log:
        listeners.append(log_access)
    if settings.otel:
        from nonneg_server.observation.tracing import Tracer

        tracer = Tracer.to_collector()
        app.state.shutdown_hooks.append(tracer.close)
        listeners.append(tracer)
    return listeners


def protect(app: FastAPI, settings: Settings, keys: Keys, routes: RouteTable) -> None:
    """Add the middleware that the settings ask for; what is not asked for costs nothing."""
    rate = None if settings.rate is None else RateLimiter(settings.rate, settings.burst)
    if len(keys) or rate is not None:
        app.add_middleware(AuthMiddleware, keys=keys, rate=rate, routes=routes)
    if settings.cors_origin:  # before keys are asked for: a browser's preflight carries no key
        app.add_middleware(
            CORSMiddleware,
            allow_origins=settings.cors_origin,
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=READABLE_HEADERS,
            max_age=3600,
        )


def _document(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document, made once, when it is first asked for."""
    if app.openapi_schema is None:
        from nonneg_server.startup.documents import openapi_document

        app.openapi_schema = openapi_document(app)
    return app.openapi_schema


# What `nonneg serve` runs: the application, in a process with the limits of its connections.

FILES_OF_OUR_OWN = 64  # models, libraries, the log: what is left is for connections


def prepare(
    repository: Repository,
    settings: Settings,
    loading: Future[None],
    on_loaded: Callable[[], None],
    collection: "Collection | None" = None,
) -> Process:
    """Return the process around the application."""
    files = raise_file_limit(open_files()) - FILES_OF_OUR_OWN
    limits = ConnectionLimits(
        read_timeout=settings.read_timeout,
        receive_timeout=settings.receive_timeout,
        connections=min(settings.max_connections, files),
        bytes=settings.upload_bytes,
    )
    shared = ConnectionState(limits, proxies=tuple(map(ip_network, settings.trusted_proxy)))
    app = create_app(repository.registry, settings, shared, repository, collection)
    config = uvicorn.Config(
        app,
        http=Connection,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        proxy_headers=False,
        server_header=False,
        date_header=False,
        ssl_certfile=settings.tls_cert,
        ssl_keyfile=settings.tls_key,
        timeout_keep_alive=settings.keep_alive,
    )
    with _tls_explained(settings):
        config.load()
    return Process(
        config,
        repository,
        shared,
        loading,
        on_loaded=on_loaded,
        drain=settings.drain,
        grace=settings.grace,
        reload_hooks=app.state.reload_hooks,
        shutdown_hooks=app.state.shutdown_hooks,
    )


@contextmanager
def _tls_explained(settings: Settings) -> Iterator[None]:
    if (settings.tls_cert is None) != (settings.tls_key is None):
        absent = "--tls-key" if settings.tls_key is None else "--tls-cert"
        raise ConfigInvalid(f"https needs {absent}, too", fix="give both --tls-cert and --tls-key", field="tls_cert")
    try:
        yield
    except OSError as error:  # ssl.SSLError is one
        raise ConfigInvalid(
            f"{settings.tls_cert} and {settings.tls_key} cannot be used for https ({error.strerror or error})",
            fix="check both files: PEM, readable, and belonging together",
            field="tls_cert",
        ) from None
