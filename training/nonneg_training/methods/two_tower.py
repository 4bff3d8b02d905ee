"""two-tower: image and text encoders, both non-negative; asymmetric NMF of the co-occurrence of images and captions."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor, nn

from nonneg_training.distributed import gather
from nonneg_training.encoder import EncoderModule
from nonneg_training.losses.clip import clip
from nonneg_training.losses.nested import check_lengths, nested
from nonneg_training.methods.method import Batch, Method
from nonneg_training.settings import Loss, TextSettings
from nonneg_training.text_encoder import tower_beside


class TwoTower(Method):
    """The logit scale is learnt up to a cap; a lower cap makes sparser vectors."""

    views = 1
    parts = ("scale",)

    def __init__(self, encoder: EncoderModule, loss: Loss, text: TextSettings) -> None:
        super().__init__(encoder)
        self.text = tower_beside(encoder, text)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / loss.temperature)))
        self.cap = text.max_scale
        self.lengths = check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        image = gather(self.encoder.embed(self.encoder.see(batch["views"])))
        text = gather(self.text(batch["tokens"]))
        scale = self.log_scale.exp().clamp(max=self.cap)
        loss = nested(partial(clip, scale=scale), self.lengths, image, text)
        return {"loss": loss, "scale": scale}

    def collapsed(self, batch: int) -> float:
        return math.log(batch)
