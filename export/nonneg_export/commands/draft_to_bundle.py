"""From a draft to a bundle on disk and a page on the screen: what `export`, `rank` and `wrap` have in common."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import Vectors
from nonneg_core.terminal.progress import ProgressBar
from nonneg_export.assembly.calibrate_and_seal import Draft, RankedDraft, rank, report, seal
from nonneg_export.assembly.text_towers import TEXT_FEATURES
from nonneg_export.calibrate.activations import features_and_columns
from nonneg_export.calibrate.column_ranking import Rule
from nonneg_export.calibrate.photo_folder import Photos, find_photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.calibrate.workdir import workdir
from nonneg_export.checks.quality import LENGTHS
from nonneg_export.checks.quality_report import check_apart
from nonneg_export.commands.options import calibration, tell_broken, warn
from nonneg_export.share.bundle_sharing import write_repository
from nonneg_export.share.manifest_report import summary
from nonneg_runtime.bundle.bundle_folder import Bundle, check_free
from nonneg_runtime.bundle.evidence import RecallRow
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.text_tower import TOKENS, TextTower, Tokenizer
from nonneg_vectors.evaluation import caption_retrieval


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
    pairs = None if flags["captions"] is None else caption_retrieval.read_pairs(flags["captions"])
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


# How often captions and images find each other in a bundle that embeds both, by length: a part of its manifest.

DIGITS = 4


def with_recall(
    ranked: RankedDraft,
    pairs: list[caption_retrieval.CaptionedImage],
    data: Path,
    work: Path,
    *,
    tick: Tick | None = None,
) -> RankedDraft:
    """Add what the pairs of a file of captions say of the two towers; captions that are too long are cut."""
    text, manifest = ranked.manifest.text, ranked.manifest
    if text is None:
        raise ConfigInvalid(
            "captions need a text tower, which this bundle has not", fix="leave --captions out", field="captions"
        )
    photos = Photos(data.parent, caption_retrieval.captioned(pairs).images)
    activations, columns = features_and_columns(
        ranked.encoder, ranked.origin, photos, manifest, work / "captioned", tick
    )
    check_apart(activations, ranked.activations.digests)
    there = set(activations.paths)
    of = caption_retrieval.captioned([pair for pair in pairs if pair.image in there])
    tower, row = TextTower(work, text), {path: i for i, path in enumerate(activations.paths)}
    texts = np.stack([tower.embed(caption, truncate=True) for caption in of.captions])
    indices = [row[path] for path in of.images]
    images = columns[indices]
    lengths = [manifest.dimensions, *(n for n in LENGTHS if n < manifest.dimensions)]
    summary = f"{data.name}: {len(of.captions)} captions, {len(of.images)} images"
    fields: dict[str, object] = {"data": summary, "recall": tuple(_row(images, texts, of, n) for n in lengths)}
    if ranked.origin is not None:
        raw = _features(work, tower.tokenizer, of.captions)
        fields |= {"raw": _row(np.asarray(activations.values)[indices], raw, of, raw.shape[1])}
    return replace(ranked, manifest=manifest.model_copy(update={"text": text.model_copy(update=fields)}))


def _features(work: Path, reader: Tokenizer, captions: tuple[str, ...]) -> Vectors:
    """Return what the text tower answers before its head."""
    session = Session(work / TEXT_FEATURES, takes=TOKENS)
    return np.concatenate([session.run(reader.rows([caption], truncate=True)) for caption in captions])


def _row(images: Vectors, texts: Vectors, of: caption_retrieval.Captioned, n: int) -> RecallRow:
    retrieval: caption_retrieval.Recall = caption_retrieval.recall(images[:, :n], texts[:, :n], of)
    to_image, to_text = (
        {str(depth): round(float(retrieval.hits(depth)[way].mean()), DIGITS) for depth in caption_retrieval.DEPTHS}
        for way in (0, 1)
    )
    return RecallRow(dimensions=n, text_to_image=to_image, image_to_text=to_text)
