"""`python -m research.models.build_default`: the shipped models again, from what is committed or from photos."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import click

from nonneg_cli.table import run_command
from nonneg_core.errors import CheckFailed, ConfigInvalid
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.calibrate.photo_folder import find_photos
from nonneg_export.commands.options import evaluation_options
from nonneg_runtime.bundle.bundle_folder import SHIPPED, Bundle, open_bundle, shipped_names
from research.models.lexicon_words import add_lexicon
from research.models.rebuild import plan_of, rebuild
from research.models.recheck import recheck

PATH = click.Path(path_type=Path)


@click.command("build_default")
@click.argument("names", nargs=-1)
@click.option("--out", type=PATH, help="Write the bundles into this folder, each under its name.")
@click.option("--replace", is_flag=True, help="Replace what is there.")
@click.option("--fit", "photos", type=PATH, help="Fit the heads again on these photos (a folder of folders).")
@click.option("--keep-front", is_flag=True, help="With --fit: keep the installed model's trained columns and names.")
@click.option("--evidence", type=PATH, help="Other photos with ImageNet's wnids as folders, to check names on.")
@click.option("--evidence-data", default="", help="With --evidence: what they are, for the manifest.")
@click.option(
    "--lexicon", "wordnet", type=PATH, help="Write them to --out with words from WordNet's files in a folder."
)
@evaluation_options
@click.option("--model-version", default="1", show_default=True, help="With --fit: the models' version.")
def build_default(
    names: tuple[str, ...], out: Path | None, replace: bool, photos: Path | None, wordnet: Path | None, **flags: Any
) -> None:
    """Rebuild the models NAMES that come with nonneg, by default all of them.

    Without options: rebuild them from the packages of their backbones and compare them with what is installed, byte for
    byte. With --out: write them there. With --lexicon: as they are, and the words that they know, from WordNet
    (/usr/share/wordnet of Debian's wordnet-base). With --evidence alone: as they are, and the precision of names along
    a class measured again, where folders named pets and caltech101 count, too. With --fit: train their heads on
    photos, measure them, write all into --out; so also photo-best, which stands on both backbones and does not come
    with nonneg. With --fit and --keep-front nothing is trained: the head is laid out again around the trained and named
    columns of the installed model. What the backbone answers is kept in OUT/NAME.seen, so that a run resumes.
    """
    fitted = photos is not None
    chosen = [plan_of(name, fitted=fitted).name for name in names or shipped_names()]
    if photos is not None:
        _fit(chosen, photos, out, flags)
        return
    for name in chosen:
        if wordnet is not None:
            _tell(add_lexicon(name, wordnet, _given("lexicon", "out", out) / name, replace=replace))
            continue
        if flags["evidence"] is not None:
            _check_names(name, out, replace, flags)
            continue
        if out is not None:
            _tell(rebuild(name, out / name, replace=replace))
            continue
        with tempfile.TemporaryDirectory(prefix="nonneg-") as work:
            _compare(rebuild(name, Path(work, name)), SHIPPED / name)


def _fit(names: list[str], photos: Path, out: Path | None, flags: dict[str, Any]) -> None:
    from research.models.shipped_fit import SeenPhotos, Sets, fit, read_run, run_view, ship, with_installed_front

    out = _given("fit", "out", out)
    for field in ("evidence", "evaluate"):
        _given("fit", field, flags[field])
    sets = Sets(
        flags["evidence"],
        flags["evaluate"],
        flags["evidence_data"] or flags["evidence"].name,
        flags["evaluation_data"] or flags["evaluate"].name,
    )
    for name in names:
        keep = flags["keep_front"]
        run = None if keep else fit(name, photos, out / f"{name}.run")
        with ProgressBar("measuring") as bar:
            view = open_bundle(SHIPPED / name).manifest.view if run is None else run_view(run)
            seen = SeenPhotos(name, view, out / f"{name}.seen", bar.move)
            trained = with_installed_front(name, find_photos(photos), seen) if run is None else read_run(run)
            bundle = ship(name, trained, seen, sets, out / name, flags["model_version"])
        _tell(bundle)


def _check_names(name: str, out: Path | None, replace: bool, flags: dict[str, Any]) -> None:
    out, photos = _given("evidence", "out", out), find_photos(flags["evidence"])
    data = flags["evidence_data"] or flags["evidence"].name
    with ProgressBar("checking names") as bar:
        bundle = open_bundle(SHIPPED / name)
        checked = recheck(bundle, photos, out / name, data=data, replace=replace, tick=bar.move)
    _tell(checked)


def _given(option: str, field: str, folder: Path | None) -> Path:
    if folder is None:
        raise ConfigInvalid(f"--{option} needs --{field}", fix=f"give a folder with --{field}", field=field)
    return folder


def _tell(bundle: Bundle) -> None:
    click.echo(f"{bundle.path}: {bundle.manifest.name} {bundle.manifest.version}, {bundle.manifest.fingerprint}")


def _compare(bundle: Bundle, installed: Path) -> None:
    names = sorted({path.name for folder in (bundle.path, installed) for path in folder.iterdir()})
    for name in names:
        rebuilt, shipped = bundle.path / name, installed / name
        if not (rebuilt.is_file() and shipped.is_file() and rebuilt.read_bytes() == shipped.read_bytes()):
            raise CheckFailed(
                f"the rebuilt {name} of {bundle.manifest.name} differs from the installed one",
                fix="use the versions of torch, onnx, onnxscript and onnxruntime that constraints.txt pins",
                value=name,
            )
    click.echo(f"{bundle.manifest.name}: identical: {', '.join(names)}")


if __name__ == "__main__":
    run_command(build_default, "python -m research.models.build_default")
