"""What a run looks like from outside, every N steps: nearest neighbours, live dimensions, active ones, zero vectors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from nonneg_training.cache import CachedFeatures
from nonneg_training.data import Images
from nonneg_training.encoder import EncoderModule


@dataclass(frozen=True)
class Snapshot:
    """One look at the encoder through the evaluation view."""

    knn: float | None  # share of images whose nearest other image is of their class; None without classes
    dimensions: int
    live: int  # dimensions that are not zero on at least one image
    nnz: float | None  # active dimensions a vector; None of signed vectors, of which all are
    zero_share: float  # vectors without any
    test_accuracy: float | None = None  # of a classifier, on test images

    def __str__(self) -> str:
        """Return the reading in a few words."""
        words = [] if self.test_accuracy is None else [f"test accuracy {self.test_accuracy:.1%}"]
        words += [] if self.knn is None else [f"1-NN {self.knn:.1%}"]
        if self.nnz is None:
            return ", ".join([*words, f"{self.dimensions} dimensions, signed"])
        return ", ".join([*words, f"{self.live} of {self.dimensions} dimensions live, {self.nnz:.0f} active a vector"])


def read(z: Tensor, labels: Tensor, guessed: Tensor | None = None) -> Snapshot:
    """Return the reading of embeddings (n, D) with labels (n,); `guessed`: a classifier's answers, (n,)."""
    active = z != 0
    return Snapshot(
        knn=nearest(z, labels),
        dimensions=z.shape[1],
        live=int(active.any(dim=0).sum()),
        nnz=None if (z < 0).any() else float(active.sum(dim=1).float().mean()),
        zero_share=float((~active).all(dim=1).float().mean()),
        test_accuracy=None if guessed is None else float((guessed == labels).float().mean()),
    )


def nearest(z: Tensor, labels: Tensor) -> float | None:
    """Measure leave-one-out 1-NN accuracy by cosine, of images that share their class with some and not all others."""
    z = F.normalize(z.float(), dim=1)
    asked = labels.bincount()[labels] > 1  # (n,)
    if not asked.any() or (labels == labels[0]).all():
        return None
    similarity = (z @ z.T).fill_diagonal_(-2)
    return float((labels[similarity.argmax(dim=1)] == labels)[asked].float().mean())


@torch.inference_mode()
def embed(encoder: EncoderModule, images: Images, most: int, *, batch: int = 256) -> tuple[Tensor, Tensor]:
    """Return embeddings and labels of up to `most` images, spread evenly over the data, in evaluation mode."""
    chosen = torch.linspace(0, len(images) - 1, min(most, len(images))).long().tolist()
    device = encoder.output.weight.device
    was_training = encoder.training
    encoder.eval()
    parts = []
    for start in range(0, len(chosen), batch):
        pixels = torch.from_numpy(images.pixels(chosen[start : start + batch], encoder.view))
        parts.append(encoder(pixels.to(device)).float().cpu())
    encoder.train(was_training)
    return torch.cat(parts), torch.from_numpy(images.labels[chosen])


@torch.inference_mode()
def embed_cached(encoder: EncoderModule, features: CachedFeatures, labels: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Return the same of a head, from cached features: the backbone has seen these images already."""
    chosen = torch.linspace(0, len(labels) - 1, min(most, len(labels))).long()
    x = torch.from_numpy(features[0, chosen.numpy()]).to(encoder.output.weight.device)
    was_training = encoder.training
    encoder.eval()
    z = encoder.embed(x).float().cpu()
    encoder.train(was_training)
    return z, labels[chosen]
