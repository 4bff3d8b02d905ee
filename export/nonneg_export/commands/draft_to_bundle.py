"""From a draft to a bundle on disk and a page on the screen: what `export`, `rank` and `wrap` have in common."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft, rank, report, seal
from nonneg_export.assembly.text_recall import with_recall
from nonneg_export.calibrate.column_ranking import Rule
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.calibrate.workdir import workdir
from nonneg_export.commands.options import calibration, tell_broken, warn
from nonneg_export.share.manifest_report import summary
from nonneg_export.share.triton_repository import write_repository
from nonneg_runtime.bundle.bundle_folder import Bundle, check_free
from nonneg_vectors.evaluation.caption_retrieval import read_pairs


def write_and_show(
    draft: Callable[[Path, Photos, Tick], Draft],
    flags: dict[str, Any],
    *,
    finish: Callable[[RankedDraft], RankedDraft] | None = None,
) -> Bundle:
    """Calibrate, rank, verify, report, seal and show, as the flags say; `finish` is what a command adds.

    draft: from a folder to work in, the calibration photos, and what to tell how many of them are done.
    """
    out: Path = flags["out"]
    check_free(out, replace=flags["replace"])
    photos = calibration(flags)
    labelled = None if flags["evaluate"] is None else find_photos(flags["evaluate"])
    pairs = None if flags["captions"] is None else read_pairs(flags["captions"])
    with workdir(out, flags["work"]) as place:
        with ProgressBar("calibrating") as bar:
            start = draft(place, photos, bar.move)
            rule: Rule = flags["rank_by"] or ("nested" if start.nested else "expected-activation")
            dimensions = flags["dimensions"]
            ranked = rank(start, photos, place, rule=rule, dimensions=dimensions, data=flags["data"], tick=bar.move)
        if finish is not None:
            ranked = finish(ranked)
        if pairs is not None:
            with ProgressBar("captions") as bar:
                ranked = with_recall(ranked, pairs, flags["captions"], place, tick=bar.move)
        if labelled is not None:
            with ProgressBar("evaluating") as bar:
                ranked = report(ranked, labelled, place, data=flags["evaluation_data"], tick=bar.move)
        bundle = seal(ranked, out, overwrite=flags["replace"])
        repository = triton_repository(bundle, flags["triton"])
    tell_broken(ranked.activations.broken)
    _tell(bundle, repository)
    return bundle


def triton_repository(bundle: Bundle, folder: Path | None) -> Path | None:
    """Write the Triton model repository where one is asked for, and return its folder."""
    return None if folder is None else write_repository(bundle, folder)


def _tell(bundle: Bundle, repository: Path | None) -> None:
    quality = bundle.manifest.quality
    if quality is not None and quality.lonely_classes:
        warn(f"{quality.lonely_classes} classes have one image: they can be found but have nothing to find")
    click.echo(f"{bundle.path}\n{summary(bundle.manifest)}")
    if repository is not None:
        click.echo(f"Triton model repository: {repository}")
