"""Every method that learns from views: it trains, and what it leaves is what it says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg_core.errors import ConfigInvalid
from nonneg_training.data import open_data
from nonneg_training.encoder.encoder_module import CONTROLS, NON_NEGATIVE
from nonneg_training.loop.batches import FeatureBatches
from nonneg_training.loop.build_encoder import build_encoder, resolve
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.loop.training_run import train
from nonneg_training.methods.view_methods import Supervised
from nonneg_training.setup.batch_order import BatchPlan
from nonneg_training.setup.process_group import ProcessGroup
from nonneg_training.setup.run_settings import Loss, RunSettings, read_settings, validate

BASE = {
    "data.source": "digits",
    "loop.epochs": 2,
    "model.dimensions": 32,
    "loop.monitor_images": 100,
    "optimiser.lr": 3e-3,
}


def resolved(**record: object) -> RunSettings:
    settings = validate({"data": {"source": "digits"}, "model": {"dimensions": 32}, **record}, "the test")
    return resolve(settings, open_data("digits"), ProcessGroup())


@pytest.mark.parametrize("method", ["cl", "ncl", "spectral-cl", "spectral-ncl", "ce", "nce"])
@pytest.mark.parametrize("dimensions", [32, 0], ids=["projector", "features"])
def test_it_trains_and_keeps_its_sign(method: str, dimensions: int, tmp_path: Path) -> None:
    train(read_settings(None, {**BASE, "method": method, "model.dimensions": dimensions}), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    first, last = (sum(float(row["loss"]) for row in part) / 5 for part in (rows[:5], rows[-5:]))
    assert last < first
    encoder = load_encoder(tmp_path / "run")
    assert encoder.dimensions == (dimensions or 64)
    images = open_data("digits", split="test")
    with torch.inference_mode():
        z = encoder(torch.from_numpy(images.pixels(range(64), encoder.view)))
    if method in ("ncl", "spectral-ncl", "nce"):
        assert (z >= 0).all()
        assert (z == 0).any()
    elif dimensions:
        assert (z < 0).any()


@pytest.mark.parametrize("activation", [*NON_NEGATIVE, *CONTROLS])
def test_every_activation_trains(activation: str, tmp_path: Path) -> None:
    method = "ncl" if activation in NON_NEGATIVE else "cl"
    # with batch norm, also for the controls: untrained cosines near one would leave them at collapse for a while
    changes = {"method": method, "model.activation": activation, "model.batch_norm": True}
    train(read_settings(None, {**BASE, **changes}), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    first, last = (sum(float(row["loss"]) for row in part) / 5 for part in (rows[:5], rows[-5:]))
    assert last < first


def test_ce_and_nce_can_begin_with_the_same_class_weights_and_without_a_bias() -> None:
    alike = Loss(bias=False, start="positive")
    layers = []
    for non_negative in (False, True):
        torch.manual_seed(0)
        encoder = build_encoder(resolved(method="nce" if non_negative else "ce"))
        layers.append(Supervised(encoder, alike, 10, non_negative=non_negative).classifier)
    assert layers[0].bias is layers[1].bias is None
    torch.testing.assert_close(layers[0].weight, layers[1].weight)
    assert (layers[0].weight >= 0).all()


def test_by_default_ce_has_a_bias_and_nce_weights_above_zero() -> None:
    encoder = build_encoder(resolved(method="ce"))
    plain, non_negative = (Supervised(encoder, Loss(), 10, non_negative=sign).classifier for sign in (False, True))
    assert plain.bias is not None
    assert (plain.weight < 0).any()
    assert non_negative.bias is None
    assert (non_negative.weight >= 0).all()


@pytest.mark.parametrize("change", [{"bias": True}, {"start": "positive"}])
def test_a_start_of_class_weights_is_refused_where_there_are_no_classes(change: dict[str, object]) -> None:
    with pytest.raises(ConfigInvalid, match=r"is of the classes' weights, which ncl does not have"):
        resolved(method="ncl", loss=change)


@pytest.mark.parametrize("precision", ["bf16", pytest.param("fp16", marks=pytest.mark.slow)])
def test_autocast_trains(precision: str, tmp_path: Path) -> None:
    train(read_settings(None, {**BASE, "loop.precision": precision, "loop.epochs": 1}), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"])
    assert load_encoder(tmp_path / "run").output.weight.dtype == torch.float32


FROZEN = {**BASE, "model.frozen": True, "model.hidden": [48], "model.batch_norm": False, "head.views": 2}


@pytest.mark.parametrize("method", ["cl", "ncl", "spectral-ncl", "ce", "nce"])
def test_on_a_frozen_backbone_only_the_projector_learns(
    method: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NONNEG_FEATURE_CACHE", str(tmp_path / "cache"))
    changes = {**FROZEN, "method": method, "model.pretrained": str(trained), "loop.epochs": 8}
    train(read_settings(None, changes), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    first, last = (sum(float(row["loss"]) for row in part) / 5 for part in (rows[:5], rows[-5:]))
    assert last < first
    assert method not in ("ce", "nce") or float(rows[-1]["test_accuracy"]) > 0.3
    encoder, before = load_encoder(tmp_path / "run"), load_encoder(trained)
    for name, weight in before.backbone.state_dict().items():
        assert torch.equal(encoder.backbone.state_dict()[name], weight), name
    cached = max((tmp_path / "cache").rglob("features.npy"), key=lambda path: path.stat().st_size)  # all three views
    with torch.inference_mode():
        x = encoder.rooted(torch.from_numpy(np.load(cached)).flatten(0, 1))
    torch.testing.assert_close(x.mean(dim=0), torch.zeros(64), atol=1e-4, rtol=0)
    varied = x.std(dim=0) > 0.5  # others hardly vary at all
    torch.testing.assert_close(x.std(dim=0)[varied], torch.ones(int(varied.sum())), atol=1e-3, rtol=0)
    assert varied.sum() > 50


def test_partners_of_a_frozen_backbone_can_be_images_of_one_class(trained: Path) -> None:
    images = open_data("digits")
    numbers = np.arange(len(images), dtype=np.float32)
    features = np.stack([numbers, numbers])[..., None]  # each feature is its image's number
    batches = FeatureBatches(images, features, 2, torch.device("cpu"), by_class=True)
    place = BatchPlan(0, 0, list(range(64)))
    first, other = batches.fetch(place, torch.Generator().manual_seed(0))["features"].flatten().int().chunk(2)
    assert first.tolist() == list(range(64))
    assert (images.labels[first] == images.labels[other]).all()
    assert (first != other).float().mean() > 0.9


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"head": {"views": 0}}, "none are cached"),
        ({"method": "head"}, "a head's backbone is frozen anyway"),
        ({"model": {"pretrained": None}}, "has learnt something"),
    ],
)
def test_what_a_frozen_backbone_does_not_go_with(changes: dict[str, object], message: str) -> None:
    frozen = {"model": {"frozen": True, "pretrained": "DEFAULT", "dimensions": 32}, "head": {"views": 2}}
    with pytest.raises(ConfigInvalid) as caught:
        resolved(**merged(frozen, changes))
    assert message in str(caught.value)


def merged(record: dict[str, object], changes: dict[str, object]) -> dict[str, object]:
    """The record with some settings of its sections changed."""
    both = {**record, **changes}
    return {k: {**record[k], **v} if isinstance(v, dict) and k in record else v for k, v in both.items()}
