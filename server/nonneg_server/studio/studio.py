"""The studio of one server: its model, the folder that was indexed if there is one, and photos dropped on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request

from nonneg_core.errors import NonnegError, NotFound, RequestInvalid
from nonneg_core.expressions.expression import Words
from nonneg_core.expressions.parse import parse
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, shorten
from nonneg_runtime.atlas import open_atlas
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.column_statistics import chance_of
from nonneg_runtime.words.known_names import known_names
from nonneg_server.cell_maps import CellMaps
from nonneg_server.dimensions import check_dimension, examples, naming
from nonneg_server.embedding import encode
from nonneg_server.engine.texts import Text
from nonneg_server.explanation import scaled
from nonneg_server.registry import Registry
from nonneg_server.requests.images import Incoming, Link, sized
from nonneg_server.serving import deadline_of, fetched
from nonneg_server.studio import comparison
from nonneg_server.studio.collection import IndexedFolder
from nonneg_server.studio.copies import UNKNOWN, judged
from nonneg_server.studio.dimension_cards import Cards
from nonneg_server.studio.dimension_details import EXEMPLARS, meaning, strongest
from nonneg_server.studio.grouping import Grouping
from nonneg_server.studio.overview import overview
from nonneg_server.studio.query import as_json, read_query
from nonneg_server.studio.search import Page, SearchLength, search
from nonneg_server.studio.smaller_copies import LARGE, THUMBNAIL, SmallerCopies
from nonneg_server.studio.thumbnails import Pictures, Thumbnails
from nonneg_server.studio.uploads import PREFIX, Upload, Uploads

if TYPE_CHECKING:
    from nonneg_server.api.studio.parameters import Bars, ComparedPair, Searched, Sized


class Studio:
    """What /studio/… answers from; its methods may run on any thread, those that wait on the event loop."""

    def __init__(self, registry: Registry, collection: IndexedFolder | None, *, max_pixels: int) -> None:
        self._registry = registry
        self._max_pixels = max_pixels
        self._collection = collection
        self._pictures = None if collection is None else Pictures(collection)
        self._thumbnails = Thumbnails()
        self._uploads = Uploads()
        self._cards: Cards | None = None
        self._known: object = None  # the names that the cards were made of
        self._shown_most: dict[int, list[str]] = {}
        self._grouping = Grouping(collection.groups) if collection is not None and collection.groups else None

    @property
    def bundle(self) -> Bundle:
        """The model that photos are embedded with."""
        return self._registry.get().bundle

    @property
    def cards(self) -> Cards:
        """Its dimensions as the answers name them."""
        known = known_names(self.bundle)
        if self._cards is None or self._known is not known:
            names = {j: name.name for j, name in known.items()}
            self._cards, self._known = Cards(names, self.bundle.manifest.dimensions), known
        return self._cards

    def overview(self) -> dict[str, Any]:
        """Return what is looked at."""
        return overview(self.bundle, self._width, len(self.cards.names), self._collection)

    def photos(self, limit: int, offset: int, name: str | None) -> dict[str, Any]:
        """Return some of the indexed photos, by name; or the one that has this name, if there is one."""
        held = self._indexed()
        if name is not None:
            row = held.by_name.get(name)
            return {"total": int(row is not None), "photos": [] if row is None else [self._entry(held.ids[row])]}
        some = range(offset, min(offset + limit, len(held)))
        return {"total": len(held), "photos": [self._entry(held.ids[i]) for i in some]}

    def bars(self, photo: str, asked: Bars) -> dict[str, Any]:
        """Return a photo's dimensions, the strongest first."""
        z = shorten(self._vector(photo), self._length(asked), asked.top_k)
        found = comparison.bars(z, self.cards, asked.limit, named=asked.named)
        return {
            **self._entry(photo),
            "dimensions": len(z),
            "nnz": int(np.count_nonzero(z)),
            "bars": [self._shown_by(bar) for bar in found],
        }

    def stamp(self, photo: str) -> str:
        """Return what changes when a photo's file does; a dropped one never does."""
        return self._uploads.get(photo).fingerprint if photo.startswith(PREFIX) else self._shown().stamp(photo)

    async def thumbnail(self, photo: str, stamp: str, deadline: float) -> bytes:
        """Return a small JPEG; `stamp`: the photo's."""
        found = self._thumbnails.get(photo, stamp)
        if found is None:
            found = await self._copies.make(await self._picture(photo), THUMBNAIL, deadline=deadline)
            self._thumbnails.put(photo, stamp, found)
        return found

    async def image(self, photo: str, deadline: float) -> bytes:
        """Return a JPEG as large as a screen."""
        picture = await self._picture(photo)
        return picture if photo.startswith(PREFIX) else await self._copies.make(picture, LARGE, deadline=deadline)

    async def where(self, photo: str, j: int, maps: CellMaps, deadline: float) -> dict[str, Any]:
        """Return which cells of a photo a dimension comes from."""
        engine = self._registry.get()
        check_dimension(engine.bundle.manifest, j)
        picture = await self._picture(photo)
        (found,) = await maps.locate(engine.workers, engine.bundle, [picture], [j], deadline=deadline)
        z = shorten(self._vector(photo))
        cells = scaled(found.cells[0], float(z[j])) if j < len(z) else found.cells[0]
        where = {"cells": cells.tolist(), "box": list(found.box)}
        return {"photo": photo, **self.cards(j), "strength": float(cells.sum()), **where}

    async def upload(self, request: Request, image: Incoming, asked: Bars) -> dict[str, Any]:
        """Embed a photo and keep its vector and a small picture, in memory alone."""
        state = request.app.state
        found = sized(image, state.settings.limits)
        if isinstance(found, NonnegError):
            raise found
        assert isinstance(found, (bytes, Link))
        engine, deadline = self._registry.get(), deadline_of(request, state.settings.timeout)
        async with fetched(request, [found], deadline) as (photo,):
            raw = await encode(engine, [photo], fail=True, deadline=deadline)
            assert isinstance(photo, bytes)
            picture = await self._copies.make(photo, LARGE, deadline=deadline)
        name = self._uploads.add(Upload(raw.vectors[0], engine.bundle.manifest.fingerprint, picture))
        return self.bars(name, asked)

    async def words(self, request: Request, asked: Searched) -> dict[Words, Vectors]:
        """Return the raw vectors of the texts of an expression, where the model has a text tower."""
        engine = self._registry.get()
        if engine.bundle.manifest.text is None or not (asked.expression or "").strip():
            return {}
        wanted = parse(asked.expression or "").searched()
        texts = [Text(words.text, f"expression[{words.at}]") for words in wanted]
        deadline = deadline_of(request, request.app.state.settings.timeout)
        return dict(zip(wanted, (await encode(engine, texts, fail=True, deadline=deadline)).vectors, strict=True))

    def search(self, asked: Searched, words: Mapping[Words, Vectors]) -> dict[str, Any]:
        """Return photos that an expression finds; `words`: its texts as far as they were embedded."""
        from nonneg_server.api.studio.parameters import several

        held, names = self._indexed(), self.cards.names
        only = several(asked.only)
        query = read_query(self.bundle, self._width, asked.expression, only, self._vector_by_name, words)
        itself = [held.by_name[photo.name] for photo in query.photos if photo.name in held.by_name]
        length = SearchLength(self._length(asked), asked.top_k, asked.tenth)
        found = search(held, query, itself, length, Page(asked.limit, asked.offset), self.cards)
        found["asked"] = [self._shown_by(bar) for bar in found["asked"]]
        for one in chain(found["facets"], *(hit["reasons"] for hit in found["hits"])):
            one["exemplar"] = next(iter(self._exemplars(one["dimension"])), None)
        return {"expression": as_json(query, names), **found}

    def pair(self, asked: ComparedPair) -> dict[str, Any]:
        """Return two photos side by side."""
        k = self._length(asked)
        a, b = (shorten(self._vector(photo), k, asked.top_k) for photo in (asked.a, asked.b))
        chance = chance_of(self.bundle, k, asked.top_k)
        line = chance.line([(np.flatnonzero(z).astype(np.int32), z[z > 0]) for z in (a, b)])
        found = comparison.pair(a, b, self.cards, asked.limit)
        for side in ("shared", "only_a", "only_b"):
            found[side] = [self._shown_by(bar) for bar in found[side]]
        return {"a": self._entry(asked.a), "b": self._entry(asked.b), **found, "chance": line}

    async def judged(self, a: str, b: str, deadline: float) -> dict[str, Any]:
        """Return whether two photos are copies of one; that is not known where one of them cannot be read."""
        pair, held = (a, b), self._matching
        kept = None if held is None or all(photo.startswith(PREFIX) for photo in pair) else held.kept
        try:
            pictures = [await self.thumbnail(photo, self.stamp(photo), deadline) for photo in pair]
        except RequestInvalid:
            return UNKNOWN
        return await asyncio.to_thread(judged, pictures, [self._vector(photo) for photo in pair], kept)

    def meaning(self, j: int) -> dict[str, Any]:
        """Return one dimension: what its model says of it, and what this folder does."""
        bundle, manifest = self.bundle, self.bundle.manifest
        check_dimension(manifest, j)
        atlas = open_atlas(bundle)
        held = self._matching
        known = held is not None and j < held.stored.dimensions
        here = meaning(held, j, manifest.columns, self.cards) if held is not None and known else None
        return {
            **self.cards(j),
            "frequency": manifest.columns.frequency[j],
            "expected_activation": manifest.columns.expected_activation[j],
            **naming(known_names(bundle).get(j)),
            "examples": [example["image"] for example in examples(manifest, atlas, j)],
            "here": here,
        }

    def groups(self) -> dict[str, Any]:
        """Return duplicates, clusters and outliers, or how far the search for them is, which this begins."""
        return self.grouping.sections()

    @property
    def grouping(self) -> Grouping:
        """The search for groups."""
        self._indexed()
        if self._grouping is None:
            raise NotFound(
                "this folder came without groups", fix="start it with `nonneg studio FOLDER`", field="groups"
            )
        return self._grouping

    @property
    def _matching(self) -> IndexedFolder | None:
        """The folder, if its vectors are of the model that is served now."""
        held = self._collection
        return held if held is not None and held.fingerprint == self.bundle.manifest.fingerprint else None

    def _indexed(self) -> IndexedFolder:
        if self._collection is None:
            raise NotFound(
                "no folder is indexed here", fix="start the server with `nonneg studio FOLDER`", field="folder"
            )
        if self._matching is None:
            raise NotFound(
                "the folder was indexed with another model than the one that is served now",
                fix="start `nonneg studio FOLDER` again",
                field="fingerprint",
                value=self._collection.fingerprint,
            )
        return self._collection

    @property
    def _copies(self) -> SmallerCopies:
        return SmallerCopies(self._registry.get().workers, max_pixels=self._max_pixels)

    async def _picture(self, photo: str) -> bytes:
        """Return a photo's file, or the copy of one that was dropped."""
        if photo.startswith(PREFIX):
            return self._uploads.get(photo).picture
        return await asyncio.to_thread(self._shown().read, photo)

    def _shown(self) -> Pictures:
        self._indexed()
        assert self._pictures is not None
        return self._pictures

    def _vector(self, photo: str) -> Vectors:
        if photo.startswith(PREFIX):
            return self._uploads.of_model(photo, self.bundle.manifest.fingerprint).vector
        held = self._indexed()
        return held.stored.dense(held.row(photo))

    def _vector_by_name(self, name: str) -> Vectors:
        """Return the vector of a photo by its path within the folder, or of one that was dropped."""
        if name.startswith(PREFIX):
            return self._uploads.of_model(name, self.bundle.manifest.fingerprint).vector
        held = self._indexed()
        if name not in held.by_name:
            raise NotFound(
                f"no photo called {name[:200]!r} is indexed here",
                fix="name one by its path within the folder; words stand in quotes",
                field="photo",
                value=name[:200],
            )
        return held.stored.dense(held.by_name[name])

    def _entry(self, photo: str) -> dict[str, Any]:
        name = "a dropped photo" if photo.startswith(PREFIX) else self._indexed().name_of(photo)
        return {"photo": photo, "name": name}

    def _shown_by(self, bar: dict[str, Any]) -> dict[str, Any]:
        """Return a bar with the photos of the folder that show its dimension most."""
        return {**bar, "exemplars": self._exemplars(bar["dimension"])}

    def _exemplars(self, j: int) -> list[str]:
        """Return the photos of the folder that show a dimension most, the first of them first."""
        if self._matching is None:
            return []
        if j not in self._shown_most:
            self._shown_most[j] = strongest(self._matching, j, EXEMPLARS)
        return self._shown_most[j]

    def _length(self, asked: Sized) -> int:
        check_top_k(asked.top_k)
        return check_dimensions(asked.dimensions, self._width)

    @property
    def _width(self) -> int:
        """How many dimensions the folder's vectors have, which may be the model's first ones alone."""
        return self.bundle.manifest.dimensions if self._matching is None else self._matching.stored.dimensions
