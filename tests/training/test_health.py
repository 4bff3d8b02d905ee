"""Health gates stop a run with a reason and a proposal; readings tell what they say they tell."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from nonneg_core.errors import TrainingStopped
from nonneg_training.loop.run_health import HealthChecks, Snapshot, nearest_share, read_snapshot
from nonneg_training.loop.training_run import train
from nonneg_training.losses import loss_of_equal_vectors
from nonneg_training.setup.run_settings import HealthSettings, ModelSettings, read_settings

GOOD = Snapshot(knn=0.9, dimensions=10, live=9, nnz=4.0, zero_share=0.0)


def test_a_loss_that_is_not_a_number_stops_at_once() -> None:
    for loss in (float("nan"), float("inf")):
        with pytest.raises(TrainingStopped, match=r"step 7: the loss is .*lower optimiser\.lr"):
            HealthChecks(HealthSettings(), ModelSettings(), None).check_loss(7, loss)


def test_collapse_stops_when_it_lasts() -> None:
    gates = HealthChecks(HealthSettings(collapse_steps=3), ModelSettings(), loss_of_equal_vectors(128))
    for step, loss in enumerate([5.5413, 5.5413, 4.0, 5.5412, 5.5413]):
        gates.check_loss(step, loss)
    with pytest.raises(TrainingStopped, match="collapse"):
        gates.check_loss(5, 5.5412)


def test_dead_dimensions_and_zero_vectors_stop() -> None:
    gates = HealthChecks(HealthSettings(dead_share=0.5, zero_share=0.1), ModelSettings(), None)
    gates.check_reading(1, GOOD)
    with pytest.raises(TrainingStopped, match="6 of 10 dimensions are dead"):
        gates.check_reading(1, Snapshot(0.9, 10, 4, 2.0, 0.0))
    with pytest.raises(TrainingStopped, match="20% of the vectors are all zero"):
        gates.check_reading(1, Snapshot(0.9, 10, 9, 2.0, 0.2))


def test_a_run_that_collapses_is_stopped_and_says_why(tmp_path: Path) -> None:
    changes = {"model.batch_norm": False, "optimiser.lr": 3.0, "optimiser.name": "sgd", "loop.epochs": 4}
    with pytest.raises(TrainingStopped, match=r"collapse|all zero|dead|the loss is"):
        train(read_settings(None, {**changes, "health.collapse_steps": 10}), tmp_path / "run")


def test_a_reading_counts_what_is_there() -> None:
    z = torch.tensor([[1.0, 0, 0, 0], [0.9, 0.1, 0, 0], [0, 0, 1.0, 0], [0, 0, 0, 0]])
    reading = read_snapshot(z, torch.tensor([0, 0, 1, 1]))
    assert (reading.live, reading.dimensions, reading.nnz, reading.zero_share) == (3, 4, 1.0, 0.25)


def test_nearest_neighbours_leave_out_the_image_itself_and_lonely_classes() -> None:
    z = torch.eye(3)[[0, 0, 1, 1, 2]] + 0.01
    assert nearest_share(z, torch.tensor([0, 0, 1, 1, 7])) == 1.0
    assert nearest_share(z, torch.tensor([0, 1, 0, 1, 7])) == 0.0
    assert nearest_share(z, torch.tensor([0, 1, 2, 3, 4])) is None, "no image has another of its class"
    assert nearest_share(z, torch.tensor([0, 0, 0, 0, 0])) is None, "without classes every neighbour would be right"


def test_it_proposes_only_what_the_run_has_not_tried() -> None:
    def fix(**model: object) -> str:
        with pytest.raises(TrainingStopped) as caught:
            HealthChecks(HealthSettings(dead_share=0.5), ModelSettings(**model), None).check_reading(
                1, Snapshot(0.9, 10, 4, 2.0, 0.0)
            )  # type: ignore[arg-type]
        return caught.value.fix or ""

    assert fix(activation="relu", batch_norm=False).startswith("set model.batch_norm = true, use model.activation")
    assert fix(activation="rep_relu", batch_norm=True) == "lower optimiser.lr, or raise health.dead_share"
