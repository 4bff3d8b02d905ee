"""What a training method is to the loop: a module that turns a batch into a loss and the numbers worth reporting."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn

from nonneg_training.encoder import EncoderModule

Batch = dict[str, Tensor]


class Method(nn.Module, ABC):
    """The encoder, whatever else learns beside it, and their loss; all of it is one module, so that DDP can wrap it."""

    views: int = 2  # views of an image that a batch holds
    parts: tuple[str, ...] = ()  # what forward reports beside "loss"

    def __init__(self, encoder: EncoderModule) -> None:
        super().__init__()
        self.encoder = encoder

    @abstractmethod
    def forward(self, batch: Batch) -> dict[str, Tensor]:
        """Return {"loss": to be minimised, and the parts}."""

    def collapsed(self, batch: int) -> float | None:
        """Return the loss of an encoder that gives every image the same vector; None if the loss does not tell."""
        return None

    def classify(self, z: Tensor) -> Tensor | None:
        """Return the classes of embeddings (n, D), by what learns beside the encoder; None without a classifier."""
        return None

    def pace(self, name: str) -> float:
        """Return how fast the parameter of this name learns, as a multiple of the schedule's rate."""
        return 1.0

    def advance(self, progress: float) -> None:
        """Note that the run is this far, 0..1: for what changes on the way."""
