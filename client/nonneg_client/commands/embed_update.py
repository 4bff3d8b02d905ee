"""`nonneg embed --update` and `--retry-failed`: what of a file of vectors stays, and what is embedded again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_core.errors import ConfigInvalid, DataInvalid

if TYPE_CHECKING:
    from nonneg_client.bulk.file_run import BulkJob
    from nonneg_client.sources.image_sources import Item
    from nonneg_client.wire.protocol import Options
    from nonneg_core.files.image_files import Stamp
    from nonneg_vectors.storage.embeddings import Embeddings
    from nonneg_vectors.storage.results import FailureRecord


def as_before(out: Path, options: Options) -> Options:
    """Return what the file's vectors were asked for as; an option that says otherwise is refused."""
    from nonneg_client.bulk.file_run import unfinished_options

    before = unfinished_options(out) or _of_file(out)
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


def _of_file(out: Path) -> dict[str, Any]:
    from nonneg_vectors.storage.embeddings import Embeddings
    from nonneg_vectors.storage.vector_files import read_record

    if not out.exists():
        raise DataInvalid(f"{out} is not there to be added to", fix="embed it first, without this option")
    form, origins = Embeddings.load(out)[:0], read_record(out)
    options = {} if origins is None else origins.options
    return {
        "dimensions": form.dimensions,
        "top_k": options.get("top_k"),
        "normalize": form.normalized,
        "model": options.get("model"),
    }


def adopt(job: BulkJob, items: Iterable[Item], names: list[str], root: Path) -> bool:
    """Begin a job with what of its file stays; return whether there is anything to do."""
    from nonneg_vectors.storage.results import read_failures
    from nonneg_vectors.storage.vector_files import load, read_record

    embeddings, origins = load(job.out), read_record(job.out)
    if embeddings.ids is None:
        raise DataInvalid(f"{job.out} has no ids to find its images by", fix="begin again with --replace")
    stamps: dict[str, Stamp] = origins.stamps if origins else {}
    failed = {r["id"]: r for r in read_failures(job.out)}
    if job.kind == "retry":
        return _retry(job, embeddings, items, failed, stamps)
    return _update(job, embeddings, {item.id: item for item in items}, names, root, stamps)


def _retry(
    job: BulkJob,
    embeddings: Embeddings,
    items: Iterable[Item],
    failed: dict[str, FailureRecord],
    stamps: dict[str, Stamp],
) -> bool:
    """Keep all vectors, and the failures that are not named now."""
    if not failed:
        raise DataInvalid(f"nothing is listed as failed for {job.out}", fix="there is nothing to do")
    again = {item.id for item in items}
    job.adopt(embeddings, [r for name, r in failed.items() if name not in again], stamps)
    return True


def _update(
    job: BulkJob, embeddings: Embeddings, now: dict[str, Item], names: list[str], root: Path, stamps: dict[str, Stamp]
) -> bool:
    """Drop what is gone from the named folders or has changed."""
    from nonneg_client.sources.rooted_images import covered
    from nonneg_core.files.image_files import stamp

    assert embeddings.ids is not None
    within = covered(names, root)
    gone = {name for name in embeddings.ids if name not in now and within(name)}
    changed = {
        name for name in embeddings.ids if name in now and name in stamps and stamp(now[name].path) != stamps[name]
    }
    rows = [i for i, name in enumerate(embeddings.ids) if name not in gone and name not in changed]
    new = len(now.keys() - set(embeddings.ids))
    click.echo(f"{job.out}: {new} new, {len(changed)} changed, {len(gone)} gone, {len(rows)} unchanged", err=True)
    if not (new or changed or gone):
        return False
    job.adopt(embeddings if len(rows) == len(embeddings) else embeddings[rows], [], stamps)
    return True
