"""What feeds a method: the batch of image numbers that a step gets, as tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from nonneg_training.cache import Features
from nonneg_training.data import Captions, Images
from nonneg_training.methods.method import Batch
from nonneg_training.text import tokens
from nonneg_training.views import Pipeline


class Batches(ABC):
    """`len` images; some of them become a batch, which depends on nothing but them and the generator."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fetch(self, indices: Sequence[int], g: torch.Generator) -> Any:
        """What can be done ahead: reading and decoding."""

    @abstractmethod
    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        """The batch of what was fetched."""


class FeatureBatches(Batches):
    """Cached features: one view an image, or two different ones drawn among the cached."""

    def __init__(self, images: Images, features: Features, views: int, device: torch.device) -> None:
        self.labels = torch.from_numpy(images.labels)
        self.features, self.views, self.device = features, views, device  # features: (cached views, n, width)

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        rows = np.asarray(indices)
        cached = len(self.features)
        first = torch.randint(cached, (len(rows),), generator=g).numpy()
        other = (first + torch.randint(1, max(2, cached), (len(rows),), generator=g).numpy()) % cached
        chosen = [self.features[view, rows] for view in (first, other)[: self.views]]
        return {"features": torch.from_numpy(np.concatenate(chosen)), "labels": self.labels[rows]}

    def finish(self, fetched: Batch, g: torch.Generator) -> Batch:
        return {name: tensor.to(self.device) for name, tensor in fetched.items()}


class ViewBatches(Batches):
    """Random views, and the labels."""

    def __init__(self, images: Images, pipeline: Pipeline, views: int) -> None:
        self.labels = torch.from_numpy(images.labels)
        self.images, self.pipeline, self.views = images, pipeline, views

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, indices: Sequence[int], g: torch.Generator) -> Any:
        return self.pipeline.fetch(self.images, indices, g, self.views), self.labels[list(indices)]

    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        x = self.pipeline.finish(fetched[0], g, self.views)
        return {"views": x, "labels": fetched[1].to(x.device)}


class CaptionBatches(Batches):
    """One random view of each image, and its caption as tokens."""

    def __init__(self, images: Captions, pipeline: Pipeline, length: int) -> None:
        self.images, self.pipeline, self.length = images, pipeline, length

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, indices: Sequence[int], g: torch.Generator) -> Any:
        rows = tokens([self.images.captions[i] for i in indices], self.length)
        return self.pipeline.fetch(self.images, indices, g, 1), rows

    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        x = self.pipeline.finish(fetched[0], g, 1)
        return {"views": x, "tokens": fetched[1].to(x.device)}
