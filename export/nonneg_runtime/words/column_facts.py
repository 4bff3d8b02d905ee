"""What a bundle says of its columns: what each is called and on what evidence, and how strong it is over photos."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Doubles
from nonneg_core.errors import FingerprintMismatch
from nonneg_runtime.bundle.atlas_file import FILE_NAME as ATLAS
from nonneg_runtime.bundle.atlas_file import Atlas
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, located, shipped_names
from nonneg_runtime.bundle.manifest import Manifest, read_manifest
from nonneg_runtime.words.names import Name, Names, read_names
from nonneg_vectors.expressions.weightings import NAMED, Chance, ColumnStatistics


def known_names(bundle: Bundle) -> Mapping[int, Name]:
    """Return the names of those dimensions of a bundle that have one, in their order."""
    return _known(bundle.path, bundle.manifest.digest, bundle.atlas)


def why_unnamed(bundle: Bundle) -> str:
    """Return why the other dimensions of a bundle have no name; empty where it does not say."""
    record = bundle.manifest.names
    return "" if record is None else _written(bundle.path / record.file, bundle.manifest.dimensions).unnamed


def names_of(bundle: Bundle) -> Mapping[int, str]:
    """Return what the dimensions of a bundle that have a name are called."""
    return _called(bundle.path, bundle.manifest.digest, bundle.atlas)


def shipped_model(name: str, fingerprint: str, given: str | None = None) -> str:
    """Return the model that an index's vectors are of: the one that was given, else one that comes with nonneg."""
    for model in shipped_names() if given is None else [given]:
        if read_manifest(located(model)).fingerprint == fingerprint:
            return model
    raise FingerprintMismatch(
        f"the index is of model {name} ({fingerprint[:8]}), "
        + (f"not of {given}" if given else "which does not come with nonneg"),
        fix="give the bundle that it was made with",
        field="model",
        value=given,
    )


@lru_cache(maxsize=16)
def names_shipped(fingerprint: str) -> Mapping[int, str]:
    """Name the dimensions of the model with this fingerprint, if it comes with nonneg and has names."""
    for name in shipped_names():
        manifest = read_manifest(SHIPPED / name)
        if manifest.fingerprint == fingerprint:
            return _called(SHIPPED / name, manifest.digest, None)
    return {}


@lru_cache(maxsize=16)
def _called(folder: Path, digest: str, beside: Path | None) -> Mapping[int, str]:
    return {dimension: name.name for dimension, name in _known(folder, digest, beside).items()}


@lru_cache(maxsize=16)
def _written(path: Path, dimensions: int) -> Names:
    return read_names(path, dimensions)


@lru_cache(maxsize=16)
def _known(folder: Path, _digest: str, beside: Path | None) -> Mapping[int, Name]:
    by_dimension: dict[int, Name] = {}
    manifest = read_manifest(folder)
    atlas_path = beside or (folder / ATLAS if ATLAS in manifest.files else None)
    if atlas_path is not None:
        with Atlas(atlas_path) as atlas:
            for d in atlas.dimensions():
                if d.name:
                    by_dimension[d.id] = Name(dimension=d.id, name=d.name, source="atlas", precision=d.share)
    if manifest.names is not None:
        written = read_names(folder / manifest.names.file, manifest.dimensions)
        by_dimension |= {name.dimension: name for name in written.names}
    return dict(sorted(by_dimension.items()))


# What a bundle's manifest says of its columns, from which follows what random photos share with a query.


def chance_of(bundle: Bundle, dimensions: int, top_k: int | None = None) -> Chance:
    """Return what random photos share, by a bundle's calibration photos, where vectors are shortened so."""
    return _shortened(bundle.path, bundle.manifest.digest, dimensions, top_k)


@lru_cache(maxsize=16)
def statistics_shipped(fingerprint: str) -> ColumnStatistics | None:
    """Return the statistics of the model with this fingerprint, if it comes with nonneg."""
    for name in shipped_names():
        manifest = read_manifest(SHIPPED / name)
        if manifest.fingerprint == fingerprint:
            return _read(SHIPPED / name, manifest.digest)
    return None


def statistics_of(bundle: Bundle) -> ColumnStatistics:
    """Return the statistics of a bundle's calibration photos."""
    return _read(bundle.path, bundle.manifest.digest)


@lru_cache(maxsize=64)
def _shortened(folder: Path, digest: str, dimensions: int, top_k: int | None) -> Chance:
    return _read(folder, digest).at(dimensions, top_k)


@lru_cache(maxsize=16)
def _read(folder: Path, _digest: str) -> ColumnStatistics:
    manifest = read_manifest(folder)
    columns = manifest.columns
    return ColumnStatistics(
        np.array(columns.expected_activation),
        np.array(columns.variance),
        np.array(columns.frequency),
        manifest.sentences is not None,
        _levels(folder, manifest),
    )


def _levels(folder: Path, manifest: Manifest) -> Doubles | None:
    """Return from how many deviations on each dimension shows what the model calls it; NaN where it says nothing."""
    if manifest.names is None:
        return None
    levels = np.full(manifest.dimensions, np.nan)
    for name in read_names(folder / manifest.names.file, manifest.dimensions).names:
        levels[name.dimension] = NAMED if name.level is None else name.level
    return levels
