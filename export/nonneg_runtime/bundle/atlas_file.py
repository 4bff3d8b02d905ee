"""atlas.sqlite: for every dimension the images that activate it most, as thumbnails, and names where they are known.

One SQLite file, written and read here, in a bundle or beside it: it says which model it was made with. A reader trusts
nothing in it: it is opened read-only, its tables must be exactly these, and no row is fetched that is larger than a
thumbnail can be.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nonneg_core.errors import BundleInvalid, ParameterInvalid
from nonneg_runtime.bundle.bundle_folder import Bundle

FILE_NAME = "atlas.sqlite"
SCHEMA_VERSION = 2
LARGEST_THUMBNAIL = 256 * 1024
TABLES = {
    "image": "CREATE TABLE image (id INTEGER PRIMARY KEY, path TEXT NOT NULL, label TEXT NOT NULL, jpeg BLOB NOT NULL)",
    "dimension": "CREATE TABLE dimension (id INTEGER PRIMARY KEY, name TEXT NOT NULL, share REAL NOT NULL)",
    "example": "CREATE TABLE example (dimension INTEGER NOT NULL, place INTEGER NOT NULL, image INTEGER NOT NULL, "
    "activation REAL NOT NULL, PRIMARY KEY (dimension, place)) WITHOUT ROWID",
    "model": "CREATE TABLE model (fingerprint TEXT NOT NULL)",
}
TABLES_BEFORE = {1: {name: TABLES[name] for name in ("image", "dimension", "example")}}  # by version; in bundles


@dataclass(frozen=True)
class Image:
    """A thumbnail; `label` is its class where the images were labelled."""

    path: str  # within the folder the atlas was made from
    label: str
    jpeg: bytes


@dataclass(frozen=True)
class AtlasDimension:
    """A column of the encoder."""

    id: int
    name: str  # suggested: the class that most of its examples belong to; empty where there is none
    share: float  # of its examples that belong to that class


@dataclass(frozen=True)
class AtlasExample:
    """An image that activates a dimension; `activation` is its share of the row-normalised vector."""

    image: Image
    activation: float


@dataclass(frozen=True)
class ExampleRecord:
    """An example as it is written: `image` is an index into the images."""

    dimension: int
    place: int
    image: int
    activation: float


def write_atlas(
    path: Path,
    images: Sequence[Image],
    dimensions: Iterable[AtlasDimension],
    entries: Iterable[ExampleRecord],
    *,
    fingerprint: str,
) -> None:
    """Make the file; it must not exist. `fingerprint`: of the model whose dimensions these are."""
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        for statement in TABLES.values():
            db.execute(statement)
        db.execute("INSERT INTO model VALUES (?)", (fingerprint,))
        db.executemany("INSERT INTO image VALUES (?, ?, ?, ?)", ((i, *vars(m).values()) for i, m in enumerate(images)))
        db.executemany("INSERT INTO dimension VALUES (?, ?, ?)", (tuple(vars(d).values()) for d in dimensions))
        db.executemany("INSERT INTO example VALUES (?, ?, ?, ?)", (tuple(vars(e).values()) for e in entries))


class Atlas:
    """A bundle's atlas, open for reading; one connection, to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
            self._db = sqlite3.connect(uri, uri=True, check_same_thread=False)
            self._db.execute("PRAGMA trusted_schema = OFF")
            self._db.execute("PRAGMA query_only = ON")
            self._check()
        except sqlite3.Error as error:
            raise _broken(path, str(error)) from error

    def __enter__(self) -> "Atlas":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()

    @property
    def fingerprint(self) -> str:
        """Of the model that it was made with; empty where an older version did not say."""
        if self.version == 1:
            return ""
        ((digest,),) = self._rows("SELECT fingerprint FROM model")
        return str(digest)

    def dimension(self, j: int) -> AtlasDimension:
        """Return what is known of column j."""
        rows = self._rows("SELECT id, name, share FROM dimension WHERE id = ?", j)
        if not rows:
            raise ParameterInvalid(
                f"dimension {j} is not in the atlas", fix="ask for one that is", field="dimension", value=j
            )
        return AtlasDimension(*rows[0])

    def dimensions(self) -> list[AtlasDimension]:
        """Return all columns, in order."""
        return [AtlasDimension(*row) for row in self._rows("SELECT id, name, share FROM dimension ORDER BY id")]

    def examples(self, j: int) -> list[AtlasExample]:
        """Return the images that activate column j most, strongest first."""
        rows = self._rows(
            "SELECT path, label, jpeg, activation FROM example JOIN image ON image.id = example.image "
            "WHERE dimension = ? AND length(jpeg) <= ? ORDER BY place",
            j,
            LARGEST_THUMBNAIL,
        )
        return [AtlasExample(Image(path, label, jpeg), activation) for path, label, jpeg, activation in rows]

    def _rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        try:
            return self._db.execute(query, values).fetchall()
        except sqlite3.Error as error:
            raise _broken(self.path, str(error)) from error

    def _check(self) -> None:
        (self.version,) = self._db.execute("PRAGMA user_version").fetchone()
        expected = {**TABLES_BEFORE, SCHEMA_VERSION: TABLES}.get(self.version)
        if expected is None:
            raise _broken(self.path, f"it has schema version {self.version}, this nonneg reads {SCHEMA_VERSION}")
        schema = dict(self._db.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"))
        if schema != expected:
            raise _broken(self.path, f"it holds {', '.join(sorted(schema)) or 'nothing'}, not {', '.join(TABLES)}")


def open_atlas(bundle: Bundle) -> Atlas | None:
    """Return the atlas beside a verified bundle, or the one in it, if there is one."""
    if bundle.atlas is not None:
        return Atlas(bundle.atlas)
    return Atlas(bundle.path / FILE_NAME) if FILE_NAME in bundle.manifest.files else None


def with_atlas(bundle: Bundle, paths: Iterable[Path]) -> Bundle:
    """Return the bundle with that of these atlases that was made with it; the bundle as it is where none was."""
    for path in paths:
        with Atlas(path) as atlas:
            if atlas.fingerprint == bundle.manifest.fingerprint:
                return replace(bundle, atlas=path)
    return bundle


def fingerprint_of(path: Path) -> str:
    """Return the model that an atlas beside a bundle was made with."""
    if not path.is_file():
        raise BundleInvalid(f"{path} is not there", fix="make it with `nonneg atlas MODEL --images PHOTOS --file FILE`")
    with Atlas(path) as atlas:
        if not atlas.fingerprint:
            raise _broken(path, "it does not say which model it was made with")
        return atlas.fingerprint


def _broken(path: Path, why: str) -> BundleInvalid:
    return BundleInvalid(f"{path} is not an atlas ({why})", fix="make it again with `nonneg atlas`")
