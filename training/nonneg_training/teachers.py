"""The teachers of a head: the half-whitened features of one or several backbones, of the very views it learns from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nonneg_core.heads.head import roots
from nonneg_core.heads.teacher import taught
from nonneg_training.backbones import backbone
from nonneg_training.cache import CachedFeatures
from nonneg_training.encoder import EncoderModule
from nonneg_training.settings import RunSettings
from nonneg_training.views import evaluation_view


def teachers(settings: RunSettings) -> Iterator[EncoderModule]:
    """Yield the pretrained backbones that the settings name, each at the size it was made for."""
    for name in settings.head.teachers:
        found = backbone(name, small=False, pretrained="DEFAULT")
        yield EncoderModule(found, evaluation_view(settings.views, found.size), dimensions=None).eval()


def teach(of: Sequence[CachedFeatures]) -> CachedFeatures:
    """Return vectors of length one for every cached view: (views, n, the backbones' widths together)."""
    views, images, _ = of[0].shape
    rows = [np.asarray(each, dtype=np.float32).reshape(views * images, -1) for each in of]
    return taught([roots(each) if each.min() >= 0 else each for each in rows]).reshape(views, images, -1)
