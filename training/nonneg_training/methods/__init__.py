"""The methods by name."""

from __future__ import annotations

from nonneg_training.data import Images
from nonneg_training.encoder import Encoder
from nonneg_training.methods.contrastive import Contrastive
from nonneg_training.methods.method import Batch, Method
from nonneg_training.methods.spectral import Spectral
from nonneg_training.methods.supervised import Supervised
from nonneg_training.settings import Settings

__all__ = ["Batch", "Method", "build_method"]


def build_method(settings: Settings, encoder: Encoder, images: Images) -> Method:
    """The method that the settings name, around `encoder`."""
    name = settings.method
    if name in ("ce", "nce"):
        return Supervised(encoder, settings.loss, len(images.classes), non_negative=name == "nce")
    if name in ("spectral-cl", "spectral-ncl"):
        return Spectral(encoder, settings.loss)
    return Contrastive(encoder, settings.loss)
