"""Bundles in object stores, s3://bucket/folder and the like: fetched by pyarrow, with the machine's credentials."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from nonneg_core.errors import BundleInvalid, ConnectionFailed, NotFound
from nonneg_core.installing import needing
from nonneg_runtime.manifest import FILE_NAME, read_manifest

STORES = ("s3://", "gs://", "abfs://")


@contextmanager
def fetched(source: str) -> Iterator[Path]:
    """Give a folder with the manifest of a bundle in a store and the files that it lists; nothing else is fetched."""
    with tempfile.TemporaryDirectory(prefix="nonneg-") as place:
        _fetch(source.rstrip("/"), Path(place))
        yield Path(place)


def _fetch(source: str, folder: Path) -> None:
    with needing(source, extra="cloud"):
        from pyarrow import fs
    try:
        system, root = fs.FileSystem.from_uri(source)
        names = [FILE_NAME]
        while names:
            name = names.pop()
            if PurePosixPath(name).name != name or "\\" in name:
                raise BundleInvalid(f"{source}: {name!r} leaves the bundle's folder", fix="do not use this bundle")
            fs.copy_files(
                f"{root}/{name}",
                str(folder / name),
                source_filesystem=system,
                destination_filesystem=fs.LocalFileSystem(),
            )
            if name == FILE_NAME:
                names = list(read_manifest(folder).files)
    except FileNotFoundError as error:
        raise NotFound(f"{source} holds no bundle ({error})", fix="check the address", value=source) from error
    except (OSError, ValueError) as error:
        raise ConnectionFailed(
            f"{source} cannot be read ({error})",
            fix="check the address, the rights and the credentials, which may have expired",
            value=source,
        ) from error
