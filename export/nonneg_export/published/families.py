"""Which output of an architecture is its picture of an image, by the `model_type` of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nonneg_training.onnx_backbone.scaling_and_pooling import Pool

TWO_TOWERS = ("clip", "siglip", "siglip2", "align", "altclip", "chinese_clip", "clipseg", "metaclip_2")
CLS = ("vit", "deit", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn", "dpt", "pvt")
MEAN = ("ijepa", "vit_mae", "swin", "swinv2", "hiera", "pvt_v2", "mgp-str")
EITHER = ("beit", "data2vec-vision")  # their configuration says which


@dataclass(frozen=True)
class Pooling:
    """Names of outputs in the order they are taken in, and how tokens become one row.

    of_tokens: how, where there is none of these outputs, if that is known.
    """

    outputs: tuple[str, ...]
    pool: Pool | None
    of_tokens: Pool | None = None


def pooling(config: dict[str, Any]) -> Pooling:
    """Return how the image of such a model is pooled."""
    kind = str(config.get("model_type", ""))
    if kind in EITHER and config.get("use_mean_pooling", True):  # of the patches, then normalised
        return Pooling(("pooler_output",), None, of_tokens="mean")
    if kind in (*CLS, *EITHER):  # its pooler, if there is one, belongs to a classifier
        return Pooling(("last_hidden_state",), "cls")
    if kind in MEAN:
        return Pooling(("last_hidden_state",), "mean")
    return Pooling(("image_embeds", "pooler_output"), None)


def has_two_towers(config: dict[str, Any]) -> bool:
    """Return whether the model embeds words, too."""
    return config.get("model_type") in TWO_TOWERS or ("vision_config" in config and "text_config" in config)
