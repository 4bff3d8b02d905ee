"""What `nonneg serve` runs: the application, in a process with the limits of its connections."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING

import uvicorn

from nonneg_core.errors import ConfigInvalid
from nonneg_server.app import create_app
from nonneg_server.file_descriptors import enough, open_files
from nonneg_server.http.connection import Connection
from nonneg_server.http.connection_limits import ConnectionLimits, ConnectionState
from nonneg_server.process import Process
from nonneg_server.repository import Repository
from nonneg_server.settings import Settings

if TYPE_CHECKING:
    from nonneg_server.studio.collection import IndexedFolder

FILES_OF_OUR_OWN = 64  # models, libraries, the log: what is left is for connections


def prepare(
    repository: Repository,
    settings: Settings,
    loading: Future[None],
    on_loaded: Callable[[], None],
    collection: IndexedFolder | None = None,
) -> Process:
    """Return the process around the application."""
    files = enough(open_files()) - FILES_OF_OUR_OWN
    limits = ConnectionLimits(
        read_timeout=settings.read_timeout,
        receive_timeout=settings.receive_timeout,
        connections=min(settings.max_connections, files),
        bytes=settings.upload_bytes,
    )
    shared = ConnectionState(limits)
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
