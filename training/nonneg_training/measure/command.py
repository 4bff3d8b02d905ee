"""`nonneg evaluate --structure`: what the dimensions of any encoder are like, beside floors that mean nothing."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import click

from nonneg_core.errors import ConfigInvalid
from nonneg_core.progress import ProgressBar
from nonneg_core.tables import table
from nonneg_training.data import Images, open_source, unseen
from nonneg_training.measure.outputs import Outputs
from nonneg_training.measure.probing import SELECTIONS, ProbeResult, check_selections
from nonneg_training.measure.report import Report, measure, row_cells, structure_table
from nonneg_training.measure.subject import Subject, is_array, open_subject, read_array
from nonneg_training.settings import Data


@click.command("evaluate --structure")
@click.argument("what", type=click.Path(path_type=Path))
@click.option("--data", help="Labelled images: digits:test, cifar10:test, ..., or a folder. Default: the run's own.")
@click.option("--teach", help="Images that probe and neighbours learn from; without any, one half of --data.")
@click.option("--root", type=click.Path(path_type=Path), help="Where a named data set lies; default: $NONNEG_DATA.")
@click.option("--limit", type=click.IntRange(min=4), help="Measure on so many images, drawn by chance.")
@click.option("--labels", type=click.Path(path_type=Path), help="Of an array: .npy, or text with a label a line.")
@click.option("--lengths", default="", metavar="N,…", help="Dimensions to keep, beside all of them.")
@click.option("--selections", default="prefix", show_default=True, metavar="NAME,…", help=",".join(SELECTIONS))
@click.option("--seed", type=int, default=0, show_default=True, help="Of the floors and of random dimensions.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def structure(
    what: Path,
    data: str | None,
    teach: str | None,
    root: Path | None,
    limit: int | None,
    labels: Path | None,
    lengths: str,
    selections: str,
    seed: int,
    as_json: bool,
) -> None:
    """Measure what the dimensions of WHAT are like: signed or not, a run, a bundle, an ONNX file, or an array.

    Sparsity, consistency, correlation, SEPIN and monosemanticity stand beside three floors: shuffled labels, the same
    codes randomly rotated and cut to the same sparsity, and an untrained head on the same features. Then a linear probe
    and neighbours on the embedding and, of a run, on the backbone's features. An array is .npz with z, labels and
    perhaps second (another view of the first images), or .npy with --labels.

    \b
      nonneg evaluate --structure runs/cl
      nonneg evaluate --structure photos.bundle --data cifar10:test --root data/ --teach cifar10:train
      nonneg evaluate --structure z.npy --labels labels.txt --lengths 64,16 --selections prefix,random
    """
    wanted, chosen = _lengths(lengths), selections.split(",")
    check_selections(chosen)
    if is_array(what):
        if data or teach:
            raise ConfigInvalid("an array brings its own labels", fix="leave --data and --teach out", field="--data")
        if root or limit:
            option = "--root" if root else "--limit"
            raise ConfigInvalid(
                f"{option} belongs to images, and {what} holds vectors", fix="leave it out", field=option
            )
        said, asked, before = str(what), read_array(what, labels), None
    else:
        if labels:
            raise ConfigInvalid("--labels belongs to an array", fix="leave it out", field="--labels")
        subject = open_subject(what, seed=seed)
        said, asked, before = subject.what, *_see(subject, data, teach, root, limit)
    found = measure(asked, before, lengths=wanted, selections=chosen, seed=seed)
    if as_json:
        click.echo(json.dumps({"what": said, **found.record()}))
    else:
        _show(said, found)


def _see(
    subject: Subject, data: str | None, teach: str | None, root: Path | None, limit: int | None
) -> tuple[Outputs, Outputs | None]:
    """Return what it makes of the images that are asked, and of those that teach."""
    if data is None and subject.data is None:
        raise ConfigInvalid(f"{subject.what} does not say what to show it", fix="give --data", field="--data")
    own = subject.data if data is None else Data(source=data, root=root)
    assert own is not None
    own = own.model_copy(update={"root": root}) if root else own
    test = unseen(own) if data is None else None
    asked = test or open_source(own)
    before = own if test is not None and teach is None else Data(source=teach, root=root) if teach else None
    seen = _shown(subject, _limited(asked, limit), seconds=True)
    return seen, None if before is None else _shown(subject, _limited(open_source(before), limit), seconds=False)


def _limited(images: object, limit: int | None) -> Images:
    from nonneg_training.data import subset

    if not isinstance(images, Images):
        raise ConfigInvalid("a stream cannot be measured", fix="copy its images to a folder", field="--data")
    return subset(images, limit=limit)


def _shown(subject: Subject, images: Images, *, seconds: bool) -> Outputs:
    with ProgressBar(f"looking at {images.name}", len(images)) as bar:
        return subject.see(images, seconds=seconds, tick=bar.move)


def _lengths(text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",") if part]
    except ValueError:
        raise click.BadParameter(f"{text!r} is not like 512,128") from None
    if min(found, default=1) < 1:
        raise ConfigInvalid(
            f"--lengths={min(found)} is not a number of dimensions",
            fix="give numbers from 1 up",
            field="--lengths",
            value=min(found),
            limit=1,
        )
    return found


def _show(what: str, found: Report) -> None:
    measured = found.structure
    click.echo(f"{what}; {measured.images} images of {measured.classes} classes")
    click.echo(table(["", "measured", "shuffled", "rotated", "untrained"], structure_table(measured)))
    click.echo(f"SEPIN: {measured.estimator}.\nMonosemanticity is judged by {measured.judge}.")
    lines = [row_cells("backbone", row) for row in found.features]
    lines += [row_cells("embedding", row) for row in found.embedding]
    click.echo(table(["", *(field.name for field in fields(ProbeResult))], lines))
