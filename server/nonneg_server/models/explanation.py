"""What vectors say in dimensions: why two images are alike, from which cells, and what an expression stands for."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from nonneg_core.pixels.identify import MAX_PIXELS
from nonneg_core.pixels.pricing.price import Price
from nonneg_core.shortening import Vectors, check_dimensions
from nonneg_runtime.bundle.atlas_file import open_atlas
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle
from nonneg_runtime.bundle.manifest import Manifest
from nonneg_runtime.inference.cell_map import CellMap, Cells, no_cell_map, pooled_map
from nonneg_runtime.seeing.preprocess import PhotoInput, Preprocessor
from nonneg_runtime.words.column_facts import chance_of, names_of
from nonneg_runtime.words.text_vector import Given, resolved
from nonneg_server.engine.jobs import done_by_worker, too_late
from nonneg_server.engine.workers import Workers
from nonneg_server.models.dimensions import card, naming
from nonneg_vectors.expressions.expression import Expression
from nonneg_vectors.expressions.weightings import Resolved, SparseRow

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
        preprocessor = Preprocessor(bundle.manifest.view, max_pixels=self._max_pixels)

        def find(photo: PhotoInput, price: Price) -> Located:
            picture = preprocessor.view_with_size(photo, price)
            return Located(cell_map.split(picture.pixels, dimensions), bundle.manifest.view.seen_of(picture.size))

        request = object()
        return [
            await done_by_worker(workers, preprocessor, photo, partial(find, photo), deadline=deadline, request=request)
            for photo in photos
        ]

    def _map(self, bundle: Bundle) -> CellMap:
        name = bundle.manifest.fingerprint
        if name not in self._open:
            if not can_locate(bundle):
                raise no_cell_map(bundle, "no map of cells stands before its head")
            while len(self._open) >= KEPT:
                self._open.pop(next(iter(self._open)), None)
            self._open[name] = CellMap(bundle)
        return self._open[name]


def maps_of(state: Any) -> CellMaps:
    """Return the maps of an application, made when they are first asked for."""
    if state.cell_maps is None:
        state.cell_maps = CellMaps(max_pixels=state.settings.max_pixels)
    maps: CellMaps = state.cell_maps
    return maps


def can_locate(bundle: Bundle) -> bool:
    """Return whether its file looks as if it could say where; opening it makes sure."""
    return bundle.manifest.head is not None and _has_map(bundle.path / ENCODER, bundle.manifest.fingerprint)


@lru_cache(maxsize=16)
def _has_map(path: Any, _fingerprint: str) -> bool:
    return pooled_map(path) is not None


# Why two images are alike: their cosine, split into the products that sum to it.


def explain(bundle: Bundle, a: Vectors, b: Vectors, limit: int) -> dict[str, Any]:
    """Find the `limit` dimensions that add most to two unit vectors' cosine, and what the others add together."""
    products = a.astype(np.float64) * b.astype(np.float64)  # (k,), none negative: nothing cancels
    cosine = float(products.sum())
    order = np.argsort(-products, kind="stable")[:limit]
    order = order[products[order] > 0]
    shown = chance_of(bundle, len(a)).shown(names_of(bundle), order.tolist(), np.minimum(a, b)[order].tolist())
    with open_atlas(bundle) or nullcontext() as atlas:
        listed = [
            {
                **card(bundle, atlas, int(j)),
                **({} if int(j) in shown else naming(None)),
                "values": [float(a[j]), float(b[j])],
                "contribution": float(products[j]),
                "share": float(products[j]) / cosine,
            }
            for j in order
        ]
    return {
        "model": bundle.manifest.name,
        "fingerprint": bundle.manifest.fingerprint,
        "dimensions": len(a),
        "cosine": cosine,
        "shared": int((products > 0).sum()),
        "nnz": [int(np.count_nonzero(a)), int(np.count_nonzero(b))],
        "contributions": listed,
        "rest": float(products.sum() - products[order].sum()),
    }


def with_cells(explanation: dict[str, Any], located: Sequence[Located]) -> dict[str, Any]:
    """Add the cells of each image that the dimensions come from; they sum to the dimension's value."""
    listed = explanation["contributions"]
    for i, one in enumerate(listed):
        one["cells"] = [
            scaled(place.cells[i], value).tolist() for place, value in zip(located, one["values"], strict=True)
        ]
    return {**explanation, "boxes": [list(place.box) for place in located]}


def scaled(cells: Cells, value: float) -> Cells:
    """Return cells that sum to a value; all zero where they are."""
    total = float(cells.sum())
    return np.asarray(cells * (value / total), np.float32) if total > 0 else np.zeros_like(cells)


# An expression in a model's terms: weightings of its dimensions, and the dimensions that must not be active.


class Queried(NamedTuple):
    """An expression and what it stands for."""

    manifest: Manifest
    expression: Expression
    dimensions: int
    resolved: Resolved
    names: Mapping[int, str]
    chance: float  # the score that few random photos reach


def queried(bundle: Bundle, expression: Expression, dimensions: int | None, given: Given) -> Queried:
    """Return what an expression stands for; `given`: the vectors of its photos, and of texts that were embedded."""
    length = check_dimensions(dimensions, bundle.manifest.dimensions)
    weighting = resolved(bundle, expression, length, given)
    chance = chance_of(bundle, length).of_query(expression, weighting.parts).best
    return Queried(bundle.manifest, expression, length, weighting, names_of(bundle), chance)


def query_json(query: Queried) -> dict[str, Any]:
    """Return the answer of POST /query."""
    return {
        "model": query.manifest.name,
        "fingerprint": query.manifest.fingerprint,
        "dimensions": query.dimensions,
        "expression": str(query.expression),
        "parts": [_row(part) for part in query.resolved.parts],
        "chance": query.chance,
        "without": [{"dimension": j, "name": query.names.get(j)} for j in query.resolved.without],
        "unlike": [{**_row(unlike.row), "line": unlike.line} for unlike in query.resolved.unlike],
    }


def _row(row: SparseRow) -> dict[str, Any]:
    indices, values = row
    return {"indices": indices.tolist(), "values": values.tolist(), "nnz": len(indices)}
