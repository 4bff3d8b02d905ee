"""Nested lengths: every prefix counts, and a prefix's similarities are those of the prefix alone."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from nonneg_core.errors import ConfigInvalid
from nonneg_training.losses import check_lengths, infonce, nested_loss, prefix_similarities


def test_nested_is_the_mean_over_the_prefixes() -> None:
    z1, z2 = torch.rand(5, 8), torch.rand(5, 8)
    expected = (infonce(z1[:, :3], z2[:, :3], 0.5) + infonce(z1, z2, 0.5)) / 2
    torch.testing.assert_close(nested_loss(lambda a, b: infonce(a, b, 0.5), (3, 8), z1, z2), expected)


def test_prefix_similarities_are_the_cosines_of_the_cut_vectors_and_so_are_their_gradients() -> None:
    z = torch.rand(6, 12).relu().requires_grad_()
    lengths = (2, 5, 12)
    fast = prefix_similarities(z, lengths)
    slow = [F.normalize(z[:, :k], dim=1) @ F.normalize(z[:, :k], dim=1).T for k in lengths]
    weight = torch.rand(6, 6)
    for a, b in zip(fast, slow, strict=True):
        torch.testing.assert_close(a, b)
    (ours,) = torch.autograd.grad(torch.stack([(s * weight).sum() for s in fast]).sum(), z)
    (theirs,) = torch.autograd.grad(torch.stack([(s * weight).sum() for s in slow]).sum(), z)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)


def test_an_all_zero_prefix_is_similar_to_nothing_and_has_a_finite_gradient() -> None:
    z = torch.zeros(3, 4)
    z[0] = 1.0
    z.requires_grad_()
    similarity = prefix_similarities(z, (2, 4))
    assert float(similarity[0][1].detach().abs().sum()) == 0.0
    torch.stack(similarity).sum().backward()
    assert z.grad is not None
    assert torch.isfinite(z.grad).all()


def test_lengths_beyond_the_width_are_refused() -> None:
    assert check_lengths((8, 2, 8), 8) == (2, 8)
    with pytest.raises(ConfigInvalid, match="does not fit 8 dimensions"):
        check_lengths((9,), 8)
