"""An indexed folder as the studio holds it: the photos' names and ids, their vectors, and what was found in groups."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any

from nonneg_core.errors import NotFound
from nonneg_server.studio.column_index import StoredRows

REMEMBERED = 64  # questions
FindGroups = Callable[[Callable[[int, int | None], None]], list[dict[str, Any]]]  # tells how far it is


@dataclass(frozen=True, eq=False)
class IndexedFolder:
    """Photos of one folder with their whole vectors, which are of one model."""

    root: Path  # names are paths within it
    names: Sequence[str]
    stored: StoredRows
    model: str
    fingerprint: str
    groups: FindGroups | None = None  # duplicates, clusters, outliers: found when they are asked for
    kept: int | None = None  # entries of each vector that are stored, if not all
    _answers: dict[Hashable, frozenset[int]] = field(default_factory=dict, init=False)
    _remembering: Lock = field(default_factory=Lock, init=False)

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def ids(self) -> list[str]:
        """What the photos are called in addresses: it says nothing of where they are."""
        return [id_of(name) for name in self.names]

    @cached_property
    def rows(self) -> dict[str, int]:
        """The photos by id."""
        return {name: i for i, name in enumerate(self.ids)}

    @cached_property
    def by_name(self) -> dict[str, int]:
        """The photos by their path within the folder."""
        return {name: i for i, name in enumerate(self.names)}

    def remembered(self, question: Hashable, find: Callable[[], frozenset[int]]) -> frozenset[int]:
        """Return what was found for one of the last questions, or is found now."""
        known = self._answers.get(question)
        if known is None:
            known = find()
            with self._remembering:
                self._answers[question] = known
                while len(self._answers) > REMEMBERED:
                    del self._answers[next(iter(self._answers))]
        return known

    def name_of(self, photo: str) -> str:
        """Return the path of a photo within the folder."""
        return self.names[self.row(photo)]

    def row(self, photo: str) -> int:
        """Return the place of a photo; NotFound where there is none of this id."""
        found = self.rows.get(photo)
        if found is None:
            raise NotFound(
                "no photo of this id is indexed here",
                fix="ask /studio/photos for those that are",
                field="photo",
                value=photo[:40],
            )
        return found


def id_of(name: str) -> str:
    """Return the id of a photo: the same for the same path, whenever the folder is indexed."""
    return hashlib.blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).hexdigest()
