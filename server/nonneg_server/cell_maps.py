"""Where the dimensions of a picture come from, for the models that can say: opened on first use, run by the workers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.pricing.price import Price
from nonneg_runtime.bundle import ENCODER, Bundle
from nonneg_runtime.cell_map import CellMap, Cells, cannot, pooled_map
from nonneg_runtime.preprocess import PhotoInput, Preprocessor
from nonneg_server.engine.encoded import too_late
from nonneg_server.engine.image_work import done_by_worker
from nonneg_server.engine.workers import Workers

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
        self._opening = asyncio.Lock()  # so that only one thread opens a model

    async def locate(
        self,
        workers: Workers,
        bundle: Bundle,
        photos: Sequence[PhotoInput],
        dimensions: list[int],
        *,
        deadline: float | None = None,
    ) -> list[Located]:
        """Return where these dimensions of each photo come from; ParameterInvalid where the model cannot say.

        The photos are decoded by the workers, which they are queued for as to be encoded.
        """
        try:
            async with asyncio.timeout_at(deadline), self._opening:
                cell_map = await asyncio.to_thread(self._map, bundle)
        except TimeoutError:
            raise too_late() from None
        preprocessor = Preprocessor(bundle.manifest.view, max_pixels=self._max_pixels, apart=True)

        def find(photo: PhotoInput, price: Price) -> Located:
            seen = preprocessor.seen(photo, price)
            return Located(cell_map.split(seen.pixels, dimensions), bundle.manifest.view.seen_of(seen.size))

        request = object()
        return [
            await done_by_worker(workers, preprocessor, photo, partial(find, photo), deadline=deadline, request=request)
            for photo in photos
        ]

    def _map(self, bundle: Bundle) -> CellMap:
        name = bundle.manifest.fingerprint
        if name not in self._open:
            if not can_locate(bundle):
                raise cannot(bundle, "no map of cells stands before its head")
            while len(self._open) >= KEPT:
                self._open.pop(next(iter(self._open)), None)
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
