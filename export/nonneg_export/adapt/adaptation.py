"""Adaptation from end to end: features, labels, parts, head, judgement; nothing is written before it is judged."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from nonneg_core.errors import ConfigInvalid
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_export.adapt.adapted_bundle import AdaptationRecords, write
from nonneg_export.adapt.backbone import FeatureBackbone, SourceBundle, open_source
from nonneg_export.adapt.fitting import fit, split
from nonneg_export.adapt.judging import by_labels, losses, of_others, verdict
from nonneg_export.adapt.photo_features import Features, compute_features
from nonneg_export.adapt.photo_labels import Labels, coded, labels_of
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Broken, Tick
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.evidence import Gain
from nonneg_runtime.heads.feature_head import Weights


@dataclass(frozen=True)
class AdaptationRequest:
    """What is to be adapted to what."""

    photos: Photos
    source: str
    labels: Path | None
    labels_weight: float | None
    data: str
    keep_front: bool = False  # columns that were trained on ordinary photos stay in front
    others: Photos | None = None  # photos of other kinds, by which the head is judged as well


@dataclass(eq=False)
class JudgedHead:
    """A head that was judged, not written yet."""

    adapted: AdaptationRecords
    fingerprint: str = ""

    @property
    def lost(self) -> list[Gain]:
        """Where labels show a loss."""
        return losses(self.adapted.gains)

    def write(self, out: Path, work: Path, *, replace: bool) -> Bundle:
        """Put the bundle at `out`."""
        bundle = write(self.adapted, out, work, replace=replace)
        self.fingerprint = bundle.manifest.fingerprint
        return bundle


@dataclass(frozen=True, eq=False)
class PhotosToAdaptTo:
    """Photos as the source's backbone sees them."""

    request: AdaptationRequest
    source: SourceBundle
    backbone: FeatureBackbone
    features: Features
    others: Features | None
    labels: Labels

    @property
    def broken(self) -> Broken:
        """The photos that could not be read, and why."""
        return self.features.broken + (() if self.others is None else self.others.broken)


def see(request: AdaptationRequest, work: Path, *, tick: Tick | None = None) -> PhotosToAdaptTo:
    """Compute the photos' features, or read them; `work`: a folder that lasts until the bundle is written."""
    if request.labels is None:  # else they are known when the photos have been read
        check_labels_weight(request, coded(map(request.photos.label, request.photos.paths)))
    if request.others is not None:
        check_others(request.others)
    source = open_source(request.source)
    if request.keep_front and not source.trained:
        raise ConfigInvalid(
            f"--keep-front changes nothing: {request.source} has no trained columns in front",
            fix="leave it out, or adapt a shipped model",
            field="keep_front",
        )
    backbone = FeatureBackbone(source, work, available_cores())
    own = compute_features(source, backbone, request.photos, tick=tick)
    others = None if request.others is None else compute_features(source, backbone, request.others, tick=tick)
    return PhotosToAdaptTo(request, source, backbone, own, others, labels_of(own, request.labels))


def check_labels_weight(request: AdaptationRequest, labels: Labels) -> None:
    """Refuse a weight of labels where there are none to weigh."""
    if request.labels_weight and not labels.useful:
        raise ConfigInvalid(
            f"--labels-weight={request.labels_weight:g} changes nothing: the photos have {len(labels.names)} labels "
            f"with {int((labels.codes >= 0).sum())} photos, and two labels are needed, one of them with two photos",
            fix="leave it out, or give labels: a folder for each, or --labels FILE.csv",
            field="labels_weight",
            value=request.labels_weight,
        )


def check_others(others: Photos) -> None:
    """Refuse photos of other kinds by which nothing can be judged."""
    if not coded(map(others.label, others.paths)).useful:
        raise ConfigInvalid(
            f"--others {others.folder} has no labels: nothing can be judged by it",
            fix="put its photos into a folder for each label, at least two, one of them with two photos",
            field="others",
            value=str(others.folder),
        )


def adapt_to(collection: PhotosToAdaptTo) -> JudgedHead:
    """Fit a head to the photos, and judge it where they have labels."""
    request, source, features, labels = collection.request, collection.source, collection.features, collection.labels
    check_labels_weight(request, labels)
    parts = split(features, source.head, judged=labels.useful)
    weights = Weights() if request.labels_weight is None else replace(Weights(), labels=request.labels_weight)
    fitted = fit(source, features, parts, labels, weights, keep_front=request.keep_front)
    gains = by_labels(source.head, fitted.head, features, labels, parts.judged)
    if collection.others is not None:
        everyone, others = np.arange(len(collection.others)), labels_of(collection.others, None)
        gains += of_others(by_labels(source.head, fitted.head, collection.others, others, everyone))
    summary = verdict(gains, len(parts.judged), front=bool(fitted.front))
    return JudgedHead(AdaptationRecords(source, features, parts, fitted, gains, summary, request.data))
