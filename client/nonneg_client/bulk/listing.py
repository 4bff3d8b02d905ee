"""From sources, listed as they are walked, to groups of neighbouring images; sources that may overlap are refused."""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain, combinations, groupby, takewhile
from operator import itemgetter
from pathlib import Path, PurePosixPath

from nonneg_client.bulk.groups import (
    PARQUET,
    Container,
    Files,
    ImageGroup,
    Links,
    cut,
    is_tar,
    of_parquet,
    of_tar,
)
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.image_files import is_url, leads_back, path_text
from nonneg_core.pixels.formats import OF_IMAGES
from nonneg_vectors.storage.addresses import Address

HOLDS_NONE = "give a folder with .jpg, .png, .webp or other image files in it; their names must end so"
MATCHES_NONE = "check the pattern, and quote it against the shell"


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
    many = [pattern for pattern in patterns if not pattern.is_file]
    files = [pattern for pattern in patterns if pattern.is_file]  # may be all files of a folder, as a shell lists them
    for one, other in [*combinations(many, 2), *((one, other) for one in many for other in files)]:
        if _may_share(one, other):
            raise _shared(one.source, other.source)
    sources: dict[tuple[str, ...], str] = {}
    for pattern in files:
        if pattern.parts in sources:
            raise _shared(sources[pattern.parts], pattern.source)
        sources[pattern.parts] = pattern.source


def _shared(one: str, other: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"the sources {one} and {other} may name the same image, which would be embedded twice",
        fix="name one source that covers both, or embed each into a data set of its own",
        field="sources",
    )


def _may_share(one: SourcePattern, other: SourcePattern) -> bool:
    return not (_passed_over(one, other) or _passed_over(other, one)) and _may_meet(one.parts, other.parts)


def _passed_over(pattern: SourcePattern, folder: SourcePattern) -> bool:
    """Return whether a folder is not searched for the files of a source, as .tar files beside its images."""
    suffix = PurePosixPath(pattern.parts[-1]).suffix.lower()
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


@dataclass(frozen=True)
class Sources:
    """What is to be embedded, and into groups of what size."""

    names: tuple[str, ...]
    size: int
    column: str | None = None  # of images, in Parquet files; folders are searched for such files where it is named
    id_column: str | None = None
    within: str | None = None  # the folder within which images are named, if not what all sources have in common
    apart: bool = True  # whether all must be there, in one store, and name no image twice: else a list of anything

    def root(self) -> Address:
        """Return the folder that all sources have in common, within which images are named."""
        if not self.apart:
            return Address.of(self.within or str(common_folder(self.names)))
        names = list(dict.fromkeys(self.names))
        bases = [base(name) for name in names]
        if len({(address.scheme, address.here or address.path.partition("/")[0]) for address in bases}) > 1:
            raise ConfigInvalid("the sources lie in more than one store", fix="embed each into a data set of its own")
        check_apart([self._pattern(*pair) for pair in zip(names, bases, strict=True)])
        return Address(bases[0].scheme, os.path.commonpath([address.path for address in bases]))

    @property
    def suffixes(self) -> frozenset[str]:
        """What a folder is searched for."""
        return OF_IMAGES | ({PARQUET} if self.column else set())

    def _pattern(self, name: str, place: Address) -> SourcePattern:
        kind = Address.of(name).kind()
        if kind == "folder":
            return folder_pattern(name, place.path, self.suffixes)
        if kind == "file":
            return file_pattern(name, place.path, Address.of(name).name)
        return glob_pattern(name, place.path, _glob_parts(name))


Piece = ImageGroup | Container


def pieces(sources: Sources) -> Iterator[Piece]:
    """Yield groups of images that are files, and files that hold many images."""
    root = sources.root()
    nonempty = False
    names = list(dict.fromkeys(sources.names))
    for some in [[name] for name in names] if sources.apart else [names]:
        files = chain.from_iterable(_of_source(name, sources, root) for name in some)
        for piece in _pieces_of(files if sources.apart else _once_each(files), sources):
            nonempty = True
            yield piece
    if not nonempty:
        raise no_images(sources)


def groups_of(piece: Piece, sources: Sources) -> Iterator[ImageGroup]:
    """Yield the groups of a piece; a container is opened and listed."""
    if isinstance(piece, ImageGroup):
        yield piece
    elif is_tar(piece.file.name):
        yield from of_tar(piece, sources.size)
    else:
        yield from of_parquet(piece, sources.size, sources.column, sources.id_column)


def groups(sources: Sources) -> Iterator[ImageGroup]:
    """Yield all groups, in order; an error where there is none."""
    nonempty = False
    for piece in pieces(sources):
        for group in groups_of(piece, sources):
            nonempty = True
            yield group
    if not nonempty:
        raise no_images(sources)


def no_images(sources: Sources) -> DataInvalid:
    """Make the error of sources in which there is nothing to embed."""
    return DataInvalid(
        f"{', '.join(sources.names)}: no images",
        fix="name files, folders or globs of images or .tar files, or Parquet files with --column",
    )


def base(name: str, *, loose: bool = False) -> Address:
    """Return the folder from which a source's images are found: itself, a file's, or a glob's last plain one."""
    address = Address.of(name)
    folder = _typed_base(name)
    if not glob.has_magic(address.path) and address.kind() == "nothing" and not (loose and address.here):
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)
    return Address("", os.path.realpath(folder.path)) if folder.here else folder


def common_folder(names: Sequence[str]) -> Path:
    """Return the folder that these paths, folders and globs have in common; the current one if none is a path."""
    bases = {base(name, loose=True).path for name in names if "://" not in name}
    return Path(os.path.commonpath(bases) if bases else os.path.realpath("."))


def _glob_parts(name: str) -> list[str]:
    return Address.of(name).within(_typed_base(name)).split("/")


def _of_source(name: str, sources: Sources, root: Address) -> Iterator[tuple[str, Address | None]]:
    """Yield the files that a source stands for, each with its id; None beside a link."""
    if not sources.apart and is_url(name):
        yield name, None
        return
    place, typed = base(name, loose=not sources.apart), _typed_base(name)
    for address in _found(name, sources):
        own = (place / address.within(typed)).within(root)
        yield path_text(Path(own)) if place.here else own, address


def _once_each(files: Iterable[tuple[str, Address | None]]) -> Iterator[tuple[str, Address | None]]:
    """Yield files that may be named twice once."""
    ids: set[str] = set()
    for own, address in files:
        if own not in ids:
            ids.add(own)
            yield own, address


def _pieces_of(files: Iterable[tuple[str, Address | None]], sources: Sources) -> Iterator[Piece]:
    for kind, some in groupby(files, lambda file: "link" if file[1] is None else is_container(file[1])):
        if kind is True:
            yield from (Container(address, own) for own, address in some if address is not None)
            continue
        for near in cut(some, sources.size, itemgetter(0)):
            ids = tuple(own for own, _ in near)
            yield ImageGroup(ids, Links(ids) if kind else Files(tuple(a for _, a in near if a is not None)))


def _typed_base(name: str) -> Address:
    """Return what `base` does, with links as they were typed."""
    address = Address.of(name)
    while glob.has_magic(address.path) and address.kind() == "nothing":
        address = address.parent
    return address if address.kind() == "folder" else address.parent


def _found(name: str, sources: Sources) -> Iterator[Address]:
    """Yield the files that a source stands for, in order."""
    address = Address.of(name)
    kind = address.kind()
    files: Iterator[Address]
    if kind == "folder":
        suffixes = sources.suffixes
        files = (file for file in walk(address, address) if PurePosixPath(file.name).suffix.lower() in suffixes)
        yield from files if sources.apart else _some(files, f"{name} holds no images", HOLDS_NONE)
    elif kind == "file" or (not glob.has_magic(address.path) and address.here and not sources.apart):
        yield address
    elif glob.has_magic(address.path):
        files = matching(_typed_base(name), _glob_parts(name))
        yield from files if sources.apart else _some(files, f"no file matches {name}", MATCHES_NONE)
    else:
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)


def is_container(address: Address) -> bool:
    """Return whether a file holds many images."""
    return is_tar(address.name) or address.name.lower().endswith(PARQUET)


def _some(files: Iterable[Address], message: str, fix: str) -> Iterator[Address]:
    """Yield them all; an error where there is none."""
    first = None
    for first in files:
        yield first
    if first is None:
        raise DataInvalid(message, fix=fix)


def walk(folder: Address, root: Address) -> Iterator[Address]:
    """Yield every file below a folder, folder by folder, each in the order of names."""
    for entry in folder.entries():
        address = folder / entry.name
        if entry.is_folder:
            if not (address.here and leads_back(Path(address.path), Path(root.path))):
                yield from walk(address, root)
        elif entry.is_file:
            yield address


def matching(folder: Address, parts: Sequence[str]) -> Iterator[Address]:
    """Yield the files below a folder whose path matches a glob's parts; `**` stands for any number of folders."""
    head, rest = parts[0], parts[1:]
    if head == "**":
        yield from matching(folder, rest or ["*"])
    for entry in folder.entries():
        address = folder / entry.name
        if head == "**":
            if entry.is_folder:
                yield from matching(address, parts)
        elif fnmatchcase(entry.name, head):
            if rest and entry.is_folder:
                yield from matching(address, rest)
            elif not rest and entry.is_file:
                yield address
