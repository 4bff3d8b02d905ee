"""Adaptation from end to end: features, labels, parts, head, judgement; nothing is written before it is judged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from nonneg_core.cores import available_cores
from nonneg_core.errors import MissingExtra
from nonneg_core.heads.adapted import Weights
from nonneg_core.installing import extra_hint
from nonneg_export.activations import Tick
from nonneg_export.adaptation.backbone import Backbone, Source, open_source
from nonneg_export.adaptation.features import Features, compute_features
from nonneg_export.adaptation.fitting import Fitted, fit
from nonneg_export.adaptation.judging import by_labels, by_views, losses, parts_of
from nonneg_export.adaptation.labels import Labels, labels_of
from nonneg_export.adaptation.sealing import Adapted, write
from nonneg_export.adaptation.splitting import Parts, split
from nonneg_export.adaptation.verdict import verdict
from nonneg_export.photo_folder import Photos
from nonneg_runtime.bundle import Bundle
from nonneg_runtime.evidence import Gain
from nonneg_runtime.preprocess import Preprocessor


@dataclass(frozen=True)
class Asked:
    """What is to be adapted to what."""

    photos: Photos
    source: str
    labels: Path | None
    labels_weight: float | None
    data: str
    train: bool = False


@dataclass(eq=False)
class Outcome:
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
class Seen:
    """Photos as the source's backbone sees them."""

    asked: Asked
    source: Source
    backbone: Backbone
    features: Features


def see(asked: Asked, work: Path, *, tick: Tick | None = None) -> Seen:
    """Compute the photos' features, or read them; `work`: a folder that lasts until the bundle is written."""
    if asked.train and find_spec("torch") is None:
        raise MissingExtra("--train needs torch", fix=extra_hint("training"), value="torch")
    source = open_source(asked.source)
    backbone = Backbone(source, work, available_cores())
    return Seen(asked, source, backbone, compute_features(source, backbone, asked.photos, tick=tick))


def adapt_to(seen: Seen, *, tick: Tick | None = None) -> Outcome:
    """Fit a head to the photos and judge it; `tick` is told of steps of training."""
    asked, source, features = seen.asked, seen.source, seen.features
    labels = labels_of(features, asked.labels)
    parts = split(features, source.head)
    weights = Weights() if asked.labels_weight is None else replace(Weights(), labels=asked.labels_weight)
    fitted = fit(source, features, parts, labels, weights)
    if asked.train:
        import nonneg_training  # noqa: F401  before torch: its threads sleep soon
        from nonneg_export.adaptation.training import trained

        fitted = trained(fitted, features, parts, labels, tick)
    gains = judge(source, seen.backbone, fitted, features, parts, labels)
    said = verdict(gains, len(parts.judged), kept=bool(fitted.front and not fitted.steps))
    return Outcome(Adapted(source, features, parts, fitted, gains, said, asked.data))


def judge(
    source: Source, backbone: Backbone, fitted: Fitted, features: Features, parts: Parts, labels: Labels
) -> list[Gain]:
    """What the head gained and lost on the photos kept apart: by labels where classes have two of them."""
    codes = labels.codes[parts.judged]
    known = parts.judged[codes >= 0]
    if Labels(labels.codes[known], labels.names).useful:
        return by_labels(source.head, fitted.head, features.roots(known), labels.codes[known])
    kept, seen = parts_of(features, parts.judged, backbone, Preprocessor(source.view))
    return by_views(source.head, fitted.head, features.roots(kept), seen)
