"""Training from Python: data of one's own, callbacks that are told what happens, event files for TensorBoard."""

from __future__ import annotations

import sys
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np
import pytest

from nonneg_core.errors import MissingExtra
from nonneg_training import CheckpointEvent, EpochEvent, StepEvent, load_encoder, read_settings, train
from nonneg_training.data import Arrays
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import read_checkpoint

RNG = np.random.default_rng(0)
PICTURES = Arrays("mine", RNG.integers(0, 256, (48, 8, 8, 3), np.uint8), np.arange(48) % 3, ("a", "b", "c"))
SETTINGS = read_settings(None, {"loop.batch": 16, "loop.epochs": 2, "model.dimensions": 8, "health.dead_share": 1.0})
LOGGED = SETTINGS.model_copy(update={"loop": SETTINGS.loop.model_copy(update={"loggers": ("tensorboard",)})})


def test_callbacks_are_told_of_steps_epochs_and_checkpoints_in_their_order(tmp_path: Path) -> None:
    events: list[StepEvent | EpochEvent | CheckpointEvent] = []
    train(SETTINGS, tmp_path / "run", data=PICTURES, callbacks=[events.append])
    told = [(type(event).__name__.removesuffix("Event"), event.step, event.epoch) for event in events]
    assert told == [
        ("Step", 1, 0), ("Step", 2, 0), ("Step", 3, 0), ("Checkpoint", 3, 0), ("Epoch", 3, 0),
        ("Step", 4, 1), ("Step", 5, 1), ("Step", 6, 1), ("Checkpoint", 6, 1), ("Epoch", 6, 1),
    ]  # fmt: skip
    rows = read_metrics(tmp_path / "run")
    assert [event.values["loss"] for event in events if isinstance(event, StepEvent)] == [
        float(row["loss"]) for row in rows
    ]
    last = events[-1]
    assert isinstance(last, EpochEvent)
    assert last.reading is not None
    assert last.reading.knn == pytest.approx(float(rows[-1]["knn"]))
    assert last.encoder.dimensions == load_encoder(tmp_path / "run").dimensions == 8


def test_an_exception_in_a_callback_ends_the_run_at_its_last_checkpoint_and_it_goes_on(tmp_path: Path) -> None:
    def enough(event: object) -> None:
        if isinstance(event, EpochEvent) and event.epoch == 0:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        train(SETTINGS, tmp_path / "run", data=PICTURES, callbacks=[enough])
    assert read_checkpoint(tmp_path / "run").step == 3
    assert train(SETTINGS, tmp_path / "run", data=PICTURES).taken == 3


def test_images_of_ones_own_are_named_in_the_settings(tmp_path: Path) -> None:
    train(SETTINGS, str(tmp_path / "run"), data=PICTURES)
    assert read_settings(tmp_path / "run" / "config.toml", {}).data.source == "mine"


def test_the_logger_tensorboard_hands_every_number_of_a_run_to_torchs_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = MagicMock()
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", writer)
    train(LOGGED, tmp_path / "run", data=PICTURES)
    writer.SummaryWriter.assert_called_once_with(str(tmp_path / "run" / "tensorboard"), purge_step=1)
    calls = [call.args for call in writer.SummaryWriter.return_value.add_scalar.call_args_list]
    rows = read_metrics(tmp_path / "run")
    assert [(step, value) for name, value, step in calls if name == "loss"] == [
        (int(row["step"]), float(row["loss"])) for row in rows
    ]
    assert {"loss", "lr", "knn", "nnz"} <= {name for name, _, _ in calls}
    assert writer.SummaryWriter.return_value.flush.call_count == 2, "once a checkpoint"


@pytest.mark.nightly
def test_tensorboard_shows_every_number_of_a_run(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train(LOGGED, tmp_path / "run", data=PICTURES)
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    rows = read_metrics(tmp_path / "run")
    assert {"loss", "lr", "knn", "nnz"} <= set(events.Tags()["scalars"])
    assert [(scalar.step, pytest.approx(scalar.value)) for scalar in events.Scalars("loss")] == [
        (int(row["step"]), float(row["loss"])) for row in rows
    ]


def test_without_tensorboard_the_logger_says_how_to_install_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(MissingExtra, match=r"the logger tensorboard needs .*pip install"):
        train(LOGGED, tmp_path / "run", data=PICTURES)
