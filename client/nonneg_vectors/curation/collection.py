"""What is curated, the vectors of an index or a file and where their photos are; and what is found, in one form."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from nonneg_core.errors import DataInvalid
from nonneg_core.files.csv_table import write_table
from nonneg_core.files.image_files import place_of, read_within
from nonneg_vectors.search.attributes import explain_none, holds, read_conditions
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.vector_files import read_record

if TYPE_CHECKING:
    from nonneg_vectors.search.index import Index

AT_ONCE = 2000  # vectors read from an index
EVEN = 0.9  # of the vectors have equally many entries: the vectors were cut


@dataclass(frozen=True)
class Collection:
    """Vectors of length one with an id each, and what the index holds beside them."""

    name: str
    vectors: Embeddings
    payloads: Sequence[Mapping[str, Any]]
    root: str = ""  # the folder within which ids are paths
    fields: Mapping[str, str] = field(default_factory=dict)  # the kinds of those that were declared
    cut_as: str = ""  # the collection that stores no more of each vector, where this one is compared with it

    @cached_property
    def ids(self) -> tuple[str, ...]:
        """What the photos are called."""
        return self.vectors.ids or ()

    @cached_property
    def title(self) -> str:
        """What a report calls it: the folder of its photos, or else its file."""
        return Path(self.root or self.name).name or self.name

    def place(self, name: str) -> str:
        """Return where the photo with this id is."""
        return place_of(name, self.root)

    def read(self, name: str) -> bytes:
        """Return the bytes of the photo with this id; DataInvalid for one outside of the collection's folder."""
        return read_within(self.place(name), self.root)

    def where(self, typed: Sequence[str]) -> Collection:
        """Return the photos that fulfil all conditions, as `nonneg search --where` takes them."""
        if not typed:
            return self
        conditions = read_conditions(typed, self.fields)
        rows = [i for i, name in enumerate(self.ids) if holds({**self.payloads[i], "id": name}, conditions)]
        if not rows:
            why = explain_none(self.payloads, conditions, self.fields)
            raise DataInvalid(f"no photo of {self.name} is left: {why}", fix="ask for other values")
        return replace(self, vectors=self.vectors[rows], payloads=[self.payloads[i] for i in rows])

    def __len__(self) -> int:
        return len(self.vectors)

    def labels(self, field: str) -> list[str]:
        """Return a field of every photo, as text; empty where a photo has none. `folder` is also read off the path."""
        values = (payload.get(field) for payload in self.payloads)
        if field == "folder":
            folders = (Path(self.place(name)).parent.name for name in self.ids)
            return [folder if f is None else str(f) for folder, f in zip(folders, values, strict=True)]
        return ["" if f is None else str(f) for f in values]

    @cached_property
    def cut(self) -> int | None:
        """Return how many entries are stored of each vector, if only the largest of them were kept.

        Copies have equally many entries in any case, so that each vector counts once.
        """
        vectors = self.vectors
        rows = (vectors.indices[start:stop] for start, stop in pairwise(vectors.indptr))
        sizes = np.array(list({hash(row.tobytes()): len(row) for row in rows}.values()), int)
        most = int(sizes.max(initial=0))
        return most if len(sizes) > 1 and most and float((sizes == most).mean()) > EVEN else None

    def cut_note(self, loss: str) -> tuple[str, ...]:
        """Return what is lost where only the largest entries of each vector are stored, or compared."""
        if self.cut is None:
            return ()
        why = f"compared, as {self.cut_as} stores no more" if self.cut_as else "stored"
        return (f"Only the {self.cut} largest entries of each vector are {why}: {loss}.",)


def cut_alike(a: Collection, b: Collection) -> tuple[Collection, Collection]:
    """Return two collections as they can be compared: where one stores less of each vector, both with no more."""
    if a.cut == b.cut:
        return a, b
    least = min((c for c in (a, b) if c.cut is not None), key=lambda c: c.cut or 0)
    one, other = (replace(c, vectors=c.vectors.shorten(top_k=least.cut), cut_as=least.name) for c in (a, b))
    return one, other


def read_collection(path: Path) -> Collection:
    """Return the collection in the folder of an index, or in a file that `nonneg embed` wrote."""
    from nonneg_vectors.storage.vector_files import FORMATS

    if path.suffix.lower() in FORMATS and path.is_file():
        vectors = Embeddings.load(path)
        if vectors.ids is None:
            raise DataInvalid(f"{path} does not say which photos its vectors are of", fix="embed them again")
        origins = read_record(path)
        return Collection(str(path), _unit(vectors), [{}] * len(vectors), origins.root if origins else "")
    if not (path / "index.json").exists():
        raise DataInvalid(
            f"{path} is neither an index nor a file of vectors",
            fix="make one: nonneg index FOLDER -o photos.index",
            value=str(path),
        )
    from nonneg_vectors.search.index import Index

    with Index.open(path) as index:
        return of_index(index, str(path))


def of_index(index: Index, name: str = "index") -> Collection:
    """Return the collection in an index on any engine, sorted by id."""
    payloads = index.engine.payloads()
    names = sorted(payloads)
    parts = [index.engine.get(names[start : start + AT_ONCE]) for start in range(0, len(names), AT_ONCE)]
    description = index.description
    empty = Embeddings.from_rows(
        [], dimensions=description.dimensions, fingerprint=description.fingerprint, model=description.model, ids=()
    )
    vectors = Embeddings.concatenate([empty, *parts])
    assert vectors.ids is not None
    order = np.argsort(np.array(vectors.ids, dtype=object), kind="stable")  # what `get` answers is in no order
    vectors = vectors[order]
    return Collection(name, vectors, [payloads[n] for n in vectors.ids or ()], description.root, description.fields)


def _unit(vectors: Embeddings) -> Embeddings:
    return vectors if vectors.normalized else vectors.shorten()


# What curation finds, in one form for the table, CSV, JSON and the contact sheet.

Action = Literal["keep", "remove", "review", "choose", ""]

COLUMNS = ("part", "group", "action", "path", "image", "of", "cosine", "why")


@dataclass(frozen=True)
class Finding:
    """One photo of a group: what is suggested, compared with which other photo, and why."""

    image: str
    action: Action = ""
    why: str = ""
    of: str = ""  # the photo it is compared with
    cosine: float | None = None
    path: str = ""  # where the photo is


def found_at(
    collection: Collection, i: int, action: Action = "", why: str = "", of: str = "", cosine: float | None = None
) -> Finding:
    """Return a finding of photo i of a collection."""
    name = collection.ids[i]
    return Finding(name, action, why, of, cosine, collection.place(name))


@dataclass(frozen=True)
class Group:
    """Photos that belong together."""

    title: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Section:
    """One part of curation: how it was found, its groups, and where there are any its figures as a table."""

    part: str
    title: str
    how: str
    groups: tuple[Group, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of `rows`
    rows: tuple[tuple[Any, ...], ...] = field(default=())

    def images(self) -> int:
        """Return how many photos are in its groups."""
        return sum(len(group.findings) for group in self.groups)

    def concerned(self) -> int:
        """Return how many photos something is suggested for; all of them where nothing is."""
        return sum(f.action != "" for group in self.groups for f in group.findings) or self.images()


def as_json(sections: Sequence[Section]) -> list[dict[str, Any]]:
    """Return the sections for programs."""
    bodies = []
    for section in sections:
        body = asdict(section)
        body["rows"] = [dict(zip(section.columns, row, strict=True)) for row in section.rows]
        del body["columns"]
        bodies.append(body)
    return bodies


def write_csv(path: Path, sections: Sequence[Section]) -> None:
    """Write one line a photo, with the action that is suggested."""
    write_table(path, COLUMNS, lines(sections))


def lines(sections: Sequence[Section]) -> Iterator[tuple[Any, ...]]:
    """Yield the columns of the CSV for every photo; groups are numbered within their part."""
    for section in sections:
        for number, group in enumerate(section.groups, 1):
            for f in group.findings:
                cosine = "" if f.cosine is None else f"{f.cosine:.4f}"
                yield (section.part, number, f.action, f.path, f.image, f.of, cosine, f.why)


def listed(sections: Sequence[Section], action: str) -> list[str]:
    """Return where the photos are for which an action is suggested, each once."""
    return list(dict.fromkeys(f.path for s in sections for g in s.groups for f in g.findings if f.action == action))
