"""What is said on the command line holds, or is refused: no option is taken and ignored."""

from __future__ import annotations

import json
from typing import Any

import pytest
from loopback_hub import Hub
from published_files import NAME, SIDE, encoder, published

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_export.published.address import address
from nonneg_export.published.open_tower import open_tower
from nonneg_export.published.tower import Tower, TowerOverrides
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

STRANGE = {"size": {"max_height": 20, "max_width": 20}, "image_mean": [0.5] * 3, "image_std": [0.25] * 3}


def opened(**wishes: Any) -> Tower:
    return open_tower(address(f"hf:{NAME}"), TowerOverrides(**wishes))


def holding(hub: Hub, preprocessor: dict[str, Any]) -> None:
    files = {**published(model_onnx=encoder()), "preprocessor_config.json": json.dumps(preprocessor).encode()}
    hub.files[NAME] = files


def test_where_a_preprocessor_is_not_understood_its_message_says_what_works(here: Hub) -> None:
    holding(here, STRANGE)
    with pytest.raises(ConfigInvalid, match="say it with --size"):
        opened()
    tower = opened(seen={"size": SIDE, "fit": "squash"})
    assert tower.view == View(size=SIDE, crop=0.875, fit="squash")


def test_a_preprocessor_that_is_given_stands_in_for_one_that_is_not_understood(here: Hub) -> None:
    holding(here, STRANGE)
    given = View(size=SIDE, crop=0.5)
    assert opened(preprocessing=(given, Scaling())).view == given
    assert "preprocessor_config.json" not in {name for name, _ in here.asked}


def test_a_size_of_one_number_without_a_crop_is_a_squashed_square(here: Hub) -> None:
    holding(here, {"size": SIDE, "feature_extractor_type": "ViTFeatureExtractor", "resample": 2})
    assert opened().view == View(size=SIDE, fit="squash", interpolation="bilinear")
