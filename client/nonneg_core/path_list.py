"""Paths below one folder as one piece of memory: a million of them take the bytes of their names and little more."""

from __future__ import annotations

import os
from array import array
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import overload


class PathList(Sequence[Path]):
    """A sequence of paths; each is made when it is asked for."""

    def __init__(self, folder: Path, paths: Iterable[Path]) -> None:
        """Keep `paths`, all of them below `folder`, as bytes."""
        self._folder, self._names, self._ends = folder, bytearray(), array("Q", [0])
        for path in paths:
            self._names += os.fsencode(path.relative_to(folder))
            self._ends.append(len(self._names))

    def __len__(self) -> int:
        return len(self._ends) - 1

    @overload
    def __getitem__(self, place: int) -> Path: ...
    @overload
    def __getitem__(self, place: slice) -> tuple[Path, ...]: ...
    def __getitem__(self, place: int | slice) -> Path | tuple[Path, ...]:
        if isinstance(place, slice):
            return tuple(self[i] for i in range(*place.indices(len(self))))
        return self._folder / os.fsdecode(self.name(place))

    def name(self, place: int) -> bytes:
        """Return the path within the folder, as the system writes it."""
        place = range(len(self))[place]
        return bytes(self._names[self._ends[place] : self._ends[place + 1]])
