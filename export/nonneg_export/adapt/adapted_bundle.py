"""From an adapted head to a bundle: the source's encoders, the new head beside them, and what was measured."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from nonneg_core.errors import CheckFailed
from nonneg_core.pixels.view import has_simd
from nonneg_export.adapt.backbone import SourceBundle, kept_lexicon, kept_names
from nonneg_export.adapt.fitting import Fitted, Parts, sample
from nonneg_export.adapt.photo_features import Features
from nonneg_export.calibrate.activations import collect
from nonneg_export.calibrate.column_ranking import measure
from nonneg_export.calibrate.photo_folder import Photos, digest_of
from nonneg_export.checks import encoder_checks
from nonneg_export.checks.agreement import agreement, as_checks
from nonneg_export.checks.encoder_checks import ignores_batch_mates, samples
from nonneg_export.share.manifest_report import PREFIX
from nonneg_export.share.model_card import name_after
from nonneg_runtime.bundle.bundle_folder import ENCODER, Bundle, storing, write_bundle
from nonneg_runtime.bundle.evidence import Gain
from nonneg_runtime.bundle.head_file import HEAD, PHOTOS, SPREAD, write_head, write_photos, write_spread
from nonneg_runtime.bundle.manifest import (
    AdaptationRecord,
    Calibration,
    HeadRecord,
    LexiconRecord,
    Manifest,
    NamesRecord,
    Provenance,
    Variant,
    read_manifest,
)
from nonneg_runtime.inference.encoder import open_session
from nonneg_runtime.words.lexicon import read_lexicon
from nonneg_runtime.words.names import read_names

ACTIVATION = "relu({} weight + bias)^0.6"
TAKEN = {"roots": "sqrt(features)", "features": "features", "directions": "(features / |features|)"}
COMPARED = 100  # photos on which another form is held against the exact one
LEAST_KEPT = 0.6  # of the ten nearest neighbours, as for the shipped models
TOLERANCE = 0.95  # of another form's golden vector: processors round differently; one that saturates is far below


@dataclass(frozen=True, eq=False)
class AdaptationRecords:
    """All that a bundle says of its adaptation."""

    source: SourceBundle
    features: Features
    parts: Parts
    fitted: Fitted
    gains: Sequence[Gain]
    verdict: str
    data: str  # what the photos are

    def record(self) -> AdaptationRecord:
        """Return the manifest's record."""
        weights = self.fitted.weights
        return AdaptationRecord(
            source=self.source.bundle.manifest.name,
            photos=len(self.parts.fit),
            judged=len(self.parts.judged),
            classes=self.fitted.classes,
            mean=round(weights.mean, 4),
            covariance=round(weights.covariance, 4),
            labels=round(weights.labels, 4) if self.fitted.classes else 0.0,
            gains=tuple(self.gains),
            verdict=self.verdict,
        )


def write(adapted: AdaptationRecords, out: Path, work: Path, *, replace: bool = False) -> Bundle:
    """Put the bundle at `out`, whole or not at all."""
    with storing(work):
        files = _beside(adapted, work) if adapted.source.ordinary is not None else _behind(adapted, work)
    manifest = _manifest(adapted, out, work)
    forms = {variant.file for variant in manifest.variants}
    gone = {variant.file for variant in adapted.source.bundle.manifest.variants} - forms
    write_photos(adapted.features.digests(adapted.parts.fit), work / PHOTOS)
    places = {name: work / name for name in (*files, PHOTOS) if name not in gone}
    return write_bundle(out, manifest, places, replace=replace)


def _beside(adapted: AdaptationRecords, work: Path) -> list[str]:
    """Put the new head beside the encoders as they are; the names of all files."""
    source = adapted.source.bundle
    record = source.manifest.head
    assert record is not None
    of_source_alone = ("quality.", "atlas.", *_of_text(source.manifest))
    filenames = [n for n in source.manifest.files if n != record.file and not n.startswith(of_source_alone)]
    for name in filenames:
        shutil.copyfile(source.path / name, work / name)
    write_head(adapted.fitted.head, work / record.file)
    names, lexicon, dimensions = source.manifest.names, source.manifest.lexicon, source.manifest.dimensions
    if names is not None:
        kept_names(read_names(work / names.file, dimensions), adapted.source.named).write(work / names.file)
    if lexicon is not None:
        kept_lexicon(read_lexicon(work / lexicon.file, dimensions), adapted.source.named).write(work / lexicon.file)
    return [*filenames, record.file]


def _of_text(manifest: Manifest) -> tuple[str, ...]:
    """Return the files of a second tower, whose vectors are not those of another head."""
    return () if manifest.text is None else (manifest.text.file, manifest.text.tokenizer)


def _behind(adapted: AdaptationRecords, work: Path) -> list[str]:
    """Put the new head behind the encoder, its weights in a file of their own; the names of all files."""
    from nonneg_export.graphs.head_layers import write_encoder  # onnx

    write_encoder(adapted.source.bundle, adapted.fitted.head, work)
    write_spread(adapted.fitted.ordinary, work / SPREAD)
    return [ENCODER, HEAD, SPREAD]


def _manifest(adapted: AdaptationRecords, out: Path, work: Path) -> Manifest:
    source, size = adapted.source.bundle.manifest, adapted.source.view.size
    features, parts = adapted.features, adapted.parts
    others = parts.judged if len(parts.judged) else parts.fit
    few = Photos(features.photos.folder, tuple(features.path(n) for n in others[:COMPARED].tolist()))
    pixels = samples(few.paths, source.view)
    statistics = measure(adapted.fitted.head.embed(sample(features, parts.fit)))
    apart = adapted.source.ordinary is not None
    takes = source.head.takes if apart and source.head is not None else "roots"
    own = HeadRecord(file=HEAD, spread=SPREAD, takes=takes, power=adapted.fitted.head.power)
    return source.model_copy(
        update={
            "name": name_after(out),
            "version": "1",
            "description": f"{source.name}, its head adapted to {len(parts.fit):,} photos",
            "derived_from": source.fingerprint,
            "provenance": _provenance(adapted),
            "columns": statistics.columns(np.arange(adapted.fitted.head.dimensions)),
            "calibration": _calibration(adapted),
            "golden": encoder_checks.record(work / ENCODER, size),
            "checks": (ignores_batch_mates(open_session(work / ENCODER), pixels),),
            "quality": None,
            "certificate": None,
            "atlas": None,
            "head": own.model_copy(update={"trained": adapted.fitted.front}),
            "variants": _variants(adapted, few, work) if apart else (),
            "kept": None,
            "text": None,
            "sentences": source.sentences if apart else None,
            "names": _names(adapted, work) if apart else None,
            "lexicon": _lexicon(adapted, work) if apart else None,
            "dimensions": adapted.fitted.head.dimensions,
            "activation": ACTIVATION.format(TAKEN[takes]),
            "precision": read_manifest(adapted.source.bundle.path).precision if apart else source.precision,
            "adaptation": adapted.record(),
            "files": {},
        }
    )


def _variants(adapted: AdaptationRecords, few: Photos, work: Path) -> tuple[Variant, ...]:
    """Return the source's other forms, as far as they keep the neighbours of the new head too."""
    agreeing, view = [], adapted.source.view
    variants = adapted.source.bundle.manifest.variants
    if not variants:
        return ()
    exact = collect(work / ENCODER, few, view, work / "exact").values
    for variant in variants:
        session = open_session(work / variant.file, precision=variant.precision)
        rounded = collect(work / variant.file, few, view, work / variant.precision, precision=variant.precision)
        try:
            checks = (
                *as_checks(agreement(exact, rounded.values), LEAST_KEPT),
                ignores_batch_mates(session, samples(few.paths, view)),
            )
        except CheckFailed:
            continue
        vector = encoder_checks.record(work / variant.file, view.size, variant.precision)
        agreeing.append(
            variant.model_copy(update={"golden": vector.model_copy(update={"tolerance": TOLERANCE}), "checks": checks})
        )
    return tuple(agreeing)


def _names(adapted: AdaptationRecords, work: Path) -> NamesRecord | None:
    source = adapted.source.bundle.manifest
    if source.names is None:
        return None
    names = read_names(work / source.names.file, source.dimensions).names
    counts = {
        "named": len(names),
        "checked": sum(name.precision is not None for name in names),
        "first_512": None if source.names.first_512 is None else sum(name.dimension < PREFIX for name in names),
    }
    return source.names.model_copy(update=counts)


def _lexicon(adapted: AdaptationRecords, work: Path) -> LexiconRecord | None:
    source = adapted.source.bundle.manifest
    if source.lexicon is None:
        return None
    words = read_lexicon(work / source.lexicon.file, source.dimensions).words
    return source.lexicon.model_copy(update={"words": len(words)})


def _provenance(adapted: AdaptationRecords) -> Provenance:
    was, photos = adapted.source.bundle.manifest.provenance, len(adapted.parts.fit)
    labelled = f", with labels of {adapted.fitted.classes} classes" if adapted.fitted.classes else ", without labels"
    front = f" and the first {adapted.fitted.front}" if adapted.fitted.front else ""
    return Provenance(
        weights=f"{was.weights}; the head by nonneg adapt",
        weights_license=was.weights_license,
        data=f"{was.data}; the head adapted to {photos:,} photos ({adapted.data}){labelled}",
        data_license=f"{was.data_license}; the photos it was adapted to: not stated",
        note=f"{was.note}; columns computed again for these photos' mean and directions, but for named ones{front}",
        fetched=was.fetched,
    )


def _calibration(adapted: AdaptationRecords) -> Calibration:
    features, parts = adapted.features, adapted.parts
    digests = features.digests(parts.fit)
    return Calibration(
        images=len(parts.fit),
        data=adapted.data,
        digest=digest_of(bytes(digest).hex() for digest in digests),
        ranked_by="nested",
        decode="fast",
        resize="simd" if has_simd() else "pillow",
    )
