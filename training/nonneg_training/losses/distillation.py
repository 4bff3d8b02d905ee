"""Similarity distillation: the head's similarities follow the backbone's (NMF of a teacher's similarity matrix)."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional as F


def teacher_similarity(features: Tensor, mean: Tensor) -> Tensor:
    """Return the cosines of centred features, (batch, batch): pooled ReLU features all point one way until centred."""
    x = F.normalize(features.float() - mean, dim=1)
    return x @ x.T


def squared(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean squared difference off the diagonal; what is below zero, out of reach, asks for zero."""
    batch = len(student)
    off = ~torch.eye(batch, dtype=torch.bool, device=student.device)
    return (student - teacher.clamp(min=0))[off].square().mean()


def divergence(
    student: Tensor, teacher: Tensor, temperature: float, of_student: float | Tensor | None = None
) -> Tensor:
    """Return the rows' mean KL(teacher || student) between the softmaxes over the other images: their neighbourhoods.

    of_student: the student's own temperature, where it is not the teacher's.
    """
    warmth = temperature if of_student is None else of_student
    itself = torch.eye(len(student), dtype=torch.bool, device=student.device)
    log_p = (teacher / temperature).masked_fill(itself, -math.inf).log_softmax(dim=1)
    log_q = (student / warmth).masked_fill(itself, -math.inf).log_softmax(dim=1)
    return (log_p.exp() * (log_p - log_q).masked_fill(itself, 0)).sum(dim=1).mean()
