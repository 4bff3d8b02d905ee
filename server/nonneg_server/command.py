"""`nonneg serve`: settings -> port -> model -> requests."""

from __future__ import annotations

import asyncio
import errno
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any

import click

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that a server never uses

from nonneg_core import allocator
from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.providers import PROVIDERS
from nonneg_server.engine.cache import Cache
from nonneg_server.engine.engine import Engine
from nonneg_server.engine.workers import Lanes
from nonneg_server.http.porter import BACKLOG, at_the_door
from nonneg_server.observation.logs import as_json, configure
from nonneg_server.options import Grouped, with_settings
from nonneg_server.registry import Registry
from nonneg_server.repository import Repository, sources_of
from nonneg_server.settings import Settings, misspelt, read_settings

logger = logging.getLogger("nonneg")


@click.command(cls=Grouped)
@with_settings
def serve(**flags: Any) -> None:
    """Answer POST /embed on a port.

    \b
      nonneg serve
      nonneg serve --model bundles/mine --host 0.0.0.0 --port 9000
      curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' 'http://127.0.0.1:8000/embed?dimensions=256'
    """
    run(read_settings(**flags))


def run(settings: Settings) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and return."""
    started = time.perf_counter()
    _until_it_serves()
    gc.disable()
    allocator.tune_for_loading()
    configure(settings.log_format, settings.log_level)
    for line in misspelt(os.environ):
        logger.warning(line)
    listener = bind(settings.host, settings.port)
    with listener:
        with at_the_door(listener, settings):
            repository = load(settings, meanwhile=threading.Thread(target=_import_the_application).start)
        allocator.tune_for_serving()
        from nonneg_server.assembly import prepare

        registry = repository.registry
        process = prepare(repository, settings)
        scheme = "http" if settings.tls_cert is None else "https"
        seconds = time.perf_counter() - started
        # no name here may stand for an engine: it would keep a model that was replaced alive
        lines = [start_line(engine, listener, seconds, scheme) for engine in registry.all()]
        click.echo("\n".join(line if settings.log_format == "text" else as_json(line) for line in lines))
        gc.freeze()  # what is loaded now stays: no collection need look at it again, nor did any so far
        gc.enable()
        try:
            with asyncio.Runner(loop_factory=_loop_factory()) as runner:
                runner.run(process.serve([listener]))
        finally:
            registry.close()
    if process.ailment is not None:
        raise CheckFailed(process.ailment, fix="start it again; the log says what came before")
    if process.interrupted:
        sys.exit(130)


def _until_it_serves() -> None:
    """SIGTERM ends the start, also of process 1 of a container, which ignores it by default; SIGHUP is too early."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _import_the_application() -> None:
    with suppress(ImportError):  # whoever needs it imports it again, and says what is missing
        import_module("nonneg_server.assembly")


def load(settings: Settings, meanwhile: Callable[[], None] | None = None) -> Repository:
    """The bundles, verified, in engines that have passed their self-tests.

    `meanwhile` is called when the runtime begins to open the first of them, which leaves the interpreter free.
    """
    lanes = Lanes(settings.threads, max_images=settings.queue, max_bytes=settings.queue_bytes)
    cache = _cache(settings)
    sources = sources_of(settings.model)
    aliases = aliases_of(settings.alias, sources)
    registry = Registry(aliases=aliases, memory=settings.model_memory, lanes=lanes, cache=cache)
    pending = [] if meanwhile is None else [meanwhile]

    def make(bundle: Bundle) -> Engine:
        while pending:
            pending.pop()()
        return _engine(settings, lanes, cache, bundle)

    repository = Repository(sources, registry, make, settings.repository, precision=settings.precision)
    for name in sources:
        repository.load(name)
    return repository


def _cache(settings: Settings) -> Cache | None:
    """What is remembered, in memory and on the disk, as far as it was asked for."""
    if settings.cache_dir is None:
        return Cache(settings.cache) if settings.cache else None
    from nonneg_server.engine.disk_cache import Shelf

    return Cache(settings.cache, Shelf(settings.cache_dir, settings.cache_dir_bytes))


def _engine(settings: Settings, lanes: Lanes, cache: Cache | None, bundle: Bundle) -> Engine:
    return Engine(
        bundle,
        lanes=lanes,
        max_pixels=settings.max_pixels,
        wide=settings.wide,
        timeout=settings.timeout,
        decode=settings.decode,
        providers=None if settings.provider is None else PROVIDERS[settings.provider],
        batch=settings.batch,
        cache=cache,
    )


def aliases_of(given: tuple[str, ...], sources: Mapping[str, object]) -> dict[str, str]:
    """`alias=model` pairs, each of a model that is there."""
    found = {}
    for pair in given:
        alias, _, model = pair.partition("=")
        if model not in sources or not alias or alias in sources:
            raise ConfigInvalid(
                f"--alias {pair} gives no new name to a served model",
                fix=f"write --alias name=model with a model of {', '.join(sources)}",
                field="alias",
                value=pair,
            )
        found[alias] = model
    return found


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; a port in use is one clear line."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=BACKLOG)
    except socket.gaierror as error:
        raise ConfigInvalid(f"--host {host}: {error.strerror}", fix="give an address of this machine") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ConfigInvalid(
                f"port {port} of {host} is in use",
                fix="choose another --port (0: any free one)",
                field="port",
                value=port,
            ) from None
        raise ConfigInvalid(
            f"cannot listen on {host}:{port} ({error.strerror})", fix="choose another --host or --port", field="port"
        ) from None


def start_line(engine: Engine, listener: socket.socket, seconds: float, scheme: str = "http") -> str:
    manifest = engine.bundle.manifest
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    return (
        f"nonneg serves {manifest.name} ({manifest.dimensions} dimensions, {manifest.fingerprint[:8]}) "
        f"on {scheme}://{shown}:{port} with {engine.threads} threads, ready in {seconds:.2f} s"
    )


def _loop_factory() -> Any:
    try:
        import uvloop
    except ModuleNotFoundError:  # Windows
        return None
    return uvloop.new_event_loop
