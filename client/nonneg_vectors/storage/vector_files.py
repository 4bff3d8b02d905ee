"""Embeddings as files: the suffix chooses the form; shards become one file; a record says what it was made of.

.npz          exact, small, no extra package; scipy.sparse.load_npz reads it too
.safetensors  exact, mapped into memory when read: for what does not fit
.parquet      u16 indices, f16 values, zstd: smallest, for bulk work and other tools (extra `scale`)
.packed       about a byte a value: coded gaps, values in four bits; for vectors that are stored cut
.npy          dense f32, with a .json file beside it: for tools that read nothing else
"""

from __future__ import annotations

import json
import os
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.files.image_files import Stamp
from nonneg_core.terminal.tables import printable
from nonneg_vectors.storage import parquet
from nonneg_vectors.storage.csr import check
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.safetensors_files import load_packed, load_safetensors, save_packed, save_safetensors

Save: TypeAlias = Callable[[Embeddings, Path], None]
Load: TypeAlias = Callable[[Path], Embeddings]


# NumPy's own files: .npz as scipy lays out sparse matrices, exact and small; .npy dense, beside a JSON file.


def save_npz(embeddings: Embeddings, path: Path) -> None:
    """Write them; without pickle, so that reading is safe."""
    described: dict[str, Any] = {
        "format": np.bytes_("csr"),  # this and the next four are what scipy.sparse.load_npz looks for
        "shape": np.array([len(embeddings), embeddings.dimensions]),
        "indptr": embeddings.indptr,
        "indices": embeddings.indices,
        "data": embeddings.values,
        "fingerprint": np.array(embeddings.fingerprint),
        "model": np.array(embeddings.model),
        "normalized": np.array(embeddings.normalized),
    }
    if embeddings.ids is not None:
        described["ids"] = np.array(embeddings.ids, dtype=np.str_)
    with atomic_write(path) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **described)


def load_npz(path: Path) -> Embeddings:
    """Read what `save` wrote."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return _from_archive(archive)
    except (zipfile.BadZipFile, zlib.error, AttributeError) as error:
        raise DataInvalid(f"{path} is damaged or no .npz ({error})", fix="write it again") from error


def _from_archive(archive: Any) -> Embeddings:
    return Embeddings(
        indptr=archive["indptr"].astype(np.int64),
        indices=archive["indices"].astype(np.int32),
        values=archive["data"].astype(np.float32),
        dimensions=int(archive["shape"][1]),
        fingerprint=str(archive["fingerprint"]),
        model=str(archive["model"]),
        normalized=bool(archive["normalized"]),
        ids=tuple(archive["ids"].tolist()) if "ids" in archive else None,
    )


# A plain dense array, with what an array cannot say in a JSON file beside it.

ROWS = 4096  # at a time: a dense array may be larger than memory


def save_npy(embeddings: Embeddings, path: Path) -> None:
    """Write the array and its description."""
    shape = (len(embeddings), embeddings.dimensions)
    with atomic_write(path) as temporary:
        if len(embeddings):
            array = np.lib.format.open_memmap(temporary, mode="w+", dtype=np.float32, shape=shape)
            for start in range(0, len(embeddings), ROWS):
                array[start : start + ROWS] = embeddings[start : start + ROWS].numpy()
            array.flush()
            del array
        else:
            with temporary.open("wb") as file:
                np.save(file, np.zeros(shape, np.float32))
        with atomic_write(beside(path)) as description:
            description.write_text(json.dumps(_describe(embeddings), ensure_ascii=False), encoding="utf-8")


def load_npy(path: Path) -> Embeddings:
    """Read what `save` wrote, block by block."""
    described = json.loads(beside(path).read_text(encoding="utf-8"))
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    ids = described.pop("ids")
    parts = [
        Embeddings.from_dense(array[start : start + ROWS], **described) for start in range(0, max(1, len(array)), ROWS)
    ]
    whole = Embeddings.concatenate(parts)
    return whole.named(None if ids is None else tuple(ids))


def beside(path: Path) -> Path:
    """Return the description's place."""
    return path.with_name(path.name + ".json")


def _describe(embeddings: Embeddings) -> dict[str, object]:
    return {
        "fingerprint": embeddings.fingerprint,
        "model": embeddings.model,
        "normalized": embeddings.normalized,
        "ids": embeddings.ids,
    }


# The forms by their suffix.

FORMATS: dict[str, tuple[Save, Load]] = {
    ".npz": (save_npz, load_npz),
    ".safetensors": (save_safetensors, load_safetensors),
    ".parquet": (parquet.save, parquet.load),
    ".packed": (save_packed, load_packed),
    ".npy": (save_npy, load_npy),
}


def save(embeddings: Embeddings, path: str | os.PathLike[str]) -> None:
    """Write embeddings in the form that the file's suffix names; the file is there whole or not at all."""
    write, _ = format_of(Path(path))
    write(embeddings, Path(path))


def load(path: str | os.PathLike[str]) -> Embeddings:
    """Read embeddings from a file that `save` wrote, or from the shards of a data set."""
    if "://" in os.fspath(path) or Path(path).is_dir():
        return Embeddings.concatenate(list(Embeddings.scan(path)))
    path = Path(path)
    if path.suffix.lower() not in FORMATS:
        raise DataInvalid(
            f"{path} is not a file of vectors",
            fix=f"give one that nonneg embed wrote: {', '.join(FORMATS)}",
        )
    _, read = format_of(path)
    if not path.is_file():
        raise DataInvalid(f"{path} is not there or no file", fix="check the path", value=str(path))
    try:
        embeddings = read(path)
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
    write, _ = format_of(path)
    if write is parquet.save:
        parquet.import_pyarrow()


def files_of(path: Path) -> list[Path]:
    """Return the files in which embeddings of this name lie, the named one last."""
    beside = path.with_name(path.name + ".json")
    return [beside, path] if path.suffix.lower() == ".npy" else [path]


def format_of(path: Path) -> tuple[Save, Load]:
    """Return what writes and what reads files of this suffix."""
    functions = FORMATS.get(path.suffix.lower())
    if functions is None:
        raise ConfigInvalid(
            f"{path} has no suffix that names a form of embeddings", fix=f"call it {', '.join(FORMATS)}", field="path"
        )
    return functions


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
            f"active on average, model {printable(self.form.model)} ({self.form.fingerprint[:8]})"
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
    options: dict[str, Any]  # dimensions, top_k, normalize, model
    stamps: dict[str, Stamp] = field(default_factory=dict)  # by id; without those that are not files


def record_path(out: Path) -> Path:
    """Return where the origins of a file of vectors are kept."""
    return out.with_name(out.name + ".origins.jsonl")


def write_record(path: Path, origins: VectorFileRecord) -> None:
    """Write them all."""
    lines = [{"root": origins.root, "asked": origins.options}, *([name, *s] for name, s in origins.stamps.items())]
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
