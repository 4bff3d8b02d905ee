"""What `nonneg index` adds to an index, replaces in it and removes, and how many images of each kind there were."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import click
from PIL.Image import Image

from nonneg_client.commands.embedder_options import EmbedderOptions
from nonneg_client.embedder import Embedder, EmbeddingProgress, EmbeddingsBuilder, grouped
from nonneg_client.model_of_vectors import Index
from nonneg_client.sources.image_sources import Item
from nonneg_client.sources.rooted_images import is_broken, kept_root, read_broken, root_of, rooted, write_broken
from nonneg_client.wire.protocol import Options
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, FingerprintMismatch
from nonneg_core.files.image_files import Stamp, find_passed_over, identity, place_of, stamp
from nonneg_core.files.one_writer import one_writer
from nonneg_core.process.long_runs import Interrupted, Interrupts
from nonneg_core.terminal.tables import printable
from nonneg_vectors.curation.photos import attributes, is_measured, measure_all, measure_decoded, measures
from nonneg_vectors.search.attributes import Attributes, read_attributes
from nonneg_vectors.search.first_stage import import_faiss
from nonneg_vectors.search.index import describe
from nonneg_vectors.search.local_engine import LocalEngine, describe_again
from nonneg_vectors.search.vector_engine import Description, Payload
from nonneg_vectors.storage.embeddings import Embeddings
from nonneg_vectors.storage.results import BatchResult
from nonneg_vectors.storage.vector_files import read_record

AT_ONCE = 1000  # images added to the index


@contextmanager
def begin(
    out: Path, images: list[str], vectors: list[str], root: Path | None = None, attributes: Path | None = None
) -> "Iterator[IndexUpdate]":
    """Give what changes an index, and keep other processes from changing it while the block runs."""
    import_faiss()  # what is missing is told before anything is embedded
    with one_writer(out):
        yield _as_it_is(out, images, vectors, root, attributes)


def _as_it_is(
    out: Path, images: list[str], vectors: list[str], root: Path | None, attributes: Path | None
) -> "IndexUpdate":
    """Return the index as it is, or is going to be: its root, what it holds, and what is said about its images."""
    known: Mapping[str, Payload] = {}
    description: Description | None = None
    if (out / "index.json").exists():
        with Index.open(out) as opened:
            known, description = opened.engine.payloads(), opened.description
    if root is not None:
        place = root.resolve()
    elif description is not None and description.root:
        place = kept_root(description.root, images, out) if images else Path(description.root)
    elif images:
        place = root_of(images)
    else:
        origins = next(filter(None, (read_record(Path(name)) for name in vectors)), None)
        place = root_of([]) if origins is None else Path(origins.root)
    table = Attributes() if attributes is None else read_attributes(attributes, place)
    return IndexUpdate(out, place, known, description, table)


@dataclass(frozen=True)
class OtherIndex:
    """What an index of another model takes over from one: everything but its vectors."""

    photos: tuple[str, ...]  # those that are still there
    root: Path
    keep: int | None
    attributes: Attributes

    @classmethod
    def read(cls, folder: Path) -> "OtherIndex":
        """Read an index, and say which of its images are gone."""
        with Index.open(folder) as opened:
            payloads, description = opened.engine.payloads(), opened.description
        root, kinds = Path(description.root), description.fields
        photos = {name: str(root / name) if _is_path(name) else name for name in payloads}
        left = {name: place for name, place in photos.items() if not _is_path(name) or Path(place).is_file()}
        if gone := [name for name in photos if name not in left]:
            click.echo(
                f"{folder}: {len(gone)} of {len(photos)} images are gone, such as {printable(gone[0])}", err=True
            )
        declared = {name: {k: v for k, v in payloads[name].items() if k in kinds} for name in left}
        return cls(tuple(left.values()), root, description.kept, Attributes(kinds, declared, str(folder)))


@dataclass
class IndexUpdate:
    """What goes into one index, and how many of what kind."""

    out: Path
    root: Path
    known: Mapping[str, Payload]
    description: Description | None  # of the index, if there is one
    attributes: Attributes
    names: set[str] = field(default_factory=set)
    new: int = 0
    changed: int = 0
    failed: int = 0
    broken: dict[str, Stamp] = field(default_factory=dict)  # images that could not be read, now or before
    not_photos: dict[str, int] = field(default_factory=dict)  # RAW files and videos, by ending
    passed_over: int = 0  # of these, those that are the same as before
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)  # what the pixels of each image say
    top_k: int | None = None  # values that are stored of each vector

    def add_files(self, names: list[str], dimensions: int | None, keep: int | None) -> None:
        """Put files of vectors into the index."""
        self._as_its_first(dimensions, keep)
        for name in names:
            embeddings, origins = Embeddings.load(name), read_record(Path(name))
            if dimensions is not None or self.top_k is not None:
                embeddings = embeddings.shorten(dimensions, self.top_k)
            ids = embeddings.ids or ()
            stamps = origins.stamps if origins else {}
            if origins is not None:
                ids = tuple(identity(Path(place_of(n, origins.root)), self.root) if _is_path(n) else n for n in ids)
            looks = [stamps.get(name) for name in embeddings.ids or ()]
            payloads = [self.payload(name, file_stamp) for name, file_stamp in zip(ids, looks, strict=True)]
            with self.opened(embeddings) as index:
                index.add(embeddings.named(ids) if ids else embeddings, payloads)
            fresh = set(ids) - self.known.keys() - self.names
            self.new += len(fresh)
            self.changed += len(set(ids) - fresh)
            self.names |= set(ids)

    def add_images(
        self,
        names: list[str],
        dimensions: int | None,
        keep: int | None,
        model: str | None,
        quiet: bool,
        through: EmbedderOptions,
        *,
        retry: bool = False,
    ) -> None:
        """Embed what is new or changed and put it into the index."""
        self._as_its_first(dimensions, keep)
        client, model = through.for_index(self.description, model)
        with client:
            model = self._model_of(client, model)
            self._add(client, names, Options(dimensions, self.top_k, model=model), quiet, retry=retry)

    def _add(self, client: Embedder, names: list[str], options: Options, quiet: bool, *, retry: bool) -> None:
        items = {item.id: item for item in rooted(names, self.root)}
        for folder in {Path(name).expanduser() for name in names if Path(name).expanduser().is_dir()}:
            self.not_photos |= find_passed_over(folder)
        payloads = {name: self.payload(name, stamp(item.path)) for name, item in items.items()}
        differing = [item for name, item in items.items() if _differs(self.known.get(name), payloads[name])]
        before = {} if retry else read_broken(self.out)
        self.broken = {item.id: before[item.id] for item in differing if before.get(item.id, 0) == stamp(item.path)}
        self.passed_over = len(self.broken)
        left = [self._inspected(item) for item in differing if item.id not in self.broken]
        embedded = {item.id for item in differing}
        same = {name: payloads[name] for name in items if name not in embedded}
        self._measure([items[name] for name in same if not is_measured(self.known[name])], quiet)
        updates = {name: {**measures(self.known[name]), **self.measured.get(name, {}), **p} for name, p in same.items()}
        self._describe_again({name: p for name, p in updates.items() if p != self.known[name]})
        with EmbeddingProgress(len(left), False if quiet else None, lines=True) as watch:
            length = options.dimensions if self.description is None else self.description.dimensions
            parts = client.stream(left, replace(options, dimensions=length))
            self._put(watch.over(parts), payloads, {item.id: stamp(item.path) for item in left})
        self.names |= items.keys()

    def payload(self, name: str, looks: Stamp | None) -> dict[str, Any]:
        """Return what is kept beside a vector: its folder, by what a change of the file shows, and its attributes."""
        stamped = {} if looks is None else {"bytes": looks[0], "changed": looks[1]}
        folder = Path(self.root, name).parent.name if _is_path(name) else ""
        return {"folder": folder, **stamped, **self.attributes.payloads.get(name, {})}

    def opened(self, like: Embeddings) -> Index:
        description = replace(describe(like), root=str(self.root), fields=self.attributes.kinds, kept=self.top_k)
        return Index.open(self.out, like=description)

    def tell(self, *, prune: bool) -> None:
        """Remove what is not to be kept, and say what the index holds."""
        describe_again(self.out, str(self.root), self.attributes.kinds)
        for doubt in self.attributes.doubts:
            click.echo(f"Warning: {doubt}", err=True)
        if lost := self.attributes.unmatched(self.known.keys() | self.names):
            click.echo(f"Warning: {lost}: paths are within {self.root}", err=True)
        with Index.open(self.out) as index:
            others = [name for name in index.engine.payloads() if name not in self.names]
            gone = others if prune else [name for name in others if self._is_gone(name)]
            if prune:
                index.delete(gone)
            description, same = index.description, len(self.names) - self.new - self.changed - self.failed
            same -= self.passed_over
            counts = [f"{self.new} new", f"{self.changed} changed", f"{same} unchanged"]
            counts += [f"{self.failed} failed"] * bool(self.failed)
            counts += [f"{self.passed_over} unreadable as before (--retry-failed)"] * bool(self.passed_over)
            counts += [f"{len(gone)} forgotten" if prune else f"{len(gone)} gone: --prune"] * bool(gone)
            counts += [f"{count} .{ending} passed over" for ending, count in self.not_photos.items()]
            click.echo(
                f"{self.out}: {len(index)} images, {description.dimensions} dimensions, "
                + (f"{description.kept} values kept of each, " if description.kept else "")
                + f"model {printable(description.model)} "
                f"({description.fingerprint[:8]}); {', '.join(counts)}"
            )

    def _is_gone(self, name: str) -> bool:
        """Return whether a photo was a file, and its folder is still there without it."""
        place = Path(place_of(name, str(self.root)))
        return _is_path(name) and self.root.is_dir() and not place.exists()

    def _as_its_first(self, dimensions: int | None, keep: int | None) -> None:
        """Refuse another length or cut than that of the index's first vectors: all of an index are alike."""
        self.top_k = keep
        if self.description is None:
            return
        self.top_k = self.description.kept
        length, cut = self.description.dimensions, self.description.kept
        if dimensions not in (None, length):
            raise ConfigInvalid(
                f"{self.out} holds vectors of {length} dimensions, not of {dimensions}",
                fix="leave --dimensions out, or make another index with --out",
                field="dimensions",
                value=dimensions,
            )
        if keep not in (None, cut):
            raise ConfigInvalid(
                f"{self.out} keeps {'all values' if cut is None else f'{cut} values'} of each vector, not {keep}",
                fix="leave --keep out, or make another index with --out",
                field="keep",
                value=keep,
            )

    def _model_of(self, client: Embedder, name: str | None) -> str | None:
        """Return the index's own model where none is named; refuse another. A server may not be needed: it is tried."""
        if self.description is None:
            return name
        try:
            if name is None:
                with suppress(FingerprintMismatch):
                    client.model(self.description.pinned)
                    return self.description.pinned
            model = client.model(name)
        except ConnectionFailed:
            return name
        form = Embeddings.from_rows(
            [],
            dimensions=self.description.dimensions,
            fingerprint=self.description.fingerprint,
            model=self.description.model,
        )
        form.same_model(replace(form, fingerprint=model.fingerprint, model=model.name))
        return name

    def _describe_again(self, payloads: Mapping[str, Payload]) -> None:
        """Keep the vectors of images that are the same, and replace what is said about them."""
        if not payloads:
            return
        engine = LocalEngine(self.out)
        engine.describe_photos(payloads)
        engine.close()

    def remember_broken(self) -> None:
        """Keep which images could not be read."""
        elsewhere = {name: looks for name, looks in read_broken(self.out).items() if name not in self.names}
        write_broken(self.out, elsewhere | self.broken)

    def _put(
        self, parts: Iterable[BatchResult], payloads: Mapping[str, Payload], stamps: Mapping[str, Stamp | None]
    ) -> None:
        """Put vectors into the index as they come, also when they end with an error."""
        with Interrupts() as interrupts, ExitStack() as stack:
            index: Index | None = None
            try:
                for some in grouped(parts, AT_ONCE):
                    with interrupts.deferred():
                        collected = EmbeddingsBuilder("return")
                        for part in some:
                            collected.add(part)
                        for failure in collected.failures:
                            click.echo(printable(f"failed {failure.id}: {failure.error}"), err=True)
                            if is_broken(failure.error) and (looks := stamps.get(failure.id)) is not None:
                                self.broken[failure.id] = looks
                        self.failed += len(collected.failures)
                        if collected.vectors:
                            embeddings = collected.embeddings()
                            index = index or stack.enter_context(self.opened(embeddings))
                            entries = [{**self.measured.pop(n, {}), **payloads[n]} for n in embeddings.ids or ()]
                            index.add(embeddings, entries)
                            self._count(embeddings.ids or ())
            except Interrupted as interrupted:
                done = self.new + self.changed
                click.echo(f"{interrupted}: {done} images added to {self.out}; the same command goes on", err=True)
                raise SystemExit(interrupted.exit_code) from None

    def _inspected(self, item: Item) -> Item:
        """Return the image with its pixels measured when it is decoded, or sent."""

        def inspect(data: bytes, picture: Image) -> None:
            self.measured[item.id] = attributes(measure_decoded(data, picture))

        return replace(item, inspect=inspect)

    def _measure(self, images: list[Item], quiet: bool) -> None:
        """Read the images of an index that was made without measuring them, or of a file of vectors."""
        photos = measure_all([item.load for item in images], shown=False if quiet else None)
        self.measured |= {item.id: attributes(p) for item, p in zip(images, photos, strict=True) if p is not None}

    def _count(self, names: Iterable[str]) -> None:
        for name in names:
            self.new += name not in self.known
            self.changed += name in self.known


def _differs(known: Payload | None, payload: Payload) -> bool:
    """Return whether an image has to be embedded: unknown, or its file changed since."""
    if known is None:
        return True
    if "changed" not in known or "changed" not in payload:  # of a file of vectors that does not say, or not a file
        return False
    return any(known[name] != payload[name] for name in ("bytes", "changed"))


def _is_path(name: str) -> bool:
    return not name.startswith(("http://", "https://"))
