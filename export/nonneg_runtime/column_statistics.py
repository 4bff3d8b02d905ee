"""What a bundle's manifest says of its columns, from which follows what random photos share with a query."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from nonneg_core.chance_scores import Chance, ColumnStatistics
from nonneg_runtime.bundle import SHIPPED, Bundle, shipped_names
from nonneg_runtime.manifest import read_manifest


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
    columns = read_manifest(folder).columns
    return ColumnStatistics(
        np.array(columns.expected_activation), np.array(columns.variance), np.array(columns.frequency)
    )
