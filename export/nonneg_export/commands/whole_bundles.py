"""`nonneg info`, `nonneg push` and `nonneg pull`: a whole bundle, shown or sent."""

from pathlib import Path

import click

from nonneg_core.terminal.tables import json_line
from nonneg_export.share import bundle_sharing
from nonneg_export.share.manifest_report import draw, named, summary
from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_runtime.words.column_facts import known_names


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
        draw(manifest, plot)
    if as_json:
        record = manifest.model_dump(mode="json", exclude=None if columns else {"columns", "golden"})
        if with_names:
            record["named"] = [name.model_dump(mode="json", by_alias=True, exclude_none=True) for name in names]
        click.echo(json_line(record))
    elif with_names:
        click.echo(named(manifest, names))
    else:
        click.echo(summary(manifest))


# `nonneg push` and `nonneg pull`: bundles to and from a folder or a model hub.

PATH = click.Path(path_type=Path)


@click.command()
@click.argument("bundle", type=PATH)
@click.argument("target")
@click.option("--replace", is_flag=True, help="Replace what is at TARGET, if it is a folder.")
@click.option("--private", is_flag=True, help="Make a new repository on the hub private.")
def push(bundle: Path, target: str, replace: bool, private: bool) -> None:
    """Verify BUNDLE and put it, with a model card, at TARGET: a folder, or hf:owner/name on the Hugging Face hub.

    \b
      nonneg push photos.bundle /mnt/models/photos
      nonneg push photos.bundle hf:me/photos
    """
    opened = open_bundle(bundle)
    click.echo(
        f"{bundle_sharing.push(opened, target, replace=replace, private=private)}: {opened.manifest.fingerprint}"
    )


@click.command()
@click.argument("source")
@click.argument("out", type=PATH)
@click.option("--replace", is_flag=True, help="Replace what is at OUT.")
@click.option("--digest", help="Refuse a bundle whose manifest has another; if OUT holds this one, fetch nothing.")
def pull(source: str, out: Path, replace: bool, digest: str | None) -> None:
    """Get a bundle from SOURCE, verify it and write it to OUT.

    SOURCE is a folder, hf:owner/name[@revision], or a folder in an object store: s3://bucket/folder, gs:// or abfs://.

    A bundle is data: nothing that comes with it is run.

    \b
      nonneg pull hf:me/photos photos.bundle
      nonneg pull s3://models/photos /models/photos --replace --digest 5c0f...
    """
    bundle = bundle_sharing.pull(source, out, replace=replace, digest=digest)
    details = bundle.manifest
    click.echo(f"{out}: {details.name} {details.version}, fingerprint {details.fingerprint}, digest {details.digest}")
