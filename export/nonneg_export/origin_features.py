"""The features that an encoder's columns were made of: photos that are run once answer with both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nonneg_export.activations import Activations, Tick, collect
from nonneg_export.photo_folder import Photos
from nonneg_runtime.manifest import Manifest

Rows = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Origin:
    """An encoder of features, and how they become the columns of the bundle, in its order."""

    encoder: Path
    columns: Callable[[Rows], Rows]


def answered(
    encoder: Path, origin: Origin | None, photos: Photos, manifest: Manifest, folder: Path, tick: Tick | None = None
) -> tuple[Activations, Rows]:
    """Return what is run of the photos, the features where the columns have an origin; and the columns."""
    if origin is None:
        seen = collect(encoder, photos, manifest.view, folder, precision=manifest.precision, tick=tick)
        return seen, np.array(seen.values)
    seen = collect(origin.encoder, photos, manifest.view, folder, tick=tick)
    return seen, origin.columns(np.asarray(seen.values))
