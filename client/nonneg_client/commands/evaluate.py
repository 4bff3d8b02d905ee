"""`nonneg evaluate`: labelled images -> embeddings -> retrieval at several lengths."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_client.commands.connection import asks_server

if TYPE_CHECKING:
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.evaluation import Length, Row


def _lengths(_: click.Context, __: click.Parameter, text: str | None) -> list[tuple[int, int | None]] | None:
    """1280,512,512:64 -> lengths, the part behind the colon being top_k."""
    if text is None:
        return None
    try:
        pairs = [part.split(":") for part in text.split(",")]
        return [(int(pair[0]), int(pair[1]) if len(pair) > 1 else None) for pair in pairs]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 1280,512,128 or 512:64 (512 dimensions, top_k 64)") from None


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--lengths", callback=_lengths, metavar="N,N:M,…", help="Dimensions; N:M keeps the M largest of N.")
@click.option("--k", type=click.IntRange(min=1), default=100, show_default=True, help="The k of mAP, recall, nDCG.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@asks_server
def evaluate(
    folder: Path,
    lengths: list[tuple[int, int | None]] | None,
    k: int,
    as_json: bool,
    url: str,
    api_key: str | None,
    timeout: float,
) -> None:
    """Measure retrieval at several lengths.

    FOLDER has one subfolder of images for each label. Every image is embedded once, at full length, and asks for the
    others of its label; the shorter vectors are cut from the full ones, as the server would cut them.

    \b
      nonneg evaluate photos/
      nonneg evaluate photos/ --lengths 1280,512,128,512:32 --json
    """
    from nonneg_client.client import Client
    from nonneg_client.datasets import image_folder
    from nonneg_client.evaluation import Length
    from nonneg_client.evaluation import evaluate as score

    data = image_folder(folder)
    with Client(url, api_key=api_key, timeout=timeout) as client:
        embeddings = client.embed(data.paths, on_error="return")
    for failure in embeddings.failures:
        click.echo(f"skipped {failure.id}: {failure.error}", err=True)
    labels = data.kept(embeddings.ids)
    wanted = None if lengths is None else [Length(*pair) for pair in lengths]
    rows = score(embeddings, labels, lengths=wanted, k=k)
    if as_json:
        click.echo(json.dumps(summary(folder, embeddings, labels, rows), ensure_ascii=False))
    else:
        show(folder, embeddings, labels, rows)


def summary(folder: Path, embeddings: Embeddings, labels: list[str], rows: list[Row]) -> dict[str, Any]:
    """What was measured, for programs."""
    return {
        "data": str(folder),
        "model": embeddings.model,
        "fingerprint": embeddings.fingerprint,
        "images": len(embeddings),
        "labels": len(set(labels)),
        "queries": len(rows[0].report.queries),
        "skipped": [{"id": failure.id, "error": failure.error.body()} for failure in embeddings.failures],
        "rows": [row.record() for row in rows],
    }


def show(folder: Path, embeddings: Embeddings, labels: list[str], rows: list[Row]) -> None:
    """What was measured, for people."""
    from nonneg_client.tables import show as table

    records = [row.record() for row in rows]
    hidden = {"dimensions", "top_k", "sparse_bytes", "dense_bytes"}
    metrics = [name for name in records[0] if name not in hidden]
    click.echo(
        f"{folder}: {len(embeddings)} images of {len(set(labels))} labels, model {embeddings.model} "
        f"({embeddings.fingerprint[:8]}); each image asks for the others of its label"
    )
    table(
        ["length", *metrics, "bytes"],
        [[_name(row.length), *(r[m] for m in metrics), _bytes(r)] for row, r in zip(rows, records, strict=True)],
    )
    click.echo("bytes: the smaller of sparse (u16, f16) and dense (f32). The NCL authors' mAP@10 is P@10.")


def _name(length: Length) -> str:
    return str(length.dimensions) if length.top_k is None else f"{length.dimensions}:{length.top_k}"


def _bytes(record: dict[str, Any]) -> int:
    smaller: float = min(record["sparse_bytes"], record["dense_bytes"])
    return round(smaller)
