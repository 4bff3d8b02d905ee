"""`nonneg evaluate GROUND_TRUTH.json`: the revisited Oxford and Paris sets, scored by their protocols."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from nonneg_client.commands.embedder_options import EmbedderOptions
    from nonneg_core.evaluation.lengths import Length


def landmarks(path: Path, lengths: list[Length] | None, through: EmbedderOptions, as_json: bool) -> None:
    """Evaluate by the protocols of the revisited Oxford and Paris sets."""
    from nonneg_client.evaluation.retrieval import grid
    from nonneg_client.evaluation.revisited_landmarks import read_ground_truth
    from nonneg_client.evaluation.revisited_landmarks import score as by_protocol
    from nonneg_core.evaluation.lengths import asked, cut
    from nonneg_core.tables import table

    if any(length.reranked for length in lengths or ()):
        raise click.UsageError("landmarks are not re-ranked: leave the + out of --lengths")
    truth = read_ground_truth(path)
    with through.opened() as client:
        gallery = client.embed(truth.gallery)
        queries = client.embed(query.picture() for query in truth.queries)
    gallery.same_form(queries)
    found = {
        str(length): by_protocol(cut(gallery.numpy(), length), asked(queries.numpy(), length), truth)
        for length in lengths or grid(gallery.dimensions)
    }
    if as_json:
        click.echo(json.dumps({"data": str(path), "fingerprint": gallery.fingerprint, "lengths": found}))
        return
    lines: list[list[Any]] = [
        [length, protocol, *(scores[name] for name in ("mAP", "P@1", "P@10")), int(scores["queries"])]
        for length, protocols in found.items()
        for protocol, scores in protocols.items()
    ]
    click.echo(table(["length", "protocol", "mAP", "P@1", "P@10", "queries"], lines))
