"""`nonneg rank`: an existing bundle, ranked by one's own photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from nonneg_export.commands.build import make
from nonneg_export.commands.options import (
    PATH,
    calibration_options,
    captions_option,
    evaluation_options,
    name_option,
    named,
    output_options,
    ranking_options,
)
from nonneg_export.manifest_report import table
from nonneg_export.rerank_columns import compose_order, draft_of, left_out, overlaps
from nonneg_runtime.bundle import open_bundle


@click.command()
@click.argument("bundle", type=PATH, required=False)
@calibration_options
@ranking_options
@evaluation_options
@captions_option
@output_options
@name_option
def rank(bundle: Path | None, **flags: Any) -> None:
    """Rank BUNDLE (by default the default model) by your own photos.

    The graph is edited: neither torch nor the checkpoint is needed. The new bundle has a new fingerprint, because its
    vectors cannot be compared with the old ones. An order that was trained (nested), as the default model's, is kept
    unless --rank-by says otherwise: sorted by your photos its short prefixes would lose. What makes a better model for
    your photos is `nonneg adapt`.

    \b
      nonneg rank --images photos/ --out mine.bundle
    """
    old = open_bundle(bundle)
    new = make(
        lambda *_: replace(draft_of(old), name=named(flags)), flags, finish=lambda ranked: compose_order(ranked, old)
    )
    before = {original: i for i, original in enumerate(old.manifest.columns.original)}
    order = [before[original] for original in new.manifest.columns.original]
    if new.manifest.calibration.ranked_by == "nested":
        click.echo("the order was trained and is kept; --rank-by sorts it by your photos")
    for part in left_out(old.manifest, new.manifest):
        click.echo(f"not in the new bundle: {part}")
    rows = [(str(o.dimensions), f"{o.share:.0%}") for o in overlaps(range(len(before)), order)]
    click.echo(f"\nold order: {_head(range(len(before)))}\nnew order: {_head(order)}  (numbered by the old one)\n")
    click.echo(table(("first", "in both"), rows))


def _head(order: Sequence[int]) -> str:
    return " ".join(map(str, order[:12])) + (" …" if len(order) > 12 else "")
