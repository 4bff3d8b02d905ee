"""A bundle from a bundle, with a smaller encoder that is compared with the first one before it is written."""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_export.activations import Activations, Tick, collect
from nonneg_export.checks import golden, verify
from nonneg_export.checks.agreement import Agreement, agreement, as_checks
from nonneg_export.checks.evaluation import evaluate
from nonneg_export.graphs.canonical import save
from nonneg_export.graphs.fp16_weights import store_fp16
from nonneg_export.graphs.quantization import to_int8
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import ENCODER, Bundle
from nonneg_runtime.inference.open_session import open_session
from nonneg_runtime.manifest import Manifest
from nonneg_training.onnx_backbone.onnx_graph import load

Small = Literal["int8", "bf16", "fp16"]
FOR_RANGES, FOR_JUDGING = 300, 1000  # photos at most
FEWEST = 4
TOLERANCES = {  # of the golden vector
    "int8": 0.98,  # processors without VNNI round and saturate otherwise
    "bf16": 0.98,  # and no two add up rounded numbers in the same order
}


@dataclass(frozen=True)
class Shrunk:
    """The smaller encoder with its manifest, and how alike it is; not sealed yet."""

    encoder: Path
    manifest: Manifest
    seen: Activations
    agreement: Agreement


def quantized(
    bundle: Bundle, to: Small, photos: Photos, work: Path, *, min_quality: float, tick: Tick | None = None
) -> Shrunk:
    """Quantise with half of the photos, compare on the other half, refuse below `min_quality`."""
    if bundle.manifest.precision in (to, "int8", "bf16"):
        raise ConfigInvalid(
            f"{bundle.path} is {bundle.manifest.precision} already",
            fix="start from the bundle it was made from",
            field="bundle",
        )
    if len(photos) < FEWEST:
        raise DataInvalid(f"{len(photos)} photos are too few to quantise with", fix="give 100 or more")
    ranges = Photos(photos.folder, photos.paths[::2]).every(FOR_RANGES)
    others = Photos(photos.folder, photos.paths[1::2]).every(FOR_JUDGING)
    view, encoder = bundle.manifest.view, work / ENCODER
    before = collect(bundle.encoder, others, view, work / "before", tick=tick)
    if to == "int8":
        model = to_int8(bundle.encoder, ranges.paths, view)
        save(store_fp16(model) if bundle.manifest.precision == "fp16" else model, encoder)  # what is left as numbers
    elif to == "fp16":
        save(store_fp16(load(bundle.encoder)), encoder)
    else:  # the same encoder, computed otherwise
        save(load(bundle.encoder), encoder)
    after = collect(encoder, others, view, work / "after", precision=to, tick=tick)
    found = agreement(before.values, after.values)
    recorded = golden.record(encoder, view.size, to)
    tolerance = TOLERANCES.get(to, recorded.tolerance)
    manifest = bundle.manifest.model_copy(
        update={
            "precision": to,
            "derived_from": bundle.manifest.fingerprint,
            "golden": recorded.model_copy(update={"tolerance": tolerance}),
            "checks": (
                *as_checks(found, min_quality),
                verify.ignores_batch_mates(open_session(encoder, precision=to), verify.samples(before.paths, view)),
            ),
            "quality": None,
            "certificate": None,
            "atlas": None,
            "head": None,  # within the graph
            "variants": (),
        }
    )
    for beside in (manifest.names, manifest.lexicon):
        if beside is not None:
            shutil.copyfile(bundle.path / beside.file, work / beside.file)
    _bring_text(bundle, work)
    return Shrunk(encoder, manifest, after, found)


def _bring_text(bundle: Bundle, work: Path) -> None:
    """Copy the text tower with its head within: the quantised encoder's bundle has no file of a head."""
    record = bundle.manifest.text
    if record is not None:
        save(load(bundle.path / record.file), work / record.file)
        shutil.copyfile(bundle.path / record.tokenizer, work / record.tokenizer)


def evaluated(shrunk: Shrunk, photos: Photos, labelled: Photos, work: Path, *, data: str = "") -> Shrunk:
    """Return the same with its own quality report; `photos` are what it was quantised with."""
    used = tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in photos.paths if path.is_file())
    quality = evaluate(shrunk.encoder, shrunk.manifest, shrunk.seen.values, used, labelled, work, data=data)
    manifest = shrunk.manifest.model_copy(update={"quality": quality})
    return replace(shrunk, manifest=manifest)
