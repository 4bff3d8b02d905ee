"""Options that subcommands share: what embeds, at which lengths, and where vectors of labelled images come from."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.wire.client_settings import API_KEY, DEFAULT_URL, URL
from nonneg_core.terminal.tables import printable

if TYPE_CHECKING:
    from nonneg_client.embedder import Embedder, Model
    from nonneg_client.model_of_vectors import KnownModel
    from nonneg_vectors.evaluation.labelled_images import Labelled
    from nonneg_vectors.evaluation.retrieval import Length
    from nonneg_vectors.search.vector_engine import Description
    from nonneg_vectors.storage.embeddings import Embeddings

Command = Callable[..., Any]

DEFAULT_BUNDLE = "default"  # the first of the models that come with the package
SHIPPED_BUNDLES = (DEFAULT_BUNDLE, "photo", "photo-fast")


@dataclass(frozen=True)
class EmbedderOptions:
    """What images are embedded through."""

    url: str
    api_key: str | None = None
    timeout: float = 60.0
    bundle: str | None = None
    chosen: bool = True  # whether a person said where the server is

    def opened(self, **tuning: Any) -> Embedder:
        """Return the bundle in this process if one is named, else a client of the server."""
        from nonneg_client.client import Client
        from nonneg_client.embedder import local

        if self.bundle is not None:
            return local(None if self.bundle == DEFAULT_BUNDLE else self.bundle)
        return Client(self.url, api_key=self.api_key, timeout=self.timeout, **tuning)

    def for_index(self, description: Description | None, model: str | None) -> tuple[Embedder, str | None]:
        """Return what embeds for an index, and under which name: its own model, if one is served.

        Where no address was given and no server answers, a model that comes with nonneg embeds in this process.
        """
        from nonneg_core.errors import ConnectionFailed

        embedder = self.opened()
        if self.bundle is not None:
            return embedder, model
        try:
            served = embedder.model(model) if description is None or model else self._same(embedder, description)
        except ConnectionFailed:
            if self.chosen:
                return embedder, model
            embedder.close()
            return self._here(description), model
        except BaseException:
            embedder.close()
            raise
        return embedder, served.name

    def _same(self, embedder: Embedder, description: Description) -> Model:
        """Return the served model of an index."""
        from nonneg_core.errors import FingerprintMismatch
        from nonneg_vectors.storage.embeddings import model_label

        served = embedder.served()
        for one in served:
            if one.fingerprint == description.fingerprint:
                return one
        raise FingerprintMismatch(
            f"the index is of model {model_label(description.model, description.fingerprint)}, and {self.url} serves "
            + ", ".join(model_label(one.name, one.fingerprint) for one in served),
            fix="serve the model it was made with, give its --bundle, or make another: nonneg index PHOTOS -o NEW",
            field="fingerprint",
            value=description.fingerprint,
        )

    def _here(self, description: Description | None) -> Embedder:
        """Open the model of an index that comes with nonneg; the default one for a new index."""
        from nonneg_client.embedder import local
        from nonneg_client.model_of_vectors import shipped_name

        name = shipped_name(description) if description is not None else SHIPPED_BUNDLES[1]
        click.echo(f"no server at {self.url}: {name} embeds in this process", err=True)
        return local(name)


served_model = click.option("--model", help="A served model's name; without it, the server's default.")


def embeds(command: Command) -> Command:
    """Add --url, --api-key, --timeout and --bundle; the command gets what they say as `through`."""

    @wraps(command)
    def wrapped(*args: Any, url: str, api_key: str | None, timeout: float, bundle: str | None, **rest: Any) -> Any:
        source = click.get_current_context().get_parameter_source("url")
        chosen = source not in (click.core.ParameterSource.DEFAULT, click.core.ParameterSource.DEFAULT_MAP)
        return command(*args, through=EmbedderOptions(url, api_key, timeout, bundle, chosen), **rest)

    for option in (
        click.option(
            "--bundle",
            metavar="FOLDER",
            help="Embed in this process with this bundle, without a server; `photo` and `photo-fast` come along.",
        ),
        click.option("--timeout", type=click.FloatRange(min=0.1), default=60.0, show_default=True, help="Seconds."),
        click.option("--api-key", envvar=API_KEY, show_envvar=True, help="Key, if the server wants one."),
        click.option(
            "--url", envvar=URL, show_envvar=True, default=DEFAULT_URL, show_default=True, help="Server's address."
        ),
    ):
        wrapped = option(wrapped)
    return wrapped


# The option that names lengths: 2048,512,512:64,2048/205,2048/64+.


def read_lengths(_ctx: click.Context, _param: click.Parameter, text: str | None) -> list[Length] | None:
    """Read numbers of dimensions; N:M keeps the M largest of N, N/M of what is stored alone, N/M+ re-ranks."""
    if text is None:
        return None
    try:
        return [read_length(part) for part in text.split(",")]
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a list of lengths: write 2048,512,128. 512:64 has 512 dimensions and top_k 64. 2048/205 "
            "stores the 205 largest of 2048 and asks with all. 2048/64+ re-ranks the first 200 by whole vectors"
        ) from None


def read_length(text: str) -> Length:
    """Read 512; 512:64 (the 64 largest of 512), 512/64 (these stored, asked whole) or 512/64+ (re-ranked)."""
    from nonneg_vectors.evaluation.retrieval import Length

    between = "/" if "/" in text else ":"
    again = between == "/" and text.endswith("+")
    dimensions, separator, top_k = text.removesuffix("+" if again else "").partition(between)
    return Length(int(dimensions), int(top_k) if separator else None, asked_whole=between == "/", reranked=again)


# Options of `nonneg evaluate` that change nothing for some kinds of data: typed, they are refused.

OF_LABELS = ("k", "vectors", "selections", "with_probe", "picture", "vector_file", "missed")


def refuse_options(*names: str, reason: str) -> None:
    """Raise if one of these options of the running command was typed: it would change nothing."""
    context = click.get_current_context()
    for name in names:
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            (option,) = (p.opts[0] for p in context.command.params if p.name == name)
            raise click.UsageError(f"{option} {reason}")


# Where a subcommand gets the vectors of labelled images: from a server, a bundle, or a file of vectors.


def vectors_of(
    data: Labelled, source: Path | None, through: EmbedderOptions, lengths: list[Length] | None = None
) -> Embeddings:
    """Return the vectors of every image that can be had; the others are named on standard error.

    lengths: to which they will be cut; one that the model has not is refused before anything is embedded.
    """
    from nonneg_vectors.evaluation.retrieval import check_lengths
    from nonneg_vectors.storage.embeddings import Embeddings

    if source is not None:
        return of_these(Embeddings.load(source), data, source)
    with through.opened() as client:
        if lengths is not None:
            check_lengths(lengths, client.model().dimensions)
        embeddings = client.embed(data.paths, on_error="return")
    for failure in embeddings.failures:
        click.echo(printable(f"skipped {failure.id}: {failure.error}"), err=True)
    return embeddings


def tell_fitted(side: str, model: KnownModel, vectors: Embeddings) -> None:
    """Warn where figures on these images are of photos that the model was fitted on, or where that is not known."""
    if model.fitted:
        click.echo(
            f"Warning: {side}{vectors.model} was fitted on {model.fitted} of these images, and finds among them more "
            "than among others: measure it on photos that it was not made from",
            err=True,
        )
    elif model.fitted is None:
        click.echo(
            f"{side}the bundle of {vectors.model} ({vectors.fingerprint[:8]}) is not known, nor whether it was fitted "
            "on these images: name it by --bundle",
            err=True,
        )


def of_these(embeddings: Embeddings, data: Labelled, source: Path) -> Embeddings:
    """Return the vectors of a file that belong to labelled images, under the images' own names."""
    from nonneg_core.errors import DataInvalid

    ids = set(embeddings.ids or ())
    names = max(_namings(data, source), key=lambda naming: len(ids & naming.keys()))
    rows = [i for i, name in enumerate(embeddings.ids or ()) if name in names]
    if not rows:
        raise DataInvalid(
            f"{source} holds none of these images", fix="embed this folder, or one that it lies in, into that file"
        )
    absent = names.keys() - ids
    if absent:
        click.echo(printable(f"{len(absent)} images are not in {source}, such as {min(absent)}"), err=True)
    vectors = embeddings if len(rows) == len(embeddings) else embeddings[rows]
    return vectors.named(tuple(names[name] for name in vectors.ids or ()))


def _namings(data: Labelled, source: Path) -> Iterator[dict[str, str]]:
    """Yield what images may be called in a file of vectors -> what they are called here: within the root that the file
    keeps, within the labelled folder, and as typed, which is what the library's own calls name them by."""
    from nonneg_core.files.image_files import identity, path_text
    from nonneg_vectors.storage.vector_files import read_record

    origins = read_record(source)
    real = {path: Path(os.path.realpath(data.root)) / os.path.relpath(path, data.root) for path in data.paths}
    if origins is not None:
        yield {identity(real[path], Path(origins.root)): path_text(path) for path in data.paths}
    yield {path_text(Path(os.path.relpath(path, data.root))): path_text(path) for path in data.paths}
    yield {path_text(path): path_text(path) for path in data.paths}
