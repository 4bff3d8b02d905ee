"""Checkpoints: whole or not at all, and refused when they do not fit."""

from __future__ import annotations

import json
import re
import resource
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from torch.optim import SGD

from nonneg_core.errors import CheckpointInvalid, StorageFailed
from nonneg_core.files.atomic import atomic_write
from nonneg_training.loop.optimiser import MixedPrecision
from nonneg_training.loop.training_checkpoint import CHECKPOINT_FILE, load_encoder, write_checkpoint
from nonneg_training.loop.training_run import train
from nonneg_training.setup.run_settings import RunSettings, read_settings, write_settings

ROOT = Path(__file__).parents[2]


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "run")


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights(small: RunSettings, tmp_path: Path) -> None:
    train(small, tmp_path / "a")
    train(small, tmp_path / "b")
    assert len({(tmp_path / name / CHECKPOINT_FILE).read_bytes() for name in "ab"}) == 1


def test_equal_weights_are_equal_bytes_and_tell_the_version_and_commit(trained: Path, tmp_path: Path) -> None:
    encoder, files = load_encoder(trained), set()
    optimiser = SGD([{"params": encoder.parameters()}], lr=0.1)
    for _ in range(12):  # an order drawn by chance would differ in one of twelve
        path = write_checkpoint(tmp_path, 7, encoder, optimiser, MixedPrecision("fp32", torch.device("cpu")))
        files.add(path.read_bytes())
    assert len(files) == 1
    with safe_open(tmp_path / CHECKPOINT_FILE, framework="pt") as file:
        about = json.loads(file.metadata()["nonneg"])
    assert about["step"] == 7
    assert about["version"] == version("nonneg")
    assert not (ROOT / ".git").exists() or re.fullmatch("[0-9a-f]{40}(-dirty)?", about["commit"])


def test_a_truncated_checkpoint_is_refused(run: Path) -> None:
    path = run / CHECKPOINT_FILE
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(CheckpointInvalid, match="truncated or damaged"):
        load_encoder(run)


def test_a_checkpoint_of_another_architecture_names_the_weight_that_does_not_fit(run: Path) -> None:
    write_settings(run / "config.toml", read_settings(run / "config.toml", {"model.dimensions": 31}))
    with pytest.raises(CheckpointInvalid, match=r"another architecture.*\(32,\), not \(31,\)"):
        load_encoder(run)


def test_a_folder_that_is_not_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointInvalid, match=r"not a training run: it has no config\.toml"):
        load_encoder(tmp_path)
    with pytest.raises(CheckpointInvalid, match="does not exist"):
        load_encoder(tmp_path / "nowhere")


def test_a_run_before_its_first_checkpoint_says_so(run: Path) -> None:
    (run / CHECKPOINT_FILE).unlink()
    with pytest.raises(CheckpointInvalid, match="yet"):
        load_encoder(run)


def test_the_previous_file_survives_a_full_disk(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("previous")
    with pytest.raises(StorageFailed, match="no space left"), atomic_write(path):
        Path("/dev/full").write_text("x" * 10)
    assert path.read_text() == "previous"
    assert list(tmp_path.iterdir()) == [path]


def test_the_previous_checkpoint_survives_a_write_that_breaks_off(run: Path) -> None:
    """The limit on a file's size stands for the disk that is full: safetensors itself meets the error, half way."""
    before = (run / CHECKPOINT_FILE).read_bytes()
    encoder = load_encoder(run)
    optimiser = SGD([{"params": encoder.parameters()}], lr=0.1)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(StorageFailed, match="cannot be written"):
            write_checkpoint(run, 99, encoder, optimiser, MixedPrecision("fp32", torch.device("cpu")))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (run / CHECKPOINT_FILE).read_bytes() == before
    assert not list(run.glob(".checkpoint*"))


def test_settings_are_read_back_as_they_were_written(small: RunSettings, tmp_path: Path) -> None:
    write_settings(tmp_path / "config.toml", small)
    assert read_settings(tmp_path / "config.toml", {}) == small
