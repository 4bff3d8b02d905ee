"""head.safetensors: the weights of the layer behind the backbone, in a file of their own beside the graph.

`weight` is F16 (features, D), `bias` is F32 (D,). The graph reads them from this file at fixed places, so a
head of the same shape can be written here without touching the graph. The bundle's manifest has to be sealed again.
Beside it may lie what it was computed from: spread.safetensors, statistics of features, and photos.npy, which photos.
"""

import hashlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import BundleInvalid
from nonneg_core.files import safetensors_file
from nonneg_runtime.heads.head import Head
from nonneg_runtime.heads.moments import Spread, unpacked

HEAD = "head.safetensors"
SPREAD = "spread.safetensors"
PHOTOS = "photos.npy"
HEADER = 4096  # bytes before the first weight
PARTS = ("weight", "bias")
FORMAT = "nonneg-head-1"


def arrays_of(head: Head) -> dict[str, NDArray[Any]]:
    """Return the arrays as they are stored."""
    return {
        "weight": head.weight.astype(np.float16),
        "bias": head.bias.astype(np.float32),
    }


def write_head(head: Head, path: Path) -> None:
    """Put a head where an encoder's graph reads it from."""
    safetensors_file.write(path, arrays_of(head), metadata_of(head), header=HEADER)


def metadata_of(head: Head) -> dict[str, str]:
    """Return what the file says beside its arrays."""
    return metadata(head.power)


def metadata(power: float) -> dict[str, str]:
    """Return the same of a head with this power."""
    return {"format": FORMAT, "power": str(power)}


def read_head(path: Path) -> Head:
    """Return the head in a file, its weights widened to float32."""
    try:
        arrays, _, metadata = safetensors_file.read(path)
        weight, bias = (np.asarray(arrays[name], dtype=np.float32) for name in PARTS)
        head = Head(weight, bias, float(metadata["power"]))
    except (OSError, ValueError, KeyError) as error:
        raise BundleInvalid(f"{path} holds no head ({error})", fix="copy or export the bundle again") from error
    if not (bias.shape == weight.shape[1:] and metadata.get("format") == FORMAT):
        raise BundleInvalid(f"{path} holds a head whose parts do not fit each other", fix="export the bundle again")
    return head


def write_spread(spread: Spread, path: Path) -> None:
    """Keep what a head was computed from, for `adapt`."""
    safetensors_file.write(path, spread.packed(), {"format": FORMAT})


def read_spread(path: Path) -> Spread:
    """Return what `write_spread` wrote."""
    try:
        return unpacked(safetensors_file.read(path).arrays)
    except (OSError, ValueError, KeyError) as error:
        raise BundleInvalid(f"{path} holds no statistics ({error})", fix="copy or export the bundle again") from error


def write_photos(digests: NDArray[Any], path: Path) -> None:
    """Keep which photos a head was fitted on: of each sha256, of 32 bytes, the first eight as a sorted number."""
    np.save(path, np.sort(_beginnings(digests)), allow_pickle=False)


def fitted_on(folder: Path, photos: Iterable[Path]) -> int:
    """Count the files that the head of a bundle's folder was fitted on; one that cannot be read is not counted."""
    if not (folder / PHOTOS).exists():
        return 0
    try:
        known = np.load(folder / PHOTOS, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BundleInvalid(f"{folder / PHOTOS} cannot be read ({error})", fix="copy the bundle again") from error
    digests = [hashlib.sha256(path.read_bytes()).digest() for path in photos if path.is_file()]
    return int(np.isin(_beginnings(np.array(digests, dtype="V32")), known).sum())


def _beginnings(digests: NDArray[Any]) -> NDArray[np.uint64]:
    return digests.view("<u8").reshape(-1, 4)[:, 0].copy()
