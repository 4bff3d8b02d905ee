"""Adaptation from end to end: features, labels, parts, head, judgement; nothing is written before it is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from nonneg_core.cores import available_cores
from nonneg_core.errors import ConfigInvalid, MissingExtra
from nonneg_core.heads.adapted import Weights
from nonneg_core.installing import extra_hint
from nonneg_export.activations import Tick
from nonneg_export.adaptation.backbone import FeatureBackbone, SourceBundle, open_source
from nonneg_export.adaptation.features import Broken, Features, compute_features
from nonneg_export.adaptation.fitting import Fitted, fit
from nonneg_export.adaptation.judging import by_labels, by_views, losses, of_others, parts_of
from nonneg_export.adaptation.labels import Labels, coded, labels_of
from nonneg_export.adaptation.records import Numbers
from nonneg_export.adaptation.sealing import Adapted, write
from nonneg_export.adaptation.splitting import split
from nonneg_export.adaptation.verdict import verdict
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.evidence import Gain
from nonneg_runtime.preprocess import Preprocessor


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

    adapted: Adapted
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
class SeenPhotos:
    """Photos as the source's backbone sees them."""

    asked: AdaptationRequest
    source: SourceBundle
    backbone: FeatureBackbone
    features: Features
    others: Features | None
    labels: Labels

    @property
    def broken(self) -> Broken:
        """The photos that could not be read, and why."""
        return self.features.broken + (() if self.others is None else self.others.broken)


def see(asked: AdaptationRequest, work: Path, *, tick: Tick | None = None) -> SeenPhotos:
    """Compute the photos' features, or read them; `work`: a folder that lasts until the bundle is written."""
    if asked.train and find_spec("torch") is None:
        raise MissingExtra("--train needs torch", fix=extra_hint("training"), value="torch")
    if asked.labels is None:  # else they are known when the photos have been read
        check_labels_weight(asked, coded(map(asked.photos.label, asked.photos.paths)))
    source = open_source(asked.source)
    backbone = FeatureBackbone(source, work, available_cores())
    own = compute_features(source, backbone, asked.photos, tick=tick)
    others = None if asked.others is None else compute_features(source, backbone, asked.others, tick=tick)
    return SeenPhotos(asked, source, backbone, own, others, labels_of(own, asked.labels))


def check_labels_weight(asked: AdaptationRequest, labels: Labels) -> None:
    """Refuse a weight of labels where there are none to weigh."""
    if asked.labels_weight and not labels.useful:
        raise ConfigInvalid(
            f"--labels-weight={asked.labels_weight:g} changes nothing: the photos have {len(labels.names)} labels with "
            f"{int((labels.codes >= 0).sum())} photos, and two labels are needed, one of them with two photos",
            fix="leave it out, or give labels: a folder for each, or --labels FILE.csv",
            field="labels_weight",
            value=asked.labels_weight,
        )


def adapt_to(seen: SeenPhotos, *, tick: Tick | None = None) -> JudgedHead:
    """Fit a head to the photos and judge it; `tick` is told of steps of training."""
    asked, source, features, labels = seen.asked, seen.source, seen.features, seen.labels
    check_labels_weight(asked, labels)
    parts = split(features, source.head)
    weights = Weights() if asked.labels_weight is None else replace(Weights(), labels=asked.labels_weight)
    fitted = fit(source, features, parts, labels, weights)
    if asked.train:
        import nonneg_training  # noqa: F401  before torch: its threads sleep soon
        from nonneg_export.adaptation.training import trained

        fitted = trained(fitted, features, parts, labels, tick)
    gains = judge(seen, fitted, features, parts.judged, labels)
    if seen.others is not None:
        everyone = np.arange(len(seen.others))
        gains += of_others(judge(seen, fitted, seen.others, everyone, labels_of(seen.others, None)))
    said = verdict(gains, len(parts.judged), kept=bool(fitted.front and not fitted.steps))
    return JudgedHead(Adapted(source, features, parts, fitted, gains, said, asked.data))


def judge(seen: SeenPhotos, fitted: Fitted, features: Features, chosen: Numbers, labels: Labels) -> list[Gain]:
    """Judge the head on photos that it was not fitted on: by labels where classes have two of them."""
    before, after, codes = seen.source.head, fitted.head, labels.codes[chosen]
    known = chosen[codes >= 0]
    if Labels(labels.codes[known], labels.names).useful:
        return by_labels(before, after, features.roots(known), labels.codes[known])
    kept, parts = parts_of(features, chosen, seen.backbone, Preprocessor(seen.source.view))
    return by_views(before, after, features.roots(kept), parts)
