"""`nonneg adapt`: a model for one's own photos, judged beside the one it was made from."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nonneg_core.terminal.tables import json_line

if TYPE_CHECKING:
    from nonneg_export.adapt.adaptation import AdaptationRequest, JudgedHead, PhotosToAdaptTo

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a busy machine its threads wait for each other
PATH = click.Path(path_type=Path)
KEPT_DEFAULT = 3  # exit code: labels show a loss, and no bundle was written


@click.command()
@click.argument("photos", type=PATH)
@click.option("--out", "-o", type=PATH, required=True, help="The bundle to write.")
@click.option("--replace", is_flag=True, help="Replace what is at --out.")
@click.option(
    "--from", "source", default="photo", show_default=True, help="The bundle to adapt, or a shipped model's name."
)
@click.option("--labels", type=PATH, help="CSV file with the columns path and label; by default folders are labels.")
@click.option(
    "--labels-weight",
    type=click.FloatRange(0, 1),
    help="How much labels count: 0 is not at all; more is better in these classes, and worse in new ones.",
)
@click.option(
    "--keep-front", is_flag=True, help="Keep the first 96 columns: short vectors tell photos of other kinds apart."
)
@click.option(
    "--others", type=PATH, help="Photos of other kinds, a folder for each label: what the head loses on them."
)
@click.option("--data", default="", help="What the photos are, for the manifest; by default the folder's name.")
@click.option("--force", is_flag=True, help="Write the bundle although labels show a loss.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def adapt(
    photos: Path,
    out: Path,
    replace: bool,
    source: str,
    labels: Path | None,
    labels_weight: float | None,
    keep_front: bool,
    others: Path | None,
    data: str,
    force: bool,
    as_json: bool,
) -> None:
    """Make a better model for PHOTOS, a folder of 50 to 1,000,000 of them, in seconds after embedding them.

    Folders in PHOTOS are labels if there are any. With labels three quarters of the photos shape the head; the
    others, none of them a copy of those, say what that gained and lost beside the model it was made from. Where they
    show a loss, or one of more than a point on --others, nothing is written and the exit code is 3. Without labels
    all photos shape the head, and nothing can be measured. The same command goes on where it was stopped, and a new
    photo costs one photo.

    \b
      nonneg adapt photos/ --out mine.bundle
      nonneg adapt photos/ --out mine.bundle --others other-photos/
      nonneg serve --model default --model mine=mine.bundle
    """
    from nonneg_core.process.long_runs import Interrupted
    from nonneg_export.adapt.adaptation import AdaptationRequest
    from nonneg_export.adapt.fitting import MOST_JUDGED
    from nonneg_export.calibrate.photo_folder import find_photos
    from nonneg_export.commands.options import tell_broken
    from nonneg_runtime.bundle.bundle_folder import check_free

    check_free(out, replace=replace)
    own, foreign = find_photos(photos), None if others is None else find_photos(others).every(MOST_JUDGED)
    request = AdaptationRequest(own, source, labels, labels_weight, data or photos.resolve().name, keep_front, foreign)
    try:
        collection, outcome, place = made(request, out, replace=replace, force=force)
    except Interrupted as interrupted:
        click.echo(f"{interrupted}: what was embedded is kept; the same command goes on", err=True)
        raise SystemExit(interrupted.exit_code) from None
    tell_broken(collection.broken)
    if collection.labels.unmatched:
        click.echo(collection.labels.unmatched, err=True)
    if as_json:
        click.echo(json_line(summary(outcome, collection, place)))
    else:
        show(outcome, place)
    if place is None:
        sys.exit(KEPT_DEFAULT)


def made(
    request: AdaptationRequest, out: Path, *, replace: bool, force: bool
) -> tuple[PhotosToAdaptTo, JudgedHead, Path | None]:
    """Adapt, and write the bundle unless it lost; return where it was written."""
    from nonneg_core.process.long_runs import Interrupts
    from nonneg_core.terminal.progress import ProgressBar
    from nonneg_export.adapt.adaptation import adapt_to, see

    with Interrupts(), tempfile.TemporaryDirectory(prefix="nonneg-") as work:
        with ProgressBar("embedding", lines=True) as bar:
            collection = see(request, Path(work), tick=bar.move)
        outcome = adapt_to(collection)
        if outcome.lost and not force:
            return collection, outcome, None
        outcome.write(out, Path(work), replace=replace)
        return collection, outcome, out


def summary(outcome: JudgedHead, collection: PhotosToAdaptTo, out: Path | None) -> dict[str, Any]:
    """Return the outcome, for programs."""
    adapted = outcome.adapted
    return {
        "bundle": None if out is None else str(out),
        "fingerprint": outcome.fingerprint,
        **adapted.record().model_dump(mode="json"),
        "lost": [
            {"length": gain.length, "metric": gain.metric, "difference": gain.difference} for gain in outcome.lost
        ],
        "copies": adapted.parts.copies,
        "skipped": [{"path": str(path), "error": reason} for path, reason in collection.broken],
    }


def show(outcome: JudgedHead, out: Path | None) -> None:
    """Print the outcome, for people."""
    from nonneg_export.commands.options import warn
    from nonneg_export.share.manifest_report import adaptation

    adapted = outcome.adapted
    record = adapted.record()
    labelled = f", labels of {record.classes} classes" if record.classes else ", without labels"
    judged = f", judged by {record.judged:,} others ({adapted.parts.copies} copies set aside)" if record.judged else ""
    click.echo(f"{adapted.data}: fitted on {record.photos:,} photos{labelled}{judged}; {record.source} -> adapted")
    click.echo(adaptation(record))
    if out is None:
        warn(f"nothing was written: stay with {record.source}, or pass --force")
    else:
        click.echo(f"{out}: fingerprint {outcome.fingerprint}. Serve it: nonneg serve --model default --model {out}")
