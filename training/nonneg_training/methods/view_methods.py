"""What a training method is to the loop, and those that learn from views: cl, ncl, spectral, ce, nce, two-tower."""

import math
from abc import ABC, abstractmethod
from functools import partial

import torch
from torch import Tensor, nn

from nonneg_training import losses
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.text_tower import tower_beside
from nonneg_training.setup import plugins
from nonneg_training.setup.process_group import gather
from nonneg_training.setup.run_settings import Loss, RunSettings, TextSettings

Batch = dict[str, Tensor]


class Method(nn.Module, ABC):
    """The encoder, whatever else learns beside it, and their loss; all of it is one module, so that DDP can wrap it."""

    views: int = 2  # views of an image that a batch holds
    parts: tuple[str, ...] = ()  # what forward reports beside "loss"

    def __init__(self, encoder: EncoderModule, settings: RunSettings | None = None) -> None:
        """Hold the encoder; a plug-in's method is also given the run's settings."""
        super().__init__()
        self.encoder = encoder

    def embed(self, batch: Batch) -> Tensor:
        """Embed a batch's views, or their cached features: (views * batch, D)."""
        # one view at a time, as the authors do: batch norm sees each by itself, and backward needs half the room
        if "features" in batch:
            return torch.cat([self.encoder.embed(x) for x in batch["features"].chunk(self.views)])
        return torch.cat([self.encoder.embed(self.encoder.see(x)) for x in batch["views"].chunk(self.views)])

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


# cl and ncl: InfoNCE between two views, without and with a non-negative activation.


class Contrastive(Method):
    """The activation comes before the division by the length, which is inside the loss."""

    def __init__(self, encoder: EncoderModule, loss: Loss) -> None:
        super().__init__(encoder)
        self.own = plugins.find("loss", loss.name) if loss.name else None
        self.loss = self.own or partial(losses.infonce, temperature=loss.temperature)
        self.lengths = losses.check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = map(gather, self.embed(batch).chunk(2))
        return {"loss": losses.nested_loss(self.loss, self.lengths, z1, z2)}

    def collapsed(self, batch: int) -> float | None:
        return None if self.own else losses.loss_of_equal_vectors(batch)


# spectral-cl and spectral-ncl: the factorisation of the co-occurrence of views, without and with non-negativity.


class Spectral(Method):
    """Lengths carry the images' weights here: vectors are clipped to `radius`, not divided by their length."""

    def __init__(self, encoder: EncoderModule, loss: Loss) -> None:
        super().__init__(encoder)
        self.radius = loss.radius
        self.lengths = losses.check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z1, z2 = (losses.clip_length(gather(z), self.radius) for z in self.embed(batch).chunk(2))
        return {"loss": losses.nested_loss(losses.spectral, self.lengths, z1, z2)}

    def collapsed(self, batch: int) -> float:
        return -1.0  # the best that one vector for all can do: -2 |z|^2 + |z|^4 at |z| = 1


# ce and nce: cross entropy, and its non-negative form, of a classifier on the embedding.


class Supervised(Method):
    """One view an image and its label. Prefixes share the classifier's first columns (nested lengths)."""

    views = 1
    parts = ("accuracy",)

    def __init__(self, encoder: EncoderModule, loss: Loss, classes: int, *, non_negative: bool) -> None:
        super().__init__(encoder)
        bias = not non_negative if loss.bias is None else loss.bias
        start = loss.start or ("positive" if non_negative else "symmetric")
        self.classifier = nn.Linear(encoder.dimensions, classes, bias=bias)
        if start == "positive":  # of a symmetric start half of nce's would be zero, without a gradient, for ever
            nn.init.uniform_(self.classifier.weight, 0, encoder.dimensions**-0.5)
        self.non_negative = non_negative
        self.lengths = losses.check_lengths(loss.lengths, encoder.dimensions) or (encoder.dimensions,)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z = self.embed(batch)
        by_length = [self._loss(z[:, :k], self.classifier.weight[:, :k], batch["labels"]) for k in self.lengths]
        return {"loss": torch.stack(by_length).mean(), "accuracy": self._accuracy(z, batch["labels"])}

    def _loss(self, z: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        if self.non_negative:
            return losses.non_negative_cross_entropy(z, weight, labels, self.classifier.bias)
        return losses.cross_entropy(z, weight, labels, self.classifier.bias)

    @torch.no_grad()
    def classify(self, z: Tensor) -> Tensor:
        weight = self.classifier.weight.relu() if self.non_negative else self.classifier.weight
        bias = self.classifier.bias
        scores = nn.functional.linear(z.float(), weight.to(z.device), None if bias is None else bias.to(z.device))
        return scores.argmax(dim=1)

    def _accuracy(self, z: Tensor, labels: Tensor) -> Tensor:
        return (self.classify(z) == labels).float().mean()


# two-tower: image and text encoders, both non-negative; asymmetric NMF of the co-occurrence of images and captions.


class TwoTower(Method):
    """The logit scale is learnt up to a cap; a lower cap makes sparser vectors."""

    views = 1
    parts = ("scale",)

    def __init__(self, encoder: EncoderModule, loss: Loss, text: TextSettings) -> None:
        super().__init__(encoder)
        self.text = tower_beside(encoder, text)
        self.log_scale = nn.Parameter(torch.tensor(math.log(1 / loss.temperature)))
        self.cap = text.max_scale
        self.lengths = losses.check_lengths(loss.lengths, encoder.dimensions)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        image = gather(self.embed(batch))
        text = gather(self.text(batch["tokens"]))
        scale = self.log_scale.exp().clamp(max=self.cap)
        loss = losses.nested_loss(partial(losses.clip, scale=scale), self.lengths, image, text)
        return {"loss": loss, "scale": scale}

    def collapsed(self, batch: int) -> float:
        return math.log(batch)
