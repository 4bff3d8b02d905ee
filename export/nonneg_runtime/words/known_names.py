"""What the dimensions of a bundle are called and on what evidence: by its own file of names, else by its atlas."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from nonneg_runtime.atlas import FILE_NAME as ATLAS
from nonneg_runtime.atlas import Atlas
from nonneg_runtime.bundle import SHIPPED, Bundle, shipped_names
from nonneg_runtime.manifest import read_manifest
from nonneg_runtime.words.names import Name, Names, read_names


def known_names(bundle: Bundle) -> Mapping[int, Name]:
    """Return the names of those dimensions of a bundle that have one, in their order."""
    return _known(bundle.path, bundle.manifest.digest, bundle.atlas)


def why_unnamed(bundle: Bundle) -> str:
    """Return why the other dimensions of a bundle have no name; empty where it does not say."""
    record = bundle.manifest.names
    return "" if record is None else _written(bundle.path / record.file, bundle.manifest.dimensions).unnamed


def names_of(bundle: Bundle) -> Mapping[int, str]:
    """Return what the dimensions of a bundle that have a name are called."""
    return {dimension: name.name for dimension, name in known_names(bundle).items()}


@lru_cache(maxsize=16)
def names_shipped(fingerprint: str) -> Mapping[int, str]:
    """Name the dimensions of the model with this fingerprint, if it comes with nonneg and has names."""
    for name in shipped_names():
        manifest = read_manifest(SHIPPED / name)
        if manifest.fingerprint == fingerprint:
            return {d: found.name for d, found in _known(SHIPPED / name, manifest.digest, None).items()}
    return {}


@lru_cache(maxsize=16)
def _written(path: Path, dimensions: int) -> Names:
    return read_names(path, dimensions)


@lru_cache(maxsize=16)
def _known(folder: Path, _digest: str, beside: Path | None) -> Mapping[int, Name]:
    found: dict[int, Name] = {}
    manifest = read_manifest(folder)
    held = beside or (folder / ATLAS if ATLAS in manifest.files else None)
    if held is not None:
        with Atlas(held) as atlas:
            for d in atlas.dimensions():
                if d.name:
                    found[d.id] = Name(dimension=d.id, name=d.name, source="atlas", precision=d.share)
    if manifest.names is not None:
        written = read_names(folder / manifest.names.file, manifest.dimensions)
        found |= {name.dimension: name for name in written.names}
    return dict(sorted(found.items()))
