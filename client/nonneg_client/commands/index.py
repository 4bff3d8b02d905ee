"""`nonneg index`: images or files of vectors -> an index; what has not changed is not embedded again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.embedder_options import embeds, served_model
from nonneg_client.commands.index_bulk import for_engines

if TYPE_CHECKING:
    from PIL.Image import Image

    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.results import BatchResult
    from nonneg_client.search.attributes import Attributes
    from nonneg_client.search.connectors.engine import Description, Payload
    from nonneg_client.search.index import Index
    from nonneg_client.sources.image_ids import Stamp
    from nonneg_client.sources.images import Item

AT_ONCE = 1000  # images added to the index


@click.command()
@click.argument("sources", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="Folder of the index.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option(
    "--keep",
    "--top-k",
    "keep",
    type=click.IntRange(min=1),
    help="Store each vector's N largest values; images are searched with their whole vectors.",
)
@served_model
@click.option(
    "--attributes",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    metavar="CSV",
    help="More to filter by: a column `path` (within the root) or `id`, and others such as price, brand, date.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    help="Name images by their paths within this folder; for an index, where its images are now.",
)
@click.option("--retry-failed", "retry", is_flag=True, help="Try images again that could not be read and are the same.")
@click.option("--prune", is_flag=True, help="Forget what is indexed but no longer among SOURCES.")
@click.option("--quiet", is_flag=True, help="No progress bar, and no lines in its place.")
@for_engines
@embeds
def index(
    sources: tuple[str, ...],
    out: Path,
    dimensions: int | None,
    keep: int | None,
    model: str | None,
    attributes: Path | None,
    root: Path | None,
    retry: bool,
    prune: bool,
    quiet: bool,
    through: EmbedderOptions,
) -> None:
    """Make a folder searchable.

    SOURCES are images, folders, globs, .tar files or URLs, or files that `nonneg embed` wrote. Given again, only new
    and changed images are embedded; an image is known by its path within the folder that was named first, however that
    folder is typed.

    Each image can be filtered by `folder`, the name of the folder it lies in, by `bytes` and `changed`, by what its
    pixels say (width, height, ratio, sharpness, brightness, contrast, and dark, flat, blurred, tiny, odd_ratio: true or
    false), and by the columns of --attributes: numbers, true/false, dates (2024-05-31) and text are told apart.

    \b
      nonneg index photos/ -o photos.index
      nonneg index photos/ -o photos.index --attributes products.csv
      nonneg index photos.parquet -o photos.index
      nonneg search photos.index photo.jpg --where 'price<30'
      nonneg index photos.parquet -o photos --engine pgvector --url postgresql://host/database
    """
    from nonneg_core.errors import DataInvalid

    vectors = [name for name in sources if _is_vectors(name)]
    images = [name for name in sources if not _is_vectors(name)]
    into = begin(out, images, vectors, root, attributes)
    if vectors:
        into.add_files(vectors, dimensions, keep)
    if images:
        into.add_images(images, dimensions, keep, model, quiet, through, retry=retry)
    if not (out / "index.json").exists():
        raise DataInvalid(f"nothing could be indexed, so there is no {out}", fix="see why each image failed")
    into.tell(prune=prune)
    into.remember_broken()
    if into.failed:
        raise SystemExit(1)


def begin(out: Path, images: list[str], vectors: list[str], root: Path | None, attributes: Path | None) -> Into:
    """The index as it is, or is going to be: its root, what it holds, and what is said about its images."""
    from nonneg_client.search.attributes import Attributes, read_attributes
    from nonneg_client.search.connectors.qdrant_local import import_qdrant
    from nonneg_client.search.index import Index
    from nonneg_client.sources.image_ids import kept_root, root_of
    from nonneg_client.vector_file_record import read_record

    import_qdrant()  # what is missing is told before anything is embedded
    known: Mapping[str, Payload] = {}
    held: Description | None = None
    if (out / "index.json").exists():
        with Index.open(out) as opened:
            known, held = opened.engine.payloads(), opened.description
    if root is not None:
        place = root.resolve()
    elif held is not None and held.root:
        place = kept_root(held.root, images, out) if images else Path(held.root)
    elif images:
        place = root_of(images)
    else:
        origins = next((found for found in (read_record(Path(name)) for name in vectors) if found), None)
        place = root_of([]) if origins is None else Path(origins.root)
    said = Attributes() if attributes is None else read_attributes(attributes, place)
    return Into(out, place, known, held, said)


@dataclass
class Into:
    """What goes into one index, and how many of what kind."""

    out: Path
    root: Path
    known: Mapping[str, Payload]
    held: Description | None  # of the index, if there is one
    attributes: Attributes
    seen: set[str] = field(default_factory=set)
    new: int = 0
    changed: int = 0
    failed: int = 0
    broken: dict[str, Stamp] = field(default_factory=dict)  # images that could not be read, now or before
    passed_over: int = 0  # of these, those that are the same as before
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)  # what the pixels of each image say
    kept: int | None = None  # values that are stored of each vector

    def add_files(self, names: list[str], dimensions: int | None, keep: int | None) -> None:
        """Put files of vectors into the index."""
        from nonneg_client.embeddings import Embeddings
        from nonneg_client.sources.image_ids import identity, place_of
        from nonneg_client.vector_file_record import read_record

        self._as_its_first(dimensions, keep)
        for name in names:
            embeddings, origins = Embeddings.load(name), read_record(Path(name))
            if dimensions is not None or self.kept is not None:
                embeddings = embeddings.shorten(dimensions, self.kept)
            ids = embeddings.ids or ()
            stamps = origins.stamps if origins else {}
            if origins is not None:
                ids = tuple(identity(Path(place_of(n, origins.root)), self.root) if _is_path(n) else n for n in ids)
            looks = [stamps.get(name) for name in embeddings.ids or ()]
            payloads = [self.payload(name, seen) for name, seen in zip(ids, looks, strict=True)]
            with self.opened(embeddings) as index:
                index.add(embeddings.named(ids) if ids else embeddings, payloads)
            fresh = set(ids) - self.known.keys() - self.seen
            self.new += len(fresh)
            self.changed += len(set(ids) - fresh)
            self.seen |= set(ids)

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
        from nonneg_client.curation.photos import is_measured, measures
        from nonneg_client.embedding_progress import EmbeddingProgress
        from nonneg_client.search.broken_images import read_broken
        from nonneg_client.sources.image_ids import rooted, stamp
        from nonneg_client.wire.protocol import Options

        self._as_its_first(dimensions, keep)
        found = {item.id: item for item in rooted(names, self.root)}
        payloads = {name: self.payload(name, stamp(item.path)) for name, item in found.items()}
        differing = [item for name, item in found.items() if _differs(self.known.get(name), payloads[name])]
        before = {} if retry else read_broken(self.out)
        self.broken = {item.id: before[item.id] for item in differing if before.get(item.id, 0) == stamp(item.path)}
        self.passed_over = len(self.broken)
        left = [self._inspected(item) for item in differing if item.id not in self.broken]
        embedded = {item.id for item in differing}
        same = {name: payloads[name] for name in found if name not in embedded}
        self._measure([found[name] for name in same if not is_measured(self.known[name])], quiet)
        said = {name: {**measures(self.known[name]), **self.measured.get(name, {}), **p} for name, p in same.items()}
        self._describe_again({name: p for name, p in said.items() if p != self.known[name]})
        with through.opened() as client, EmbeddingProgress(len(left), False if quiet else None, lines=True) as watch:
            length = dimensions if self.held is None else self.held.dimensions
            parts = client.stream(left, Options(length, self.kept, model=model))
            self._put(watch.over(parts), payloads, {item.id: stamp(item.path) for item in left})
        self.seen |= found.keys()

    def payload(self, name: str, looks: Stamp | None) -> dict[str, Any]:
        """What is kept beside a vector: its folder, by what a change of the file shows, and its attributes."""
        stamped = {} if looks is None else {"bytes": looks[0], "changed": looks[1]}
        folder = Path(self.root, name).parent.name if _is_path(name) else ""
        return {"folder": folder, **stamped, **self.attributes.payloads.get(name, {})}

    def opened(self, like: Embeddings) -> Index:
        from nonneg_client.search.index import Index, describe

        said = replace(describe(like), root=str(self.root), fields=self.attributes.kinds, kept=self.kept)
        return Index.open(self.out, like=said)

    def tell(self, *, prune: bool) -> None:
        """Forget what is not to be kept, and say what the index holds."""
        from nonneg_client.search.connectors.qdrant_local import describe_again
        from nonneg_client.search.index import Index

        describe_again(self.out, str(self.root), self.attributes.kinds)
        with Index.open(self.out) as index:
            gone = [name for name in index.engine.payloads() if name not in self.seen] if prune else []
            index.delete(gone)
            held, same = index.description, len(self.seen) - self.new - self.changed - self.failed
            same -= self.passed_over
            counts = [f"{self.new} new", f"{self.changed} changed", f"{same} unchanged"]
            counts += [f"{self.failed} failed"] * bool(self.failed)
            counts += [f"{self.passed_over} unreadable as before (--retry-failed)"] * bool(self.passed_over)
            counts += [f"{len(gone)} forgotten"] * bool(gone)
            click.echo(
                f"{self.out}: {len(index)} images, {held.dimensions} dimensions, "
                + (f"{held.kept} values kept of each, " if held.kept else "")
                + f"model {held.model} "
                f"({held.fingerprint[:8]}); {', '.join(counts)}"
            )

    def _as_its_first(self, dimensions: int | None, keep: int | None) -> None:
        """All vectors of an index are as long, and cut as short, as its first: asking for others is refused."""
        from nonneg_core.errors import ConfigInvalid

        self.kept = keep
        if self.held is None:
            return
        self.kept = self.held.kept
        held, cut = self.held.dimensions, self.held.kept
        if dimensions not in (None, held):
            raise ConfigInvalid(
                f"{self.out} holds vectors of {held} dimensions, not of {dimensions}",
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

    def _describe_again(self, payloads: Mapping[str, Payload]) -> None:
        """Keep the vectors of images that are the same, and replace what is said about them."""
        from nonneg_client.search.index import Index

        if not payloads:
            return
        with Index.open(self.out) as index:
            for names in _slices(list(payloads)):
                vectors = index.engine.get(names)
                index.add(vectors, [payloads[name] for name in vectors.ids or ()])

    def remember_broken(self) -> None:
        """Keep which images could not be read."""
        from nonneg_client.search.broken_images import read_broken, write_broken

        elsewhere = {name: looks for name, looks in read_broken(self.out).items() if name not in self.seen}
        write_broken(self.out, elsewhere | self.broken)

    def _put(
        self, parts: Iterable[BatchResult], payloads: Mapping[str, Payload], stamps: Mapping[str, Stamp | None]
    ) -> None:
        """Put vectors into the index as they come, also when they end with an error."""
        from nonneg_client.embeddings_builder import EmbeddingsBuilder, grouped
        from nonneg_client.search.broken_images import is_broken
        from nonneg_core.interrupting import Interrupted, Interrupts

        with Interrupts() as interrupts, ExitStack() as stack:
            index: Index | None = None
            try:
                for some in grouped(parts, AT_ONCE):
                    with interrupts.held():
                        collected = EmbeddingsBuilder("return")
                        for part in some:
                            collected.add(part)
                        for failure in collected.failures:
                            click.echo(f"failed {failure.id}: {failure.error}", err=True)
                            if is_broken(failure.error) and (looks := stamps.get(failure.id)) is not None:
                                self.broken[failure.id] = looks
                        self.failed += len(collected.failures)
                        if collected.vectors:
                            embeddings = collected.embeddings()
                            index = index or stack.enter_context(self.opened(embeddings))
                            said = [{**self.measured.pop(n, {}), **payloads[n]} for n in embeddings.ids or ()]
                            index.add(embeddings, said)
                            self._count(embeddings.ids or ())
            except Interrupted as interrupted:
                done = self.new + self.changed
                click.echo(f"{interrupted}: {done} images added to {self.out}; the same command goes on", err=True)
                raise SystemExit(interrupted.exit_code) from None

    def _inspected(self, item: Item) -> Item:
        """The image with its pixels measured when it is decoded, or sent."""
        from nonneg_client.curation.photos import attributes, looked_at

        def inspect(data: bytes, picture: Image) -> None:
            self.measured[item.id] = attributes(looked_at(data, picture))

        return replace(item, inspect=inspect)

    def _measure(self, images: list[Item], quiet: bool) -> None:
        """Read the images of an index that was made without measuring them, or of a file of vectors."""
        from nonneg_client.curation.photos import attributes, look_at_all

        found = look_at_all([item.load for item in images], shown=False if quiet else None)
        self.measured |= {item.id: attributes(p) for item, p in zip(images, found, strict=True) if p is not None}

    def _count(self, names: Iterable[str]) -> None:
        for name in names:
            self.new += name not in self.known
            self.changed += name in self.known


def _differs(known: Payload | None, wanted: Payload) -> bool:
    """Whether an image has to be embedded: unknown, or its file changed since."""
    if known is None:
        return True
    if "changed" not in known or "changed" not in wanted:  # of a file of vectors that does not say, or not a file
        return False
    return any(known[name] != wanted[name] for name in ("bytes", "changed"))


def _slices(names: list[str]) -> Iterator[list[str]]:
    return (names[start : start + AT_ONCE] for start in range(0, len(names), AT_ONCE))


def _is_path(name: str) -> bool:
    return not name.startswith(("http://", "https://"))


def _is_vectors(name: str) -> bool:
    from nonneg_client.storage import FORMATS

    if Path(name).is_dir():
        return (Path(name) / "manifest.json").is_file()  # of a data set; hundreds of photos do not come with one
    return Path(name).suffix.lower() in FORMATS
