"""`nonneg embed`: images -> a server -> a file of vectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from nonneg_client.commands.connection import asks_server

if TYPE_CHECKING:
    from nonneg_client.embeddings import Embeddings


@click.command()
@click.argument("images", nargs=-1, required=True)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File: .npz, .parquet, .safetensors or .npy.")
@click.option("--dimensions", type=click.IntRange(min=1), help="Keep the first N dimensions.")
@click.option("--top-k", type=click.IntRange(min=1), help="Of these keep each vector's N largest.")
@click.option("--normalize/--raw", default=True, show_default=True, help="Divide by the length, or not.")
@asks_server
def embed(
    images: tuple[str, ...],
    out: Path | None,
    dimensions: int | None,
    top_k: int | None,
    normalize: bool,
    url: str,
    api_key: str | None,
    timeout: float,
) -> None:
    """Embed images through a server.

    IMAGES are files, folders, globs or URLs. Without --out, one line of JSON is printed for each image. An image that
    fails is named, the others go on, and the exit code is 1 at the end.

    \b
      nonneg embed photos/ -o photos.npz
      nonneg embed a.jpg b.jpg --dimensions 256
    """
    from nonneg_client.client import Client
    from nonneg_client.storage import module_for

    if out is not None:
        module_for(out)  # a name that cannot be written is told before the work, not after it
    with Client(url, api_key=api_key, timeout=timeout) as client:
        embeddings = client.embed(images, dimensions=dimensions, top_k=top_k, normalize=normalize, on_error="return")
    if out is None:
        print_lines(embeddings)
    else:
        embeddings.save(out)
        click.echo(
            f"{out}: {len(embeddings)} vectors of {embeddings.dimensions} dimensions, {embeddings.nnz.mean():.0f} "
            f"active on average, model {embeddings.model} ({embeddings.fingerprint[:8]})"
        )
    for failure in embeddings.failures:
        click.echo(f"failed {failure.id}: {failure.error}", err=True)
    if embeddings.failures:
        raise SystemExit(1)


def print_lines(embeddings: Embeddings) -> None:
    """One JSON object a vector."""
    for name, (indices, values) in zip(embeddings.ids or (), embeddings, strict=True):
        line = {
            "id": name,
            "dimensions": embeddings.dimensions,
            "fingerprint": embeddings.fingerprint,
            "indices": indices.tolist(),
            "values": [float(f"{value:.7g}") for value in values],
        }
        click.echo(json.dumps(line, ensure_ascii=False))
