"""A file of vectors as the target of a run: a data set of one machine, which becomes one file at the end.

Beside `photos.parquet` lies, while it is being made, the folder `photos.parquet.parts`:

    job.json      what was asked for; a second run must ask for the same. Written first: shards without it are remains
    00000.npz     the vectors of a shard, exact
    00000.json    its failures, and how its files looked; written last: a shard without it is done again
    merged.*      all of them, while they take the places of the file and its record

A shard is a group, or what of it some seconds or an interruption let come. A run that is killed is finished by the
next. What failed is listed in `photos.parquet.failed.jsonl`, what the vectors were made of in
`photos.parquet.origins.jsonl`. A run that adds to a file leaves that file alone until the end.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeAlias

from nonneg_client.bulk.data_set_run import RunResult
from nonneg_client.bulk.groups import ImageGroup
from nonneg_client.bulk.listing import Sources
from nonneg_client.bulk.run_lock import LockCheck
from nonneg_client.bulk.shard_job import ShardJob
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, DataInvalid, StorageFailed
from nonneg_core.files.atomic import storage_error
from nonneg_core.files.image_files import Stamp, stamp
from nonneg_core.files.one_writer import one_writer
from nonneg_vectors.storage import vector_files
from nonneg_vectors.storage.addresses import Address
from nonneg_vectors.storage.data_set_files import JOB, Shard, read_job, read_json, write_job, write_json
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import FailureRecord, failures_of, list_failures, read_failures

AT_ONCE = 20_000  # vectors of an earlier file that are merged as one shard

Kind: TypeAlias = Literal["new", "replace", "update", "retry"]


class VectorFile:
    """The file, and the folder of its shards."""

    partial = True

    def __init__(
        self,
        out: Path,
        root: Path,
        kind: Kind,
        guard: Callable[[], AbstractContextManager[None]],
        report: Callable[[str], object],
    ) -> None:
        vector_files.check_writable(out)
        self._out, self._root, self._kind = out, root, kind  # all but "new" leave a file there until the end
        self._guard, self._report = guard, report  # nothing interrupts inside of the guard
        self.folder = parts_of(out)
        self.place = Address.of(str(self.folder))
        self._merged = self.folder / f"merged{out.suffix}"
        self._complete = False  # every image is done, and all is merged
        self._stamps: dict[str, Stamp] = {}
        self._done: set[str] = set()
        self._reasons: list[FailureRecord] = []
        self._earlier: Embeddings | None = None  # what stays of the file that is added to
        self._unchanged = False
        self._next = 0

    @contextmanager
    def opened(self, _: Sources, *, replace: bool) -> Iterator[LockCheck]:
        with one_writer(self._out):
            if not self.folder.exists():
                self._check_free()
            try:
                self.folder.mkdir(exist_ok=True)
            except OSError as error:
                raise storage_error(self.folder, error) from error
            try:
                if replace:
                    (self.folder / JOB).unlink(missing_ok=True)  # an unfinished run is forgotten
                self._resume()
                self._check_free()
                yield lambda: None
            finally:
                if not (self._next or self._complete):  # what was asked may be mended and asked again
                    shutil.rmtree(self.folder, ignore_errors=True)

    def _check_free(self) -> None:
        """Raise if a file of this name is there that this run was not asked to replace."""
        if self._out.exists() and self._kind == "new" and not self._complete:
            fix = "choose another name, or pass --update, --retry-failed or --replace"
            raise StorageFailed(f"{self._out} exists", fix=fix)

    def _resume(self) -> None:
        job = read_job(self.place)
        if job is None:
            for path in self.folder.iterdir():  # of a run that was killed before it began, or behind its end
                path.unlink()
            return
        self._kind, self._complete = job["kind"], job["complete"]
        for path in self._finished():
            shard = read_json(self.place / path.name)
            self._reasons += shard["failed"]
            self._stamps |= {name: tuple(file_stamp) for name, file_stamp in shard["stamps"].items()}
            self._done |= {
                *(vector_files.load(path.with_suffix(".npz")).ids or ()),
                *(r["id"] for r in shard["failed"]),
            }
            self._next = int(path.stem) + 1

    def _finished(self) -> list[Path]:
        return sorted(path for path in self.folder.glob("*.json") if path.stem.isdigit())

    def settings(self, _: Sources) -> dict[str, Any]:
        return {"root": str(self._root), "kind": self._kind, "complete": self._complete}

    def left(self, image_groups: list[ImageGroup], sources: Sources, job: ShardJob) -> list[ImageGroup]:
        """Return what neither an earlier file nor an earlier run has; of a file's failures only what is named."""
        if self._complete:
            return []
        done = set(self._done)
        if done:
            self._report(f"{self._out}: going on after {len(done)} images")
        now = {item.id: item.path for group in image_groups for item in group.items()}
        if self._kind in ("update", "retry"):
            earlier = vector_files.load(self._out)
            job.empty().same_form(earlier)
            done |= self._retried(earlier, now) if self._kind == "retry" else self._updated(earlier, now, sources.names)
        looks = {own: stamp(path) for own, path in now.items() if own not in done}
        self._stamps |= {own: look for own, look in looks.items() if look is not None}
        return [left for group in image_groups if (left := group.without(done)).ids]

    def _retried(self, earlier: Embeddings, now: dict[str, Path | None]) -> set[str]:
        """Keep all vectors, and the failures that are not named now; return what is not tried."""
        failed = {str(r["id"]): r for r in read_failures(self._out)}
        if not failed and not self._done:
            raise DataInvalid(f"nothing is listed as failed for {self._out}", fix="there is nothing to do")
        self._keep(earlier, set())
        self._reasons += [r for own, r in failed.items() if own not in now and own not in self._done]
        return now.keys() - failed.keys()

    def _updated(self, earlier: Embeddings, now: dict[str, Path | None], names: Sequence[str]) -> set[str]:
        """Drop what is gone from the named folders or has changed; return what stays."""
        from nonneg_client.sources.rooted_images import covered

        if earlier.ids is None:
            raise DataInvalid(f"{self._out} has no ids to find its images by", fix="begin again with --replace")
        before, within = vector_files.read_record(self._out), covered(names, self._root)
        stamps = before.stamps if before else {}
        gone = {own for own in earlier.ids if own not in now and within(own)}
        changed = {own for own in earlier.ids if own in now and own in stamps and stamp(now[own]) != stamps[own]}
        new = len(now.keys() - set(earlier.ids))
        staying = set(earlier.ids) - gone - changed
        self._report(f"{self._out}: {new} new, {len(changed)} changed, {len(gone)} gone, {len(staying)} unchanged")
        self._unchanged = not (new or changed or gone)
        self._keep(earlier, gone | changed)
        return staying

    def _keep(self, earlier: Embeddings, dropped: set[str]) -> None:
        before = vector_files.read_record(self._out)
        self._earlier = earlier
        if dropped:
            self._earlier = earlier[[i for i, own in enumerate(earlier.ids or ()) if own not in dropped]]
        if before is not None:
            self._stamps = {own: s for own, s in before.stamps.items() if own not in dropped} | self._stamps

    def finished(self, _: str) -> None:
        return None  # what is done is not listed among what is left

    def write(self, vectors: Embeddings, reasons: Sequence[FailureRecord], described: Shard) -> Shard:
        path = self.folder / f"{self._next:05d}"
        ids = vectors.ids or ()
        with self._guard():
            vector_files.save(vectors, path.with_suffix(".npz"))
            stamps = {own: self._stamps[own] for own in ids if own in self._stamps}
            write_json(self.place / f"{path.name}.json", {"failed": reasons, "stamps": stamps})
            self._done |= {*ids, *(r["id"] for r in reasons)}
            self._reasons += reasons
            self._next += 1
        return replace(described, name=path.name)

    def remains(self) -> str | None:
        return f"{len(self._done)} kept" if self._done else None

    def finish(self, _: Sources, job: ShardJob, __: list[Shard]) -> RunResult:
        """Make the one file of all shards, and the list of what failed; killed anywhere, the next run finishes it."""
        summary = None
        if not (self._unchanged or self._complete):
            summary = self._merge(job)
        if self._complete:
            self._put_in_place()
        failed = read_failures(self._out)
        return RunResult(
            str(summary or vector_files.Summary.of(vector_files.load(self._out))),
            len(failed),
            failed,
            failures_of(self._out),
        )

    def _merge(self, job: ShardJob) -> vector_files.Summary:
        list_failures(self._out, self._reasons, self.folder)
        shards = filter(len, self._shards())
        if (first := next(shards, None)) is None:
            shutil.rmtree(self.folder, ignore_errors=True)
            message, fix = self._first_reason()
            raise DataInvalid(f"nothing was embedded, so {self._out} was not written; {message}", fix=fix)
        summary = vector_files.merge(chain([first], shards), self._merged)
        record = vector_files.VectorFileRecord(str(self._root), asdict(job.options), self._stamps)
        vector_files.write_record(vector_files.record_path(self._merged), record)
        write_job(self.place, {**(read_job(self.place) or {}), "complete": True})
        self._complete = True
        return summary

    def _shards(self) -> Iterator[Embeddings]:
        if self._earlier is not None:
            yield from (self._earlier[i : i + AT_ONCE] for i in range(0, len(self._earlier), AT_ONCE))
        yield from (vector_files.load(path.with_suffix(".npz")) for path in self._finished())

    def _put_in_place(self) -> None:
        try:
            for path in (
                vector_files.record_path(self._merged),
                *vector_files.files_of(self._merged),
            ):  # the file itself last
                if path.exists():
                    path.replace(self._out.with_name(self._out.name + path.name.removeprefix(self._merged.name)))
            (self.folder / JOB).unlink()
        except OSError as error:
            raise storage_error(self._out, error) from error
        shutil.rmtree(self.folder, ignore_errors=True)

    def _first_reason(self) -> tuple[str, str]:
        """Return the message and the fix of the first failure."""
        if not self._reasons:
            return "no images were given", "name an image, or a folder that has some"
        first, others = self._reasons[0], len(self._reasons) - 1
        more = f"; {others} more in {failures_of(self._out)}" if others else ""
        return f"{first['id']}: {first['message']}", f"{first['fix'] or 'see the list of failures'}{more}"


def parts_of(out: Path) -> Path:
    """Return the folder of a file's shards while it is being made."""
    return out.with_name(out.name + ".parts")


def as_before(out: Path, options: Options) -> Options:
    """Return what the file's vectors were asked for as; an option that says otherwise is refused."""
    before = _options_of(out)
    normalize = before.pop("normalize")
    for name, value in before.items():
        option = getattr(options, name)
        if option is None or value is None:
            before[name] = value if option is None else option
        elif option != value:
            flag = name.replace("_", "-")
            raise ConfigInvalid(
                f"{out} was made with --{flag} {value}, not {option}",
                fix=f"leave --{flag} out, or begin again with --replace",
                field=name,
                value=option,
            )
    return replace(options, normalize=normalize, **before)


def _options_of(out: Path) -> dict[str, Any]:
    """Return the options of a file's unfinished run, else of the file."""
    job = read_job(Address.of(str(parts_of(out))))
    if job is not None:
        return {field.name: job[field.name] for field in fields(Options)}
    if not out.exists():
        raise DataInvalid(f"{out} is not there to be added to", fix="embed it first, without this option")
    form, origins = Embeddings.load(out)[:0], vector_files.read_record(out)
    before = {"top_k": None, "model": None} | (origins.options if origins is not None else {})
    return {**before, "dimensions": form.dimensions, "normalize": form.normalized}
