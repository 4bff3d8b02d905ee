"""What is said on the command line holds, or is refused: no option is taken and ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from loopback_hub import Hub
from published_files import NAME, SIDE, encoder, published

from nonneg_core.errors import ConfigInvalid
from nonneg_core.pixels.view import View
from nonneg_export.commands.wrap import wrap
from nonneg_export.share.hub_repository import address
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.tower import Tower, TowerOverrides
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
    tower = opened(view_fields={"size": SIDE, "fit": "squash"})
    assert tower.view == View(size=SIDE, crop=0.875, fit="squash")


def test_a_preprocessor_that_is_given_stands_in_for_one_that_is_not_understood(here: Hub) -> None:
    holding(here, STRANGE)
    given = View(size=SIDE, crop=0.5)
    assert opened(preprocessing=(given, Scaling())).view == given
    assert "preprocessor_config.json" not in {name for name, _ in here.asked}


def test_a_size_of_one_number_without_a_crop_is_a_squashed_square(here: Hub) -> None:
    holding(here, {"size": SIDE, "feature_extractor_type": "ViTFeatureExtractor", "resample": 2})
    assert opened().view == View(size=SIDE, fit="squash", interpolation="bilinear")


@pytest.mark.parametrize(
    "words", [("--file", "fp16"), ("--accept-license", "mit"), ("--max-download", "1"), ("--no-text",)]
)
def test_an_option_of_repositories_is_refused_for_a_file(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "encoder.onnx").write_bytes(encoder())
    asked = [str(tmp_path / "encoder.onnx"), "--calibrate", str(tmp_path), "--out", str(tmp_path / "b"), *words]
    found = CliRunner().invoke(wrap, asked).exception
    assert isinstance(found, ConfigInvalid)
    assert f"{' '.join(words)}" in str(found)
    assert "not for the file" in str(found)


def test_rows_are_not_pooled_again(here: Hub) -> None:
    here.files[NAME] = published(model_onnx=encoder())
    with pytest.raises(ConfigInvalid, match="'rows' is one row an image already, and --pool cls is for tokens"):
        opened(pool="cls")


def test_what_is_taken_of_an_onnx_file_is_said_by_its_name(here: Hub) -> None:
    here.files[NAME] = published(model_onnx=encoder())
    assert any("model.onnx (fp32, 0.0 MB), rows" in note for note in opened().notes)
    here.files[NAME] = published(model_onnx=encoder(tokens=True))
    assert any("last_hidden_state, pooled by cls" in note for note in opened().notes)
