"""Embeddings as files: the suffix chooses the form; many shards become one file; and what a file was made of stands beside it.

.npz          exact, small, no extra package; scipy.sparse.load_npz reads it too
.safetensors  exact, mapped into memory when read: for what does not fit
.parquet      u16 indices, f16 values, zstd: smallest, for bulk work and other tools (extra `scale`)
.packed       about a byte a value: coded gaps, values in four bits; for vectors that are stored cut
.npy          dense f32, with a .json file beside it: for tools that read nothing else
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nonneg_client.sources.rooted_images import Stamp
from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.csr import check
from nonneg_vectors.storage.embeddings import Embeddings

if TYPE_CHECKING:
    from types import ModuleType

    from nonneg_vectors.storage.embeddings import Embeddings

__all__ = ["FORMATS", "check_writable", "files_of", "load", "save"]


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
        from nonneg_vectors.storage.embeddings import Embeddings

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
        from nonneg_vectors.storage.parquet import import_pyarrow

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


# Many shards become one file: to Parquet as they come, to the other forms all at once.


@dataclass(frozen=True)
class Summary:
    """What a file of vectors holds."""

    vectors: int
    entries: int
    form: Embeddings  # without rows

    @classmethod
    def of(cls, embeddings: Embeddings) -> Summary:
        return cls(len(embeddings), len(embeddings.indices), embeddings[:0])

    def __str__(self) -> str:
        return (
            f"{self.vectors} vectors of {self.form.dimensions} dimensions, {self.entries / max(1, self.vectors):.0f} "
            f"active on average, model {self.form.model} ({self.form.fingerprint[:8]})"
        )


def merge(shards: Iterable[Embeddings], out: Path) -> Summary:
    """Write shards, at least one, to one file."""
    iterator = iter(shards)
    first = next(iterator)
    if out.suffix.lower() != ".parquet":
        whole = Embeddings.concatenate([first, *iterator])
        save(whole, out)
        return Summary.of(whole)
    vectors = entries = 0
    with atomic_write(out) as temporary, parquet.Writer(temporary) as writer:
        for shard in chain([first], iterator):
            writer.write(shard)
            vectors += len(shard)
            entries += len(shard.indices)
    return Summary(vectors, entries, first[:0])


# What a file of vectors was made of, beside it: the root of its images, what was asked, and how each file looked
# then.
#
# `photos.npz.origins.jsonl`: the first line is {"root": ..., "asked": {...}}, each other [id, bytes, changed].


@dataclass
class VectorFileRecord:
    """Where vectors came from."""

    root: str  # absolute; ids are paths within it
    asked: dict[str, Any]  # dimensions, top_k, normalize, model
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by id; without those that are not files


def record_path(out: Path) -> Path:
    """Return where the origins of a file of vectors are kept."""
    return out.with_name(out.name + ".origins.jsonl")


def write_record(path: Path, origins: VectorFileRecord) -> None:
    """Write them all."""
    lines = [{"root": origins.root, "asked": origins.asked}, *([name, *s] for name, s in origins.stamps.items())]
    with atomic_write(path) as temporary, temporary.open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)


def read_record(out: Path) -> VectorFileRecord | None:
    """Return the origins of a file of vectors, if they were kept."""
    path = record_path(out)
    if not path.exists():
        return None
    try:
        with path.open(encoding="utf-8") as file:
            head = json.loads(next(file))
            stamps = {name: (size, changed) for name, size, changed in map(json.loads, file)}
        return VectorFileRecord(head["root"], head["asked"], stamps)
    except (OSError, ValueError, KeyError, TypeError, StopIteration) as error:
        raise DataInvalid(f"{path} is damaged ({error})", fix="remove it, or embed again with --replace") from error
