"""Training of non-negative encoders: images -> views -> encoder -> loss -> checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nonneg_core.lazy_names import lazy_names
from nonneg_training.thread_spinning import limit_spinning

if TYPE_CHECKING:
    from nonneg_core.evaluation.certificate import structure
    from nonneg_training.checkpoint import load_encoder
    from nonneg_training.study import Study

__all__ = ["Study", "load_encoder", "structure"]

limit_spinning()

__getattr__, __dir__ = lazy_names(
    __name__,
    {  # settings and data need no torch
        "Study": "nonneg_training.study",
        "load_encoder": "nonneg_training.checkpoint",
        "structure": "nonneg_core.evaluation.certificate",
    },
)
