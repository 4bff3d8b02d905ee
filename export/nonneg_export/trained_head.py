"""The analytic head with its first columns trained on the photos' features: `nonneg wrap --head train`, with torch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from nonneg_core.errors import MissingExtra
from nonneg_core.heads.from_features import FittedHead, taken
from nonneg_core.installing import extra_hint

Rows = NDArray[np.float32]


def with_trained_front(fitted: FittedHead, rows: Rows) -> FittedHead:
    """Teach a head's columns without a gate, at every nested length, who is near whom by the features."""
    try:
        from nonneg_export.adaptation.training import train_front
    except ModuleNotFoundError:
        raise MissingExtra("--head train needs torch", fix=extra_hint("training")) from None
    front = int((fitted.head.gate == 0).sum())
    head, _ = train_front(fitted.head, taken(rows, fitted.takes), front=front)
    return replace(fitted, head=head, trained=front)
