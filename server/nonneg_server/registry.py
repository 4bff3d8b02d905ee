"""The models this process serves, by name: the first is the default, some have aliases, each can be replaced."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from functools import partial

from nonneg_core import allocator
from nonneg_core.errors import ModelNotFound
from nonneg_server.engine.admission import Admission
from nonneg_server.engine.cache import Cache
from nonneg_server.engine.engine import InferenceEngine
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
        self._aliases = dict(aliases or {})
        self.memory = memory
        self.workers = workers
        self._cache = cache
        self._lock = threading.Lock()
        for engine in engines:
            self.put(engine)

    def get(self, name: str | None = None) -> InferenceEngine:
        """Return the engine of that name or alias, or the default one."""
        engines = self._engines
        wanted = self._default if name is None else self._aliases.get(name, name)
        found = engines.get(wanted or "")
        if found is None:
            known = ", ".join([*engines, *(alias for alias, model in self._aliases.items() if model in engines)])
            what = f"no model {name!r} here" if name is not None else f"the default model, {wanted}, is not loaded"
            raise ModelNotFound(what, fix=f"ask for {known or 'none'}", field="model", value=name)
        return found

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
        """Take no more requests for this model; those it has are finished."""
        with self._lock:
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
        return next((found for engine in self._engines.values() if (found := engine.failure_reason())), None)

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
        held = sum(engine.sessions.weight for engine in self._engines.values() if engine.sessions.loaded)
        return self.memory is None or held + weight <= self.memory

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
