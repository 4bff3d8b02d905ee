"""A trained front: the first columns of an adapted head learn who is near whom, on cached features; the others stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.heads.from_features import OPEN
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_core.heads.teacher import taught
from nonneg_training.losses.distillation import divergence
from nonneg_training.losses.nested import prefix_similarities
from nonneg_training.losses.supervised_contrastive import supervised_contrastive
from nonneg_training.schedule import rate

LENGTHS = (64, 128, OPEN, 256, 512)
BATCH, MOST_STEPS, STEPS_A_PHOTO = 512, 500, 0.5
PEAK, WARM_UP = 0.03, 0.1  # the rate of weights is in units of their root mean square
TEMPERATURE = 0.1
EASE = 1e-3  # the power's slope at zero is infinite


@dataclass(frozen=True)
class Trained:
    """A head whose first columns were trained, in so many steps."""

    head: Head
    steps: int


def train_front(head: Head, rows: Rows, codes: NDArray[np.int64] | None = None, *, seed: int = 0) -> Trained:
    """Let the first columns learn from the rows, and from labels where there are `codes` (below 0: none)."""
    g = torch.Generator().manual_seed(seed)
    x, teacher = torch.from_numpy(rows), torch.from_numpy(taught([rows]))
    labels = None if codes is None else torch.from_numpy(np.where(codes < 0, -1 - np.arange(len(codes)), codes))
    front = nn.ParameterDict(
        {
            "weight": nn.Parameter(torch.from_numpy(head.weight[:, :OPEN].copy())),
            "bias": nn.Parameter(torch.from_numpy(head.bias[:OPEN].copy())),
            "warmth": nn.Parameter(torch.full((len(LENGTHS) + 1,), float(np.log(TEMPERATURE)))),
        }
    )
    scale = float(np.sqrt(np.square(head.weight).mean()))
    paces = {"weight": scale, "bias": 1.0, "warmth": 1 / 3}
    optimiser = torch.optim.Adam([{"params": [front[name]], "pace": pace} for name, pace in paces.items()])
    batch = min(BATCH, len(rows))
    steps = int(min(MOST_STEPS, max(1, STEPS_A_PHOTO * len(rows))))
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = rate(step, steps, PEAK, WARM_UP) * group["pace"]
        chosen = torch.randperm(len(rows), generator=g)[:batch]
        rest = torch.from_numpy(head.embed(rows[chosen.numpy()])[:, OPEN:])
        loss = _loss(front, x[chosen], rest, teacher[chosen], None if labels is None else labels[chosen], head.power)
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    weight, bias = head.weight.copy(), head.bias.copy()
    weight[:, :OPEN], bias[:OPEN] = front["weight"].detach().numpy(), front["bias"].detach().numpy()
    return Trained(replace(head, weight=weight, bias=bias), steps)


def _loss(
    front: nn.ParameterDict, x: Tensor, rest: Tensor, teacher: Tensor, labels: Tensor | None, power: float
) -> Tensor:
    """How far who is near whom, on every nested length, is from the teacher's and from what labels say."""
    z = (F.relu(x @ front["weight"] + front["bias"]) + EASE) ** power - EASE**power
    lengths = (*LENGTHS, z.shape[1] + rest.shape[1])
    students = prefix_similarities(torch.cat([z, rest], dim=1), lengths)
    own = front["warmth"].exp().unbind()
    wanted = teacher @ teacher.T
    losses = [divergence(s, wanted, TEMPERATURE, t) for s, t in zip(students, own, strict=True)]
    if labels is not None:
        losses += [supervised_contrastive(s, labels, TEMPERATURE) for s in students]
    return torch.stack(losses).mean()
