"""`nonneg compare`: two lengths or two models on the same labelled images, with a paired test."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from nonneg_client.commands.embedder_options import SHIPPED_BUNDLES, EmbedderOptions, embeds, tell_fitted

if TYPE_CHECKING:
    from nonneg_client.model_of_vectors import KnownModel
    from nonneg_vectors.evaluation.labelled_images import Labelled
    from nonneg_vectors.evaluation.ranking import RetrievalReport
    from nonneg_vectors.evaluation.retrieval import Length
    from nonneg_vectors.storage.embeddings import Embeddings


ENTRY_BYTES = 8


@click.command()
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("a")
@click.argument("b")
@click.option("--k", type=click.IntRange(min=1), default=100, show_default=True, help="The k of mAP, recall, nDCG.")
@click.option(
    "--images",
    type=click.Path(path_type=Path, exists=True),
    metavar="PHOTOS",
    help="Say what these photos take under A and B: bytes, and hours to embed them.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@embeds
def compare(data: Path, a: str, b: str, k: int, images: Path | None, as_json: bool, through: EmbedderOptions) -> None:
    """Compare two lengths or two models on the same queries.

    DATA is what `nonneg evaluate` takes. A and B are each a length, a file of vectors, a server's address or a
    bundle's folder; the latter three may have a length behind an @. Lengths: 2048, 512:64 (the 64 largest of 512),
    2048/205 (stored with the 205 largest and asked whole).

    The difference is B - A with its 95 % interval (bootstrap over queries) and the p-value of a sign-flip test.

    \b
      nonneg compare photos/ 2048 2048/205
      nonneg compare photos/ old.npz new.npz@512
      nonneg compare photos/ http://127.0.0.1:8000 http://127.0.0.1:8001
      nonneg compare labelled/ photo mine.bundle --images photos/
    """
    from nonneg_vectors.evaluation.labelled_images import read_dataset
    from nonneg_vectors.evaluation.uncertainty import paired

    sides = [parse(side, through) for side in (a, b)]
    labelled = read_dataset(data)
    for source, length in sides:
        check_length(source, length, through)
    sources = dict.fromkeys(source for source, _ in sides)  # one server at two lengths embeds once
    vectors, rates = {}, {}
    for source in sources:
        began = time.perf_counter()
        vectors[source] = from_source(source, labelled, through)
        rates[source] = (
            None if embedder_of(source, through) is None else len(labelled.paths) / (time.perf_counter() - began)
        )
    costs = None
    if images is not None:
        costs = {side: cost_of(images, vectors[s], rates[s], n) for side, (s, n) in zip("ab", sides, strict=True)}
    reports = reports_of(labelled, [(vectors[source], length) for source, length in sides], k)
    rows = []
    for name, values in reports[0].scores().items():
        others = reports[1].scores()[name]
        rows.append((name, float(values.mean()), float(others.mean()), paired(values, others)))
    models = [model_of(source, vectors[source], length, labelled, through) for source, length in sides]
    for side, model, (source, _) in zip("AB", models, sides, strict=True):
        tell_fitted(f"{side}: ", model, vectors[source])
    if as_json:
        compared = {name: {"a": x, "b": y, **asdict(d)} for name, x, y, d in rows}
        record = {"a": a, "b": b, "queries": len(reports[0].queries), "metrics": compared}
        record["named_dimensions"] = {side: model.named for side, model in zip("ab", models, strict=True)}
        record["fitted_on"] = {side: model.fitted for side, model in zip("ab", models, strict=True)}
        record |= {} if costs is None else {"costs": {side: cost._asdict() for side, cost in costs.items()}}
        click.echo(json.dumps(record))
        return
    from nonneg_core.terminal.tables import table

    click.echo(f"{data}: {len(reports[0].queries)} queries; A is {a}, B is {b}")
    lines: list[list[Any]] = [
        [n, x, y, f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}]", f"{d.p:.4f}"] for n, x, y, d in rows
    ]
    click.echo(table(["metric", "A", "B", "B - A [95 %]", "p"], lines))
    if any(model.named for model in models):
        counts = ["not known" if model.named is None else str(model.named) for model in models]
        widths = [vectors[source].dimensions if length is None else length.dimensions for source, length in sides]
        coverage = [f"{side} {n} of {width}" for side, n, width in zip("AB", counts, widths, strict=True)]
        click.echo(f"dimensions with a name: {', '.join(coverage)}")
    for side, cost in (costs or {}).items():
        click.echo(f"{images} under {side.upper()}: {cost}")


class Cost(NamedTuple):
    """What a folder of photos takes under one model or length."""

    photos: int
    bytes: int  # an index and a value of four bytes each for every active dimension
    hours: float | None  # to embed them, at the rate of the photos that were compared; None where none were embedded

    def __str__(self) -> str:
        embedded = "embedded before" if self.hours is None else f"{self.hours:.2g} h to embed, at the rate of this run"
        return f"{self.photos:,} photos, {self.bytes / 1e6:,.1f} MB of sparse vectors, {embedded}"


def cost_of(images: Path, vectors: Embeddings, rate: float | None, length: Length | None) -> Cost:
    """Return what keeping these photos' vectors takes, and embedding them again."""
    from nonneg_core.files.image_files import find_images

    count = len(find_images(images))
    cut = vectors if length is None else vectors.shorten(length.dimensions, length.top_k)
    size = count * float(cut.nnz.mean()) * ENTRY_BYTES
    return Cost(count, round(size), None if rate is None else count / rate / 3600)


def parse(side: str, through: EmbedderOptions) -> tuple[str, Length | None]:
    """Return the source of vectors that A or B names, and the length to cut them to."""
    from nonneg_client.commands.embedder_options import read_length

    source, _, length = side.rpartition("@")
    if not source and side.replace(":", "", 1).replace("/", "", 1).isdigit():
        source, length = through.bundle or through.url, side
    elif not source:
        source, length = side, ""
    if not source.startswith(("http://", "https://")) and source not in SHIPPED_BUNDLES and not Path(source).exists():
        raise click.UsageError(f"{source!r} is not a length, a file of vectors, an address or a bundle")
    try:
        return source, read_length(length) if length else None
    except ValueError:
        raise click.UsageError(f"{length!r} is not a length like 512, 512:64 or 512/64") from None


def model_of(
    source: str, vectors: Embeddings, length: Length | None, data: Labelled, through: EmbedderOptions
) -> KnownModel:
    """Return what is known of the model of one side."""
    from nonneg_client.model_of_vectors import known_model

    width = vectors.dimensions if length is None else length.dimensions
    return known_model(
        vectors.fingerprint, width, data.paths, source if Path(source).is_dir() else None, through.bundle
    )


def check_length(source: str, length: Length | None, through: EmbedderOptions) -> None:
    """Raise if a source has no vectors of this length, before anything is embedded."""
    from nonneg_vectors.evaluation.retrieval import check_lengths
    from nonneg_vectors.storage.embeddings import Embeddings

    if length is None:
        return
    embedder = embedder_of(source, through)
    if embedder is None:
        check_lengths([length], Embeddings.load(source).dimensions)
        return
    with embedder.opened() as client:
        check_lengths([length], client.model().dimensions)


def from_source(source: str, data: Labelled, through: EmbedderOptions) -> Embeddings:
    """Return the full vectors of a file, of a server or of a bundle."""
    from nonneg_client.commands.embedder_options import vectors_of

    embedder = embedder_of(source, through)
    return vectors_of(data, Path(source), through) if embedder is None else vectors_of(data, None, embedder)


def embedder_of(source: str, through: EmbedderOptions) -> EmbedderOptions | None:
    """Return how a server or a bundle is asked; None for a file of vectors."""
    if source.startswith(("http://", "https://")):
        return replace(through, url=source, bundle=None)
    return replace(through, bundle=source) if source in SHIPPED_BUNDLES or Path(source).is_dir() else None


def reports_of(data: Labelled, sides: list[tuple[Embeddings, Length | None]], k: int) -> list[RetrievalReport]:
    """Return the scores of both sides on the images that both have."""
    from nonneg_core.files.image_files import path_text
    from nonneg_vectors.evaluation.retrieval import Length, RetrievalTask

    shared = set(sides[0][0].ids or ()) & set(sides[1][0].ids or ())
    names = tuple(name for name in map(path_text, data.paths) if name in shared)
    reports = []
    for embeddings, length in sides:
        place = {name: i for i, name in enumerate(embeddings.ids or ())}
        gallery, labels, queries, others = data.sides(embeddings[[place[name] for name in names]])
        task = RetrievalTask(gallery.numpy(), labels, None if queries is None else queries.numpy(), others)
        reports.append(task.report(length or Length(gallery.dimensions), k)[0])
    return reports
