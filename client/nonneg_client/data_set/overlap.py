"""Sources that may name the same image are refused: its vector would be in the data set more than once."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import combinations, takewhile
from pathlib import PurePosixPath

from nonneg_core.errors import ConfigInvalid


class Wild(str):
    """A part of a glob that stands for more than one name."""

    __slots__ = ()


ANY_FOLDERS, ANY_NAME = Wild("**"), Wild("*")


@dataclass(frozen=True)
class SourcePattern:
    """The paths that a source stands for, part by part; a plain str is one name."""

    source: str
    parts: tuple[str, ...]
    suffixes: frozenset[str] = frozenset()  # of the files that a folder is searched for

    @property
    def is_file(self) -> bool:
        return not any(isinstance(part, Wild) for part in self.parts)


def folder_pattern(source: str, folder: str, suffixes: frozenset[str]) -> SourcePattern:
    """Return the files of a folder and of the folders in it."""
    return SourcePattern(source, (*folder.split("/"), ANY_FOLDERS, ANY_NAME), suffixes)


def glob_pattern(source: str, base: str, rest: Sequence[str]) -> SourcePattern:
    """Return what matches the parts of a glob below a folder, or a file in it."""
    behind = [Wild(part) if glob.has_magic(part) else part for part in rest]
    return SourcePattern(source, (*base.split("/"), *behind, *([ANY_NAME] if rest[-1] == ANY_FOLDERS else [])))


def file_pattern(source: str, folder: str, name: str) -> SourcePattern:
    """Return one file, whatever letters its name has."""
    return SourcePattern(source, (*folder.split("/"), name))


def check_apart(patterns: Sequence[SourcePattern]) -> None:
    """Raise ConfigInvalid where two sources may name the same image."""
    many = [found for found in patterns if not found.is_file]
    files = [found for found in patterns if found.is_file]  # may be all files of a folder, as a shell lists them
    for one, other in [*combinations(many, 2), *((one, other) for one in many for other in files)]:
        if _may_share(one, other):
            raise _shared(one.source, other.source)
    seen: dict[tuple[str, ...], str] = {}
    for found in files:
        if found.parts in seen:
            raise _shared(seen[found.parts], found.source)
        seen[found.parts] = found.source


def _shared(one: str, other: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"the sources {one} and {other} may name the same image, which would be embedded twice",
        fix="name one source that covers both, or embed each into a data set of its own",
        field="sources",
    )


def _may_share(one: SourcePattern, other: SourcePattern) -> bool:
    return not (_passed_over(one, other) or _passed_over(other, one)) and _may_meet(one.parts, other.parts)


def _passed_over(found: SourcePattern, folder: SourcePattern) -> bool:
    """Return whether a folder is not searched for the files of a source, as .tar files beside its images."""
    suffix = PurePosixPath(found.parts[-1]).suffix.lower()
    plain = bool(suffix) and not glob.has_magic(suffix)
    return bool(folder.suffixes) and plain and suffix not in folder.suffixes


def _may_meet(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether a path may match both."""
    if not one or not other:
        return all(part == ANY_FOLDERS and isinstance(part, Wild) for part in one + other)
    if isinstance(one[0], Wild) and one[0] == ANY_FOLDERS:
        return _may_meet(one[1:], other) or _may_meet(one, other[1:])
    if isinstance(other[0], Wild) and other[0] == ANY_FOLDERS:
        return _may_meet(other, one)
    return _names_may_meet(one[0], other[0]) and _may_meet(one[1:], other[1:])


def _names_may_meet(one: str, other: str) -> bool:
    if isinstance(one, Wild) and isinstance(other, Wild):
        ends = ((_plain_start(one), _plain_start(other)), (_plain_start(one[::-1]), _plain_start(other[::-1])))
        return all(a.startswith(b) or b.startswith(a) for a, b in ends)
    if isinstance(one, Wild):
        return fnmatchcase(other, one)
    return fnmatchcase(one, other) if isinstance(other, Wild) else one == other


def _plain_start(part: str) -> str:
    return "".join(takewhile(lambda letter: letter not in "*?[]", part))
