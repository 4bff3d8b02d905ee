"""The finite worlds: they are what they are said to be, and known answers come out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from research.study.theory_task import TASK, World, bound, draw, likeness, population


def test_a_world_is_a_joint_distribution_with_its_posterior() -> None:
    drawn = draw(World(overlap=0.4), 3)
    assert drawn.joint.sum() == pytest.approx(1)
    np.testing.assert_allclose(drawn.joint, drawn.joint.T)
    np.testing.assert_allclose(drawn.posterior.sum(axis=1), 1)
    np.testing.assert_allclose(drawn.marginal @ drawn.posterior, drawn.prior)
    assert np.linalg.matrix_rank(drawn.joint, tol=1e-9) == 6


def test_the_classes_themselves_are_the_non_negative_minimum() -> None:
    drawn = draw(World(overlap=0.4), 0)
    f = drawn.posterior / np.sqrt(drawn.prior)
    loss = float(population(torch.from_numpy(f), torch.from_numpy(drawn.joint)))
    assert loss == pytest.approx(-float((drawn.normalised**2).sum()))
    assert likeness(f[:, ::-1], drawn.posterior) == pytest.approx(1), "in whatever order"


def test_the_bound_is_above_the_error_of_any_world() -> None:
    for seed in range(5):
        drawn = draw(World(overlap=0.95), seed)
        found = bound(drawn, drawn.posterior)
        assert isinstance(found["bound.error"], float)
        assert isinstance(found["bound.bound"], float)
        assert found["bound.error"] <= found["bound.bound"]


def test_descent_finds_them(tmp_path: Path) -> None:
    settings = TASK.settle({"views": 24, "classes": 3, "overlap": 0.3, "steps": 800, "restarts": 2}, None)
    found = TASK.run(settings, {}, 0, tmp_path, None)
    assert found["posterior.ncl"] == pytest.approx(1, abs=0.01)
    assert found["residual.ncl"] == pytest.approx(0, abs=0.02)
    assert found["residual.svd"] == pytest.approx(0, abs=1e-6)
    assert found["rotated.cl"] == pytest.approx(0, abs=1e-6)
