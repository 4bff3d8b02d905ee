"""What a run tells while it goes, to callbacks and loggers; and the logger that writes for TensorBoard."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nonneg_core.terminal.installing import needing
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.loop.run_health import Snapshot
from nonneg_training.setup import plugins
from nonneg_training.setup.run_settings import RunSettings


@dataclass(frozen=True)
class StepEvent:
    """A step that is reported, every `loop.report_every` steps."""

    run: Path
    step: int  # steps that are done
    epoch: int  # from 0
    values: dict[str, float]  # loss, lr, images_per_second, what the method adds; on readings knn, live, nnz, ...


@dataclass(frozen=True)
class EpochEvent:
    """The end of an epoch, or of the run."""

    run: Path
    step: int
    epoch: int
    reading: Snapshot | None  # the last one
    encoder: EncoderModule  # as it is now: to look at, not to change


@dataclass(frozen=True)
class CheckpointEvent:
    """A checkpoint that has been written, whole."""

    run: Path
    step: int
    epoch: int
    path: Path


Event = StepEvent | EpochEvent | CheckpointEvent
Callback = Callable[[Event], None]


def open_loggers(settings: RunSettings, run: Path) -> list[Callback]:
    """Return the callbacks of the loggers that the settings name."""
    return [_factory(name)(run, settings) for name in settings.loop.loggers]


def _factory(name: str) -> Callable[[Path, RunSettings], Callback]:
    made = plugins.find("logger", name) or {"tensorboard": TensorBoard}.get(name)
    if made is None:
        raise plugins.unknown("loop.loggers", "logger", name, ["tensorboard"])
    return made


class TensorBoard:
    """Writes every number of a run as event files into its folder `tensorboard`."""

    def __init__(self, run: Path, settings: RunSettings) -> None:
        with needing("the logger tensorboard", package="tensorboard"):
            import torch.utils.tensorboard as board
        self._open, self._folder = board.SummaryWriter, str(run / "tensorboard")
        self._writer: Any = None

    def __call__(self, event: Event) -> None:
        """Write a step's numbers; flush them with each checkpoint."""
        if isinstance(event, StepEvent):
            # purge_step: a resumed run takes back the steps that it repeats
            self._writer = self._writer or self._open(self._folder, purge_step=event.step)
            for name, value in event.values.items():
                self._writer.add_scalar(name, value, event.step)
        elif isinstance(event, CheckpointEvent) and self._writer is not None:
            self._writer.flush()
