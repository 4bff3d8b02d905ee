"""What the exporter relies on: the shape of an encoder."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nonneg_core.pixels.view import View
from nonneg_training.data import open_data
from nonneg_training.encoder.encoder_module import ACTIVATIONS, EncoderModule, rep_relu
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.loop.training_checkpoint import load_encoder


def encoder(**rest: object) -> EncoderModule:
    torch.manual_seed(0)
    options = {"dimensions": 24, "hidden": (32,), **rest}
    return EncoderModule(open_backbone("tiny-cnn", small=True), View(size=16), **options).eval()  # type: ignore[arg-type]


def pixels(count: int = 4) -> torch.Tensor:
    return torch.randint(0, 256, (count, 16, 16, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("batch_norm", [False, True])
def test_permuting_the_output_layers_permutes_the_columns(batch_norm: bool) -> None:
    model = encoder(batch_norm=batch_norm)
    linear, norm = model.output_layers()
    if norm is not None and norm.running_mean is not None and norm.running_var is not None:
        norm.running_mean.uniform_(-1, 1)
        norm.running_var.uniform_(0.5, 2)
    before = model(pixels())
    order = torch.randperm(24)
    with torch.no_grad():
        linear.weight.copy_(linear.weight[order])
        linear.bias.copy_(linear.bias[order])
        if norm is not None:
            for tensor in (norm.weight, norm.bias, norm.running_mean, norm.running_var):
                assert tensor is not None
                tensor.copy_(tensor[order])
    torch.testing.assert_close(model(pixels()), before[:, order])


def test_an_image_does_not_depend_on_its_batch_mates() -> None:
    model = encoder()
    alone = torch.cat([model(p[None]) for p in pixels()])
    torch.testing.assert_close(model(pixels()), alone, atol=1e-5, rtol=1e-4)


def test_without_a_projector_the_activated_features_are_the_embedding() -> None:
    model = encoder(dimensions=None)
    torch.testing.assert_close(model(pixels()), model.features(pixels()).relu())
    assert not model.output.weight.requires_grad


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_activation_has_finite_gradients(name: str) -> None:
    z = torch.linspace(-4, 4, 33, requires_grad=True)
    ACTIVATIONS[name](z).sum().backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_rep_relu_is_relu_forward_and_gelu_backward() -> None:
    z = torch.linspace(-3, 3, 25, requires_grad=True)
    y = rep_relu(z)
    assert torch.equal(y, z.detach().relu())
    (gradient,) = torch.autograd.grad(y.sum(), z)
    (gelu,) = torch.autograd.grad(torch.nn.functional.gelu(z).sum(), z)
    torch.testing.assert_close(gradient, gelu)


def test_a_loaded_encoder_is_in_evaluation_mode_and_repeats_the_evaluation_view(trained: Path) -> None:
    model = load_encoder(trained)
    assert not model.training
    images = open_data("digits", split="test")
    with torch.inference_mode():
        z = model(torch.from_numpy(images.pixels(range(5), model.view)))
    assert z.shape == (5, model.dimensions)
    assert (z >= 0).all()
