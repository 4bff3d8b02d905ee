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
@click.option("--digest", help="Refuse a bundle whose manifest has another; if OUT holds this one, fetch nothing.")
def pull(source: str, out: Path, replace: bool, digest: str | None) -> None:
    """Get a bundle from SOURCE, verify it and write it to OUT.

    SOURCE is a folder, hf:owner/name[@revision], or a folder in an object store: s3://bucket/folder, gs:// or abfs://.

    A bundle is data: nothing that comes with it is run.

    \b
      nonneg pull hf:me/photos photos.bundle
      nonneg pull s3://models/photos /models/photos --replace --digest 5c0f...
    """
    bundle = sharing.pull(source, out, replace=replace, digest=digest)
    found = bundle.manifest
    click.echo(f"{out}: {found.name} {found.version}, fingerprint {found.fingerprint}, digest {found.digest}")
