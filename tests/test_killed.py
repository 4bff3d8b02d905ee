"""Training, export and ranking, killed before any of their writes and run again: complete, and nothing is left over."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nonneg_runtime.bundle import open_bundle
from nonneg_training.checkpoint import read_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")]
SCRIPT = Path(__file__).parent / "client" / "kill_at_each_step.py"
TRAIN = ["--backbone", "tiny-cnn", "--dimensions", "16", "--steps", "1", "--batch", "8", "--size", "16"]
BUNDLE = ["b", "b/encoder.onnx", "b/manifest.json", "w"]


def killed_at_each_step(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    folder.mkdir()
    command = [sys.executable, str(SCRIPT), str(folder), *arguments]
    alone = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=alone)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    for i, pixels in enumerate(np.random.default_rng(0).integers(0, 256, (8, 5, 5, 3), np.uint8)):
        Image.fromarray(pixels).resize((16, 16)).save(folder / f"{i}.png")
    return folder


@pytest.fixture(scope="module")
def run(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from nonneg_training.command import train

    out = tmp_path_factory.mktemp("runs") / "run"
    train(["--data", str(pictures), *TRAIN, "--out", str(out)], standalone_mode=False)
    return out


@pytest.fixture(scope="module")
def made(pictures: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from nonneg_export.commands.export import export

    out = tmp_path_factory.mktemp("bundles") / "made"
    export([str(run), "--calibrate", str(pictures), "--out", str(out)], standalone_mode=False)
    return out


def test_training_killed_before_any_of_its_writes_ends_as_if_it_had_not_been(pictures: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    steps = killed_at_each_step(work, "train", "--data", str(pictures), *TRAIN, "--out", str(work / "r"))
    assert len(steps) > 10
    for step in steps:
        assert step["code"] == 0, step
        assert step["there"] == ["r", "r/checkpoint.safetensors", "r/config.toml", "r/metrics.csv"], step
    assert len({step["said"] for step in steps if "had been done" not in step["said"]}) == 1  # the same loss
    assert read_checkpoint(work / "r").step == 1


@pytest.mark.parametrize("command", ["export", "rank"])
def test_a_bundle_whose_making_is_killed_before_any_of_its_writes_is_whole_when_it_is_made_again(
    command: str, pictures: Path, run: Path, made: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    source = [str(run), "--calibrate"] if command == "export" else [str(made), "--images"]
    out = ["--out", str(work / "b"), "--work", str(work / "w")]
    steps = killed_at_each_step(work, command, *source, str(pictures), *out)
    assert len(steps) > 20
    for step in steps:
        assert (step["code"], "fingerprint:" in step["said"]) == (0, True), step
        assert step["there"] == BUNDLE, step
    assert open_bundle(work / "b").manifest.calibration.images == 8
