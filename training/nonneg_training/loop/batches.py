"""What feeds a method: the batch of image numbers that a step gets, as tensors."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from nonneg_training.data import Captions, Images, Sample, ShardStream
from nonneg_training.encoder.text_tower import tokens
from nonneg_training.features.feature_cache import CachedFeatures
from nonneg_training.methods.view_methods import Batch
from nonneg_training.setup.batch_order import BatchPlan
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.views import Pipeline
from nonneg_training.views.pipeline import Cutter


class Batches(ABC):
    """`len` images; a batch of them depends on nothing but its place in the run and the generator."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def fetch(self, place: BatchPlan, g: torch.Generator) -> Any:
        """Return what can be done ahead: reading and decoding."""

    @abstractmethod
    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        """Return the batch of what was fetched."""


class FeatureBatches(Batches):
    """Cached features: one view an image, or two different ones drawn among the cached."""

    def __init__(
        self,
        images: Images,
        features: CachedFeatures,
        views: int,
        device: torch.device,
        taught: CachedFeatures | None = None,
        *,
        by_class: bool = False,
    ) -> None:
        """Hold features (cached views, n, width); `taught` are the teacher's vectors of the same views.

        by_class: the second view is of an image of the same class.
        """
        self.labels = torch.from_numpy(images.labels)
        self.features, self.views, self.device = features, views, device
        self.taught = taught
        classes = [np.flatnonzero(images.labels == c) for c in range(len(images.classes))]
        self._of_class = classes if by_class else None

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, place: BatchPlan, g: torch.Generator) -> Batch:
        rows = np.asarray(place.indices)
        cached = len(self.features)
        first = torch.randint(cached, (len(rows),), generator=g).numpy()
        other = (first + torch.randint(1, max(2, cached), (len(rows),), generator=g).numpy()) % cached
        views = ((first, rows), (other, self._partners(rows, g)))[: self.views]
        arrays = {"features": np.concatenate([self.features[view] for view in views])}
        if self.taught is not None:
            arrays["taught"] = np.concatenate([self.taught[view] for view in views])
        return {name: torch.from_numpy(array) for name, array in arrays.items()} | {"labels": self.labels[rows]}

    def _partners(self, rows: NDArray[np.intp], g: torch.Generator) -> NDArray[np.intp]:
        """Return of which image each second view is."""
        if self._of_class is None:
            return rows
        own = [self._of_class[label] for label in self.labels[rows].tolist()]
        drawn = torch.rand(len(rows), generator=g).tolist()
        return np.array([of[int(share * len(of))] for of, share in zip(own, drawn, strict=True)])

    def finish(self, fetched: Batch, g: torch.Generator) -> Batch:
        return {name: tensor.to(self.device) for name, tensor in fetched.items()}


class ViewBatches(Batches):
    """Random views, and the labels."""

    def __init__(self, images: Images, pipeline: Pipeline, views: int) -> None:
        self.labels = torch.from_numpy(images.labels)
        self.images, self.pipeline, self.views = images, pipeline, views

    def __len__(self) -> int:
        return len(self.labels)

    def fetch(self, place: BatchPlan, g: torch.Generator) -> Any:
        return self.pipeline.fetch(self.images, place.indices, g, self.views), self.labels[place.indices]

    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        x = self.pipeline.finish(fetched[0], g, self.views)
        return {"views": x, "labels": fetched[1].to(x.device)}


class CaptionBatches(Batches):
    """One random view of each image, and its caption as tokens."""

    def __init__(self, images: Captions, pipeline: Pipeline, length: int) -> None:
        self.images, self.pipeline, self.length = images, pipeline, length

    def __len__(self) -> int:
        return len(self.images)

    def fetch(self, place: BatchPlan, g: torch.Generator) -> Any:
        rows = tokens([self.images.captions[i] for i in place.indices], self.length)
        return self.pipeline.fetch(self.images, place.indices, g, 1), rows

    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        x = self.pipeline.finish(fetched[0], g, 1)
        return {"views": x, "tokens": fetched[1].to(x.device)}


class StreamBatches(Batches):
    """Random views of what comes next in a stream, and the labels."""

    def __init__(self, stream: ShardStream, pipeline: Cutter, views: int, seed: int, world: ProcessGroup) -> None:
        self.stream, self.pipeline, self.views = stream, pipeline, views
        self.seed, self.world = seed, world
        self._at = (-1, 0)  # epoch, images taken of it
        self._rest: Iterator[Sample] = iter(())

    def __len__(self) -> int:
        return len(self.stream)

    def fetch(self, place: BatchPlan, g: torch.Generator) -> Any:
        samples = self._take(place)
        pairs = list(self.pipeline.pool.map(lambda i: self.stream.picture(samples, i), range(len(samples))))
        labels = torch.tensor([label for _, label in pairs])
        return self.pipeline.cut([picture for picture, _ in pairs], g, self.views), labels

    def finish(self, fetched: Any, g: torch.Generator) -> Batch:
        x = self.pipeline.finish(fetched[0], g, self.views)
        return {"views": x, "labels": fetched[1].to(x.device)}

    def _take(self, place: BatchPlan) -> list[Sample]:
        if self._at != (place.epoch, place.before):  # a new epoch, or a run that goes on in the middle of one
            every = self.stream.epoch(self.seed, place.epoch, self.world)
            self._rest = islice(every, place.before, None)
        samples = list(islice(self._rest, len(place.indices)))
        self._at = (place.epoch, place.before + len(samples))
        return samples
