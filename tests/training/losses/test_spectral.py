"""The spectral loss against its formula, and against the factorisation that it must find."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch
from torch import Tensor

from nonneg_training.losses import clip_length, spectral


def slowly(z1: Tensor, z2: Tensor) -> float:
    n = len(z1)
    positive = sum(float(z1[i] @ z2[i]) for i in range(n)) / n
    pairs = [(i, j) for i in range(n) for j in range(n) if i != j]
    return -2 * positive + sum(float(z1[i] @ z2[j]) ** 2 for i, j in pairs) / len(pairs)


def test_it_is_the_formula() -> None:
    g = torch.Generator().manual_seed(0)
    z1, z2 = torch.randn(6, 4, generator=g), torch.randn(6, 4, generator=g)
    assert float(spectral(z1, z2)) == pytest.approx(slowly(z1, z2), rel=1e-5)


def test_only_vectors_longer_than_the_radius_are_shortened() -> None:
    z = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    torch.testing.assert_close(clip_length(z, 2.0), torch.tensor([[1.2, 1.6], [0.3, 0.4], [0.0, 0.0]]))


def population(f: Tensor, joint: Tensor) -> Tensor:
    """The loss over a finite world of views: joint[i, j] is the probability that i and j are views of one image."""
    marginal = joint.sum(dim=1)
    gram = f @ f.T
    return -2 * (joint * gram).sum() + (torch.outer(marginal, marginal) * gram.square()).sum()


def minimise(joint: Tensor, width: int, *, non_negative: bool) -> Tensor:
    best, least = torch.empty(0), float("inf")
    for seed in range(4):
        raw = torch.rand(len(joint), width, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        adam = torch.optim.Adam([raw], lr=0.05)
        for step in range(1500):
            adam.param_groups[0]["lr"] = 0.05 * (1 - step / 1500)
            f = raw.abs() if non_negative else raw
            loss = population(f, joint)
            adam.zero_grad()
            loss.backward()
            adam.step()
        if float(loss.detach()) < least:
            best, least = f.detach(), float(loss.detach())
    return best


def mixture(posterior: Tensor, share: Tensor) -> Tensor:
    """Views i and j come together when the same latent class draws both: sum_c p(c) p(i|c) p(j|c)."""
    given = posterior / posterior.sum(dim=0)  # p(i | c), views equally likely before
    return (given * share) @ given.T


@pytest.mark.nightly
def test_its_minimum_is_the_factorisation_of_the_normalised_co_occurrence() -> None:
    posterior = torch.tensor(
        [[0.9, 0.1, 0.0], [0.7, 0.2, 0.1], [0.0, 1.0, 0.0], [0.1, 0.8, 0.1], [0.0, 0.1, 0.9], [0.2, 0.0, 0.8]]
    )
    joint = mixture(posterior, torch.tensor([0.4, 0.35, 0.25]))
    marginal = joint.sum(dim=1)
    normalised = joint / torch.outer(marginal, marginal).sqrt()
    f = minimise(joint, 3, non_negative=True)
    factor = marginal.sqrt()[:, None] * f
    # rank 3 and completely positive: the factorisation is exact, and no better one exists without the constraint
    torch.testing.assert_close(factor @ factor.T, normalised, atol=2e-3, rtol=0)
    free = marginal.sqrt()[:, None] * minimise(joint, 3, non_negative=False)
    torch.testing.assert_close(free @ free.T, normalised, atol=2e-3, rtol=0)
    torch.testing.assert_close(
        population(f, joint),
        (factor @ factor.T - normalised).square().sum() - normalised.square().sum(),
        atol=1e-5,
        rtol=0,
    )


def test_for_disjoint_latent_classes_the_non_negative_solution_is_the_class_posterior() -> None:
    owner = torch.tensor([0, 0, 0, 1, 1, 2, 2, 2, 2])
    posterior = torch.nn.functional.one_hot(owner).float()
    share = torch.tensor([3.0, 2.0, 4.0]) / 9
    joint = mixture(posterior, share)
    f = minimise(joint, 3, non_negative=True)
    # theorem: column c is p(c | x) / sqrt(p(c)), in some order
    expected = posterior / share.sqrt()
    error = min(float((f[:, list(order)] - expected).abs().max()) for order in permutations(range(3)))
    assert error < 0.02


def test_without_non_negativity_any_rotation_is_as_good() -> None:
    posterior = torch.nn.functional.one_hot(torch.tensor([0, 0, 1, 1])).float()
    joint = mixture(posterior, torch.tensor([0.5, 0.5]))
    f = posterior / 0.5**0.5
    turn = torch.tensor([[0.6, 0.8], [-0.8, 0.6]])
    torch.testing.assert_close(population(f @ turn, joint), population(f, joint))
    assert (f @ turn).min() < 0
