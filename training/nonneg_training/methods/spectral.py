"""spectral-cl and spectral-ncl: the factorisation of the co-occurrence of views, without and with non-negativity."""

from __future__ import annotations

from torch import Tensor

from nonneg_training.encoder import EncoderModule
from nonneg_training.losses.nested import check_lengths, nested
from nonneg_training.losses.spectral import clip_length, spectral
from nonneg_training.methods.contrastive import pair
from nonneg_training.methods.method import Batch, Method
from nonneg_training.settings import Loss


class Spectral(Method):
    """Lengths carry the images' weights here: vectors are clipped to `radius`, not divided by their length."""

    def __init__(self, encoder: EncoderModule, loss: Loss) -> None:
        super().__init__(encoder)
        self.radius = loss.radius
        self.lengths = check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (clip_length(z, self.radius) for z in pair(self.encoder, batch["views"]))
        return {"loss": nested(spectral, self.lengths, z1, z2)}

    def collapsed(self, batch: int) -> float:
        return -1.0  # the best that one vector for all can do: -2 |z|^2 + |z|^4 at |z| = 1
