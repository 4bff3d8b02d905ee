"""A trained front: the first columns of a head learn who is near whom, on cached features; the others stay.

Steps follow the number of photos.
"""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.arrays import Rows
from nonneg_runtime.heads.analytic_head import teacher_vectors
from nonneg_runtime.heads.feature_head import last
from nonneg_runtime.heads.head import Head
from nonneg_training.loop.optimiser import scheduled_rate
from nonneg_training.losses import divergence, prefix_similarities

LENGTHS = (64, 128, 192, 256, 512)  # and all
BATCH, MOST_STEPS, STEPS_A_PHOTO = 512, 500, 0.5
PEAK, WARM_UP = 0.03, 0.1
TEMPERATURE = 0.1
EASE = 1e-3  # the power's slope at zero is infinite


def train_front(head: Head, rows: Rows, *, front: int, seed: int = 0) -> Head:
    """Let the first columns learn from the rows."""
    g = torch.Generator().manual_seed(seed)
    x, teacher = torch.from_numpy(rows), torch.from_numpy(teacher_vectors([rows]))
    lengths = (*(length for length in LENGTHS if length < head.dimensions), head.dimensions)
    learning = Front(head, front, lengths)
    optimiser, steps = learning.optimiser(), int(min(MOST_STEPS, max(1, STEPS_A_PHOTO * len(rows))))
    for step in range(steps):
        for group in optimiser.param_groups:
            group["lr"] = scheduled_rate(step, steps, PEAK, WARM_UP) * group["pace"]
        chosen = torch.randperm(len(rows), generator=g)[:BATCH]
        loss = learning.loss(x[chosen], teacher[chosen])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()
    return learning.learnt()


class Front(nn.Module):
    """The first columns of a head as parameters, and a temperature for each length."""

    def __init__(self, head: Head, front: int, lengths: tuple[int, ...]) -> None:
        super().__init__()
        self.head, self.front, self.lengths = head, front, lengths
        self.weight = nn.Parameter(torch.from_numpy(head.weight[:, :front].copy()))
        self.bias = nn.Parameter(torch.from_numpy(head.bias[:front].copy()))
        self.warmth = nn.Parameter(torch.full((len(lengths),), float(np.log(TEMPERATURE))))

    def optimiser(self) -> torch.optim.Optimizer:
        """Build Adam; the rate of weights is in units of their root mean square."""
        scale = float(np.sqrt(np.square(self.head.weight).mean()))
        paces = {"weight": scale, "bias": 1.0, "warmth": 1 / 3}
        return torch.optim.Adam([{"params": [getattr(self, name)], "pace": pace} for name, pace in paces.items()])

    def loss(self, x: Tensor, teacher: Tensor) -> Tensor:
        """Return how far who is near whom, on every nested length, is from the teacher's."""
        rest = torch.from_numpy(last(self.head, self.head.dimensions - self.front).embed(x.numpy()))
        power = self.head.power
        z = (F.relu(x @ self.weight + self.bias) + EASE) ** power - EASE**power
        students = prefix_similarities(torch.cat([z, rest], dim=1), self.lengths)
        target, own = teacher @ teacher.T, self.warmth.exp().unbind()
        losses = [divergence(s, target, TEMPERATURE, t) for s, t in zip(students, own, strict=True)]
        return torch.stack(losses).mean()

    def learnt(self) -> Head:
        """Return the head with what its first columns have learnt."""
        weight, bias = self.head.weight.copy(), self.head.bias.copy()
        weight[:, : self.front], bias[: self.front] = self.weight.detach().numpy(), self.bias.detach().numpy()
        return replace(self.head, weight=weight, bias=bias)
