"""A bundle travels as its bytes and is unpacked once a machine, in a folder that is named by what is in it."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

from nonneg_core.atomic import begun, storage_error
from nonneg_core.cache_folder import cache_folder, locked

MANIFEST = "manifest.json"  # which lists the digest of every other file
Packed = dict[str, bytes]  # by file name


def packed(folder: Path) -> Packed:
    """The files of a bundle."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def digest_of(files: Packed) -> str:
    """What names a bundle by its content."""
    return hashlib.sha256(files[MANIFEST]).hexdigest()


def unpacked(digest: str, fetch: Callable[[], Packed]) -> Path:
    """The bundle's folder on this machine; fetched by the first process that asks, while others wait."""
    place = cache_folder("bundles") / digest
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_name(f"{digest}.lock")):
            if not (place / MANIFEST).is_file():
                _unpack(fetch(), place)
    except OSError as error:
        raise storage_error(place, error) from error
    return place


def _unpack(files: Packed, place: Path) -> None:
    folder, handle = begun(place, folder=True)
    try:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        folder.rename(place)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)
