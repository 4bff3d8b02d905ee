"""Recovers a head's input features from its graph: the head's weights are replaced so that features pass unchanged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from nonneg_core.heads.adapted import passing
from nonneg_core.heads.head import Head
from nonneg_core.heads.spread import Rows
from nonneg_runtime.manifest import HeadRecord


def is_signed(record: HeadRecord) -> bool:
    """Return whether what the head takes goes below zero."""
    return record.takes != "roots"


def fits(head: Head, *, signed: bool) -> bool:
    """Return whether what the head takes has room in its columns; what is below zero needs columns of its own."""
    needed: int = head.weight.shape[0] * (2 if signed else 1)
    return needed <= head.dimensions


def letting_through(head: Head, *, signed: bool) -> Head:
    """Return the head of the same shape that lets what it takes through; what is below zero in columns of its own."""
    width = head.weight.shape[0]
    positive = passing(width, head)
    if not signed:
        return positive
    both = np.concatenate([np.eye(width), -np.eye(width)], axis=1)
    weight = np.zeros_like(head.weight)
    weight[:, : 2 * width] = both
    return replace(positive, weight=weight)


def taken_by(head: Head, found: Rows, *, signed: bool) -> Rows:
    """Return what the head takes, from what an encoder with the other head answers."""
    width = head.weight.shape[0]
    rows: Rows = found[:, : 2 * width if signed else width] ** np.float32(1 / head.power)
    return rows[:, :width] - rows[:, width:] if signed else rows
