"""Cross entropies and label positives against loops."""

from __future__ import annotations

import math

import pytest
import torch

from nonneg_training.losses import cross_entropy, non_negative_cross_entropy, supervised_contrastive


@pytest.mark.parametrize("non_negative", [False, True])
def test_cross_entropy_is_minus_the_log_of_the_right_share(non_negative: bool) -> None:
    g = torch.Generator().manual_seed(0)
    z, weight, labels = torch.rand(4, 5, generator=g), torch.randn(3, 5, generator=g), torch.tensor([0, 2, 1, 0])
    total = 0.0
    for vector, label in zip(z, labels.tolist(), strict=True):
        rows = weight.clamp(min=0) if non_negative else weight
        scores = [math.exp(sum(float(a * b) for a, b in zip(vector, row, strict=True))) for row in rows]
        total -= math.log(scores[label] / sum(scores))
    ours = non_negative_cross_entropy(z, weight, labels) if non_negative else cross_entropy(z, weight, labels)
    assert float(ours) == pytest.approx(total / 4, rel=1e-5)


def test_label_positives_are_the_definition_and_a_lonely_class_does_not_count() -> None:
    g = torch.Generator().manual_seed(0)
    similarity = torch.rand(5, 5, generator=g)
    labels = [0, 1, 0, 0, 2]  # 1 and 2 are alone
    losses = []
    for i in (0, 2, 3):
        others = [j for j in range(5) if j != i]
        total = sum(math.exp(float(similarity[i, j]) / 0.3) for j in others)
        positives = [j for j in others if labels[j] == labels[i]]
        losses.append(
            -sum(math.log(math.exp(float(similarity[i, j]) / 0.3) / total) for j in positives) / len(positives)
        )
    ours = supervised_contrastive(similarity, torch.tensor(labels), 0.3)
    assert float(ours) == pytest.approx(sum(losses) / 3, rel=1e-5)


def test_a_batch_without_any_positive_costs_nothing_and_breaks_nothing() -> None:
    similarity = torch.rand(3, 3, requires_grad=True)
    loss = supervised_contrastive(similarity, torch.tensor([0, 1, 2]), 0.3)
    loss.backward()
    assert float(loss.detach()) == 0.0
    assert similarity.grad is not None
    assert torch.isfinite(similarity.grad).all()
