"""Kinds of work beside plain encoders: heads from the cache, factors of sprites, two towers, parts."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from nonneg_training.data import open_data
from nonneg_training.data.images import subset
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.measure.encoder_outputs import encode_images, runner
from nonneg_training.setup.run_settings import Views
from research.study.encoder_task import Measure, encode_cached
from research.study.task import task
from research.study.towers_task import agreement, captions, meaning

pytestmark = pytest.mark.nightly


def test_cached_features_give_what_pixels_give(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_FEATURE_CACHE", str(tmp_path))
    encoder, images = load_encoder(trained), subset(open_data("digits"), limit=80)
    cached, seen = encode_cached(encoder, images, Views(size=16)), encode_images(runner(encoder), images, encoder.view)
    assert cached.order == seen.order
    for name in ("z", "features", "raw", "second", "labels"):
        np.testing.assert_allclose(getattr(cached, name), getattr(seen, name), atol=1e-5, err_msg=name)


def test_a_head_is_measured_on_cached_features(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NONNEG_FEATURE_CACHE", str(tmp_path / "cache"))
    encoders = task("encoder")
    record = {
        "method": "head",
        "data": {"source": "digits", "limit": 300},
        "model": {"pretrained": str(trained), "dimensions": 32},
        "loop": {"epochs": 1, "batch": 100},
    }
    found = encoders.run(encoders.settle(record, None), encoders.check_measure({}), 0, tmp_path, None)
    assert isinstance(found["backbone.p_at_10"], float)
    assert isinstance(found["structure.sepin.1"], float)
    assert isinstance(found["floor.untrained.purity"], float)


def test_sprites_are_measured_by_their_factors(tmp_path: Path) -> None:
    encoders = task("encoder")
    record = {
        "data": {"source": "dsprites", "limit": 128},
        "views": {"size": 16},
        "model": {"dimensions": 8},
        "loop": {"epochs": 1, "batch": 64, "monitor_images": 64},
    }
    measure = Measure.model_validate({"ask": {"source": "dsprites", "limit": 60}, "factors": True})
    found = encoders.run(encoders.settle(record, None), measure.model_dump(mode="json"), 0, tmp_path, None)
    gaps = [found[f"factors.gap.{name}"] for name in ("shape", "scale", "angle", "x", "y")]
    assert found["factors.gap"] == pytest.approx(np.mean([gap for gap in gaps if isinstance(gap, float)]))


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_two_towers_find_each_other(activation: str, tmp_path: Path) -> None:
    towers = task("towers")
    settings = towers.settle({"activation": activation, "epochs": 4, "dimensions": 32}, None)
    found = towers.run(settings, {}, 0, tmp_path, None)
    assert isinstance(found["recall.image_to_text"], float)
    assert found["recall.image_to_text"] > 0.15, "of twenty meanings"
    assert set(found) == towers.figures({})
    assert isinstance(found["image.sparsity"], float)
    if activation == "relu":
        assert found["image.sparsity"] > 0.1


def test_captions_say_what_images_show(tmp_path: Path) -> None:
    path = captions(tmp_path, "test")
    rows = path.read_text().splitlines()[1:]
    images = open_data("digits", split="test")
    assert len(rows) == len(images)
    means = [meaning(row) for row in rows]
    assert [m // 2 for m in means] == images.labels.tolist()
    assert 0.3 < np.mean([m % 2 for m in means]) < 0.7


def test_agreement_is_the_share_of_dimensions_with_one_digit() -> None:
    classes = np.repeat(np.arange(3), 6)
    z = np.eye(3, dtype=np.float32)[classes]
    assert agreement(z, z, classes, classes) == 1.0
    assert agreement(z, z[:, [0, 2, 1]], classes, classes) == pytest.approx(1 / 3)


def test_parts_are_measured_of_all_four(tmp_path: Path) -> None:
    parts = task("parts")
    found = {
        method: parts.run(parts.settle({"method": method, "parts": 8, "epochs": 1}, None), {}, 0, tmp_path, None)
        for method in ("pca", "nmf", "cl", "ncl")
    }
    assert set(found["nmf"]) == parts.figures({})
    assert found["nmf"]["picture.negative"] == 0.0
    assert (found["pca"]["picture.negative"] or 0) > 0.2  # type: ignore[operator]
    assert (found["ncl"]["code.sparsity"] or 0) > (found["cl"]["code.sparsity"] or 0)  # type: ignore[operator]
