"""Similarity distillation against loops."""

from __future__ import annotations

import math

import pytest
import torch

from nonneg_training.losses import divergence, squared_difference, teacher_similarity


def test_the_teacher_compares_centred_features() -> None:
    x = torch.rand(4, 3)
    mean = x.mean(dim=0)
    ours = teacher_similarity(x, mean)
    for i in range(4):
        for j in range(4):
            a, b = x[i] - mean, x[j] - mean
            assert float(ours[i, j]) == pytest.approx(float(a @ b / (a.norm() * b.norm())), abs=1e-5)


def test_squared_asks_for_zero_where_the_teacher_is_negative_and_ignores_the_diagonal() -> None:
    student = torch.tensor([[9.0, 0.5], [0.2, 9.0]])
    teacher = torch.tensor([[1.0, 0.3], [-0.7, 1.0]])
    assert float(squared_difference(student, teacher)) == pytest.approx((0.2**2 + 0.2**2) / 2)


def test_divergence_is_the_mean_of_the_rows_kl() -> None:
    g = torch.Generator().manual_seed(0)
    student, teacher = torch.rand(4, 4, generator=g), torch.rand(4, 4, generator=g)
    total = 0.0
    for i in range(4):
        others = [j for j in range(4) if j != i]
        p = [math.exp(float(teacher[i, j]) / 0.2) for j in others]
        q = [math.exp(float(student[i, j]) / 0.2) for j in others]
        total += sum(a / sum(p) * math.log((a / sum(p)) / (b / sum(q))) for a, b in zip(p, q, strict=True))
    assert float(divergence(student, teacher, 0.2)) == pytest.approx(total / 4, rel=1e-4)


def test_a_student_that_equals_its_teacher_costs_nothing_and_has_no_gradient() -> None:
    teacher = torch.rand(5, 5)
    student = teacher.clone().requires_grad_()
    loss = divergence(student, teacher, 0.1)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.0, abs=1e-6)
    assert student.grad is not None
    assert float(student.grad.abs().max()) < 1e-6
