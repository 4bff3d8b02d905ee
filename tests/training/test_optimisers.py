"""LARS against its formula, the schedule at its corners, and who is not decayed."""

from __future__ import annotations

import pytest
import torch

from nonneg_training.loop.optimiser import LARS, build_optimiser, moments, restore_moments, scheduled_rate
from nonneg_training.setup.run_settings import Optimiser


@pytest.mark.parametrize("clip", [False, True])
def test_lars_moves_a_matrix_by_its_own_length_and_a_bias_plainly(clip: bool) -> None:
    layer = torch.nn.Linear(4, 3)
    torch.nn.init.ones_(layer.bias)
    w, b = layer.weight.detach().clone(), layer.bias.detach().clone()
    groups = [{"params": layer.parameters(), "weight_decay": 0.1}]
    lars = LARS(groups, lr=0.5, momentum=0.9, eta=0.2, clip=clip)
    velocity = [torch.zeros(3, 4), torch.zeros(3)]
    for seed in range(3):
        g = torch.Generator().manual_seed(seed)
        gw, gb = torch.randn(3, 4, generator=g), torch.randn(3, generator=g)
        layer.weight.grad, layer.bias.grad = gw.clone(), gb.clone()
        lars.step()
        ratio = float(0.2 * w.norm() / (gw.norm() + 0.1 * w.norm()))
        gw = (gw + 0.1 * w) * (min(ratio / 0.5, 1.0) if clip else ratio)
        velocity = [0.9 * velocity[0] + gw, 0.9 * velocity[1] + gb]
        w, b = w - 0.5 * velocity[0], b - 0.5 * velocity[1]
    torch.testing.assert_close(layer.weight, w)
    torch.testing.assert_close(layer.bias, b)


@pytest.mark.parametrize("name", ["sgd", "lars", "adamw"])
def test_what_is_remembered_is_restored(name: str) -> None:
    layers = [torch.nn.Linear(5, 4) for _ in range(2)]
    layers[1].load_state_dict(layers[0].state_dict())
    settings = Optimiser(name=name, lr=0.1)  # type: ignore[arg-type]
    first, second = (build_optimiser(layer, settings) for layer in layers)
    x = torch.randn(3, 5)
    for step in range(4):
        for layer, optimiser in zip(layers, (first, second), strict=True):
            optimiser.zero_grad()
            layer(x).square().sum().backward()
            optimiser.step()
        if step == 1:
            second = build_optimiser(layers[1], settings)
            restore_moments(second, {name: tensor.clone() for name, tensor in moments(first).items()})
    assert torch.equal(layers[0].weight, layers[1].weight)


@pytest.mark.parametrize("name", ["sgd", "lars", "adamw"])
def test_biases_and_norms_are_not_decayed_and_what_is_frozen_is_left_out(name: str) -> None:
    module = torch.nn.Sequential(
        torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 4).requires_grad_(False)
    )
    groups = build_optimiser(module, Optimiser(name=name, weight_decay=0.5)).param_groups  # type: ignore[arg-type]
    assert [(group["weight_decay"], len(group["params"])) for group in groups] == [(0.5, 1), (0.0, 3)]


def test_the_rate_rises_then_falls_to_nearly_zero() -> None:
    rates = [scheduled_rate(step, 100, 0.4, 0.1) for step in range(100)]
    assert rates[0] == pytest.approx(0.04)
    assert max(rates) == rates[9] == rates[10] == pytest.approx(0.4)
    assert rates[-1] < 0.001
    assert scheduled_rate(0, 1, 0.4, 0.0) == 0.4
