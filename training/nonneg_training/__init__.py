"""Training of non-negative encoders: images -> views -> encoder -> loss -> checkpoint."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from nonneg_training.spinning import limit_spinning

if TYPE_CHECKING:
    from nonneg_core.evaluation.certificate import structure
    from nonneg_training.checkpoint import load_encoder
    from nonneg_training.study import Study

__all__ = ["Study", "load_encoder", "structure"]

limit_spinning()

_HOMES = {  # loaded when they are asked for: settings and data need no torch
    "Study": "nonneg_training.study",
    "load_encoder": "nonneg_training.checkpoint",
    "structure": "nonneg_core.evaluation.certificate",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
