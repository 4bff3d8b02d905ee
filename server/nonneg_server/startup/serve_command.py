"""`nonneg serve`: settings -> port -> model -> requests."""

import asyncio
import atexit
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
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy would start threads that a server never uses

from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_core.pixels.view import has_simd
from nonneg_core.process import cores_and_allocator as allocator
from nonneg_runtime.bundle.atlas_file import fingerprint_of
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.manifest import read_manifest
from nonneg_runtime.inference.runner import PROVIDERS
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.vector_cache import Cache
from nonneg_server.engine.workers import STALL_SECONDS, Workers
from nonneg_server.models.served_models import Registry, Repository, sources_of
from nonneg_server.observation.logs import as_json, configure
from nonneg_server.startup.server_settings import Settings
from nonneg_server.startup.setting_sources import Grouped, misspelt, read_settings, with_settings

if TYPE_CHECKING:
    from nonneg_vectors.curation.collection import Collection

logger = logging.getLogger("nonneg")
BACKLOG = 2048
HEAD_START = 0.3  # seconds that the loading of models has before this thread needs the interpreter, too


@click.command(cls=Grouped)
@with_settings
def serve(**flags: Any) -> None:
    """Answer POST /embed on a port.

    \b
      nonneg serve
      nonneg serve --model bundles/mine --host 0.0.0.0 --port 9000
      curl --data-binary @photo.jpg -H 'Content-Type: image/jpeg' 'http://127.0.0.1:8000/embed?dimensions=256'
    """
    run(with_model_of_index(read_settings(**flags)), read_again=partial(read_settings, **flags))


def run(
    settings: Settings,
    collection: "Collection | None" = None,
    read_again: Callable[[], Settings] | None = None,
) -> None:
    """Serve until SIGTERM or SIGINT, finish what is in flight, and return; `collection` is what the studio shows."""
    started = time.perf_counter()
    _end_at_once_on_sigterm()
    gc.disable()
    allocator.tune_for_loading()
    configure(settings.log_format, settings.log_level)
    for line in [*misspelt(os.environ), *about_decoding(settings.decode)]:
        logger.warning(line)
    with bind(settings.host, settings.port) as listener:
        opening = threading.Event()
        repository = repository_of(settings, opening=opening.set)
        loading = in_thread(repository.load_all, opening)
        opening.wait(HEAD_START)
        # imported while the runtime opens the first model, and needs no interpreter
        from nonneg_server.startup.app import prepare

        def announce() -> None:
            allocator.tune_for_serving()
            _say_what_is_served(repository.registry, listener, settings, time.perf_counter() - started, collection)
            gc.freeze()  # what is loaded now stays: no collection need look at it again, nor did any so far
            gc.enable()

        process = prepare(repository, settings, loading, announce, collection)
        if settings.config is not None and read_again is not None:
            process.reload_hooks.append(partial(reload_aliases, repository, settings, read_again))
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            runner.run(process.serve([listener]))
    if not loading.done():
        leave(130 if process.interrupted else 0)
    repository.registry.close(None if process.failure is None else 0.0)
    loading.result()
    if process.failure is not None:
        atexit.register(leave, 1)
        raise CheckFailed(process.failure, fix="start it again; the log says what came before")
    if process.interrupted:
        sys.exit(130)


def with_model_of_index(settings: Settings) -> Settings:
    """Return settings that serve the model of the index, where no other one is named."""
    if settings.index is None or settings.model:
        return settings
    from nonneg_runtime.words.column_facts import shipped_model
    from nonneg_vectors.search.index import Index

    with Index.open(settings.index) as index:
        description = index.description
    return settings.model_copy(update={"model": (shipped_model(description.model, description.fingerprint),)})


def about_decoding(decode: str) -> list[str]:
    """Return a line where the resize is not what the setting lets expect."""
    lines = []
    if decode != "exact" and not has_simd():
        lines.append(
            "images are resized by Pillow: cykooz-resizer, which takes a quarter of the time, is not installed here"
        )
    return lines


def leave(code: int) -> None:
    """End at once: a thread that is in the runtime's own code can be neither stopped nor waited for."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _end_at_once_on_sigterm() -> None:
    """End on SIGTERM until it serves, also as a container's process 1, which else ignores it; SIGHUP is too early."""
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, lambda *_: leave(0))
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, signal.SIG_IGN)


def in_thread(work: Callable[[], None], always: threading.Event) -> Future[None]:
    """Do the work on a thread of its own; the event is set at the latest when that is over."""
    future: Future[None] = Future()

    def run_it() -> None:
        try:
            work()
            future.set_result(None)
        except BaseException as error:
            future.set_exception(error)
        finally:
            always.set()

    threading.Thread(target=run_it, name="load").start()
    return future


def _say_what_is_served(
    registry: Registry, listener: socket.socket, settings: Settings, seconds: float, collection: "Collection | None"
) -> None:
    scheme = "http" if settings.tls_cert is None else "https"
    lines = [start_line(engine, listener, seconds, scheme) for engine in registry.all()]
    if collection is not None:
        lines.append(f"look at {len(collection)} photos of {collection.root}: {address_of(listener, scheme)}/")
    try:
        click.echo("\n".join(line if settings.log_format == "text" else as_json(line) for line in lines))
    except OSError as error:  # a full disk, or a pipe that was closed: requests are answered all the same
        logger.warning("ready, which could not be said on standard output (%s)", error.strerror)
        sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")  # or it would be tried again at the end


def repository_of(
    settings: Settings, *, opening: Callable[[], None] = lambda: None, stall_seconds: float = STALL_SECONDS
) -> Repository:
    """Find the bundles to be served, not loaded yet; `opening` is called as the runtime opens one of them."""
    workers = Workers(
        settings.threads,
        max_images=settings.queue,
        max_bytes=settings.queue_bytes,
        memory=settings.image_memory,
        stall_seconds=stall_seconds,
    )
    cache = _cache(settings)
    sources = sources_of(settings.model)
    aliases = aliases_of(settings.alias, sources)
    registry = Registry(aliases=aliases, memory=settings.model_memory, workers=workers, cache=cache)

    def make(bundle: Bundle) -> InferenceEngine:
        opening()
        return _engine(settings, workers, cache, bundle)

    on_device = settings.provider not in (None, "cpu")
    precision = None if on_device and settings.precision == "auto" else settings.precision
    atlases = atlases_of(settings.atlas, sources, more=settings.repository is not None)
    return Repository(sources, registry, make, settings.repository, precision=precision, atlases=atlases)


def _cache(settings: Settings) -> Cache | None:
    """Return what is remembered, in memory and on the disk, as far as it was asked for."""
    if settings.cache_dir is None:
        return Cache(settings.cache) if settings.cache else None
    from nonneg_server.engine.disk_cache import DiskCache

    return Cache(settings.cache, DiskCache(settings.cache_dir, settings.cache_dir_bytes))


def _engine(settings: Settings, workers: Workers, cache: Cache | None, bundle: Bundle) -> InferenceEngine:
    return InferenceEngine(
        bundle,
        workers=workers,
        max_pixels=settings.max_pixels,
        all_cores=settings.all_cores,
        decode="exact" if settings.decode == "exact" else "fast",
        providers=None if settings.provider is None else PROVIDERS[settings.provider],
        batch=settings.batch,
        cache=cache,
    )


def aliases_of(given: tuple[str, ...], sources: Mapping[str, object]) -> dict[str, str]:
    """Read `alias=model` pairs, each of a model that is there."""
    aliases = {}
    for pair in given:
        alias, _, model = pair.partition("=")
        if model not in sources or not alias or alias in sources or "@" in alias:
            raise ConfigInvalid(
                f"--alias {pair}: unknown model, or the name has an @ or is already in use",
                fix=f"write --alias name=model with a model of {', '.join(sources)}",
                field="alias",
                value=pair,
            )
        aliases[alias] = model
    return aliases


def reload_aliases(repository: Repository, settings: Settings, read_again: Callable[[], Settings]) -> None:
    """Read the file of settings again and take its aliases; say what else changed in it, which takes a restart."""
    try:
        fresh = read_again()
        aliases = aliases_of(fresh.alias, dict.fromkeys(repository.served_names()))
    except ConfigInvalid as error:
        logger.error("the aliases stay as they were: %s; then send SIGHUP again", error)
        return
    repository.registry.aliases = aliases
    logger.warning("read the aliases again: %s", ", ".join(f"{name}={aliases[name]}" for name in aliases) or "none")
    others = [name for name in Settings.model_fields if getattr(fresh, name) != getattr(settings, name)]
    if others := [name for name in others if name != "alias"]:
        logger.warning(
            "changed in %s and not read again, which takes a restart: %s", settings.config, ", ".join(others)
        )


def atlases_of(given: tuple[str, ...], sources: Mapping[str, Path], *, more: bool) -> tuple[Path, ...]:
    """Return atlases of models that are served; `more`: others may be loaded later."""
    served = {read_manifest(folder).fingerprint: name for name, folder in sources.items()} if given else {}
    paths = tuple(map(Path, given))
    for path in paths:
        fingerprint = fingerprint_of(path)
        if fingerprint not in served and not more:
            raise ConfigInvalid(
                f"--atlas {path} was made with model {fingerprint}, and {', '.join(served.values())} is another one",
                fix="make it again: nonneg atlas MODEL --images PHOTOS --file FILE",
                field="atlas",
                value=str(path),
                limit=", ".join(served),
            )
    return paths


def bind(host: str, port: int) -> socket.socket:
    """Return a listening socket; a port in use is one clear line."""
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


def start_line(engine: InferenceEngine, listener: socket.socket, seconds: float, scheme: str = "http") -> str:
    """Return the line that says where the server listens, with which model, and how long the start took."""
    manifest = engine.bundle.manifest
    return (
        f"nonneg serves {manifest.name} ({manifest.dimensions} dimensions, {manifest.fingerprint[:8]}) "
        f"on {address_of(listener, scheme)} with {engine.threads} threads, ready in {seconds:.2f} s"
    )


def address_of(listener: socket.socket, scheme: str) -> str:
    """Return where a browser finds what listens here."""
    host, port = listener.getsockname()[:2]
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"


def _loop_factory() -> Any:
    try:
        import uvloop
    except ModuleNotFoundError:  # Windows
        return None
    return uvloop.new_event_loop
