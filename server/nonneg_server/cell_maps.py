"""Where the dimensions of a picture come from, for the models that can say: opened on first use, one run at a time."""

from __future__ import annotations

from functools import lru_cache
from threading import Lock
from typing import Any, NamedTuple

from PIL import Image

from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_runtime.bundle import ENCODER, Bundle
from nonneg_runtime.cell_map import CellMap, Cells, cannot, pooled_map
from nonneg_runtime.preprocess import PhotoInput, Preprocessor

KEPT = 4  # models


class Located(NamedTuple):
    """Dimensions by cell, and what of the picture the cells cover, as shares of its width and height."""

    cells: Cells  # (dimensions, rows, columns), which sum to the dimensions' strengths
    box: tuple[float, float, float, float]  # left, top, width, height


class CellMaps:
    """The maps of the served models."""

    def __init__(self, *, max_pixels: int = MAX_PIXELS) -> None:
        self._max_pixels = max_pixels
        self._open: dict[str, CellMap] = {}
        self._working = Lock()

    def locate(self, bundle: Bundle, photo: PhotoInput, dimensions: list[int]) -> Located:
        """Return where these dimensions of a photo come from; ParameterInvalid where the model cannot say."""
        preprocessor = Preprocessor(bundle.manifest.view, max_pixels=self._max_pixels, apart=True)
        sizes: list[tuple[int, int]] = []

        def measure(picture: Image.Image) -> None:
            sizes.append(picture.size)

        with self._working:  # photos are decoded beside the queue's budget: one at a time
            pixels = preprocessor.pixels(photo, inspect=measure)
            cells = self._map(bundle).split(pixels, dimensions)
        return Located(cells, bundle.manifest.view.seen_of(sizes[0]) if sizes else (0.0, 0.0, 1.0, 1.0))

    def _map(self, bundle: Bundle) -> CellMap:
        name = bundle.manifest.fingerprint
        if name not in self._open:
            if not can_locate(bundle):
                raise cannot(bundle, "no map of cells stands before its head")
            while len(self._open) >= KEPT:
                del self._open[next(iter(self._open))]
            self._open[name] = CellMap(bundle)
        return self._open[name]


def maps_of(state: Any) -> CellMaps:
    """Return the maps of an application, made when they are first asked for."""
    if state.cell_maps is None:
        state.cell_maps = CellMaps(max_pixels=state.settings.max_pixels)
    found: CellMaps = state.cell_maps
    return found


def can_locate(bundle: Bundle) -> bool:
    """Return whether its file looks as if it could say where; opening it makes sure."""
    return bundle.manifest.head is not None and _has_map(bundle.path / ENCODER, bundle.manifest.fingerprint)


@lru_cache(maxsize=16)
def _has_map(path: Any, _fingerprint: str) -> bool:
    return pooled_map(path) is not None
