"""`nonneg embed --update` and `--retry-failed`: what of a file of vectors stays, and what is embedded again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_core.errors import ConfigInvalid, DataInvalid

if TYPE_CHECKING:
    from nonneg_client.bulk import BulkJob
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.failures import FailureRecord
    from nonneg_client.sources.image_ids import Stamp
    from nonneg_client.sources.images import Item
    from nonneg_client.wire.protocol import Options


def as_before(out: Path, options: Options) -> Options:
    """Return what the file's vectors were asked for as; an option that says otherwise is refused."""
    from nonneg_client.bulk import asked_by

    before = asked_by(out) or _of_file(out)
    normalize = before.pop("normalize")
    for name, value in before.items():
        wanted = getattr(options, name)
        if wanted is None or value is None:
            before[name] = value if wanted is None else wanted
        elif wanted != value:
            flag = name.replace("_", "-")
            raise ConfigInvalid(
                f"{out} was made with --{flag} {value}, not {wanted}",
                fix=f"leave --{flag} out, or begin again with --replace",
                field=name,
                value=wanted,
            )
    return replace(options, normalize=normalize, **before)


def _of_file(out: Path) -> dict[str, Any]:
    from nonneg_client.embeddings import Embeddings
    from nonneg_client.vector_file_record import read_record

    if not out.exists():
        raise DataInvalid(f"{out} is not there to be added to", fix="embed it first, without this option")
    form, origins = Embeddings.load(out)[:0], read_record(out)
    asked = {} if origins is None else origins.asked
    return {
        "dimensions": form.dimensions,
        "top_k": asked.get("top_k"),
        "normalize": form.normalized,
        "model": asked.get("model"),
    }


def adopt(job: BulkJob, found: Iterable[Item], names: list[str], root: Path) -> bool:
    """Begin a job with what of its file stays; return whether there is anything to do."""
    from nonneg_client.failures import read_failures
    from nonneg_client.storage import load
    from nonneg_client.vector_file_record import read_record

    held, origins = load(job.out), read_record(job.out)
    if held.ids is None:
        raise DataInvalid(f"{job.out} has no ids to find its images by", fix="begin again with --replace")
    stamps: dict[str, Stamp] = origins.stamps if origins else {}
    failed = {r["id"]: r for r in read_failures(job.out)}
    if job.kind == "retry":
        return _retry(job, held, found, failed, stamps)
    return _update(job, held, {item.id: item for item in found}, names, root, stamps)


def _retry(
    job: BulkJob, held: Embeddings, found: Iterable[Item], failed: dict[str, FailureRecord], stamps: dict[str, Stamp]
) -> bool:
    """Keep all vectors, and the failures that are not named now."""
    if not failed:
        raise DataInvalid(f"nothing is listed as failed for {job.out}", fix="there is nothing to do")
    again = {item.id for item in found}
    job.adopt(held, [r for name, r in failed.items() if name not in again], stamps)
    return True


def _update(
    job: BulkJob, held: Embeddings, now: dict[str, Item], names: list[str], root: Path, stamps: dict[str, Stamp]
) -> bool:
    """Drop what is gone from the named folders or has changed."""
    from nonneg_client.sources.image_ids import covered, stamp

    assert held.ids is not None
    within = covered(names, root)
    gone = {name for name in held.ids if name not in now and within(name)}
    changed = {name for name in held.ids if name in now and name in stamps and stamp(now[name].path) != stamps[name]}
    rows = [i for i, name in enumerate(held.ids) if name not in gone and name not in changed]
    new = len(now.keys() - set(held.ids))
    click.echo(f"{job.out}: {new} new, {len(changed)} changed, {len(gone)} gone, {len(rows)} unchanged", err=True)
    if not (new or changed or gone):
        return False
    job.adopt(held if len(rows) == len(held) else held[rows], [], stamps)
    return True
