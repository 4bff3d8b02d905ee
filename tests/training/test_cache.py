"""The feature cache: computed once, goes on where it stopped, and knows its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from nonneg_core.pixels.view import View
from nonneg_training.data import open_data
from nonneg_training.encoder.encoder_module import EncoderModule
from nonneg_training.encoder.named_backbones import open_backbone
from nonneg_training.features.feature_cache import FeatureRequest, cached_features
from nonneg_training.setup.run_settings import Views


def wanted(seed: int = 0, random: int = 0) -> FeatureRequest:
    torch.manual_seed(seed)
    encoder = EncoderModule(open_backbone("tiny-cnn", small=True), View(size=16), dimensions=8).eval()
    return FeatureRequest(encoder, open_data("digits", split="test"), Views(size=16), random, 0)


def computed(want: FeatureRequest, folder: Path) -> list[int]:
    """How far the cache had to compute, call by call."""
    seen: list[int] = []
    cached_features(want, folder, tick=lambda done, total: seen.append(done))
    return seen


def test_the_first_view_holds_the_features_of_the_evaluation_view(tmp_path: Path) -> None:
    want = wanted()
    found = cached_features(want, tmp_path)
    assert isinstance(found, np.memmap)
    assert found.shape == (1, 359, 64)
    pixels = torch.from_numpy(want.images.pixels(range(359), want.encoder.view))
    with torch.inference_mode():
        np.testing.assert_allclose(found[0], want.encoder.features(pixels).numpy(), atol=1e-5)


def test_a_second_run_computes_nothing(tmp_path: Path) -> None:
    assert computed(wanted(), tmp_path)[-1] == 359
    assert computed(wanted(), tmp_path) == []


@pytest.mark.parametrize("other", [wanted(seed=1), wanted(random=2)])
def test_other_weights_or_views_are_another_cache(tmp_path: Path, other: FeatureRequest) -> None:
    cached_features(wanted(), tmp_path)
    assert computed(other, tmp_path)[-1] == 359
    assert len(list(tmp_path.iterdir())) == 2


def test_random_views_differ_from_the_evaluation_view_and_are_the_same_each_time(tmp_path: Path) -> None:
    first = cached_features(wanted(random=2), tmp_path / "a")
    second = cached_features(wanted(random=2), tmp_path / "b")
    assert first.shape == (3, 359, 64)
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first[0], first[1])
    assert not np.allclose(first[1], first[2])


def test_a_cache_that_was_stopped_goes_on_where_it_was(tmp_path: Path) -> None:
    whole = np.array(cached_features(wanted(), tmp_path / "whole"))
    folder = tmp_path / "stopped"
    cached_features(wanted(), folder)
    (place,) = folder.iterdir()
    rows = np.load(place / "features.npy", mmap_mode="r+")
    rows[:, 128:] = 0
    rows.flush()
    (place / "done.json").write_text("128")
    assert computed(wanted(), folder) == [192, 256, 320, 359]
    np.testing.assert_array_equal(np.load(place / "features.npy"), whole)
