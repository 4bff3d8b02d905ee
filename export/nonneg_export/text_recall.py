"""How often captions and images find each other in a bundle that embeds both, by length: a part of its manifest."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.evaluation.captions import DEPTHS, Captioned, Pair, Recall, captioned, recall
from nonneg_core.evaluation.quality import LENGTHS
from nonneg_core.shortening import Vectors
from nonneg_export.activations import Tick, collect
from nonneg_export.assemble import RankedDraft
from nonneg_export.evaluation import check_apart
from nonneg_export.photo_folder import Photos
from nonneg_runtime.evidence import RecallRow
from nonneg_runtime.text_tower import TextTower

DIGITS = 4


def with_recall(
    ranked: RankedDraft, pairs: list[Pair], data: Path, work: Path, *, tick: Tick | None = None
) -> RankedDraft:
    """The same with what the pairs of a file of captions say of its two towers; captions that are too long are cut."""
    text, manifest = ranked.manifest.text, ranked.manifest
    if text is None:
        raise ConfigInvalid(
            "there is no text tower that captions could be embedded with", fix="leave --captions out", field="captions"
        )
    photos = Photos(data.parent, captioned(pairs).images)
    seen = collect(ranked.encoder, photos, manifest.view, work / "captioned", precision=manifest.precision, tick=tick)
    check_apart(seen, ranked.seen.digests)
    there = set(seen.paths)
    of = captioned([pair for pair in pairs if pair.image in there])
    tower, row = TextTower(work, text), {path: i for i, path in enumerate(seen.paths)}
    texts = np.stack([tower.embed(caption, truncate=True) for caption in of.captions])
    images = np.asarray(seen.values)[[row[path] for path in of.images]]
    lengths = [manifest.dimensions, *(n for n in LENGTHS if n < manifest.dimensions)]
    told = f"{data.name}: {len(of.captions)} captions, {len(of.images)} images"
    found = text.model_copy(update={"data": told, "recall": tuple(_row(images, texts, of, n) for n in lengths)})
    return replace(ranked, manifest=manifest.model_copy(update={"text": found}))


def _row(images: Vectors, texts: Vectors, of: Captioned, n: int) -> RecallRow:
    found: Recall = recall(images[:, :n], texts[:, :n], of)
    to_image, to_text = (
        {str(depth): round(float(found.hits(depth)[way].mean()), DIGITS) for depth in DEPTHS} for way in (0, 1)
    )
    return RecallRow(dimensions=n, text_to_image=to_image, image_to_text=to_text)
