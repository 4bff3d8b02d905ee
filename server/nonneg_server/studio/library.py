"""What a user says of photos: tags, albums, names of dimensions, saved searches; one SQLite file in the data folder.

Nothing of it lies in a cache or beside the photos. Marks belong to the folder of photos, by its path, and to a photo by
its path within it: the index can be made again. Names of dimensions belong to a model, and stand in every folder.
"""

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from nonneg_core.errors import ConfigInvalid
from nonneg_core.files.user_cache import data_root

Kind = Literal["tag", "album"]
SCHEMA = """
CREATE TABLE IF NOT EXISTS marks(folder TEXT, kind TEXT, name TEXT, photo TEXT, PRIMARY KEY(folder, kind, name, photo));
CREATE TABLE IF NOT EXISTS names(model TEXT, dimension INTEGER, name TEXT, PRIMARY KEY(model, dimension));
CREATE TABLE IF NOT EXISTS searches(folder TEXT, name TEXT, address TEXT, PRIMARY KEY(folder, name));
"""
PATIENCE = 10  # seconds for another studio that writes


class Library:
    """The user's own marks on one folder of photos, and names for one model's dimensions."""

    def __init__(self, folder: str, model: str, path: Path | None = None) -> None:
        self.path = path or data_root() / "studio.sqlite"
        self._folder, self._model = folder, model
        self._lock = Lock()
        self.version = 0  # one more with each change
        self._marks: dict[str, dict[Kind, list[str]]] | None = None
        self._names: dict[int, str] | None = None

    @property
    def marks(self) -> Mapping[str, Mapping[Kind, list[str]]]:
        """Return the tags and albums of each photo that has any, by its path within the folder."""
        if self._marks is None:
            marks: dict[str, dict[Kind, list[str]]] = defaultdict(dict)
            query = "SELECT photo, kind, name FROM marks WHERE folder = ? ORDER BY name"
            for photo, kind, name in self._read(query, self._folder):
                marks[photo].setdefault(kind, []).append(name)
            self._marks = dict(marks)
        return self._marks

    @property
    def names(self) -> Mapping[int, str]:
        """Return the user's own names of dimensions."""
        if self._names is None:
            self._names = dict(self._read("SELECT dimension, name FROM names WHERE model = ?", self._model))
        return self._names

    def counts(self, photos: Iterable[str]) -> dict[str, list[dict[str, Any]]]:
        """Return every tag and album with how many of these photos have it."""
        counts: dict[tuple[str, str], int] = defaultdict(int)
        for photo in photos:
            for kind, names in self.marks.get(photo, {}).items():
                for name in names:
                    counts[kind, name] += 1
        listed = sorted(counts.items())
        return {
            f"{kind}s": [{"name": name, "count": count} for (k, name), count in listed if k == kind]
            for kind in ("tag", "album")
        }

    def searches(self) -> list[dict[str, str]]:
        """Return the saved searches: each with its name and the address that leads to it."""
        rows = self._read("SELECT name, address FROM searches WHERE folder = ? ORDER BY name", self._folder)
        return [{"name": name, "address": address} for name, address in rows]

    def mark(self, kind: Kind, name: str, photos: Iterable[str], on: bool) -> list[str]:
        """Give photos a tag or an album, or take it from them; return those that this changed."""
        changed = [photo for photo in photos if (name in self.marks.get(photo, {}).get(kind, [])) is not on]
        rows = [(self._folder, kind, name, photo) for photo in changed]
        with self._changing() as connection:
            connection.executemany(
                "INSERT OR IGNORE INTO marks VALUES(?, ?, ?, ?)"
                if on
                else "DELETE FROM marks WHERE folder = ? AND kind = ? AND name = ? AND photo = ?",
                rows,
            )
        return changed

    def name(self, dimension: int, name: str | None) -> str | None:
        """Name a dimension, or take its name back; return the name that it had."""
        before = self.names.get(dimension)
        with self._changing() as connection:
            if name is None:
                connection.execute("DELETE FROM names WHERE model = ? AND dimension = ?", (self._model, dimension))
            else:
                connection.execute("REPLACE INTO names VALUES(?, ?, ?)", (self._model, dimension, name))
        return before

    def save(self, name: str, address: str | None) -> None:
        """Save a search under a name, or forget the one that has it."""
        with self._changing() as connection:
            if address is None:
                connection.execute("DELETE FROM searches WHERE folder = ? AND name = ?", (self._folder, name))
            else:
                connection.execute("REPLACE INTO searches VALUES(?, ?, ?)", (self._folder, name, address))

    def _read(self, query: str, *given: str) -> list[Any]:
        if not self.path.exists():
            return []
        with self._connected() as connection:
            return connection.execute(query, given).fetchall()

    @contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._connected() as connection:
            connection.executescript(SCHEMA)
            with connection:
                yield connection
            self._marks = self._names = None
            self.version += 1

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=PATIENCE)
            try:
                yield connection
            finally:
                connection.close()
        except (OSError, sqlite3.Error) as error:
            raise ConfigInvalid(
                f"{self.path}, which holds tags and names, cannot be used: {error}",
                fix="check its permissions, or set XDG_DATA_HOME to another folder",
                field="XDG_DATA_HOME",
                value=str(self.path),
            ) from error
