"""Which output of an architecture is its picture of an image, by the `model_type` of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nonneg_training.onnx_backbone.scaling_and_pooling import Pool

TWO_TOWERS = ("clip", "siglip", "siglip2", "align", "altclip", "chinese_clip", "clipseg", "metaclip_2")
CLS = ("vit", "deit", "beit", "data2vec-vision", "dinov2", "dinov2_with_registers", "dinov3_vit", "vit_msn", "dpt")
MEAN = ("ijepa", "vit_mae", "swin", "swinv2", "hiera", "pvt", "pvt_v2", "mgp-str")


@dataclass(frozen=True)
class Pooling:
    """Names of outputs in the order they are taken in, and how tokens become one row."""

    outputs: tuple[str, ...]
    pool: Pool | None

    def __str__(self) -> str:
        return {"cls": "the class token", "mean": "the mean of all tokens", None: self.outputs[0]}[self.pool]


def pooling(config: dict[str, Any]) -> Pooling:
    """Return how the image of such a model is pooled."""
    kind = str(config.get("model_type", ""))
    if kind in CLS:  # its pooler, if there is one, belongs to a classifier
        return Pooling(("last_hidden_state",), "cls")
    if kind in MEAN:
        return Pooling(("last_hidden_state",), "mean")
    return Pooling(("image_embeds", "pooler_output"), None)


def has_two_towers(config: dict[str, Any]) -> bool:
    """Return whether the model embeds words, too."""
    return config.get("model_type") in TWO_TOWERS or ("vision_config" in config and "text_config" in config)
