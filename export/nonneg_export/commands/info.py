"""`nonneg info`: what a bundle says about itself, once it has proved to be whole."""

from __future__ import annotations

import json
from pathlib import Path

import click

from nonneg_export.manifest_report import named, summary
from nonneg_runtime.bundle import open_bundle
from nonneg_runtime.words.known_names import known_names


@click.command()
@click.argument("bundle", required=False, type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The manifest as JSON, for programs.")
@click.option("--columns", is_flag=True, help="With --json: the evidence of every column too.")
@click.option("--names", "with_names", is_flag=True, help="List the dimensions that have a name, with the evidence.")
@click.option("--plot", type=click.Path(path_type=Path), help="Draw quality by length into this PNG or SVG file.")
def info(bundle: Path | None, as_json: bool, columns: bool, with_names: bool, plot: Path | None) -> None:
    """Show what BUNDLE says about itself; without BUNDLE, the default model.

    Every file is checked against its digest first: a bundle that shows its description is whole.
    """
    opened = open_bundle(bundle)
    manifest, names = opened.manifest, tuple(known_names(opened).values())
    if plot is not None:
        from nonneg_export.plot import draw

        draw(manifest, plot)
    if as_json:
        record = manifest.model_dump(mode="json", exclude=None if columns else {"columns", "golden"})
        if with_names:
            record["named"] = [name.model_dump(mode="json", by_alias=True, exclude_none=True) for name in names]
        click.echo(json.dumps(record, ensure_ascii=False))
    elif with_names:
        click.echo(named(manifest, names))
    else:
        click.echo(summary(manifest))
