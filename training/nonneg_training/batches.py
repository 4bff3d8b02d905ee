"""What feeds a method: the batch of image numbers that a step gets, as tensors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from nonneg_training.data import Images
from nonneg_training.methods.method import Batch
from nonneg_training.views import Pipeline


class Batches(ABC):
    """`len` images; `draw` turns some of them into a batch, and depends on nothing but them and the generator."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def draw(self, indices: Sequence[int], g: torch.Generator) -> Batch:
        """The batch of these images."""


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
