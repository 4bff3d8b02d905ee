"""cl and ncl: InfoNCE between two views, without and with a non-negative activation."""

from __future__ import annotations

from torch import Tensor

from nonneg_training.distributed import gather
from nonneg_training.encoder import EncoderModule
from nonneg_training.losses import infonce
from nonneg_training.losses.nested import check_lengths, nested
from nonneg_training.methods.method import Batch, Method
from nonneg_training.settings import Loss


class Contrastive(Method):
    """The activation comes before the division by the length, which is inside the loss."""

    def __init__(self, encoder: EncoderModule, loss: Loss) -> None:
        super().__init__(encoder)
        self.temperature = loss.temperature
        self.lengths = check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = pair(self.encoder, batch["views"])
        return {"loss": nested(self._loss, self.lengths, z1, z2)}

    def collapsed(self, batch: int) -> float:
        return infonce.collapsed(batch)

    def _loss(self, z1: Tensor, z2: Tensor) -> Tensor:
        return infonce.infonce(z1, z2, self.temperature)


def pair(encoder: EncoderModule, views: Tensor) -> tuple[Tensor, Tensor]:
    """Return the embeddings of first and second views, of all ranks: (batch, D) each."""
    # one view at a time, as the authors do: batch norm sees each by itself, and the backward pass needs half the room
    z1, z2 = (encoder.embed(encoder.see(x)) for x in views.chunk(2))
    return gather(z1), gather(z2)
