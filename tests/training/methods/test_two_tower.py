"""Images with captions: both towers non-negative, each caption finds its image."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid
from nonneg_training.data import open_data
from nonneg_training.encoder.text_tower import PAD, TextTowerModule, tokens
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.loop.training_run import train
from nonneg_training.losses import clip
from nonneg_training.setup.run_settings import read_settings

COLOURS = {"red": (200, 30, 30), "green": (30, 200, 30), "blue": (30, 30, 200), "white": (240, 240, 240)}


@pytest.fixture(scope="module")
def captions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    noise = np.random.default_rng(0)
    rows = []
    for i in range(64):
        name, colour = list(COLOURS.items())[i % 4]
        pixels = np.clip(np.array(colour) + noise.integers(-20, 20, (16, 16, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(folder / f"{i}.png")
        rows.append({"image": f"{i}.png", "caption": f"a {name} square"})
    with (folder / "captions.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["image", "caption"])
        writer.writeheader()
        writer.writerows(rows)
    return folder / "captions.csv"


def test_the_loss_is_the_definition() -> None:
    g = torch.Generator().manual_seed(0)
    image, text = torch.rand(3, 4, generator=g), torch.rand(3, 4, generator=g)
    cosine = [[float(a @ b / (a.norm() * b.norm())) for b in text] for a in image]
    total = 0.0
    for i in range(3):
        row = sum(math.exp(5 * cosine[i][j]) for j in range(3))
        column = sum(math.exp(5 * cosine[j][i]) for j in range(3))
        total -= (math.log(math.exp(5 * cosine[i][i]) / row) + math.log(math.exp(5 * cosine[i][i]) / column)) / 2
    assert float(clip(image, text, torch.tensor(5.0))) == pytest.approx(total / 3, rel=1e-5)


def test_padding_does_not_change_a_caption() -> None:
    torch.manual_seed(0)
    tower = TextTowerModule(8, activation="relu", width=32, layers=1, length=24, batch_norm=False).eval()
    short = tokens(["a cat"], 24)
    assert short[0, :3].tolist() == [1, ord("a") + 2, ord(" ") + 2]
    assert (short == PAD).sum() == 24 - 6
    longer = tokens(["a cat", "a much longer caption"], 24)
    torch.testing.assert_close(tower(longer)[:1], tower(short), atol=1e-5, rtol=1e-4)
    assert tokens(["x" * 100], 24).shape == (1, 24)


def test_it_trains_and_leaves_an_image_encoder(captions: Path, tmp_path: Path) -> None:
    changes = {"method": "two-tower", "data.source": str(captions), "loop.batch": 32, "loop.epochs": 8}
    changes |= {"text.layers": 1, "text.width": 32, "model.dimensions": 32, "views.jitter": 0, "views.grey": 0}
    train(read_settings(None, {**changes, "views.size": 16, "optimiser.lr": 0.003}), tmp_path / "run")
    rows = read_metrics(tmp_path / "run")
    assert float(rows[-1]["loss"]) < float(rows[0]["loss"]) - 0.3
    assert float(rows[-1]["scale"]) > 0
    encoder = load_encoder(tmp_path / "run")
    images = open_data(str(captions))
    with torch.inference_mode():
        assert (encoder(torch.from_numpy(images.pixels(range(4), encoder.view))) >= 0).all()


def test_it_needs_captions(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="captions"):
        train(read_settings(None, {"method": "two-tower"}), tmp_path / "run")


@pytest.mark.parametrize(
    ("text", "message"),
    [("image,text\na,b\n", "has no column caption"), ("image,caption\n", "holds no pair"), (None, "cannot be read")],
)
def test_a_csv_without_pairs_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    path = tmp_path / "c.csv"
    if text is not None:
        path.write_text(text)
    with pytest.raises(DataInvalid, match=message):
        open_data(str(path))
