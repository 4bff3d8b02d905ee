"""nonneg train --from: encoders of solo-learn's layout, made here in plain torch."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from click.testing import CliRunner
from PIL import Image
from torch import nn

import nonneg_training.encoder.torchvision_schemas  # noqa: F401 - before torchvision
from nonneg_cli.table import nonneg
from nonneg_client import Encoder
from nonneg_core.errors import CheckpointInvalid, StorageFailed
from nonneg_training.loop.foreign_checkpoint import adopt
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.setup.run_settings import validate

MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)


class Recipe:
    """What a training framework leaves beside the weights."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return Path.touch, (self.mark,)  # a file that is unpickled as it stands makes this one


def theirs() -> nn.ModuleDict:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    backbone = resnet18()
    backbone.fc = nn.Identity()
    backbone.conv1 = nn.Conv2d(3, 64, kernel_size=3, stride=1, padding=2, bias=False)
    backbone.maxpool = nn.Identity()
    projector = nn.Sequential(nn.Linear(512, 48), nn.ReLU(), nn.Linear(48, 24))
    model = nn.ModuleDict({"backbone": backbone, "projector": projector, "classifier": nn.Linear(512, 10)})
    pixels = torch.rand(16, 3, 32, 32)
    for _ in range(3):  # batch norm's statistics are not those of the start
        backbone(pixels)
    return model.eval()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("theirs") / "ncl-relu.ckpt"
    record = {"epoch": 3, "state_dict": theirs().state_dict(), "hyper_parameters": Recipe(path.parent / "ran")}
    torch.save(record, path)
    return path


def settings(**record: object) -> Any:
    return validate({"data": {"source": "cifar10"}, **record}, "the test")


def test_an_encoder_of_solo_learns_layout_gives_the_same_features(checkpoint: Path, tmp_path: Path) -> None:
    arguments = ["train", "--from", str(checkpoint), "--data", "cifar10", "--out", str(tmp_path / "run")]
    answer = CliRunner().invoke(nonneg, arguments, catch_exceptions=False)
    assert "24 dimensions, relu" in answer.stdout
    assert not (checkpoint.parent / "ran").exists(), "nothing but tensors is read"
    pixels = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    model, encoder = theirs(), load_encoder(tmp_path / "run")
    with torch.inference_mode():
        features = model["backbone"](x)
        torch.testing.assert_close(encoder.features(torch.from_numpy(pixels)), features, atol=1e-5, rtol=0)
        z = model["projector"](features).relu()
        torch.testing.assert_close(encoder(torch.from_numpy(pixels)), z, atol=1e-5, rtol=0)


def test_it_is_exported_and_embeds_as_it_did(checkpoint: Path, tmp_path: Path) -> None:
    adopt(checkpoint, settings(), tmp_path / "run")
    photos, pixels = tmp_path / "photos", np.random.default_rng(1).integers(0, 256, (24, 32, 32, 3), dtype=np.uint8)
    photos.mkdir()
    for i, array in enumerate(pixels):
        Image.fromarray(array).save(photos / f"{i:02}.png")
    arguments = ["export", str(tmp_path / "run"), "--calibrate", str(photos), "--out", str(tmp_path / "theirs.bundle")]
    CliRunner().invoke(nonneg, arguments, catch_exceptions=False)
    with Encoder(tmp_path / "theirs.bundle") as encoder:
        embedded = encoder.embed(photos, normalize=False).numpy()
    x = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    x = (x - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)
    model = theirs()
    with torch.inference_mode():
        z = model["projector"](model["backbone"](x)).relu().numpy()
    order = np.lexsort(z)  # the export orders the columns by what they are worth
    np.testing.assert_allclose(embedded[:, np.lexsort(embedded)], z[:, order], atol=1e-4)


def test_a_signed_one_stays_signed_and_a_run_is_not_written_over(checkpoint: Path, tmp_path: Path) -> None:
    encoder = adopt(checkpoint, settings(method="cl"), tmp_path / "run")
    assert encoder.activation == "identity"
    with pytest.raises(StorageFailed, match="holds a run already"):
        adopt(checkpoint, settings(), tmp_path / "run")


@pytest.mark.parametrize("content", [b"", b"no checkpoint", {"state_dict": {"head.weight": torch.ones(2)}}])
def test_what_is_not_such_a_checkpoint_is_refused_by_name(content: object, tmp_path: Path) -> None:
    path = tmp_path / "other.ckpt"
    path.write_bytes(content) if isinstance(content, bytes) else torch.save(content, path)
    with pytest.raises(CheckpointInvalid, match=r"other\.ckpt"):
        adopt(path, settings(), tmp_path / "run")


def test_a_projector_with_batch_norm_is_refused(tmp_path: Path) -> None:
    model = theirs()
    model["projector"] = nn.Sequential(nn.Linear(512, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
    torch.save({"state_dict": model.state_dict()}, tmp_path / "bn.pth")
    with pytest.raises(CheckpointInvalid, match="batch norm in its projector"):
        adopt(tmp_path / "bn.pth", settings(), tmp_path / "run")
