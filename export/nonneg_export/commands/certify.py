"""`nonneg certify`: whether a bundle's dimensions mean something, beside floors that mean nothing."""

import os
import sys
import tempfile
from pathlib import Path

import click

from nonneg_core.terminal.tables import json_line

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a busy machine its threads wait for each other
PATH = click.Path(path_type=Path)
EXIT = {"pass": 0, "fail": 3, "not decided": 4}


@click.command()
@click.argument("bundle", required=False, type=PATH)
@click.option("--images", type=PATH, required=True, help="Folder of labelled photos (class/image).")
@click.option(
    "--judge", type=PATH, help="Another model, which says what is alike; by default a shipped one that differs."
)
@click.option("--data", default="", help="What the photos are; by default the folder's name.")
@click.option("--out", "-o", type=PATH, help="Write the bundle with the certificate in its manifest to this folder.")
@click.option("--replace", is_flag=True, help="Replace what is at --out.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def certify(
    bundle: Path | None, images: Path, judge: Path | None, data: str, out: Path | None, replace: bool, as_json: bool
) -> None:
    """Measure whether the dimensions of BUNDLE mean something; without BUNDLE, of the default model.

    Class consistency, monosemanticity, sparse probing, and how the named dimensions answer to pictures that are
    pasted, cropped and recoloured. Each beside shuffled labels, the same codes randomly rotated, and an untrained head.
    Exit code 0: every figure lies above every floor by more than chance. 3: one does not. 4: the photos do not decide.

    \b
      nonneg certify photo --images labelled/
      nonneg certify mine.bundle --images labelled/ --out mine.bundle --replace
    """
    from nonneg_core.terminal.progress import ProgressBar
    from nonneg_export.calibrate.photo_folder import find_photos
    from nonneg_export.certify.certification import certify as measured
    from nonneg_export.certify.certified_encoders import open_certified, open_judge
    from nonneg_export.commands.options import tell_broken
    from nonneg_export.share.manifest_report import certificate
    from nonneg_runtime.bundle.bundle_folder import check_free, write_bundle

    opened = open_certified(bundle)
    judging, photos = open_judge(judge, opened), find_photos(images)
    if out is not None:
        check_free(out, replace=replace)
    with tempfile.TemporaryDirectory(prefix="nonneg-") as work, ProgressBar("looking") as bar:
        measurement = measured(
            opened, judging, photos, Path(work), data=data or photos.folder.resolve().name, tick=bar.move
        )
    tell_broken(measurement.broken)
    record = measurement.record
    if out is not None:
        from nonneg_runtime.bundle.bundle_folder import open_bundle

        whole = open_bundle(bundle)
        files = {name: whole.path / name for name in whole.manifest.files}
        write_bundle(out, whole.manifest.model_copy(update={"certificate": record}), files, replace=replace)
    if as_json:
        click.echo(json_line({"model": opened.manifest.name, **record.model_dump(mode="json")}))
    else:
        click.echo(certificate(record))
    sys.exit(EXIT[record.outcome])
