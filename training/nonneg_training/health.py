"""Health gates: stop a run that cannot come to anything, with the reason and a proposal."""

from __future__ import annotations

import math

from nonneg_core.errors import TrainingStopped
from nonneg_training.monitor import Snapshot
from nonneg_training.settings import HealthSettings, ModelSettings


class HealthChecks:
    """Watches losses and readings; what it holds is how long the loss has looked like collapse."""

    def __init__(self, settings: HealthSettings, model: ModelSettings, collapsed: float | None) -> None:
        self.settings, self.model, self.collapsed_loss = settings, model, collapsed
        self._flat = 0

    def check_loss(self, step: int, loss: float) -> None:
        """Raise when the loss is not a number, or has stayed where collapse puts it."""
        if not math.isfinite(loss):
            raise TrainingStopped(
                f"step {step}: the loss is {loss}",
                fix="lower optimiser.lr, raise loss.temperature, or train in fp32 (loop.precision)",
                field="loss",
            )
        if self.collapsed_loss is None or not self.settings.collapse_steps:
            return
        near = abs(loss - self.collapsed_loss) < 1e-3 * max(1.0, abs(self.collapsed_loss))
        self._flat = self._flat + 1 if near else 0
        if self._flat >= self.settings.collapse_steps:
            raise TrainingStopped(
                f"step {step}: collapse - the loss has been {self.collapsed_loss:.4f} for {self._flat} steps, "
                "which is what equal vectors for all images cost",
                fix=self._proposal("lengthen optimiser.warmup"),
                field="loss",
                value=loss,
            )

    def check_reading(self, step: int, reading: Snapshot) -> None:
        """Raise when too few dimensions live, or too many images have none."""
        dead = 1 - reading.live / reading.dimensions
        if reading.zero_share > self.settings.zero_share:
            raise TrainingStopped(
                f"step {step}: {reading.zero_share:.0%} of the vectors are all zero",
                fix=self._proposal("raise health.zero_share"),
                field="health.zero_share",
                value=reading.zero_share,
                limit=self.settings.zero_share,
            )
        if dead > self.settings.dead_share:
            raise TrainingStopped(
                f"step {step}: {reading.dimensions - reading.live} of {reading.dimensions} dimensions are dead",
                fix=self._proposal("raise health.dead_share"),
                field="health.dead_share",
                value=round(dead, 4),
                limit=self.settings.dead_share,
            )

    def _proposal(self, last: str) -> str:
        """Return what keeps dimensions alive and has not been tried in this run."""
        norm = [] if self.model.batch_norm else ["set model.batch_norm = true"]
        activation = ["use model.activation = rep_relu"] if self.model.activation == "relu" else []
        return ", ".join([*norm, *activation, "lower optimiser.lr"]) + f", or {last}"
