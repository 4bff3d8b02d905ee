"""The studio of one server: its model, the folder that was indexed if there is one, and photos dropped on the page."""

import asyncio
from collections.abc import Mapping
from itertools import chain
from typing import Any

import numpy as np
from starlette.requests import Request

from nonneg_core.arrays import Floats, Places
from nonneg_core.errors import NotFound, RequestInvalid
from nonneg_core.shortening import Vectors, check_dimensions, check_top_k, shorten
from nonneg_runtime.bundle.atlas_file import open_atlas
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.words.column_facts import chance_of, known_names, statistics_of
from nonneg_server.engine.jobs import Text
from nonneg_server.models.dimensions import check_dimension, examples, naming
from nonneg_server.models.explanation import maps_of, scaled
from nonneg_server.pipeline.request_pipeline import serve, served
from nonneg_server.requests.inputs import Incoming
from nonneg_server.requests.parameters import (
    Bars,
    ComparedPair,
    DimensionName,
    Dropped,
    Listed,
    Paged,
    Parameters,
    Searched,
    Sized,
    several,
)
from nonneg_server.studio import folder_answers as answers
from nonneg_server.studio.folder import Grouping, IndexedFolder, Sections, Tell, groups_of
from nonneg_server.studio.folder_search import Page, SearchLength, photo_query, search, stored_chance
from nonneg_server.studio.library import Library
from nonneg_server.studio.library_answers import LibraryAnswers
from nonneg_server.studio.pictures import LARGE, PREFIX, THUMBNAIL, Pictures, SmallerCopies, Thumbnails, Upload, Uploads
from nonneg_vectors.expressions.expression import Expression, Words
from nonneg_vectors.expressions.expression_parser import parse
from nonneg_vectors.expressions.weightings import as_row

RAW = Parameters(normalize=False, errors="fail")  # vectors as the model makes them


class Studio:
    """What /studio/… answers from; its methods may run on any thread, those that wait on the event loop."""

    def __init__(self, state: Any) -> None:
        """Take what an application shares: its models, its settings, its folder."""
        self._state = state
        self._registry = state.registry
        self._folder: IndexedFolder | None = state.folder
        self._pictures = None if self._folder is None else Pictures(self._folder)
        self._thumbnails = Thumbnails()
        self._uploads = Uploads()
        self._cards: answers.Cards | None = None
        self._known: tuple[object, object] = (None, None)  # the names that the cards were made of
        self._library: LibraryAnswers | None = None
        self._shown_most: dict[int, list[str]] = {}
        self._alike: tuple[Places, Floats] | None = None  # dimensions, and how alike their strongest photos are
        self._grouping = Grouping(self._groups)

    @property
    def bundle(self) -> Bundle:
        """The model that photos are embedded with."""
        bundle: Bundle = self._registry.get().bundle
        return bundle

    @property
    def cards(self) -> answers.Cards:
        """Its dimensions as the answers name them."""
        known = known_names(self.bundle)
        own: Mapping[int, str] = {} if self._matching is None else self.library.library.names
        if self._cards is None or self._known[0] is not known or self._known[1] is not own:
            names = {j: name.name for j, name in known.items()} | dict(own)
            self._cards, self._known = answers.Cards(names, self.bundle.manifest.dimensions), (known, own)
        return self._cards

    @property
    def library(self) -> LibraryAnswers:
        """What the user says of the folder's photos."""
        folder = self._indexed()
        if self._library is None:
            self._library = LibraryAnswers(folder, Library(str(folder.root.resolve()), folder.fingerprint))
        return self._library

    def overview(self) -> dict[str, Any]:
        """Return what is looked at."""
        return answers.overview(self.bundle, self._width, self.cards, self._folder)

    def photos(self, listing: Listed) -> dict[str, Any]:
        """Return some of the indexed photos, by name; or the one that has this name, if there is one."""
        folder = self._indexed()
        if listing.name is not None:
            row = folder.by_name.get(listing.name)
            return {"total": int(row is not None), "photos": [] if row is None else [folder.entry(row)]}
        rows = self.library.rows(listing.where)
        some = (range(len(folder)) if rows is None else rows)[listing.offset :][: listing.limit]
        return {"total": len(folder) if rows is None else len(rows), "photos": [folder.entry(i) for i in some]}

    def bars(self, photo: str, options: Bars) -> dict[str, Any]:
        """Return a photo's dimensions, the strongest first."""
        z = shorten(self._vector(photo), self._length(options), options.top_k)
        cards = self.cards.of(z, chance_of(self.bundle, len(z), options.top_k))
        chart = answers.bars(z, cards, options.limit, named=options.named)
        return {
            **self._entry(photo),
            "facts": {} if photo.startswith(PREFIX) else self.library.facts(self._indexed().row(photo)),
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

    async def image(self, photo: str, deadline: float, side: int = LARGE) -> bytes:
        """Return a JPEG as large as a screen, or of another size; never enlarged."""
        picture = await self._picture(photo)
        return picture if photo.startswith(PREFIX) else await self._copies.make(picture, side, deadline=deadline)

    async def where(self, photo: str, j: int, deadline: float) -> dict[str, Any]:
        """Return which cells of a photo a dimension comes from."""
        engine = self._registry.get()
        check_dimension(engine.bundle.manifest, j)
        picture = await self._picture(photo)
        maps = maps_of(self._state)
        (location,) = await maps.locate(engine.workers, engine.bundle, [picture], [j], deadline=deadline)
        z = shorten(self._vector(photo))
        cells = scaled(location.cells[0], float(z[j])) if j < len(z) else location.cells[0]
        where = {"cells": cells.tolist(), "box": list(location.box)}
        return {"photo": photo, **self.cards(j), "strength": float(cells.sum()), **where}

    async def upload(self, request: Request, image: Incoming, options: Dropped) -> dict[str, Any]:
        """Embed a photo and keep its vector and a small picture, in memory alone."""
        async with served(request, [image], RAW) as (answer, (photo,)):
            assert isinstance(photo, bytes)
            deadline = request.scope["state"]["deadline"]()
            picture = await self._copies.make(photo, LARGE, deadline=deadline)
        name = self._uploads.add(Upload(answer.rows[0], answer.manifest.fingerprint, picture, options.name))
        return self.bars(name, options)

    async def search(self, request: Request, options: Searched) -> dict[str, Any]:
        """Return the photos that an expression is about; its texts are embedded first, where there is a text tower."""
        text = options.expression or ""
        expression = parse(text) if text.strip() else None
        phrases = [] if expression is None or not self.bundle.manifest.takes_texts else expression.words()
        texts: dict[Words, Vectors] = {}
        if phrases:
            inputs = [Text(words.text, f"expression[{words.at}]") for words in phrases]
            texts = dict(zip(phrases, (await serve(request, inputs, RAW)).rows, strict=True))
        return await asyncio.to_thread(self._searched, options, expression, texts)

    def _searched(
        self, options: Searched, expression: Expression | None, texts: dict[Words, Vectors]
    ) -> dict[str, Any]:
        folder = self._indexed()
        only, excluded = several(options.only), self.library.excluded(options.where)
        names = self.cards.names
        query = photo_query(self.bundle, folder, expression, only, self._vector_by_name, texts, names, excluded)
        length = SearchLength(self._length(options), options.top_k, options.tenth)
        answer = search(folder, query, length, Page(options.limit, options.offset), self.cards)
        answer["asked"] = [self._shown_by(bar) for bar in answer["asked"]]
        for one in chain(answer["facets"], *(hit["reasons"] for hit in answer["hits"])):
            one["exemplar"] = next(iter(self._exemplars(one["dimension"])), None)
        return {"expression": query.as_json(self.cards.names), **answer}

    async def pair(self, options: ComparedPair, deadline: float) -> dict[str, Any]:
        """Return two photos side by side, and whether they are copies of one."""
        sides = await asyncio.to_thread(self._pair, options)
        return {**sides, **await self._judged((options.a, options.b), deadline)}

    def _pair(self, options: ComparedPair) -> dict[str, Any]:
        k = self._length(options)
        a, b = (shorten(self._vector(photo), k, options.top_k) for photo in (options.a, options.b))
        chance = chance_of(self.bundle, k, options.top_k)
        answer = answers.pair(a, b, self.cards, chance, options.limit)
        for side in ("shared", "only_a", "only_b"):
            answer[side] = [self._shown_by(bar) for bar in answer[side]]
        line = chance.line([as_row(a), as_row(b)])
        return {"a": self._entry(options.a), "b": self._entry(options.b), **answer, "chance": line}

    async def _judged(self, pair: tuple[str, str], deadline: float) -> dict[str, Any]:
        """Return whether two photos are copies of one; that is not known where one of them cannot be read."""
        try:
            pictures = [await self.thumbnail(photo, self.stamp(photo), deadline) for photo in pair]
        except RequestInvalid:
            return answers.UNKNOWN
        dropped = self._matching is None or all(photo.startswith(PREFIX) for photo in pair)

        def judge() -> dict[str, Any]:
            top_k = None if dropped else self._indexed().collection.cut
            return answers.judged(pictures, [self._vector(photo) for photo in pair], top_k)

        return await asyncio.to_thread(judge)

    def name(self, given: DimensionName) -> dict[str, Any]:
        """Name one of the model's dimensions, or take its name back."""
        check_dimension(self.bundle.manifest, given.dimension)
        return self.library.name(given)

    def atlas(self, listing: Paged) -> dict[str, Any]:
        """Return the folder's dimensions, those first whose strongest photos are most alike, with these photos."""
        folder = self._indexed()
        if self._alike is None:
            self._alike = answers.alikeness(folder)
        order, alike = self._alike
        some = order[listing.offset : listing.offset + listing.limit].tolist()
        rows = [{**self.cards(j), "alike": float(alike[j]), "count": int(folder.engine.whole.counts[j])} for j in some]
        shown = [answers.strongest(folder, j, answers.ALIKE) for j in some]
        return {
            "total": len(order),
            "dimensions": [{**row, "exemplars": p} for row, p in zip(rows, shown, strict=True)],
        }

    def meaning(self, j: int) -> dict[str, Any]:
        """Return one dimension: what its model says of it, and what this folder does."""
        bundle, manifest, folder = self.bundle, self.bundle.manifest, self._matching
        check_dimension(manifest, j)
        own = folder is not None and j in self.library.library.names
        here = None
        if folder is not None and j < folder.dimensions:
            line = float(stored_chance(bundle, folder).lines[j])
            here = answers.meaning(folder, j, line, manifest.columns, self.cards)
        return {
            **naming(None if own else known_names(bundle).get(j)),
            **self.cards(j),
            "own": own,
            "frequency": manifest.columns.frequency[j],
            "expected_activation": manifest.columns.expected_activation[j],
            "examples": [example["image"] for example in examples(manifest, open_atlas(bundle), j)],
            "here": here,
        }

    def _groups(self, tell: Tell) -> Sections:
        return groups_of(self._indexed().collection, self.cards.names, tell, statistics_of(self.bundle))

    @property
    def grouping(self) -> Grouping:
        """The search for duplicates, clusters and outliers of the folder."""
        self._indexed()
        return self._grouping

    @property
    def _matching(self) -> IndexedFolder | None:
        """The folder, if its vectors are of the model that is served now."""
        folder = self._folder
        return folder if folder is not None and folder.fingerprint == self.bundle.manifest.fingerprint else None

    def _indexed(self) -> IndexedFolder:
        if self._folder is None:
            raise NotFound(
                "no folder is indexed here", fix="start the server with `nonneg studio FOLDER`", field="folder"
            )
        if self._matching is None:
            raise NotFound(
                "the folder was indexed with another model than the one that is served now",
                fix="start `nonneg studio FOLDER` again",
                field="fingerprint",
                value=self._folder.fingerprint,
            )
        return self._folder

    @property
    def _copies(self) -> SmallerCopies:
        return SmallerCopies(self._registry.get().workers, max_pixels=self._state.settings.max_pixels)

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
        return folder.engine.dense(folder.row(photo))

    def _vector_by_name(self, name: str) -> Vectors:
        """Return the vector of a photo by its path within the folder, or of one that was dropped."""
        if name.startswith(PREFIX):
            return self._vector(name)
        folder = self._indexed()
        if name not in folder.by_name:
            raise NotFound(
                f"no photo called {name[:200]!r} is indexed here",
                fix="name one by its path within the folder; words stand in quotes",
                field="photo",
                value=name[:200],
            )
        return folder.engine.dense(folder.by_name[name])

    def _entry(self, photo: str) -> dict[str, Any]:
        if photo.startswith(PREFIX):
            return {"photo": photo, "name": self._uploads.get(photo).name or "a dropped photo"}
        folder = self._indexed()
        return folder.entry(folder.row(photo))

    def _shown_by(self, bar: dict[str, Any]) -> dict[str, Any]:
        """Return a bar with the photos of the folder that show its dimension most."""
        return {**bar, "exemplars": self._exemplars(bar["dimension"])}

    def _exemplars(self, j: int) -> list[str]:
        """Return the photos of the folder that show a dimension most, the first of them first."""
        if self._matching is None:
            return []
        if j not in self._shown_most:
            self._shown_most[j] = answers.strongest(self._matching, j, answers.EXEMPLARS)
        return self._shown_most[j]

    def _length(self, options: Sized) -> int:
        check_top_k(options.top_k)
        return check_dimensions(options.dimensions, self._width)

    @property
    def _width(self) -> int:
        """How many dimensions the folder's vectors have, which may be the model's first ones alone."""
        return self.bundle.manifest.dimensions if self._matching is None else self._matching.dimensions
