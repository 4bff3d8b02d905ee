"""Embeddings as files: one module a format, each with its writer and its reader; the suffix chooses.

.npz          exact, small, no extra package; scipy.sparse.load_npz reads it too
.safetensors  exact, mapped into memory when read: for what does not fit
.parquet      u16 indices, f16 values, zstd: smallest, for bulk work and other tools (extra `scale`)
.packed       about a byte a value: coded gaps, values in four bits; for vectors that are stored cut
.npy          dense f32, with a .json file beside it: for tools that read nothing else
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from nonneg_client.csr import check
from nonneg_core.errors import ConfigInvalid, DataInvalid

__all__ = ["FORMATS", "check_writable", "files_of", "load", "save"]

if TYPE_CHECKING:
    from types import ModuleType

    from nonneg_client.embeddings import Embeddings

FORMATS = {
    ".npz": "npz",
    ".safetensors": "safetensors",
    ".parquet": "parquet",
    ".packed": "packed",
    ".npy": "npy",
}


def save(embeddings: Embeddings, path: str | os.PathLike[str]) -> None:
    """Write embeddings in the form that the file's suffix names; the file is there whole or not at all."""
    module_for(Path(path)).save(embeddings, Path(path))


def load(path: str | os.PathLike[str]) -> Embeddings:
    """Read embeddings from a file that `save` wrote, or from the shards of a data set."""
    if "://" in os.fspath(path) or Path(path).is_dir():
        from nonneg_client.embeddings import Embeddings

        return Embeddings.concatenate(list(Embeddings.scan(path)))
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataInvalid(
            f"{path} is not a file of vectors",
            fix=f"give one that nonneg embed wrote: {', '.join(FORMATS)}",
        )
    module = module_for(path)
    if not path.is_file():
        raise DataInvalid(f"{path} is not there or no file", fix="check the path", value=str(path))
    try:
        embeddings: Embeddings = module.load(path)
        check(embeddings.rows, embeddings.dimensions)
    except OSError as error:
        raise DataInvalid(f"{path} cannot be read ({error.strerror or error})", fix="check the file") from error
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise DataInvalid(
            f"{path} holds no embeddings ({type(error).__name__}: {error})", fix="give a file that nonneg wrote"
        ) from error
    return embeddings


def check_writable(path: Path) -> None:
    """Raise if the suffix names no form, or one whose package is missing: before the work, not after it."""
    if module_for(path).__name__.endswith(".parquet"):
        from nonneg_client.storage.parquet import import_pyarrow

        import_pyarrow()


def files_of(path: Path) -> list[Path]:
    """Return the files in which embeddings of this name lie, the named one last."""
    beside = path.with_name(path.name + ".json")
    return [beside, path] if path.suffix.lower() == ".npy" else [path]


def module_for(path: Path) -> ModuleType:
    """Return the module that writes and reads files of this suffix."""
    name = FORMATS.get(path.suffix.lower())
    if name is None:
        raise ConfigInvalid(
            f"{path} has no suffix that names a form of embeddings", fix=f"call it {', '.join(FORMATS)}", field="path"
        )
    return import_module(f"{__name__}.{name}")


def __dir__() -> list[str]:
    return sorted(__all__)
