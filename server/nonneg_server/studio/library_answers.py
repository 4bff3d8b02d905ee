"""What the studio answers of the user's own marks: conditions on photos, tags and albums, exports, completions."""

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath
from typing import Any

from nonneg_core.errors import ConfigInvalid, ParameterInvalid
from nonneg_core.files.image_files import find_passed_over
from nonneg_server.requests.parameters import DimensionName, Export, Mark, SavedSearch
from nonneg_server.studio.folder import IndexedFolder, id_of
from nonneg_server.studio.folder_answers import Cards, bars
from nonneg_server.studio.library import Library
from nonneg_server.studio.selection_export import as_csv, as_paths, as_sidecars, copy_into
from nonneg_vectors.search.attributes import explain_none, holds, read_conditions

FACTS = ("width", "height", "bytes", "taken", "camera", "orientation", "folder")
MARKS = {"tag": "text", "album": "text"}
SHOWN = 10  # completions, and strongest dimensions of an exported photo
LEAST_LETTERS = 2  # that are completed
MOST_VALUES = 40  # of a field that is offered


class LibraryAnswers:
    """One folder and what the user says of its photos."""

    def __init__(self, folder: IndexedFolder, library: Library) -> None:
        self._folder = folder
        self.library = library
        self._answered: tuple[Any, list[int]] = (None, [])  # the last conditions and their rows
        self._passed_over: dict[str, int] | None = None

    def overview(self, cards: Cards) -> dict[str, Any]:
        """Return tags, albums, searches, names of dimensions, and the values that photos can be narrowed by."""
        payloads = self._folder.collection.payloads
        if self._passed_over is None:
            self._passed_over = find_passed_over(self._folder.root)
        return {
            **self.library.counts(self._folder.names),
            "searches": self.library.searches(),
            "names": [cards(j) for j in sorted(self.library.names)],
            "fields": {field: _values(payloads, field) for field in ("camera", "orientation", "folder")},
            "dated": sum("taken" in payload for payload in payloads),
            "passed_over": self._passed_over,
            "file": str(self.library.path),
        }

    def facts(self, i: int) -> dict[str, Any]:
        """Return what is known of a photo besides its vector."""
        name, payload = self._folder.names[i], self._folder.collection.payloads[i]
        marks = self.library.marks.get(name, {})
        known = {field: payload[field] for field in FACTS if field in payload}
        return {**known, "tags": marks.get("tag", []), "albums": marks.get("album", [])}

    def rows(self, where: str | None) -> list[int] | None:
        """Return the rows that fulfil all conditions, in order; None without conditions."""
        typed = [part for part in (where or "").split(";") if part.strip()]
        if not typed:
            return None
        key = (where, self.library.version)
        if self._answered[0] != key:
            self._answered = key, self._fulfilling(typed)
        return self._answered[1]

    def _fulfilling(self, typed: Sequence[str]) -> list[int]:
        folder, marks = self._folder, self.library.marks
        payloads = [
            {**payload, "id": name, **marks.get(name, {})}
            for name, payload in zip(folder.names, folder.collection.payloads, strict=True)
        ]
        try:
            conditions = read_conditions(typed, {**folder.collection.fields, **MARKS})
            rows = [i for i, payload in enumerate(payloads) if holds(payload, conditions)]
            if not rows and not set(conditions) <= {*MARKS, *FACTS}:
                explain_none(payloads, conditions, folder.collection.fields)
        except ConfigInvalid as error:
            raise ParameterInvalid(error.message, fix=error.fix, field="where", value=error.value) from error
        return rows

    def excluded(self, where: str | None) -> list[int]:
        """Return the rows that do not fulfil them."""
        rows = self.rows(where)
        return [] if rows is None else sorted(set(range(len(self._folder))) - set(rows))

    def mark(self, mark: Mark) -> dict[str, Any]:
        """Give photos a tag or an album, or take it from them; answer those that this changed, for an undo."""
        names = [self._folder.names[self._folder.row(photo)] for photo in mark.photos]
        changed = self.library.mark(mark.kind, mark.name.strip(), names, mark.on)
        return {"changed": [id_of(name) for name in changed]}

    def name(self, given: DimensionName) -> dict[str, Any]:
        """Name a dimension; answer the name that it had, so that it can be undone."""
        return {"before": self.library.name(given.dimension, given.name and given.name.strip())}

    def save(self, search: SavedSearch) -> dict[str, Any]:
        """Save a search, or forget it."""
        self.library.save(search.name.strip(), search.address)
        return {"searches": self.library.searches()}

    def export(self, export: Export, cards: Cards) -> tuple[bytes, str, str]:
        """Return the content of a file, its type and its name."""
        rows = [row for photo in export.photos if _is_within((row := self._row(photo, cards, export))["name"])]
        if export.form == "csv":
            return as_csv(rows), "text/csv", "photos.csv"
        if export.form == "paths":
            return as_paths(rows, self._folder.root.resolve()), "text/plain", "photos.txt"
        return as_sidecars(rows), "application/zip", "sidecars.zip"

    def copy(self, export: Export, cards: Cards) -> dict[str, Any]:
        """Copy photos into a folder of this machine."""
        rows = [self._row(photo, cards, export) for photo in export.photos]
        return copy_into(export.to, [row for row in rows if _is_within(row["name"])], self._folder.root)

    def _row(self, photo: str, cards: Cards, export: Export) -> dict[str, Any]:
        i = self._folder.row(photo)
        strongest = bars(self._folder.engine.dense(i), cards, SHOWN, named=True) if export.form == "csv" else []
        return {"name": self._folder.names[i], **self.facts(i), "dimensions": [bar["name"] for bar in strongest]}

    def completions(self, text: str, cards: Cards) -> list[dict[str, Any]]:
        """Return what the end of a search may become: dimensions, tags, photos; `over` letters of it are replaced."""
        for end in dict.fromkeys((text.lstrip(), text.rpartition(" ")[2])):
            spelling = end.removeprefix("dim:").strip('"').casefold()
            if len(spelling) >= LEAST_LETTERS and (some := self._completions(spelling, cards)):
                return [{**one, "over": len(end)} for one in some]
        return []

    def _completions(self, spelling: str, cards: Cards) -> list[dict[str, str]]:
        own = {j: cards.names[j] for j in sorted(self.library.names)}
        dimensions = [
            {"text": cards.term(j), "kind": "dimension", "label": name}
            for j, name in {**own, **cards.names}.items()
            if _begins(name, spelling)
        ]
        counts = self.library.counts(self._folder.names)
        marks = [
            {"text": f"{kind}={one['name']}", "kind": kind, "label": one["name"]}
            for kind in ("tag", "album")
            for one in counts[f"{kind}s"]
            if _begins(one["name"], spelling.partition("=")[2] or spelling)
        ]
        photos = (name for name in self._folder.names if spelling in name.casefold())
        first = [{"text": name, "kind": "photo", "label": name} for name, _ in zip(photos, range(3), strict=False)]
        return [*marks[:3], *sorted(dimensions, key=lambda one: len(one["label"])), *first][:SHOWN]


def _values(payloads: Iterable[Any], field: str) -> list[dict[str, Any]]:
    counted = Counter(payload[field] for payload in payloads if payload.get(field))
    return [{"name": name, "count": count} for name, count in counted.most_common(MOST_VALUES)]


def _begins(name: str, spelling: str) -> bool:
    return any(word.startswith(spelling) for word in (name.casefold(), *name.casefold().split()))


def _is_within(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts
