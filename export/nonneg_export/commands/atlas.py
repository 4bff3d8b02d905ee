"""`nonneg atlas`: put into a bundle the images that show what its dimensions stand for."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from nonneg_core.progress import Bar
from nonneg_export.activations import collect
from nonneg_export.atlas_builder import chart
from nonneg_export.commands.options import PATH, calibration, calibration_options, replace_option, tell_broken
from nonneg_export.manifest_report import size
from nonneg_export.workdir import workplace
from nonneg_runtime.atlas import FILE_NAME
from nonneg_runtime.bundle import check_free, open_bundle, write_bundle


@click.command()
@click.argument("bundle", type=PATH)
@calibration_options
@click.option("--out", "-o", type=PATH, help="Write a new bundle; by default the atlas is put into BUNDLE.")
@replace_option
@click.option("--examples", type=click.IntRange(1, 100), default=9, show_default=True, help="Images a dimension.")
@click.option("--thumbnail", type=click.IntRange(16, 512), default=96, show_default=True, help="Longer side in pixels.")
@click.option("--max-size", type=click.IntRange(1), default=32, show_default=True, help="MB of thumbnails at most.")
def atlas(
    bundle: Path, out: Path | None, replace: bool, examples: int, thumbnail: int, max_size: int, **flags: Any
) -> None:
    """Find for every dimension of BUNDLE the images that activate it most, and keep their thumbnails in the bundle.

    With labelled images (class/image) a dimension is also given a name: the class that most of its examples belong to.
    Vectors and fingerprint stay the same. The thumbnails are copies of your images: mind who gets the bundle.

    \b
      nonneg atlas photos.bundle --images photos/
    """
    if out is not None:
        check_free(out, replace=replace)
    opened, photos = open_bundle(bundle), calibration(flags)
    target = out or bundle
    with workplace(target, flags["work"]) as place, tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        with Bar("searching") as bar:
            seen = collect(
                opened.encoder,
                photos,
                opened.manifest.view,
                place / "activations",
                precision=opened.manifest.precision,
                tick=bar.move,
            )
        made = Path(work, FILE_NAME)
        limits = {"examples": examples, "side": thumbnail, "budget": max_size * 2**20}
        record = chart(seen, photos, made, **limits, data=flags["data"])
        files = {name: opened.path / name for name in opened.manifest.files} | {FILE_NAME: made}
        manifest = opened.manifest.model_copy(update={"atlas": record})
        new = write_bundle(target, manifest, files, replace=replace or out is None)
    tell_broken(seen.broken)
    written = new.manifest.files[FILE_NAME].bytes
    click.echo(
        f"{target}: {record.images} thumbnails of {record.searched} images searched, {record.named} of "
        f"{new.manifest.dimensions} dimensions named, {size(written)}"
    )
