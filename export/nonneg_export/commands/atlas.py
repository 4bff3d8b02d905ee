"""`nonneg atlas`: the images that show what a model's dimensions stand for, in its bundle, beside it, or as a page."""

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.files.atomic import atomic_write
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.calibrate.activations import collect
from nonneg_export.calibrate.atlas_builder import build_atlas, write_atlas_page
from nonneg_export.calibrate.workdir import workdir
from nonneg_export.commands.options import PATH, calibration, calibration_options, replace_option, tell_broken
from nonneg_export.share.manifest_report import size
from nonneg_runtime.bundle.atlas_file import FILE_NAME, open_atlas, with_atlas
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, check_free, open_bundle, write_bundle
from nonneg_runtime.bundle.manifest import AtlasRecord


@click.command()
@click.argument("bundle", type=PATH)
@calibration_options
@click.option("--html", type=PATH, help="Write a page that opens anywhere: every dimension, its name, its photos.")
@click.option("--file", "beside", type=PATH, help="Write the atlas as a file of its own, for `nonneg serve --atlas`.")
@click.option("--out", "-o", type=PATH, help="Write a new bundle; by default the atlas is put into BUNDLE.")
@replace_option
@click.option("--examples", type=click.IntRange(1, 100), default=9, show_default=True, help="Images a dimension.")
@click.option("--thumbnail", type=click.IntRange(16, 512), default=96, show_default=True, help="Longer side in pixels.")
@click.option("--max-size", type=click.IntRange(1), default=32, show_default=True, help="MB of thumbnails at most.")
def atlas(
    bundle: Path,
    html: Path | None,
    beside: Path | None,
    out: Path | None,
    replace: bool,
    examples: int,
    thumbnail: int,
    max_size: int,
    **flags: Any,
) -> None:
    """Find for every dimension of BUNDLE the images that activate it most, and keep their thumbnails.

    BUNDLE is a folder, or the name of a model that comes with nonneg: of that one --html and --file are written, and
    it stays as it is. Without these two the atlas is put into the bundle; vectors and fingerprint stay the same.
    With labelled images (class/image) a dimension without a name is given one: the class that most of its examples
    belong to. The thumbnails are copies of your images: mind who gets the bundle, the file or the page.

    \b
      nonneg atlas photo --images photos/ --html atlas.html
      nonneg atlas photo --images photos/ --file photos.atlas
      nonneg atlas photos.bundle --images photos/
    """
    opened = open_bundle(bundle)
    to = _places(opened, html, beside, out, replace=replace)
    photos = calibration(flags, quiet=True)
    with workdir(to.first, flags["work"]) as place, tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        with ProgressBar("searching") as bar:
            activations = collect(
                opened.encoder,
                photos,
                opened.manifest.view,
                place / "activations",
                precision=opened.manifest.precision,
                tick=bar.move,
            )
        made = Path(work, FILE_NAME)
        limits = {"examples": examples, "side": thumbnail, "budget": max_size * 2**20}
        fingerprint = opened.manifest.fingerprint
        record = build_atlas(activations, photos, made, **limits, data=flags["data"], fingerprint=fingerprint)
        _write(opened, made, record, to)
        written = size(made.stat().st_size)
    tell_broken(activations.broken)
    click.echo(
        f"{to.description}: {record.images} thumbnails of {record.searched} images searched, {record.named} of "
        f"{opened.manifest.dimensions} dimensions named by their labels, {written}"
    )


@dataclass(frozen=True)
class AtlasTargets:
    """Where an atlas goes: any of a page, a file beside the bundle, and a bundle that holds it."""

    html: Path | None
    beside: Path | None
    bundle: Path | None
    replace: bool

    @property
    def all(self) -> list[Path]:
        return [place for place in (self.html, self.beside, self.bundle) if place is not None]

    @property
    def first(self) -> Path:
        return self.all[0]

    @property
    def description(self) -> str:
        return ", ".join(map(str, self.all))


def _places(bundle: Bundle, html: Path | None, beside: Path | None, out: Path | None, *, replace: bool) -> AtlasTargets:
    """Return where to write, refused before the work where that cannot be."""
    inside = out is None and html is None and beside is None
    if inside and bundle.path.parent == SHIPPED:
        raise ConfigInvalid(
            f"{bundle.manifest.name} comes with nonneg and stays as it is",
            fix="give --html atlas.html, --file FILE for `nonneg serve --atlas`, or --out for a copy with the atlas",
            field="out",
            value=bundle.manifest.name,
        )
    to = AtlasTargets(html, beside, bundle.path if inside else out, replace or inside)
    for place in to.all:
        check_free(place, replace=to.replace)
    return to


def _write(bundle: Bundle, made: Path, record: AtlasRecord, to: AtlasTargets) -> None:
    """Write the atlas to each of its places, the page last."""
    if to.beside is not None:
        with atomic_write(to.beside) as temporary:
            shutil.copyfile(made, temporary)
    if to.bundle is not None:
        files = {name: bundle.path / name for name in bundle.manifest.files} | {FILE_NAME: made}
        write_bundle(to.bundle, bundle.manifest.model_copy(update={"atlas": record}), files, replace=to.replace)
    if to.html is not None:
        shown = with_atlas(bundle, [made])
        reader = open_atlas(shown)
        assert reader is not None
        with reader:
            write_atlas_page(to.html, shown, reader, record.data)
