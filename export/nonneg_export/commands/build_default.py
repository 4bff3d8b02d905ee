"""`nonneg build-default`: the default model from its recipe, byte for byte."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_core.progress import Bar
from nonneg_export.commands.options import evaluation_options
from nonneg_export.default import RECIPE, build, calibrate, read_recipe
from nonneg_export.photos import find_photos
from nonneg_runtime.bundle import DEFAULT, Bundle, storing


@click.command("build-default")
@click.option("--out", type=click.Path(path_type=Path), help="Write the bundle here.")
@click.option("--replace", is_flag=True, help="Replace what is at --out.")
@click.option("--recipe", type=click.Path(path_type=Path), help="The recipe to use, or to write with --calibrate.")
@click.option("--calibrate", "photos", type=click.Path(path_type=Path), help="Measure a new recipe on these photos.")
@click.option("--data", default="", help="With --calibrate: what the photos are, for the manifest.")
@evaluation_options
@click.option("--model-version", default="1", show_default=True, help="With --calibrate: the new model's version.")
def build_default(out: Path | None, replace: bool, recipe: Path | None, photos: Path | None, **flags: Any) -> None:
    """Rebuild the default model.

    Without options: rebuild it from the recorded recipe and compare it with the one that is installed, byte for byte.
    With --out: write it there. With --calibrate: measure centre and ranking anew and record them in --recipe.
    """
    if photos is not None:
        if recipe is None:
            raise ConfigInvalid("--calibrate writes a recipe", fix="say where: --recipe FILE", field="recipe")
        _calibrate(photos, recipe, flags)
    chosen = read_recipe(recipe or RECIPE)
    if out is not None:
        bundle = build(chosen, out, replace=replace)
        click.echo(
            f"{out}: {bundle.manifest.name} {bundle.manifest.version}, fingerprint {bundle.manifest.fingerprint}"
        )
    elif photos is None:
        with tempfile.TemporaryDirectory() as work:
            _compare(build(chosen, Path(work, "default_model")))


def _calibrate(photos: Path, recipe: Path, flags: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as work, Bar("calibrating") as bar:
        found = calibrate(
            find_photos(photos),
            Path(work),
            data=flags["data"] or photos.name,
            version=flags["model_version"],
            labelled=find_photos(flags["evaluate"]) if flags["evaluate"] else None,
            labelled_data=flags["evaluation_data"],
            tick=bar.move,
        )
    with storing(recipe):
        recipe.write_text(found.to_json(), encoding="utf-8")
    click.echo(f"{recipe}: measured on {found.manifest.calibration.images} images")


def _compare(bundle: Bundle) -> None:
    names = sorted({path.name for folder in (bundle.path, DEFAULT) for path in folder.iterdir()})
    for name in names:
        rebuilt, shipped = bundle.path / name, DEFAULT / name
        if not (rebuilt.is_file() and shipped.is_file() and rebuilt.read_bytes() == shipped.read_bytes()):
            raise CheckFailed(
                f"the rebuilt {name} differs from the installed one",
                fix="use the versions of torch, onnx and onnxscript that constraints.txt pins",
                value=name,
            )
    click.echo(f"identical: {', '.join(names)}")
