"""The studio of one server: its model, the folder that was indexed if there is one, and photos dropped on the page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from starlette.requests import Request

from nonneg_core.errors import NonnegError, NotFound, RequestInvalid
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, shorten
from nonneg_runtime.bundle.atlas_file import open_atlas
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import chance_of, known_names
from nonneg_server.engine.jobs import Text
from nonneg_server.models.dimensions import check_dimension, examples, naming
from nonneg_server.models.explanation import CellMaps, scaled
from nonneg_server.models.served_models import Registry
from nonneg_server.pipeline.request_pipeline import deadline_of, encode, fetched
from nonneg_server.requests.inputs import Incoming, Link, sized
from nonneg_server.studio.folder_answers import (
    EXEMPLARS,
    UNKNOWN,
    Cards,
    bars,
    judged,
    meaning,
    overview,
    pair,
    strongest,
)
from nonneg_server.studio.folder_search import Page, SearchLength, search
from nonneg_server.studio.indexed_folder import Grouping, IndexedFolder
from nonneg_server.studio.photo_query import as_json, read_query
from nonneg_server.studio.pictures import LARGE, PREFIX, THUMBNAIL, Pictures, SmallerCopies, Thumbnails, Upload, Uploads
from nonneg_vectors.expressions.expression import Words
from nonneg_vectors.expressions.expression_parser import parse

if TYPE_CHECKING:
    from nonneg_server.requests.parameters import Bars, ComparedPair, Searched, Sized


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
        folder = self._indexed()
        if name is not None:
            row = folder.by_name.get(name)
            return {"total": int(row is not None), "photos": [] if row is None else [self._entry(folder.ids[row])]}
        some = range(offset, min(offset + limit, len(folder)))
        return {"total": len(folder), "photos": [self._entry(folder.ids[i]) for i in some]}

    def bars(self, photo: str, options: Bars) -> dict[str, Any]:
        """Return a photo's dimensions, the strongest first."""
        z = shorten(self._vector(photo), self._length(options), options.top_k)
        chart = bars(z, self.cards, options.limit, named=options.named)
        return {
            **self._entry(photo),
            "dimensions": len(z),
            "nnz": int(np.count_nonzero(z)),
            "bars": [self._shown_by(bar) for bar in chart],
        }

    def stamp(self, photo: str) -> str:
        """Return what changes when a photo's file does; a dropped one never does."""
        return self._uploads.get(photo).fingerprint if photo.startswith(PREFIX) else self._shown().stamp(photo)

    async def thumbnail(self, photo: str, stamp: str, deadline: float) -> bytes:
        """Return a small JPEG; `stamp`: the photo's."""
        jpeg = self._thumbnails.get(photo, stamp)
        if jpeg is None:
            jpeg = await self._copies.make(await self._picture(photo), THUMBNAIL, deadline=deadline)
            self._thumbnails.put(photo, stamp, jpeg)
        return jpeg

    async def image(self, photo: str, deadline: float) -> bytes:
        """Return a JPEG as large as a screen."""
        picture = await self._picture(photo)
        return picture if photo.startswith(PREFIX) else await self._copies.make(picture, LARGE, deadline=deadline)

    async def where(self, photo: str, j: int, maps: CellMaps, deadline: float) -> dict[str, Any]:
        """Return which cells of a photo a dimension comes from."""
        engine = self._registry.get()
        check_dimension(engine.bundle.manifest, j)
        picture = await self._picture(photo)
        (location,) = await maps.locate(engine.workers, engine.bundle, [picture], [j], deadline=deadline)
        z = shorten(self._vector(photo))
        cells = scaled(location.cells[0], float(z[j])) if j < len(z) else location.cells[0]
        where = {"cells": cells.tolist(), "box": list(location.box)}
        return {"photo": photo, **self.cards(j), "strength": float(cells.sum()), **where}

    async def upload(self, request: Request, image: Incoming, options: Bars) -> dict[str, Any]:
        """Embed a photo and keep its vector and a small picture, in memory alone."""
        state = request.app.state
        source = sized(image, state.settings.limits)
        if isinstance(source, NonnegError):
            raise source
        assert isinstance(source, (bytes, Link))
        engine, deadline = self._registry.get(), deadline_of(request, state.settings.timeout)
        async with fetched(request, [source], deadline) as (photo,):
            raw = await encode(engine, [photo], fail=True, deadline=deadline)
            assert isinstance(photo, bytes)
            picture = await self._copies.make(photo, LARGE, deadline=deadline)
        name = self._uploads.add(Upload(raw.vectors[0], engine.bundle.manifest.fingerprint, picture))
        return self.bars(name, options)

    async def words(self, request: Request, options: Searched) -> dict[Words, Vectors]:
        """Return the raw vectors of the texts of an expression, where the model has a text tower."""
        engine = self._registry.get()
        if engine.bundle.manifest.text is None or not (options.expression or "").strip():
            return {}
        phrases = parse(options.expression or "").searched()
        texts = [Text(words.text, f"expression[{words.at}]") for words in phrases]
        deadline = deadline_of(request, request.app.state.settings.timeout)
        return dict(zip(phrases, (await encode(engine, texts, fail=True, deadline=deadline)).vectors, strict=True))

    def search(self, options: Searched, words: Mapping[Words, Vectors]) -> dict[str, Any]:
        """Return photos that an expression finds; `words`: its texts as far as they were embedded."""
        from nonneg_server.requests.parameters import several

        folder, names = self._indexed(), self.cards.names
        only = several(options.only)
        query = read_query(self.bundle, self._width, options.expression, only, self._vector_by_name, words)
        itself = [folder.by_name[photo.name] for photo in query.photos if photo.name in folder.by_name]
        length = SearchLength(self._length(options), options.top_k, options.tenth)
        answer = search(folder, query, itself, length, Page(options.limit, options.offset), self.cards)
        answer["asked"] = [self._shown_by(bar) for bar in answer["asked"]]
        for one in chain(answer["facets"], *(hit["reasons"] for hit in answer["hits"])):
            one["exemplar"] = next(iter(self._exemplars(one["dimension"])), None)
        return {"expression": as_json(query, names), **answer}

    def pair(self, options: ComparedPair) -> dict[str, Any]:
        """Return two photos side by side."""
        k = self._length(options)
        a, b = (shorten(self._vector(photo), k, options.top_k) for photo in (options.a, options.b))
        chance = chance_of(self.bundle, k, options.top_k)
        line = chance.line([(np.flatnonzero(z).astype(np.int32), z[z > 0]) for z in (a, b)])
        answer = pair(a, b, self.cards, options.limit)
        for side in ("shared", "only_a", "only_b"):
            answer[side] = [self._shown_by(bar) for bar in answer[side]]
        return {"a": self._entry(options.a), "b": self._entry(options.b), **answer, "chance": line}

    async def judged(self, a: str, b: str, deadline: float) -> dict[str, Any]:
        """Return whether two photos are copies of one; that is not known where one of them cannot be read."""
        pair, folder = (a, b), self._matching
        top_k = None if folder is None or all(photo.startswith(PREFIX) for photo in pair) else folder.top_k
        try:
            pictures = [await self.thumbnail(photo, self.stamp(photo), deadline) for photo in pair]
        except RequestInvalid:
            return UNKNOWN
        return await asyncio.to_thread(judged, pictures, [self._vector(photo) for photo in pair], top_k)

    def meaning(self, j: int) -> dict[str, Any]:
        """Return one dimension: what its model says of it, and what this folder does."""
        bundle, manifest = self.bundle, self.bundle.manifest
        check_dimension(manifest, j)
        atlas = open_atlas(bundle)
        folder = self._matching
        known = folder is not None and j < folder.stored.dimensions
        here = meaning(folder, j, manifest.columns, self.cards) if folder is not None and known else None
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
        folder = self._collection
        return folder if folder is not None and folder.fingerprint == self.bundle.manifest.fingerprint else None

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
        folder = self._indexed()
        return folder.stored.dense(folder.row(photo))

    def _vector_by_name(self, name: str) -> Vectors:
        """Return the vector of a photo by its path within the folder, or of one that was dropped."""
        if name.startswith(PREFIX):
            return self._uploads.of_model(name, self.bundle.manifest.fingerprint).vector
        folder = self._indexed()
        if name not in folder.by_name:
            raise NotFound(
                f"no photo called {name[:200]!r} is indexed here",
                fix="name one by its path within the folder; words stand in quotes",
                field="photo",
                value=name[:200],
            )
        return folder.stored.dense(folder.by_name[name])

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

    def _length(self, options: Sized) -> int:
        check_top_k(options.top_k)
        return check_dimensions(options.dimensions, self._width)

    @property
    def _width(self) -> int:
        """How many dimensions the folder's vectors have, which may be the model's first ones alone."""
        return self.bundle.manifest.dimensions if self._matching is None else self._matching.stored.dimensions
