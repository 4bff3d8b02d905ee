"""How often captions and images find each other in a bundle that embeds both, by length: a part of its manifest."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.shortening import Vectors
from nonneg_export.assembly.calibrate_and_seal import RankedDraft
from nonneg_export.assembly.text_towers import TEXT_FEATURES
from nonneg_export.calibrate.activations import features_and_columns
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Tick
from nonneg_export.checks.quality import LENGTHS
from nonneg_export.checks.quality_report import check_apart
from nonneg_runtime.bundle.evidence import RecallRow
from nonneg_runtime.inference.onnx_session import Session
from nonneg_runtime.inference.text_tower import TOKENS, TextTower, Tokenizer
from nonneg_vectors.evaluation.caption_retrieval import DEPTHS, Captioned, CaptionedImage, Recall, captioned, recall

DIGITS = 4


def with_recall(
    ranked: RankedDraft, pairs: list[CaptionedImage], data: Path, work: Path, *, tick: Tick | None = None
) -> RankedDraft:
    """Add what the pairs of a file of captions say of the two towers; captions that are too long are cut."""
    text, manifest = ranked.manifest.text, ranked.manifest
    if text is None:
        raise ConfigInvalid(
            "captions need a text tower, which this bundle has not", fix="leave --captions out", field="captions"
        )
    photos = Photos(data.parent, captioned(pairs).images)
    activations, columns = features_and_columns(
        ranked.encoder, ranked.origin, photos, manifest, work / "captioned", tick
    )
    check_apart(activations, ranked.activations.digests)
    there = set(activations.paths)
    of = captioned([pair for pair in pairs if pair.image in there])
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


def _row(images: Vectors, texts: Vectors, of: Captioned, n: int) -> RecallRow:
    retrieval: Recall = recall(images[:, :n], texts[:, :n], of)
    to_image, to_text = (
        {str(depth): round(float(retrieval.hits(depth)[way].mean()), DIGITS) for depth in DEPTHS} for way in (0, 1)
    )
    return RecallRow(dimensions=n, text_to_image=to_image, image_to_text=to_text)
