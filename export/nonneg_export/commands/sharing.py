"""`nonneg push` and `nonneg pull`: bundles to and from a folder or a model hub."""

from __future__ import annotations

from pathlib import Path

import click

from nonneg_export import sharing
from nonneg_runtime.bundle import open_bundle

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
    click.echo(f"{sharing.push(opened, target, replace=replace, private=private)}: {opened.manifest.fingerprint}")


@click.command()
@click.argument("source")
@click.argument("out", type=PATH)
@click.option("--replace", is_flag=True, help="Replace what is at OUT.")
def pull(source: str, out: Path, replace: bool) -> None:
    """Get a bundle from SOURCE, a folder or hf:owner/name[@revision], verify it and write it to OUT.

    A bundle is data: nothing that comes with it is run.

    \b
      nonneg pull hf:me/photos photos.bundle
    """
    bundle = sharing.pull(source, out, replace=replace)
    click.echo(f"{out}: {bundle.manifest.name} {bundle.manifest.version}, fingerprint {bundle.manifest.fingerprint}")
