"""From sources to groups: folders, globs, tar files and Parquet files are listed as they are walked."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from operator import itemgetter
from pathlib import Path, PurePosixPath

from nonneg_client.data_set.addresses import Address
from nonneg_client.data_set.containers import PARQUET, TAR, Container, of_parquet, of_tar
from nonneg_client.data_set.groups import Files, ImageGroup, cut
from nonneg_client.data_set.overlap import SourcePattern, check_apart, file_pattern, folder_pattern, glob_pattern
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.image_files import leads_back
from nonneg_core.pixels.formats import OF_IMAGES


@dataclass(frozen=True)
class Sources:
    """What is to be embedded, and into groups of what size."""

    names: tuple[str, ...]
    size: int
    column: str | None = None  # of images, in Parquet files; folders are searched for such files where it is named
    id_column: str | None = None

    def root(self) -> Address:
        """Return the folder that all sources have in common, within which images are named."""
        names = list(dict.fromkeys(self.names))
        bases = [base(name) for name in names]
        if len({(found.scheme, found.here or found.path.partition("/")[0]) for found in bases}) > 1:
            raise ConfigInvalid("the sources lie in more than one store", fix="embed each into a data set of its own")
        check_apart([self._pattern(*pair) for pair in zip(names, bases, strict=True)])
        return Address(bases[0].scheme, os.path.commonpath([found.path for found in bases]))

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
    found = False
    for name in dict.fromkeys(sources.names):
        for piece in _of_source(name, sources, root):
            found = True
            yield piece
    if not found:
        raise no_images(sources)


def groups_of(piece: Piece, sources: Sources) -> Iterator[ImageGroup]:
    """Yield the groups of a piece; a container is opened and listed."""
    if isinstance(piece, ImageGroup):
        yield piece
    elif piece.file.name.lower().endswith(TAR):
        yield from of_tar(piece, sources.size)
    else:
        yield from of_parquet(piece, sources.size, sources.column, sources.id_column)


def groups(sources: Sources) -> Iterator[ImageGroup]:
    """Yield all groups, in order; an error where there is none."""
    found = False
    for piece in pieces(sources):
        for group in groups_of(piece, sources):
            found = True
            yield group
    if not found:
        raise no_images(sources)


def no_images(sources: Sources) -> DataInvalid:
    """Make the error of sources in which there is nothing to embed."""
    return DataInvalid(
        f"{', '.join(sources.names)}: no images",
        fix="name files, folders or globs of images or .tar files, or Parquet files with --column",
    )


def base(name: str) -> Address:
    """Return the folder from which a source's images are found: itself, a file's, or a glob's last plain one."""
    address = Address.of(name)
    while glob.has_magic(address.path) and address.kind() == "nothing":
        address = address.parent
    kind = address.kind()
    if kind == "nothing":
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)
    folder = address if kind == "folder" else address.parent
    return Address("", os.path.realpath(folder.path)) if folder.here else folder


def _glob_parts(name: str) -> list[str]:
    return Address.of(name).within(_typed_base(name)).split("/")


def _of_source(name: str, sources: Sources, root: Address) -> Iterator[Piece]:
    place, typed = base(name), _typed_base(name)

    def named(address: Address) -> tuple[str, Address]:
        return (place / address.within(typed)).within(root), address

    for many, some in groupby(_found(name, sources), is_container):
        if many:
            yield from (Container(address, own) for own, address in map(named, some))
        else:
            for near in cut(map(named, some), sources.size, itemgetter(0)):
                ids, files = zip(*near, strict=True)
                yield ImageGroup(ids, Files(files))


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
    if kind == "folder":
        suffixes = sources.suffixes
        yield from (file for file in walk(address, address) if PurePosixPath(file.name).suffix.lower() in suffixes)
    elif kind == "file":
        yield _readable(address)
    elif glob.has_magic(address.path):
        yield from map(_readable, matching(_typed_base(name), _glob_parts(name)))
    else:
        raise DataInvalid(f"{name} is not there", fix="check the path or address", value=name)


def is_container(address: Address) -> bool:
    """Return whether a file holds many images."""
    return address.name.lower().endswith((TAR, PARQUET))


def _readable(address: Address) -> Address:
    packed = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst", ".tar.lz4")
    if address.name.lower().endswith(packed):
        raise DataInvalid(f"{address} is compressed, and is not read in parts", fix="unpack it to .tar")
    return address


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
