"""What a user writes: one of each kind, in one file."""

import torch
from torch import nn

from nonneg_training import StepEvent, plugins
from nonneg_training.losses import infonce, unit
from nonneg_training.methods import Method


@plugins.backbone("four-by-four")
class FourByFour(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(3, 12, 4, 4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())

    def forward(self, x):
        return self.layers(x)


@plugins.loss("distance")
def distance(z1, z2):
    return (unit(z1) - unit(z2)).square().sum(1).mean() + infonce(z1, z2, 0.5)


@plugins.activation("squared")
def squared(z):
    return z.relu().square()


@plugins.activation("shifted")
def shifted(z):
    return z.relu() - 1


@plugins.method("barlow")
class Barlow(Method):
    parts = ("off",)

    def __init__(self, encoder, settings):
        super().__init__(encoder)
        self.weight = settings.options["weight"]

    def forward(self, batch):
        z1, z2 = (nn.functional.normalize(z - z.mean(0), dim=0) for z in self.embed(batch).chunk(2))
        correlation = z1.T @ z2
        off = (correlation - torch.diag(correlation.diagonal())).square().sum()
        return {"loss": (correlation.diagonal() - 1).square().sum() + self.weight * off, "off": off}


@plugins.logger("lines")
def lines(run, settings):
    def note(event):
        if isinstance(event, StepEvent):
            with (run / "lines.txt").open("a") as file:
                file.write(f"{settings.method} {event.step} {event.values['loss']:.6f}\n")

    return note
