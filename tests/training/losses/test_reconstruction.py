"""Top-k, reconstruction and revival against slow versions."""

from __future__ import annotations

import pytest
import torch

from nonneg_training.losses import annealed, batch_top_k, relative_error, revival, top_k


def test_top_k_keeps_each_rows_largest() -> None:
    z = torch.rand(5, 9)
    kept = top_k(z, 3)
    for row, original in zip(kept, z, strict=True):
        assert sorted(row[row > 0].tolist()) == sorted(original.tolist())[-3:]
    assert torch.equal(top_k(z, 9), z)


def test_batch_top_k_keeps_the_batchs_largest() -> None:
    z = torch.rand(5, 9)
    kept = batch_top_k(z, 2)
    assert sorted(kept[kept > 0].tolist()) == sorted(z.flatten().tolist())[-10:]


def test_answering_the_mean_costs_one() -> None:
    x = torch.rand(6, 4)
    mean = x.mean(dim=0)
    assert float(relative_error(x, mean.expand_as(x), mean)) == pytest.approx(1.0)
    assert float(relative_error(x, x, mean)) == 0.0


def test_revival_moves_dead_dimensions_only() -> None:
    z = torch.rand(6, 5, requires_grad=True)
    dead = torch.tensor([False, True, False, False, True])
    residual, decoder = torch.rand(6, 4), torch.rand(4, 5)
    loss = revival(z, dead, residual, decoder, k=2)
    only = torch.where(dead, z, 0.0)  # two dead dimensions, both kept
    expected = (only @ decoder.T - residual).square().sum() / (residual - residual.mean(0)).square().sum()
    torch.testing.assert_close(loss, expected)
    loss.backward()
    assert z.grad is not None
    assert (z.grad[:, ~dead] == 0).all()
    assert (z.grad[:, dead] != 0).all()


def test_with_nothing_dead_revival_costs_nothing() -> None:
    z = torch.rand(6, 5, requires_grad=True)
    assert float(revival(z, torch.zeros(5, dtype=torch.bool), torch.rand(6, 4), torch.rand(4, 5), k=2).detach()) == 0.0


def test_annealing_runs_from_start_to_k() -> None:
    assert [annealed(16, 64, 0.7, p) for p in (0.0, 0.35, 0.7, 1.0)] == [64, 40, 16, 16]
    assert annealed(16, 0, 0.7, 0.1) == 16
