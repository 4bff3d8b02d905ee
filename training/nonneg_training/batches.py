"""What feeds a method: the batch of image numbers that a step gets, as tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
import torch

from nonneg_training.cache import Features
from nonneg_training.data import Captions, Images
from nonneg_training.methods.method import Batch
from nonneg_training.text import tokens
from nonneg_training.views import Pipeline


class Batches(ABC):
    """`len` images; `draw` turns some of them into a batch, and depends on nothing but them and the generator."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def draw(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        """The batch of these images."""


class FeatureBatches(Batches):
    """Cached features: one view an image, or two different ones drawn among the cached."""

    def __init__(self, images: Images, features: Features, views: int, device: torch.device) -> None:
        self.labels = torch.from_numpy(images.labels)
        self.features, self.views, self.device = features, views, device  # features: (cached views, n, width)

    def __len__(self) -> int:
        return len(self.labels)

    def draw(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        rows = np.asarray(indices)
        cached = len(self.features)
        first = torch.randint(cached, (len(rows),), generator=g).numpy()
        other = (first + torch.randint(1, max(2, cached), (len(rows),), generator=g).numpy()) % cached
        chosen = [self.features[view, rows] for view in (first, other)[: self.views]]
        x = torch.from_numpy(np.concatenate(chosen))
        return {"features": x.to(self.device), "labels": self.labels[rows].to(self.device)}


class ViewBatches(Batches):
    """Random views, and the labels."""

    def __init__(self, images: Images, pipeline: Pipeline, views: int) -> None:
        self.labels = torch.from_numpy(images.labels)
        self.pipeline, self.views = pipeline, views

    def __len__(self) -> int:
        return len(self.labels)

    def draw(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        x = self.pipeline.draw(indices, g, self.views)
        return {"views": x, "labels": self.labels[list(indices)].to(x.device)}


class CaptionBatches(Batches):
    """One random view of each image, and its caption as tokens."""

    def __init__(self, images: Captions, pipeline: Pipeline, length: int) -> None:
        self.images, self.pipeline, self.length = images, pipeline, length

    def __len__(self) -> int:
        return len(self.images)

    def draw(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        x = self.pipeline.draw(indices, g, 1)
        rows = tokens([self.images.captions[i] for i in indices], self.length)
        return {"views": x, "tokens": rows.to(x.device)}
