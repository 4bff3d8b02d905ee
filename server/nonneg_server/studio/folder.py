"""The photos that the studio shows: a collection as curation takes it, ids that say nothing of places, its groups."""

import hashlib
import threading
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from nonneg_core.errors import NotFound
from nonneg_vectors.curation.collection import Collection, as_json
from nonneg_vectors.curation.curation_parts import CurationOptions, curate
from nonneg_vectors.expressions.weightings import ColumnStatistics
from nonneg_vectors.search.columns import ColumnEngine

REMEMBERED = 64  # questions
PARTS = ("exact", "copies", "similar", "outliers", "clusters", "pixels")  # of curation, that the page shows
SHOWN = 400  # photos of one group


class IndexedFolder:
    """Photos of one folder with their whole vectors, by row and by column."""

    def __init__(self, collection: Collection) -> None:
        self.collection = collection
        self.engine = ColumnEngine(collection.vectors)
        self.root = Path(collection.root)  # names are paths within it
        self.names = collection.ids
        self.ids = [id_of(name) for name in self.names]
        self.by_id = {photo: i for i, photo in enumerate(self.ids)}
        self.by_name = {name: i for i, name in enumerate(self.names)}
        self._answers: dict[Hashable, frozenset[int]] = {}
        self._remembering = threading.Lock()

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fingerprint(self) -> str:
        """Of the model that made the vectors."""
        return self.collection.vectors.fingerprint

    @property
    def dimensions(self) -> int:
        """How many the stored vectors have: the model's, or the first of them."""
        return self.collection.vectors.dimensions

    def entry(self, i: int) -> dict[str, Any]:
        """Return a photo as answers list it."""
        return {"photo": self.ids[i], "name": self.names[i]}

    def remembered(self, question: Hashable, find: Callable[[], frozenset[int]]) -> frozenset[int]:
        """Return the answer to one of the last questions, or to this one."""
        known = self._answers.get(question)
        if known is None:
            known = find()
            with self._remembering:
                self._answers[question] = known
                while len(self._answers) > REMEMBERED:
                    del self._answers[next(iter(self._answers))]
        return known

    def row(self, photo: str) -> int:
        """Return the place of a photo; NotFound where there is none of this id."""
        index = self.by_id.get(photo)
        if index is None:
            raise NotFound(
                "no photo of this id is indexed here",
                fix="ask /studio/photos for those that are",
                field="photo",
                value=photo[:40],
            )
        return index


def id_of(name: str) -> str:
    """Return the id of a photo: the same for the same path, whenever the folder is indexed."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()


# The groups of an indexed folder: sought once, on a thread that the process does not wait for when it ends.

Sections = list[dict[str, Any]]
Tell = Callable[[int, int | None], None]  # how far the search is


def groups_of(
    collection: Collection, names: Mapping[int, str], tell: Tell, statistics: ColumnStatistics | None = None
) -> Sections:
    """Return what curation says of a collection, with the photos' ids in place of where they are."""
    sections = as_json(curate(collection, CurationOptions(PARTS, names=names, statistics=statistics, shown=tell)))
    for section in sections:
        for group in section["groups"]:
            group["photos"] = len(group["findings"])
            group["unlisted"] = max(0, group["photos"] - SHOWN)
            group["findings"] = [
                {
                    "photo": id_of(finding["image"]),
                    "name": finding["image"],
                    "of": id_of(finding["of"]) if finding["of"] else None,
                    **{name: finding[name] for name in ("action", "why", "cosine")},
                }
                for finding in group["findings"][:SHOWN]
            ]
    return sections


class Grouping:
    """One search for groups, begun when it is first asked for; after a failure the next request begins again."""

    def __init__(self, find: Callable[[Tell], Sections]) -> None:
        self._find = find
        self._asking = threading.Lock()
        self._sought: Future[Sections] | None = None
        self._done, self._of = 0, 0

    def sections(self) -> dict[str, Any]:
        """Return how far the search is, begun if it was not; and when it is done, its sections, or raise its error."""
        with self._asking:
            if self._sought is None:
                self._done = self._of = 0
                self._sought = self._begin()
            sought, done = self._sought, self._sought.done()
            if done and sought.exception() is not None:
                self._sought = None  # this request gets the error, the next one begins again
        return {**self._progress(done), "sections": sought.result() if done else []}

    def progress(self) -> dict[str, Any]:
        """Return how far the present step of the search is."""
        return self._progress(self._sought is not None and self._sought.done())

    def _progress(self, done: bool) -> dict[str, Any]:
        return {"found": done, "done": self._done, "of": self._of}

    def _begin(self) -> Future[Sections]:
        future: Future[Sections] = Future()

        def run() -> None:
            try:
                sections = self._find(self._tell)
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(sections)

        threading.Thread(target=run, name="groups", daemon=True).start()
        return future

    def _tell(self, done: int, of: int | None) -> None:
        self._done, self._of = done, of or 0
