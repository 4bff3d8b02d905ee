"""Training of non-negative encoders: images -> views -> encoder -> loss -> checkpoint."""

import os
from typing import TYPE_CHECKING

from nonneg_core.process.start_up import lazy_names
from nonneg_training.setup import plugins

if TYPE_CHECKING:
    from nonneg_training.loop.events import CheckpointEvent, EpochEvent, StepEvent
    from nonneg_training.loop.training_checkpoint import load_encoder
    from nonneg_training.loop.training_run import train
    from nonneg_training.setup.run_settings import RunSettings, read_settings
    from nonneg_vectors.evaluation.structure_report import structure

__all__ = [
    "CheckpointEvent",
    "EpochEvent",
    "RunSettings",
    "StepEvent",
    "load_encoder",
    "plugins",
    "read_settings",
    "structure",
    "train",
]

# GNU OpenMP, which torch's CPU builds use, spins some 16 ms at each of the thousands of barriers of a step before it
# sleeps. Beside other work the thread that is waited for often has no core, and those that spin keep it from getting
# one. After a thousand turns, some 50 microseconds, they sleep: the number that OpenMP itself takes where it knows of
# more threads than cores. It reads the variable when it is loaded, so this comes before torch.
VARIABLE = "GOMP_SPINCOUNT"
TURNS = 1000


def limit_spinning() -> None:
    """Have waiting threads sleep soon, unless the environment says how they wait."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault(VARIABLE, str(TURNS))


limit_spinning()

__getattr__, _ = lazy_names(
    __name__,
    {  # settings and data need no torch
        "CheckpointEvent": "nonneg_training.loop.events",
        "EpochEvent": "nonneg_training.loop.events",
        "RunSettings": "nonneg_training.setup.run_settings",
        "StepEvent": "nonneg_training.loop.events",
        "load_encoder": "nonneg_training.loop.training_checkpoint",
        "read_settings": "nonneg_training.setup.run_settings",
        "structure": "nonneg_vectors.evaluation.structure_report",
        "train": "nonneg_training.loop.training_run",
    },
)


def __dir__() -> list[str]:
    return sorted(__all__)
