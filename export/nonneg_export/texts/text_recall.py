"""How often captions and images find each other in a bundle that embeds both, by length: a part of its manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.evaluation.captions import DEPTHS, Captioned, CaptionedImage, Recall, captioned, recall
from nonneg_core.evaluation.quality import LENGTHS
from nonneg_core.shortening import Vectors
from nonneg_export.activations import Tick
from nonneg_export.assemble import RankedDraft
from nonneg_export.checks.evaluation import check_apart
from nonneg_export.origin_features import answered
from nonneg_export.photo_folder import Photos
from nonneg_export.texts.text_towers import TEXT_FEATURES
from nonneg_runtime.evidence import RecallRow
from nonneg_runtime.inference.session import Session
from nonneg_runtime.words.text_tower import TOKENS, TextTower, Tokenizer

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
    seen, columns = answered(ranked.encoder, ranked.origin, photos, manifest, work / "captioned", tick)
    check_apart(seen, ranked.seen.digests)
    there = set(seen.paths)
    of = captioned([pair for pair in pairs if pair.image in there])
    tower, row = TextTower(work, text), {path: i for i, path in enumerate(seen.paths)}
    texts = np.stack([tower.embed(caption, truncate=True) for caption in of.captions])
    asked = [row[path] for path in of.images]
    images = columns[asked]
    lengths = [manifest.dimensions, *(n for n in LENGTHS if n < manifest.dimensions)]
    told = f"{data.name}: {len(of.captions)} captions, {len(of.images)} images"
    said: dict[str, object] = {"data": told, "recall": tuple(_row(images, texts, of, n) for n in lengths)}
    if ranked.origin is not None:
        raw = _features(work, tower.tokenizer, of.captions)
        said |= {"raw": _row(np.asarray(seen.values)[asked], raw, of, raw.shape[1])}
    return replace(ranked, manifest=manifest.model_copy(update={"text": text.model_copy(update=said)}))


def _features(work: Path, reader: Tokenizer, captions: tuple[str, ...]) -> Vectors:
    """Return what the text tower answers before its head."""
    session = Session(work / TEXT_FEATURES, takes=TOKENS)
    return np.concatenate([session.run(reader.rows([caption], truncate=True)) for caption in captions])


def _row(images: Vectors, texts: Vectors, of: Captioned, n: int) -> RecallRow:
    found: Recall = recall(images[:, :n], texts[:, :n], of)
    to_image, to_text = (
        {str(depth): round(float(found.hits(depth)[way].mean()), DIGITS) for depth in DEPTHS} for way in (0, 1)
    )
    return RecallRow(dimensions=n, text_to_image=to_image, image_to_text=to_text)
