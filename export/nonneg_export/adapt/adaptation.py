"""Adaptation from end to end: features, labels, parts, head, judgement; nothing is written before it is judged."""

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nonneg_core.arrays import Numbers
from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_core.process.cores_and_allocator import available_cores
from nonneg_core.terminal.installing import extra_hint
from nonneg_export.adapt.adapted_bundle import AdaptationRecords, write
from nonneg_export.adapt.backbone import FeatureBackbone, SourceBundle, open_source
from nonneg_export.adapt.fitting import Fitted, fit, split
from nonneg_export.adapt.judging import by_labels, by_views, losses, of_others, parts_of, verdict
from nonneg_export.adapt.photo_features import Features, compute_features
from nonneg_export.adapt.photo_labels import Labels, coded, labels_of
from nonneg_export.calibrate.photo_folder import Photos
from nonneg_export.calibrate.photo_records import Broken, Tick
from nonneg_runtime.bundle.bundle_folder import Bundle
from nonneg_runtime.bundle.evidence import Gain
from nonneg_runtime.heads.feature_head import Weights
from nonneg_runtime.seeing.preprocess import Preprocessor


@dataclass(frozen=True)
class AdaptationRequest:
    """What is to be adapted to what."""

    photos: Photos
    source: str
    labels: Path | None
    labels_weight: float | None
    data: str
    train: bool = False
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
    if request.train and find_spec("torch") is None:
        raise MissingExtra("--train needs torch", fix=extra_hint("training"), value="torch")
    if request.labels is None:  # else they are known when the photos have been read
        check_labels_weight(request, coded(map(request.photos.label, request.photos.paths)))
    source = open_source(request.source)
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


def adapt_to(collection: PhotosToAdaptTo, *, tick: Tick | None = None) -> JudgedHead:
    """Fit a head to the photos and judge it; `tick` is told of steps of training."""
    request, source, features, labels = collection.request, collection.source, collection.features, collection.labels
    check_labels_weight(request, labels)
    parts = split(features, source.head)
    weights = Weights() if request.labels_weight is None else replace(Weights(), labels=request.labels_weight)
    fitted = fit(source, features, parts, labels, weights)
    if request.train:
        import nonneg_training  # noqa: F401  before torch: its threads sleep soon
        from nonneg_export.adapt.trained_front import trained

        fitted = trained(fitted, features, parts, labels, tick)
    gains = judge(collection, fitted, features, parts.judged, labels)
    if collection.others is not None:
        everyone = np.arange(len(collection.others))
        gains += of_others(judge(collection, fitted, collection.others, everyone, labels_of(collection.others, None)))
    summary = verdict(gains, len(parts.judged), source_front=bool(fitted.front and not fitted.steps))
    return JudgedHead(AdaptationRecords(source, features, parts, fitted, gains, summary, request.data))


def judge(
    collection: PhotosToAdaptTo, fitted: Fitted, features: Features, chosen: Numbers, labels: Labels
) -> list[Gain]:
    """Judge the head on photos that it was not fitted on: by labels where classes have two of them."""
    before, after, codes = collection.source.head, fitted.head, labels.codes[chosen]
    known = chosen[codes >= 0]
    if Labels(labels.codes[known], labels.names).useful:
        return by_labels(before, after, features.roots(known), labels.codes[known])
    readable, parts = parts_of(features, chosen, collection.backbone, Preprocessor(collection.source.view))
    return by_views(before, after, features.roots(readable), parts)
