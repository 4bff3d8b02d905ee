"""Blocks of features from the workers of a Ray cluster, which come in their order to the process that keeps them.

A worker is an actor on one core with the encoder and the data set; it opens images by the same paths as this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import torch

from nonneg_core.errors import NonnegError
from nonneg_core.ray_cluster import joined
from nonneg_training.feature_blocks import Block, BlockMaker, FeatureRequest

RESTARTS = 3  # of a worker, and as many tries of a block
Made = tuple[Block, dict[str, str]] | NonnegError


def blocks_on_ray(request: FeatureRequest, first: int, address: str) -> Iterator[Block]:
    """Yield the blocks from number `first` on, in order; images that workers could not read are noted here."""
    with joined(address) as ray:
        pool = import_module("ray.util").ActorPool(_workers(ray, request))
        for made in pool.map(lambda worker, number: worker.make.remote(number), range(first, request.blocks)):
            if isinstance(made, NonnegError):
                raise made
            block, broken = made
            if request.images.tolerance:
                request.images.tolerance.add(broken)
            yield block


def _workers(ray: Any, request: FeatureRequest) -> list[Any]:
    shared = ray.put(request)
    limits = {"num_cpus": 1, "max_restarts": RESTARTS, "max_task_retries": RESTARTS}
    remote = ray.remote(**limits)(BlockWorker)
    return [remote.remote(shared) for _ in range(max(1, int(ray.cluster_resources().get("CPU", 1))))]


class BlockWorker:
    """An actor that makes blocks; an error of ours is returned, since raised through Ray it would arrive as a text."""

    def __init__(self, request: FeatureRequest) -> None:
        torch.set_num_threads(1)
        self._images, self._maker = request.images, BlockMaker(request)

    def make(self, number: int) -> Made:
        """Return a block, and the images that could not be read so far, with the reasons."""
        try:
            return self._maker.finish(self._maker.fetch(number)), dict(self._images.broken)
        except NonnegError as error:
            return error
