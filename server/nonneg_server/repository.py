"""Where models come from: bundles by name, opened, tested and put to work; opened again when they changed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from nonneg_core import allocator
from nonneg_core.errors import ConfigInvalid, ModelNotFound, NonnegError
from nonneg_runtime.atlas import with_atlas
from nonneg_runtime.bundle import DEFAULT, Bundle, located
from nonneg_runtime.manifest import read_manifest
from nonneg_runtime.variants import PrecisionChoice, open_variant
from nonneg_server.engine.engine import InferenceEngine
from nonneg_server.registry import Registry

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
        found = (
            [] if self._folder is None else sorted(path.parent.name for path in self._folder.glob("*/manifest.json"))
        )
        return list(dict.fromkeys([*self._sources, *found]))

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
    found: dict[str, Path] = {}
    for given in models or (DEFAULT.name,):
        name, equals, path = given.partition("=")
        folder = located(path if equals else given)
        key = name if equals else read_manifest(folder).name
        if key in found:
            raise ConfigInvalid(
                f"two models are called {key}: {found[key]} and {folder}",
                fix="give one another name: --model name=folder",
                field="model",
                value=given,
            )
        found[key] = folder
    return found


def named(bundle: Bundle, name: str) -> Bundle:
    """Return the bundle under the name it is served by; its fingerprint does not depend on it."""
    if bundle.manifest.name == name:
        return bundle
    return replace(bundle, manifest=bundle.manifest.model_copy(update={"name": name}))
