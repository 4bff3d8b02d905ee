"""A bundle travels as its bytes and is unpacked once a machine, in a folder that is named by what is in it."""

from __future__ import annotations

import hashlib
import os
import platform
import shutil
from collections.abc import Callable
from pathlib import Path

from nonneg_core.atomic import begun, remove_abandoned, storage_error
from nonneg_core.cache_folder import cache_folder, locked
from nonneg_core.errors import DigestMismatch

MANIFEST = "manifest.json"  # which lists the digest of every other file
BundleFiles = dict[str, bytes]  # by file name


def packed(folder: Path) -> BundleFiles:
    """Return the files of a bundle."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def digest_of(files: BundleFiles) -> str:
    """Return what names a bundle by its content."""
    return hashlib.sha256(files[MANIFEST]).hexdigest()


def unpacked(digest: str, fetch: Callable[[], BundleFiles]) -> Path:
    """Return the bundle's folder on this machine; fetched by the first process that asks, while others wait."""
    place = cache_folder("bundles") / digest
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with locked(place.with_name(f"{digest}.lock")):
            if not (place / MANIFEST).is_file():
                _unpack(fetch(), place)
            found = hashlib.sha256((place / MANIFEST).read_bytes()).hexdigest()
    except OSError as error:
        raise storage_error(place, error) from error
    if found != digest:
        raise DigestMismatch(
            f"the bundle {place} on {platform.node()} is not the one that the run was started with",
            fix="remove this folder, and give the same command again",
            value=str(place),
        )
    return place


def _unpack(files: BundleFiles, place: Path) -> None:
    folder, handle = begun(place, folder=True)
    try:
        for name, data in files.items():
            (folder / name).write_bytes(data)
        folder.rename(place)
        remove_abandoned(place)
    finally:
        if handle is not None:
            os.close(handle)
        shutil.rmtree(folder, ignore_errors=True)
