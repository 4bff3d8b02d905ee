"""The process group of torchrun: this process's rank, and gathering vectors across ranks with their gradient."""

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

PARTING = timedelta(seconds=20)  # how long the last of a group is waited for


@dataclass(frozen=True)
class ProcessGroup:
    """This process among the processes of one run."""

    rank: int = 0
    size: int = 1

    @property
    def first(self) -> bool:
        return self.rank == 0


def join() -> ProcessGroup:
    """Join the group that torchrun's environment describes; alone if there is none."""
    if "RANK" not in os.environ or "WORLD_SIZE" not in os.environ:
        return ProcessGroup()
    if not dist.is_initialized():
        if torch.cuda.is_available():
            torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
        dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return ProcessGroup(dist.get_rank(), dist.get_world_size())


def leave(*, together: bool = True) -> None:
    """Leave the group, if there is one; together, since a process that leaves after another ended may be aborted."""
    if not dist.is_initialized():
        return
    if together and dist.get_backend() == "gloo":
        with suppress(RuntimeError):  # the others are gone already, each for a reason that it says itself
            dist.monitored_barrier(timeout=PARTING)
    dist.destroy_process_group()


def barrier() -> None:
    """Wait until every process has come here."""
    if dist.is_initialized():
        dist.barrier()


class _Gather(torch.autograd.Function):
    """Concatenates every rank's rows; backward sums what all ranks' losses say about ours."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.rows = len(x)
        parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        whole = gradients[0].contiguous().clone()
        dist.all_reduce(whole)
        start = dist.get_rank() * ctx.rows
        return whole[start : start + ctx.rows]


def gather(x: Tensor) -> Tensor:
    """Return the rows of all ranks, in rank order; alone, x itself."""
    if not dist.is_initialized() or dist.get_world_size() == 1:
        return x
    if x.requires_grad:
        gathered: Tensor = _Gather.apply(x)  # type: ignore[no-untyped-call]
        return gathered
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts)
