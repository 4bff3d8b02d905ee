"""The methods by name."""

from torch import Tensor

from nonneg_training.data import Images, ShardStream
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.methods.head_method import HeadMethod
from nonneg_training.methods.head_start import HeadStart
from nonneg_training.methods.view_methods import Batch, Contrastive, Method, Spectral, Supervised, TwoTower
from nonneg_training.setup import plugins
from nonneg_training.setup.run_settings import RunSettings

__all__ = ["Batch", "Method", "build_method"]


def build_method(
    settings: RunSettings,
    encoder: EncoderModule,
    images: Images | ShardStream,
    sample: Tensor | None = None,
    fit: HeadStart | None = None,
) -> Method:
    """Build the method that the settings name, around `encoder`; for a head with cached features and its start."""
    name = settings.method
    if made := plugins.find("method", name):
        own: Method = made(encoder, settings)
        return own
    if sample is not None:
        return HeadMethod(encoder, settings.loss, settings.head, sample, fit)
    if name in ("ce", "nce"):
        return Supervised(encoder, settings.loss, len(images.classes), non_negative=name == "nce")
    if name in ("spectral-cl", "spectral-ncl"):
        return Spectral(encoder, settings.loss)
    if name == "two-tower":
        return TwoTower(encoder, settings.loss, settings.text)
    return Contrastive(encoder, settings.loss)


def __dir__() -> list[str]:
    return sorted(__all__)
