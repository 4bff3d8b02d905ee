"""The random views of SimCLR, drawn for a whole batch at once."""

from __future__ import annotations

from nonneg_training.views.pipeline import Pipeline, evaluation_view

__all__ = ["Pipeline", "evaluation_view"]
