"""How a configuration of timm says that photos are seen."""

from __future__ import annotations

from typing import Any, Literal, cast

from nonneg_core.pixels.view import View
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling


def seen_by(config: dict[str, Any]) -> tuple[View, Scaling]:
    """Return the view and scaling of timm's own evaluation."""
    fit = {"center": "cover", "squash": "squash", "border": "contain"}[config.get("crop_mode", "center")]
    view = View(
        size=int(config["input_size"][1]),
        crop=float(config.get("crop_pct") or 0.875),
        fit=cast('Literal["cover", "squash", "contain"]', fit),
        interpolation=config.get("interpolation") or "bicubic",
    )
    return view, Scaling(mean=tuple(config["mean"]), std=tuple(config["std"]))
