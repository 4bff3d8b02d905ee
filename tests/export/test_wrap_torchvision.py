"""Models of torchvision with random weights, from a server on this machine, through torch's own folder."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from loopback_hub import Hub

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_core.errors import ConfigInvalid, ConnectionFailed, DataInvalid, DigestMismatch, NonnegError
from nonneg_core.pixels.view import View
from nonneg_core.shortening import unit
from nonneg_export.share.hub_repository import address
from nonneg_export.wrap.from_torchvision import licence_of_weights
from nonneg_export.wrap.open_tower import open_tower
from nonneg_export.wrap.torch_tower import as_tower
from nonneg_export.wrap.tower import TowerOverrides
from nonneg_runtime.inference.onnx_session import Session
from nonneg_training.onnx_backbone.scaling_and_pooling import Scaling

NAME, SIDE = "mobilenet_v3_small", 224
MEAN, STD = np.array((0.485, 0.456, 0.406)), np.array((0.229, 0.224, 0.225))


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where torch keeps files of weights."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    return tmp_path / "hub" / "checkpoints"


def publish(hub: Hub, patch: pytest.MonkeyPatch, data: bytes, name: str | None = None) -> str:
    """Let torchvision's weights of that name be this file; what it is called."""
    from torchvision import models

    name = name or f"{NAME}-{hashlib.sha256(data).hexdigest()[:8]}.pth"
    hub.files["torch/vision"] = {name: data}
    weights = models.get_model_weights(NAME).DEFAULT
    patch.setattr(weights.value, "url", f"{hub.url}/torch/vision/resolve/main/{name}")
    return name


def saved(state: Any) -> bytes:
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


@pytest.mark.slow  # torch writes a graph
def test_a_name_alone_is_fetched_once_and_answers_what_torch_answers(
    hub: Hub, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from torchvision import models

    torch.manual_seed(0)
    model = models.get_model(NAME, weights=None).eval()
    name = publish(hub, monkeypatch, saved(model.state_dict()))
    tower = open_tower(address(NAME), TowerOverrides())
    assert (kept / name).is_file()
    assert (tower.view.size, tower.view.crop, tower.view.interpolation) == (SIDE, SIDE / 256, "bilinear")
    assert tower.weights == f"torchvision {NAME}, {name}"
    assert any("states no licence" in note for note in tower.notes)
    pixels = np.random.default_rng(0).integers(0, 256, (3, SIDE, SIDE, 3), dtype=np.uint8)
    scaled = torch.from_numpy(((pixels / 255 - MEAN) / STD).transpose(0, 3, 1, 2).astype(np.float32))
    with torch.inference_mode():
        expected = model.classifier[:-1](model.avgpool(model.features(scaled)).flatten(1)).numpy()
    found = Session(tower.model.SerializeToString()).run(pixels)
    assert found.shape == expected.shape
    assert (unit(found) * unit(expected)).sum(axis=1).min() >= 0.9999
    hub.files.clear()
    assert open_tower(address(f"torchvision:{NAME}"), TowerOverrides()).view == tower.view


class RunsCode:
    """What makes a directory when it is read from a pickle."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def test_a_file_that_holds_code_is_refused_and_not_run(
    hub: Hub, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(hub, monkeypatch, saved({"layer": RunsCode(tmp_path / "ran")}))
    with pytest.raises(DataInvalid, match="holds more than weights, or is broken"):
        open_tower(address(NAME), TowerOverrides())
    assert not (tmp_path / "ran").exists()


def test_a_file_that_is_not_the_stated_one_is_refused(hub: Hub, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    publish(hub, monkeypatch, saved({}), f"{NAME}-00000000.pth")
    with pytest.raises(DigestMismatch, match="delete it and run the command again"):
        open_tower(address(NAME), TowerOverrides())


def test_what_cannot_be_fetched_says_where_to_put_it(hub: Hub, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = publish(hub, monkeypatch, saved({}))
    hub.files.clear()
    with pytest.raises(ConnectionFailed, match="404") as caught:
        open_tower(address(NAME), TowerOverrides())
    assert str(kept / name) in str(caught.value.fix)


REFUSED: dict[str, tuple[str, dict[str, Any], type[NonnegError], str]] = {
    "a name that it does not know": ("resnet19", {}, ConfigInvalid, "no classifier called 'resnet19'"),
    "a file over the limit": (NAME, {"limit": 2**20}, DataInvalid, "has 10 MB, more than 1"),
    "another file": (NAME, {"file": "fp16"}, ConfigInvalid, "--file fp16 is for a repository"),
    "another output": (NAME, {"output": "x"}, ConfigInvalid, "--output x is for an ONNX file or a model of transfor"),
    "another pooling": (NAME, {"pool": "cls"}, ConfigInvalid, "--pool cls is for .*, not for torchvision:mobilenet"),
    "no text": (NAME, {"text": False}, ConfigInvalid, "--no-text is for a model that may have a text tower"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_taken_is_refused_with_the_way_out(case: str, kept: Path) -> None:
    name, wishes, kind, message = REFUSED[case]
    with pytest.raises(kind, match=message) as caught:
        open_tower(address(name), TowerOverrides(**wishes))
    assert caught.value.fix


def test_a_side_that_a_vision_transformer_does_not_take_is_refused() -> None:
    from torchvision.models.vision_transformer import VisionTransformer

    model = VisionTransformer(32, 16, 1, 2, 16, 16)
    with pytest.raises(ConfigInvalid, match=r"does not take 48 x 48 pixels .*Wrong image height"):
        as_tower(model, lambda inner, x: inner(x), View(size=48), Scaling())


def test_weights_that_are_not_for_commercial_use_are_known_as_such() -> None:
    from torchvision import models

    assert licence_of_weights(models.RegNet_Y_128GF_Weights.DEFAULT.meta) == "cc-by-nc-4.0"
    assert licence_of_weights(models.ResNet50_Weights.DEFAULT.meta) == "not stated"
