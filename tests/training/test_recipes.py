"""Every recipe loads, and runs for two steps as it is: only the data and its amount are made smaller."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import nonneg_training
from nonneg_training.loop.training_checkpoint import load_encoder
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import read_settings

pytestmark = pytest.mark.slow
BY_DAY = {"cifar10", "cpu"}
RECIPES = sorted((Path(nonneg_training.__file__).parent / "recipes").glob("*.toml"))


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos")
    noise = np.random.default_rng(0)
    for name in ("one", "two"):
        (folder / name).mkdir()
        for i in range(4):
            pixels = noise.integers(0, 256, (40, 48, 3)).astype(np.uint8)
            Image.fromarray(pixels).resize((96, 80)).save(folder / name / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("cifar")
    noise = np.random.default_rng(0)
    ten, hundred = root / "cifar-10-batches-py", root / "cifar-100-python"
    for folder, files, label, count in (
        (ten, [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"], b"labels", 10),
        (hundred, ["train", "test"], b"fine_labels", 100),
    ):
        folder.mkdir()
        for file in files:
            each = 40 // (len(files) - 1)  # forty to train on
            rows = noise.integers(0, 256, (each, 3072)).astype(np.uint8)
            (folder / file).write_bytes(pickle.dumps({b"data": rows, label: [i % 10 for i in range(each)]}))
        meta = {label[:-1] + b"_names": [str(i) for i in range(count)]}
        (folder / ("batches.meta" if count == 10 else "meta")).write_bytes(pickle.dumps(meta))
    return root


@pytest.mark.parametrize(
    "recipe",
    [path if path.stem in BY_DAY else pytest.param(path, marks=pytest.mark.nightly) for path in RECIPES],
    ids=lambda path: path.stem,
)
def test_a_recipe_runs_for_two_steps(recipe: Path, photos: Path, cifar: Path, tmp_path: Path) -> None:
    as_it_is = read_settings(recipe, {})
    named = as_it_is.data.source.startswith("cifar")
    changes = {"data.root": str(cifar)} if named else {"data.source": str(photos), "views.size": 64}
    changes |= {
        "loop.batch": 20 if named else 4,
        "loop.epochs": 1,
        "loop.steps": 0,
        "loop.monitor_images": 8,
        "head.cache": str(tmp_path / "cache"),
    }
    changes |= {"health.dead_share": 1.0, "health.zero_share": 1.0}  # eight images prove nothing
    outcome = train(read_settings(recipe, changes), tmp_path / "run")
    assert outcome.steps >= 2
    assert np.isfinite(outcome.loss)
    encoder = load_encoder(tmp_path / "run")
    assert encoder.dimensions == as_it_is.model.dimensions


def test_there_is_one_for_each_published_setting_and_for_two_cores() -> None:
    assert {"cifar10", "cifar100", "imagenet100", "cpu", "head"} <= {path.stem for path in RECIPES}
