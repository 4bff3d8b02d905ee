"""ce and nce: cross entropy, and its non-negative form, of a classifier on the embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from nonneg_training.encoder import EncoderModule
from nonneg_training.losses.cross_entropy import cross_entropy, non_negative_cross_entropy
from nonneg_training.losses.nested import check_lengths
from nonneg_training.methods.method import Batch, Method
from nonneg_training.settings import Loss


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
        self.lengths = check_lengths(loss.lengths, encoder.dimensions) or (encoder.dimensions,)

    def forward(self, batch: Batch) -> dict[str, Tensor]:
        z = self.encoder.embed(self.encoder.see(batch["views"]))
        losses = [self._loss(z[:, :k], self.classifier.weight[:, :k], batch["labels"]) for k in self.lengths]
        return {"loss": torch.stack(losses).mean(), "accuracy": self._accuracy(z, batch["labels"])}

    def _loss(self, z: Tensor, weight: Tensor, labels: Tensor) -> Tensor:
        if self.non_negative:
            return non_negative_cross_entropy(z, weight, labels, self.classifier.bias)
        return cross_entropy(z, weight, labels, self.classifier.bias)

    @torch.no_grad()
    def classify(self, z: Tensor) -> Tensor:
        weight = self.classifier.weight.relu() if self.non_negative else self.classifier.weight
        bias = self.classifier.bias
        scores = nn.functional.linear(z.float(), weight.to(z.device), None if bias is None else bias.to(z.device))
        return scores.argmax(dim=1)

    def _accuracy(self, z: Tensor, labels: Tensor) -> Tensor:
        return (self.classify(z) == labels).float().mean()
