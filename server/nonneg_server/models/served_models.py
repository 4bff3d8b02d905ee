"""The models this process serves: by name, where their bundles come from, and whether they take work."""

import logging
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, ModelNotFound, NonnegError, NotReady, ParameterInvalid
from nonneg_core.process import cores_and_allocator as allocator
from nonneg_runtime.bundle.atlas_file import with_atlas
from nonneg_runtime.bundle.bundle_folder import DEFAULT, Bundle, located
from nonneg_runtime.bundle.manifest import Manifest, read_manifest
from nonneg_runtime.inference.variants import PrecisionChoice, open_variant
from nonneg_server.engine.admission import Admission
from nonneg_server.engine.inference_engine import InferenceEngine
from nonneg_server.engine.vector_cache import Cache
from nonneg_server.engine.workers import Workers


class Registry:
    """Engines by model name. An engine that is replaced or removed finishes what was asked of it."""

    def __init__(
        self,
        *engines: InferenceEngine,
        aliases: Mapping[str, str] | None = None,
        memory: int | None = None,
        workers: Workers | None = None,
        cache: Cache | None = None,
    ) -> None:
        self.load_failures = 0
        self._engines: dict[str, InferenceEngine] = {}
        self._default: str | None = None  # the first: it stays the default while it is not loaded
        self.aliases = dict(aliases or {})  # another mapping may take its place while it serves
        self.memory = memory
        self.workers = workers
        self._cache = cache
        self._lock = threading.Lock()
        for engine in engines:
            self.put(engine)

    def get(self, name: str | None = None) -> InferenceEngine:
        """Return the engine of that name or alias, or the default one; of `name@fingerprint` that very model's."""
        if name is not None and "@" in name:
            return self._pinned(name)
        engines = self._engines
        model_name = self._default if name is None else self.aliases.get(name, name)
        engine = engines.get(model_name or "")
        if engine is None:
            known = ", ".join([*engines, *(alias for alias, model in self.aliases.items() if model in engines)])
            what = f"no model {name!r} here" if name is not None else f"the default model, {model_name}, is not loaded"
            raise ModelNotFound(what, fix=f"ask for {known or 'none'}", field="model", value=name)
        return engine

    def _pinned(self, given: str) -> InferenceEngine:
        """Return the engine of this fingerprint, also where the name before it means another model by now."""
        name, _, pin = given.partition("@")
        named = self._engines.get(self.aliases.get(name, name)) or self.get()
        engines = (named, *self._engines.values())
        engine = next((one for one in engines if one.bundle.manifest.fingerprint.startswith(pin)), named)
        engine.bundle.manifest.check_pin(given)
        return engine

    def put(self, engine: InferenceEngine) -> None:
        """Serve this engine under its name from now on, in the place of an older one if there is one."""
        with self._lock:
            old = self._engines.get(engine.name)
            if old is not None and old.bundle.manifest.fingerprint == engine.bundle.manifest.fingerprint:
                engine.stats = old.stats  # the same model, loaded again: its counts go on
            engine.sessions.on_load = partial(self._make_room_for, weakref.ref(engine))  # a cycle would keep it alive
            engine.sessions.room = self._has_room
            self._default = self._default or engine.name
            self._engines = self._with(engine)  # readers hold no lock: they see before or after
        self._make_room(engine)

    def remove(self, name: str) -> None:
        """Take no more requests for this model; those it has are finished. The only one there is stays."""
        with self._lock:
            if set(self._engines) == {name}:
                raise ParameterInvalid(
                    f"{name} is the only model served", fix="load another one first, or stop the server", field="model"
                )
            self._engines = {known: engine for known, engine in self._engines.items() if known != name}
        allocator.give_back()

    @property
    def admission(self) -> Admission | None:
        """The bounds of the queue, which all models share; None while there is neither model nor queue."""
        if self.workers is not None:
            return self.workers.admission
        return next((engine.admission for engine in self._engines.values()), None)

    def all(self) -> list[InferenceEngine]:
        return list(self._engines.values())

    def ready(self) -> bool:
        return bool(self._engines)

    def failure_reason(self) -> str | None:
        """Return why this process can no longer be trusted; None while it works."""
        return next((reason for engine in self._engines.values() if (reason := engine.failure_reason())), None)

    def close(self, timeout: float | None = None) -> None:
        """End the threads; wait for each of them, or for so many seconds."""
        for engine in self._engines.values():
            engine.close()
        if self.workers is not None:
            self.workers.close(timeout)
        if self._cache is not None:
            self._cache.close()

    def _with(self, engine: InferenceEngine) -> dict[str, InferenceEngine]:
        """Return the engines and this one, the default first."""
        others = {**self._engines, engine.name: engine}
        return {engine.name: engine, **others} if engine.name == self._default else others

    def _has_room(self, weight: int) -> bool:
        """Tell whether so many more bytes fit beside all that is loaded: models do not rest for a second session."""
        used = sum(engine.sessions.weight for engine in self._engines.values() if engine.sessions.loaded)
        return self.memory is None or used + weight <= self.memory

    def _make_room_for(self, newest: weakref.ref[InferenceEngine]) -> None:
        engine = newest()
        if engine is not None:
            self._make_room(engine)

    def _make_room(self, newest: InferenceEngine) -> None:
        """Unload the weights of the engines used longest ago until the rest fits the memory."""
        if self.memory is None:
            return
        with self._lock:
            loaded = sorted((e for e in self._engines.values() if e.sessions.loaded), key=lambda e: e.used)
            total = before = sum(engine.sessions.weight for engine in loaded)
            for engine in loaded:
                if total > self.memory and engine is not newest:
                    total -= engine.sessions.weight
                    engine.sessions.unload()
        if total < before:
            allocator.give_back()


# Where models come from: bundles by name, opened, tested and put to work; opened again when they changed.

logger = logging.getLogger("nonneg")


class Repository:
    """The bundles that may be served, and the registry of those that are."""

    def __init__(
        self,
        sources: dict[str, Path],
        registry: Registry,
        make: Callable[[Bundle], InferenceEngine],
        folder: Path | None = None,
        *,
        precision: PrecisionChoice | None = None,
        atlases: Sequence[Path] = (),
    ) -> None:
        self.registry = registry
        self._sources = sources
        self.make = make
        self._folder = folder
        self._precision = precision
        self._atlases = atlases
        self._loading = threading.Lock()

    def names(self) -> list[str]:
        """Return every model that is served or could be."""
        folders = (
            [] if self._folder is None else sorted(path.parent.name for path in self._folder.glob("*/manifest.json"))
        )
        return list(dict.fromkeys([*self._sources, *folders]))

    def served_names(self) -> list[str]:
        """Return every model that is served, or that will be when the start is over."""
        return list(dict.fromkeys([*self._sources, *(engine.name for engine in self.registry.all())]))

    def load_all(self) -> None:
        """Load every model that is to be served from the start."""
        for name in self._sources:
            self.load(name)

    def load(self, name: str) -> InferenceEngine:
        """Open the bundle, verify and test it, then serve it: a model that is served already goes on until then."""
        try:
            return self._load(name)
        except NonnegError:
            self.registry.load_failures += 1
            raise

    def _load(self, name: str) -> InferenceEngine:
        with self._loading:  # of two loads at once the later one saw the later state of the folder, and stays
            bundle = with_atlas(open_variant(self._source(name), self._precision), self._atlases)
            engine = self.make(named(bundle, name))
            engine.warm_up()
            replaced = any(one.name == name for one in self.registry.all())
            self.registry.put(engine)
        if replaced:
            allocator.give_back()
        else:
            allocator.trim()
        return engine

    def unload(self, name: str) -> None:
        self._source(name)
        self.registry.remove(name)

    def reload(self) -> dict[str, NonnegError]:
        """Load every served model again; one that fails stays as it was, and its error is returned."""
        failed: dict[str, NonnegError] = {}
        for name in [engine.name for engine in self.registry.all()]:
            try:
                engine = self.load(name)
                logger.warning("reloaded %s (%s)", name, engine.bundle.manifest.fingerprint[:8])
            except NonnegError as error:
                failed[name] = error
                logger.error("%s stays as it was: %s", name, error)
        return failed

    def _source(self, name: str) -> Path:
        if name in self._sources:
            return self._sources[name]
        if self._folder is None or name not in self.names():
            known = ", ".join(self.names())
            raise ModelNotFound(
                f"model {name!r} is not in the folder of models", fix=f"known: {known}", field="model", value=name
            )
        return self._folder / name


def sources_of(models: Sequence[str]) -> dict[str, Path]:
    """Read `name=folder` or just a folder, whose bundle says its name; nothing at all is the default model."""
    sources: dict[str, Path] = {}
    for given in models or (DEFAULT.name,):
        name, equals, path = given.partition("=")
        folder = located(path if equals else given)
        key = name if equals else read_manifest(folder).name
        if "@" in key:
            raise ConfigInvalid(
                f"the name {key} has an @, which stands between name and fingerprint where a model is asked for",
                fix="choose a name without it",
                field="model",
                value=given,
            )
        if key in sources:
            raise ConfigInvalid(
                f"two models are called {key}: {sources[key]} and {folder}",
                fix="give one another name: --model name=folder",
                field="model",
                value=given,
            )
        sources[key] = folder
    return sources


def named(bundle: Bundle, name: str) -> Bundle:
    """Return the bundle under the name it is served by; its fingerprint does not depend on it."""
    if bundle.manifest.name == name:
        return bundle
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"name": name}))


def summary(manifest: Manifest) -> dict[str, Any]:
    """Return a model in a few lines."""
    return {
        "name": manifest.name,
        "version": manifest.version,
        "description": manifest.description,
        "fingerprint": manifest.fingerprint,
        "dimensions": manifest.dimensions,
        "precision": manifest.precision,
        "view": manifest.view.model_dump(mode="json"),
    }


def lengths(manifest: Manifest) -> list[dict[str, Any]]:
    """Return what each prefix was measured to keep; empty where the exporter had no images to measure on."""
    if manifest.quality is None:
        return []
    rows = [row for row in manifest.quality.rows if row.selection == "expected-activation"]
    return [row.model_dump(mode="json", exclude={"selection"}) for row in rows]


# Whether the process works, and whether it takes work: what the health routes of every API ask.


def check_alive(state: Any) -> None:
    """Raise NotReady if the process should be restarted."""
    reason = state.registry.failure_reason()
    if reason is not None:
        raise NotReady(reason, fix="restart this server; it ends by itself")


def check_ready(state: Any) -> None:
    """Raise NotReady unless a model is loaded, and every one has passed its self-test and still answers its canary."""
    if state.shared.draining:
        raise NotReady("this server is shutting down", fix="ask another one", retry_after=1)
    if state.shared.loading:
        raise still_loading()
    if not state.registry.ready():
        raise NotReady("no model is ready", fix="wait for the model to load", retry_after=1)
    check_canaries(state.registry)


def check_canaries(registry: Registry) -> None:
    """Raise NotReady if a model answered its canary wrong."""
    for engine in registry.all():
        if engine.canary is not None:
            engine.canary.check()


def still_loading() -> NotReady:
    """Return the error of every request but for health while models load."""
    return NotReady("the models are loading", fix="wait for /readyz", retry_after=1)
