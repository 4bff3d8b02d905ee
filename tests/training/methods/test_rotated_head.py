"""A head that starts from the analytic one: its first columns learn, the others stay, names are along classes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_core.pixels.view import View
from nonneg_runtime.heads.analytic_head import fit_basis, half_whitened, teacher_vectors
from nonneg_runtime.heads.head import analytic, roots
from nonneg_runtime.heads.moments import spread
from nonneg_training.encoder.backbone import Backbone
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.loop.training_checkpoint import read_checkpoint
from nonneg_training.loop.training_run import train
from nonneg_training.losses import divergence
from nonneg_training.methods.head_start import start_rotated
from nonneg_training.setup.run_settings import HeadSettings, read_settings

FEATURES = 20


@pytest.fixture(scope="module")
def pooled() -> NDArray[np.float32]:
    g = np.random.default_rng(0)
    return (g.exponential(size=(300, 16)) @ g.exponential(size=(16, FEATURES))).astype(np.float32)


def encoder(dimensions: int, *, classes: int = 0) -> EncoderModule:
    classifier = np.random.default_rng(1).normal(size=(classes, FEATURES)).astype(np.float32) if classes else None
    return EncoderModule(
        Backbone(torch.nn.Identity(), FEATURES, size=8, classifier=classifier),
        View(size=8),
        dimensions=dimensions,
        root=True,
        power=0.6,
    )


def test_the_start_is_the_analytic_head_of_the_features_roots(pooled: NDArray[np.float32]) -> None:
    started = encoder(24)
    start_rotated(started, pooled, HeadSettings(start="rotated", components=16), seed=0)
    rows = roots(pooled)
    expected = analytic(fit_basis(rows, spread(rows), edges=(0, 16)), rows, 24).embed(rows)
    with torch.inference_mode():
        found = started.embed(torch.from_numpy(pooled)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-4)


def test_names_stand_behind_the_columns_that_learn(pooled: NDArray[np.float32]) -> None:
    started = encoder(24, classes=8)
    settings = HeadSettings(start="rotated", components=16, names=6, trained=8)
    start = start_rotated(started, pooled, settings, seed=0)
    assert (start.spread.count, len(start.classes)) == (300, 6)
    assert sorted(start.places.tolist()) == list(range(8, 14))
    plain = encoder(24)
    start_rotated(plain, pooled, HeadSettings(start="rotated", components=16), seed=0)
    assert torch.equal(started.output.weight[:8], plain.output.weight[:8])


def test_a_power_learns_with_a_finite_slope_and_answers_exactly(pooled: NDArray[np.float32]) -> None:
    started = encoder(6)
    x = torch.from_numpy(pooled)
    with torch.no_grad():
        started.output.bias[0] = -100.0  # a column that never fires, where the power's own slope is infinite
    started.embed(x).sum().backward()
    assert started.output.weight.grad is not None
    assert started.output.weight.grad.isfinite().all()


def test_features_below_zero_have_no_roots(pooled: NDArray[np.float32]) -> None:
    with pytest.raises(DataInvalid, match="below zero"):
        start_rotated(encoder(8), pooled - 100, HeadSettings(start="rotated", components=8), seed=0)


def test_names_need_a_backbone_with_a_classifier(pooled: NDArray[np.float32]) -> None:
    with pytest.raises(ConfigInvalid, match="classifier"):
        start_rotated(encoder(8), pooled, HeadSettings(start="rotated", components=8, names=2), seed=0)


def test_the_teacher_has_components_of_their_eigenvalue_to_the_half(pooled: NDArray[np.float32]) -> None:
    turned = half_whitened(pooled).astype(np.float64)
    values = np.sort(np.linalg.eigvalsh(np.cov(pooled.T.astype(np.float64))))
    expected = values / np.maximum(values, 0.02 * values.mean()) ** 0.5
    covariance = np.cov(turned.T)
    np.testing.assert_allclose(covariance - np.diag(np.diag(covariance)), 0, atol=1e-4 * covariance.max())
    ratio = np.sort(np.diag(covariance)) / np.sort(expected)
    np.testing.assert_allclose(ratio[expected > 1e-6], ratio[-1], rtol=2e-2)
    assert np.linalg.norm(turned, axis=1).mean() == pytest.approx(1, abs=1e-4)


def test_two_teachers_are_as_near_as_both_say_on_average(pooled: NDArray[np.float32]) -> None:
    one, both = teacher_vectors([pooled]), teacher_vectors([pooled, pooled])
    np.testing.assert_allclose(both @ both.T, one @ one.T, atol=1e-4)


def test_a_warmer_student_is_compared_by_its_own_temperature() -> None:
    g = torch.Generator().manual_seed(0)
    teacher = torch.rand(6, 6, generator=g)
    assert float(divergence(2 * teacher, teacher, 0.1, 0.2)) == pytest.approx(0, abs=1e-5)
    assert float(divergence(2 * teacher, teacher, 0.1)) > 0.1


def run(trained: Path, cache: Path, out: Path, **changes: object) -> dict[str, torch.Tensor]:
    base = {
        "method": "head",
        "data.source": "digits",
        "model.pretrained": str(trained),
        "model.dimensions": 64,
        "model.root": True,
        "model.power": 0.6,
        "loss.lengths": (8, 16),
        "loop.epochs": 2,
        "head.cache": str(cache),
        "head.start": "rotated",
        "head.components": 32,
        "head.trained": 16,
        "head.learn_temperatures": True,
        "head.relative": True,
        "optimiser.lr": 0.03,
        "optimiser.weight_decay": 0.0,
    }
    train(read_settings(None, {**base, **changes}), out)
    return read_checkpoint(out).tensors


def test_only_the_first_columns_learn(trained: Path, tmp_path: Path) -> None:
    before = run(trained, tmp_path, tmp_path / "still", **{"optimiser.lr": 1e-12})
    after = run(trained, tmp_path, tmp_path / "run")
    weight = "encoder.output.weight"
    assert not torch.allclose(after[weight][:16], before[weight][:16], rtol=1e-3)
    assert torch.equal(after[weight][16:], before[weight][16:])
    assert not torch.equal(after["warmth"], before["warmth"])


def test_what_it_was_computed_from_is_kept_with_it(trained: Path, tmp_path: Path) -> None:
    kept = run(trained, tmp_path, tmp_path / "run")
    width = kept["encoder.output.weight"].shape[1]
    assert kept["spread_covariance"].shape == (width, width)
    assert int(kept["spread_count"]) > 1000
    assert kept["classes"].tolist() == []


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"head.trained": 65}, "head.trained"),
        ({"model.hidden": (8,)}, "head.start"),
        ({"model.batch_norm": True}, "head.start"),
    ],
)
def test_what_does_not_fit_an_analytic_start_is_refused(
    trained: Path, tmp_path: Path, changes: dict[str, object], field: str
) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        run(trained, tmp_path, tmp_path / "run", **changes)
    assert refused.value.field == field
