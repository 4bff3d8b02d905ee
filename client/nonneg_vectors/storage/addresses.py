"""Where files lie: a path of this machine, or `s3://bucket/folder` and the like, read and written through pyarrow."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import Any

from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, MissingExtra, StorageFailed
from nonneg_core.files.atomic import atomic_write, storage_error
from nonneg_core.files.image_files import ends
from nonneg_core.terminal.installing import extra_hint
from nonneg_vectors.storage.parquet import import_pyarrow

NATIVE = ("s3", "gs", "gcs", "abfs", "abfss")  # what pyarrow reaches by itself
WEB = ("http://", "https://")
AZURE_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://(.*)$")


@dataclass(frozen=True)
class FolderEntry:
    """What a folder holds under one name."""

    name: str
    is_folder: bool
    is_file: bool


@dataclass(frozen=True, slots=True)
class Address:
    """A file or a folder; small when it is pickled, since connections are made where they are used."""

    scheme: str  # empty on this machine
    path: str  # absolute here; with the bucket in front elsewhere

    @classmethod
    def of(cls, text: str) -> Address:
        """Read what was typed; a path of this machine becomes absolute."""
        if text.startswith(WEB):
            raise DataInvalid(f"{text} is a link, not a place", fix="give a folder, a glob or an address as s3://...")
        match = _SCHEME.match(text)
        if match is None:
            return cls("", os.path.abspath(os.path.expanduser(text)))  # noqa: PTH100, PTH111  links stay
        scheme, path = match.groups()
        return cls("", path) if scheme == "file" else cls(scheme, path.rstrip("/"))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.path}" if self.scheme else self.path

    def __truediv__(self, name: str) -> Address:
        return Address(self.scheme, f"{self.path.rstrip('/')}/{name}")

    @property
    def here(self) -> bool:
        """Whether it is a path of this machine."""
        return not self.scheme

    @property
    def name(self) -> str:
        return self.path.rpartition("/")[2]

    @property
    def parent(self) -> Address:
        return Address(self.scheme, self.path.rpartition("/")[0] or "/" * self.here)

    def within(self, root: Address) -> str:
        """Return the path below a root; the whole address where it does not lie below it."""
        base = root.path.rstrip("/") + "/"
        return self.path.removeprefix(base) if self.path.startswith(base) else str(self)

    def kind(self) -> str:
        """Return `file`, `folder` or `nothing`."""
        with reading(self):
            if self.here:
                return _kind(Path(self.path))
            info = self._system.get_file_info(self.path)
        return {2: "file", 3: "folder", 0: "nothing"}.get(int(info.type), "other")

    def entries(self) -> list[FolderEntry]:
        """Return what a folder holds, by name; hidden entries are left out."""
        if self.here:
            with reading(self), os.scandir(self.path) as entries:
                names = sorted((entry.name, entry.is_dir()) for entry in entries if not entry.name.startswith("."))
            return [FolderEntry(name, folder, not folder and ends(Path(self.path, name))) for name, folder in names]
        fs = import_pyarrow_fs()
        with reading(self):
            infos = self._system.get_file_info(fs.FileSelector(self.path))
        kinds = [(info.base_name, info.type) for info in infos if not info.base_name.startswith(".")]
        return [
            FolderEntry(name, kind == fs.FileType.Directory, kind == fs.FileType.File) for name, kind in sorted(kinds)
        ]

    def open(self) -> Any:
        """Return a file to read from at any place."""
        with reading(self):
            return Path(self.path).open("rb") if self.here else self._system.open_input_file(self.path)

    def read(self) -> bytes:
        """Return all bytes of a file."""
        if self.here:
            with reading(self):
                return Path(self.path).read_bytes()
        with reading(self), self._system.open_input_stream(self.path) as stream:
            data: bytes = stream.read()
            return data

    def write(self, data: bytes) -> None:
        """Write a file whole or not at all: an object store shows it when it is closed."""
        if self.here:
            with atomic_write(Path(self.path)) as temporary:
                temporary.write_bytes(data)
            return
        with writing(self), self._system.open_output_stream(self.path) as stream:
            stream.write(data)

    def remove(self) -> None:
        """Remove a file that is there."""
        with writing(self):
            Path(self.path).unlink() if self.here else self._system.delete_file(self.path)

    def remove_folder(self) -> None:
        """Remove a folder and what is in it, if it is there."""
        if self.kind() == "folder":
            with writing(self):
                shutil.rmtree(self.path) if self.here else self._system.delete_dir(self.path)

    @property
    def _system(self) -> Any:
        return filesystem(self.scheme, self.path.partition("/")[0] if self.scheme else "")


def _kind(path: Path) -> str:
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    return "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"


@lru_cache
def filesystem(scheme: str, bucket: str) -> Any:
    """Return what reaches a bucket, as this machine's environment says (keys, region, endpoint)."""
    fs = import_pyarrow_fs()
    address = f"{scheme}://{bucket}"
    if scheme == "az":
        account = os.environ.get(AZURE_ACCOUNT)
        if not account:
            raise ConfigInvalid(f"{address} names no account", fix=f"set {AZURE_ACCOUNT}", field=AZURE_ACCOUNT)
        return fs.AzureFileSystem(account)
    if scheme not in NATIVE:
        return fs.PyFileSystem(fs.FSSpecHandler(_by_fsspec(scheme, address)))
    try:
        return fs.FileSystem.from_uri(address)[0]
    except (OSError, ValueError) as error:
        raise not_reached(address, error) from error


def _by_fsspec(scheme: str, address: str) -> Any:
    try:
        return import_module("fsspec").core.url_to_fs(address)[0]
    except ImportError as error:
        raise MissingExtra(f"{address} needs {error.name or error}", fix=extra_hint("cloud")) from None
    except ValueError as error:
        raise DataInvalid(
            f"{address}: {scheme} is not known ({error})", fix="give a folder, or s3://, gs://, az:// or hf://"
        ) from error


def import_pyarrow_fs() -> Any:
    """Return pyarrow's filesystems; MissingExtra where they are not installed."""
    import_pyarrow()
    from pyarrow import fs

    return fs


@contextmanager
def reading(address: Address) -> Iterator[None]:
    """Turn what a store says into an error of ours; what is not there stays FileNotFoundError for the caller."""
    try:
        yield
    except FileNotFoundError as error:
        raise Absent(f"{address} is not there", fix="check the address", value=str(address)) from error
    except UnicodeDecodeError as error:  # a name that Arrow does not take
        raise DataInvalid(
            f"{address} holds a name that is not UTF-8 ({error.object[: error.end]!r})", fix="rename it"
        ) from error
    except OSError as error:
        if address.here:
            raise DataInvalid(
                f"{address} cannot be read ({error.strerror or _line(error)})", fix="check the path and its permissions"
            ) from error
        raise not_reached(address, error) from error


@contextmanager
def writing(address: Address) -> Iterator[None]:
    """Turn what a store says to a write into StorageFailed."""
    try:
        yield
    except OSError as error:
        if address.here:
            raise storage_error(Path(address.path), error) from error
        raise StorageFailed(
            f"{address} cannot be written ({_line(error)})",
            fix="check bucket, rights and credentials",
            value=str(address),
        ) from error


class Absent(DataInvalid):
    """A file or folder is not there."""


def not_reached(address: object, error: Exception) -> ConnectionFailed:
    """Make the error of a store that does not answer, or is not ours; not an image's own, so a run ends with it."""
    return ConnectionFailed(
        f"{address} cannot be read ({_line(error)})",
        fix="check the address, the rights and the credentials, which may have expired",
        value=str(address),
    )


def _line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0][:300]
