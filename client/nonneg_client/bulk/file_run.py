"""A long embedding run that may be killed: results go to shards, and a second run does what the first did not.

Beside `photos.parquet` lies, while it is being made, the folder `photos.parquet.parts`:

    job.json      what was asked for; a second run must ask for the same. Written first: shards without it are remains
    00000.npz     the vectors of a shard, exact (absent if every image of it failed)
    00000.json    its failures, and how its files looked; written last: a shard without it is done again

A shard is put away when it is full, after some seconds, and when the run is interrupted. At the end `job.json` says
that all is done, the shards become the one file, and the folder is removed, `job.json` first. A run that is killed
before that is finished by the next. What failed is listed in `photos.parquet.failed.jsonl`, what the vectors were made
of in `photos.parquet.origins.jsonl`.

A run that adds to a file begins with shards of those of its vectors that stay.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from nonneg_client.embedder import EmbeddingsBuilder, grouped
from nonneg_client.sources.image_sources import Item
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, DataInvalid, StorageFailed
from nonneg_core.files.atomic import storage_error
from nonneg_core.files.image_files import Stamp, stamp
from nonneg_core.files.one_writer import one_writer
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import JOB, read_job, read_json, write_job, write_json
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import BatchResult, FailureRecord, failures_of, list_failures, reason
from nonneg_vectors.storage.vector_files import (
    Summary,
    VectorFileRecord,
    check_writable,
    files_of,
    load,
    merge,
    record_path,
    save,
    write_record,
)

ADOPTED = 20_000  # vectors of a shard that an earlier file gives

Kind: TypeAlias = Literal["new", "replace", "update", "retry"]


class BulkJob:
    """The folder of shards, held by one process at a time."""

    def __init__(self, out: Path, options: Options, *, root: Path, kind: Kind = "new") -> None:
        check_writable(out)
        self.out = out
        self.folder = parts_of(out)
        self._target = Address.of(str(self.folder))
        self.kind: Kind = kind  # all but "new" keep a file of this name until the next one is whole
        self.adopted = kind in ("new", "replace")  # whether what stays of that file is among the shards
        self._asked = json.loads(json.dumps(asdict(options)))
        self._root = str(root)
        self._complete = False  # every image is done, and the file is being written
        self._stamps: dict[str, Stamp] = {}
        self.done: set[str] = set()
        self.reasons: list[FailureRecord] = []
        self._example: Embeddings | None = None  # no rows of it: model, length and norm that all shards must have
        self._next = 0

    def __enter__(self) -> Self:
        with ExitStack() as opening:
            opening.enter_context(one_writer(self.out))
            if not self.folder.exists():
                self._check_free()
            try:
                self.folder.mkdir(exist_ok=True)
            except OSError as error:
                raise storage_error(self.folder, error) from error
            self._lock = opening.pop_all()
        try:
            if self.kind == "replace":
                (self.folder / JOB).unlink(missing_ok=True)  # an unfinished run is forgotten
            self._resume()
            self._check_free()
        except BaseException as error:
            self.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if not self._next or not self.adopted:  # nothing to go on from: what was asked may be mended and asked again
            shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def _check_free(self) -> None:
        """Raise if a file of this name is there that this run was not asked to replace."""
        if self.out.exists() and self.kind == "new" and not self._complete:
            fix = "choose another name, or pass --update, --retry-failed or --replace"
            raise StorageFailed(f"{self.out} exists", fix=fix)

    def adopt(self, staying: Embeddings, reasons: list[FailureRecord], stamps: Mapping[str, Stamp]) -> None:
        """Begin with vectors, and with failures that are not tried again, of the file that is added to."""
        for start in range(0, len(staying), ADOPTED):
            some = staying[start : start + ADOPTED]
            self._stamps |= {name: stamps[name] for name in some.ids or () if name in stamps}
            self._write_shard(some, [])
        if reasons:
            self._write_shard(None, reasons)
        self.adopted = True
        self._describe()

    def left(self, items: Iterable[Item]) -> Iterator[Item]:
        """Yield what is still to do; an image that is named twice is done once."""
        ids = set(self.done)
        for item in items:
            if item.id not in ids:
                ids.add(item.id)
                if (looks := stamp(item.path)) is not None:
                    self._stamps[item.id] = looks
                yield item

    def write(
        self,
        parts: Iterable[BatchResult],
        *,
        shard_size: int,
        guard: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        """Take results as they come and put them away shard by shard, also when they end with an error.

        held: a context in which nothing interrupts; a shard is put away in one.
        """
        for shard in grouped(parts, shard_size):
            with guard():
                self._put_away(shard)

    def finish(self) -> Summary:
        """Make the one file of all shards, and the list of what failed; killed anywhere, the next run finishes it."""
        list_failures(self.out, self.reasons, self.folder)
        if self._example is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise DataInvalid(
                f"nothing was embedded, so {self.out} was not written; {self._first_reason()}", fix=self._first_fix()
            )
        self._complete = True
        self._describe()
        merged = self.folder / f"merged{self.out.suffix}"
        summary = merge(self._shards(), merged)
        write_record(record_path(merged), VectorFileRecord(self._root, self._asked, self._stamps))
        try:
            for path in (record_path(merged), *files_of(merged)):  # the file itself last
                path.replace(self.out.with_name(self.out.name + path.name.removeprefix(merged.name)))
            (self.folder / JOB).unlink()
        except OSError as error:
            raise storage_error(self.out, error) from error
        shutil.rmtree(self.folder, ignore_errors=True)
        return summary

    def _first_reason(self) -> str:
        return f"{self.reasons[0]['id']}: {self.reasons[0]['message']}" if self.reasons else "no images were given"

    def _first_fix(self) -> str:
        fix = (self.reasons and self.reasons[0]["fix"]) or "name an image, or a folder that has some"
        others = len(self.reasons) - 1
        return f"{fix}; {others} more in {failures_of(self.out)}" if others > 0 else fix

    def _put_away(self, parts: list[BatchResult]) -> None:
        collected = EmbeddingsBuilder("return")
        for part in parts:
            collected.add(part)
        vectors = collected.embeddings() if collected.vectors else None
        self._write_shard(vectors, [reason(failure) for failure in collected.failures])

    def _write_shard(self, vectors: Embeddings | None, reasons: list[FailureRecord]) -> None:
        path = self.folder / f"{self._next:05d}"
        names = () if vectors is None else vectors.ids or ()
        if vectors is not None:
            if self._example is not None:
                self._example.same_form(vectors)
            save(vectors, path.with_suffix(".npz"))
            self._example = vectors[:0]
        stamps = {name: self._stamps[name] for name in names if name in self._stamps}
        write_json(self._target / f"{path.name}.json", {"failed": reasons, "stamps": stamps})
        self.done |= {*names, *(r["id"] for r in reasons)}
        self.reasons += reasons
        self._next += 1

    def _resume(self) -> None:
        job = read_job(self._target)
        if job is None or not job["adopted"]:
            for path in self.folder.iterdir():  # of a run that was killed before it began, or behind its end
                path.unlink()
            self._describe()
            return
        if (options := {**job["asked"], "root": job["root"]}) != {**self._asked, "root": self._root}:
            raise ConfigInvalid(
                f"{self.folder} was begun with other options ({options})",
                fix="run the same command again, or pass --replace to begin again",
            )
        self.adopted = True
        self.kind = job["kind"]
        self._complete = job["complete"]
        for path in self._finished():
            shard = read_json(self._target / path.name)
            self.reasons += shard["failed"]
            self._stamps |= {name: tuple(file_stamp) for name, file_stamp in shard["stamps"].items()}
            self._next = int(path.stem) + 1
        self.done |= {str(r["id"]) for r in self.reasons}
        for vectors in self._shards():
            self.done |= set(vectors.ids or ())
            self._example = vectors[:0]

    def _describe(self) -> None:
        job = {"kind": self.kind, "asked": self._asked, "root": self._root}
        job |= {"adopted": self.adopted, "complete": self._complete}
        write_job(self._target, job)

    def _finished(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.json") if path.stem.isdigit())

    def _shards(self) -> Iterator[Embeddings]:
        for path in self._finished():
            if (vectors := path.with_suffix(".npz")).exists():
                yield load(vectors)


def parts_of(out: Path) -> Path:
    """Return the folder of a file's shards while it is being made."""
    return out.with_name(out.name + ".parts")


def unfinished_options(out: Path) -> dict[str, Any] | None:
    """Return the options of the unfinished run that a file has, if it had begun its work."""
    job = read_job(Address.of(str(parts_of(out))))
    return job["asked"] if job is not None and job["adopted"] else None
