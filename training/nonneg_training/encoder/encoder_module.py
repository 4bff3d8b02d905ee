"""The encoder: pixels -> backbone -> projector -> activation, and the activations that make it non-negative."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from nonneg_core.pixels.view import View
from nonneg_training.encoder.backbone import Backbone
from nonneg_training.setup import plugins


def rep_relu(z: Tensor) -> Tensor:
    """Go forward as exactly ReLU, backward as GELU, so that a dimension below zero can still come back."""
    if not z.requires_grad:
        return F.relu(z)
    g = F.gelu(z)
    return F.relu(z).detach() + (g - g.detach())


NON_NEGATIVE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "rep_relu": rep_relu,
    "sigmoid": torch.sigmoid,
    "softplus": F.softplus,
    "exp": torch.exp,
}
CONTROLS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda z: z,
    "gelu": F.gelu,
    "leaky_relu": F.leaky_relu,
}
ACTIVATIONS = NON_NEGATIVE | CONTROLS


def activation(name: str) -> Callable[[Tensor], Tensor]:
    """Return the function of that name, a plug-in's or one of ours."""
    function = plugins.find("activation", name) or ACTIVATIONS.get(name)
    if function is None:
        raise plugins.unknown("model.activation", "activation", name, ACTIVATIONS)
    return function


def activation_names(*, signed: bool) -> tuple[str, ...]:
    """Return those that go below zero, or those that do not; a plug-in's by its values from -8 to 8."""
    x = torch.linspace(-8, 8, 1601)
    own = [name for name in plugins.names("activation") if bool((activation(name)(x) < 0).any()) is signed]
    return (*(CONTROLS if signed else NON_NEGATIVE), *own)


# What training trains and `nonneg export` exports.

SMOOTH = 1e-3  # added below the power while learning


class EncoderModule(nn.Module):
    """uint8 pixels (batch, h, w, 3) -> activated features (batch, D), not divided by their length."""

    mean: Tensor
    std: Tensor
    centre: Tensor | None
    spread: Tensor | None

    def __init__(
        self,
        backbone: Backbone,
        view: View,
        *,
        dimensions: int | None,
        hidden: Sequence[int] = (),
        activation: str = "relu",
        batch_norm: bool = False,
        root: bool = False,
        power: float = 1.0,
        standardised: bool = False,
    ) -> None:
        """Put a projector on a backbone: an MLP with `hidden` widths; without any if `dimensions` is None."""
        super().__init__()
        self.backbone = backbone
        self.view = view
        self.activation = activation
        self.hidden, self.output = _projector(backbone.width, hidden, dimensions)
        self.norm = nn.BatchNorm1d(self.output.out_features) if batch_norm else None
        self.root, self.power = root, power
        self.register_buffer("centre", torch.zeros(backbone.width) if standardised else None)
        self.register_buffer("spread", torch.ones(backbone.width) if standardised else None)
        self.register_buffer("mean", torch.tensor(backbone.mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(backbone.std).view(1, 3, 1, 1), persistent=False)

    @property
    def dimensions(self) -> int:
        """D, the width of the embedding."""
        return self.output.out_features

    def output_layers(self) -> tuple[nn.Linear, nn.BatchNorm1d | None]:
        """Return the last linear layer, and the batch norm behind it if there is one: what a ranking permutes."""
        return self.output, self.norm

    def forward(self, pixels: Tensor) -> Tensor:
        return self.embed(self.features(pixels))

    def features(self, pixels: Tensor) -> Tensor:
        """Return the backbone's features of uint8 pixels: what probes and a frozen-backbone head work on."""
        return self.see(pixels.permute(0, 3, 1, 2).float())  # NHWC in memory: channels-last without a copy

    def see(self, x: Tensor) -> Tensor:
        """Return the backbone's features of float pixels 0..255, (batch, 3, h, w) -> (batch, width)."""
        features: Tensor = self.backbone(x.sub(self.mean).div_(self.std))
        return features

    def embed(self, features: Tensor) -> Tensor:
        """Turn the backbone's features into the embedding, (batch, width) -> (batch, D)."""
        return self.activate(self.preactivation(features))

    def activate(self, z: Tensor) -> Tensor:
        """Return activation and power: activation(z)^power."""
        p = activation(self.activation)(z)
        if self.power == 1:
            return p
        if not z.requires_grad:
            raised: Tensor = p**self.power
            return raised
        # the power's own slope at 0 is infinite
        smooth: Tensor = (p + SMOOTH) ** self.power - SMOOTH**self.power
        return smooth

    def preactivation(self, features: Tensor) -> Tensor:
        """Return the embedding before its activation."""
        z: Tensor = self.output(self.hidden_features(features))
        return z if self.norm is None else self.norm(z)

    def hidden_features(self, features: Tensor) -> Tensor:
        """Return what the projector's last layer sees; the features where it is the only layer."""
        x: Tensor = self.hidden(self.rooted(features))
        return x

    def rooted(self, features: Tensor) -> Tensor:
        """Return the features as the head takes them: their square roots, standardised, or as they are."""
        x = features.clamp(min=0).sqrt() if self.root else features
        return x if self.centre is None or self.spread is None else (x - self.centre) / self.spread

    @torch.no_grad()
    def standardise(self, features: Tensor) -> None:
        """Take mean and deviation of these features, (n, width), for those of all images."""
        assert self.centre is not None
        assert self.spread is not None
        deviation = features.std(dim=0)
        self.centre.copy_(features.mean(dim=0))
        self.spread.copy_(deviation.clamp(min=0.01 * float(deviation.mean())))  # one that hardly varies says little


def _projector(width: int, hidden: Sequence[int], dimensions: int | None) -> tuple[nn.Sequential, nn.Linear]:
    if dimensions is None:
        return nn.Sequential(), _identity(width)
    widths = [width, *hidden]
    layers: list[nn.Module] = []
    for incoming, outgoing in pairwise(widths):
        layers += [nn.Linear(incoming, outgoing), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers), nn.Linear(widths[-1], dimensions)


def _identity(width: int) -> nn.Linear:
    """Return a linear layer that changes nothing and learns nothing: something for a ranking to permute."""
    layer = nn.Linear(width, width)
    with torch.no_grad():
        layer.weight.copy_(torch.eye(width))
        layer.bias.zero_()
    return layer.requires_grad_(False)
