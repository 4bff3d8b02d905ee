"""Training, export and ranking, killed before any of their writes and run again: complete, and nothing is left over."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nonneg_runtime.bundle.bundle_folder import open_bundle
from nonneg_training.loop.training_checkpoint import read_checkpoint

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forks")]
SCRIPT = Path(__file__).parent / "client" / "kill_at_each_step.py"
TRAIN = ["--backbone", "tiny-cnn", "--dimensions", "16", "--steps", "1", "--batch", "8", "--size", "16"]
BUNDLE = ["b", "b/encoder.onnx", "b/manifest.json", "w"]


def killed_at_each_step(folder: Path, *arguments: str, **environment: str) -> list[dict[str, Any]]:
    """What each step and the run behind it came to; what a run that was not killed made is left in the folder."""
    folder.mkdir(exist_ok=True)
    command = [sys.executable, str(SCRIPT), str(folder), *arguments]
    alone = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
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
    from nonneg_training.train_command import train

    out = tmp_path_factory.mktemp("runs") / "run"
    train(["--data", str(pictures), *TRAIN, "--out", str(out)], standalone_mode=False)
    return out


@pytest.fixture(scope="module")
def made(pictures: Path, run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from nonneg_export.commands.export import export

    out = tmp_path_factory.mktemp("bundles") / "made"
    export([str(run), "--calibrate", str(pictures), "--out", str(out)], standalone_mode=False)
    return out


@pytest.mark.nightly
def test_training_killed_before_any_of_its_writes_ends_as_if_it_had_not_been(pictures: Path, tmp_path: Path) -> None:
    work = tmp_path / "work"
    steps = killed_at_each_step(work, "train", "--data", str(pictures), *TRAIN, "--out", str(work / "r"))
    assert len(steps) > 10
    for step in steps:
        assert step["code"] == 0, step
        assert step["there"] == ["r", "r/checkpoint.safetensors", "r/config.toml", "r/metrics.csv"], step
    assert len({step["said"] for step in steps if "had been done" not in step["said"]}) == 1  # the same loss
    assert read_checkpoint(work / "r").step == 1


@pytest.mark.parametrize("command", ["export", pytest.param("rank", marks=pytest.mark.nightly)])
def test_a_bundle_whose_making_is_killed_before_any_of_its_writes_is_whole_when_it_is_made_again(
    command: str, pictures: Path, run: Path, made: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    source = [str(run), "--calibrate"] if command == "export" else [str(made), "--images"]
    out = ["--out", str(work / "b"), "--work", str(work / "w")]
    steps = killed_at_each_step(work, command, *source, str(pictures), *out)
    assert len(steps) > 20
    for step in steps:
        if "exists" in step["said"]:  # all had been written: only the folder of the work was left
            assert set(BUNDLE) <= set(step["there"]), step
        else:
            assert (step["code"], "fingerprint:" in step["said"]) == (0, True), step
            assert step["there"] == BUNDLE, step
    assert open_bundle(work / "b").manifest.calibration.images == 8


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def check_whole(work: Path, steps: list[dict[str, Any]], *, at_least: int) -> None:
    """Every second run ended well, or found all written already; what lies there is what one undisturbed run makes.

    What was there before is there at every moment, whole: a bundle that is replaced, or gets an atlas.
    """
    before = names_in(work.with_name("start"))
    undisturbed = names_in(work)
    assert not [name for name in undisturbed if "unfinished" in name]
    assert len(steps) >= at_least
    for step in steps:
        if step["code"] == 0:
            assert step["there"] == undisturbed, step
        else:  # a target was whole when the run was killed; --replace makes the others
            assert "exists" in step["said"], step
            whole = {name for name in step["there"] if "unfinished" not in name}  # which --replace removes
            assert whole <= set(undisturbed), step
        assert set(before) <= set(step["left"]), step


@pytest.mark.nightly
@pytest.mark.parametrize("how", ["new", "replace", "digest"])
def test_a_bundle_whose_pulling_is_killed_is_whole_when_it_is_pulled_again(
    how: str, made: Path, tmp_path: Path
) -> None:
    work, digest = tmp_path / "work", open_bundle(made).manifest.digest
    options = {"new": (), "replace": ("--replace",), "digest": ("--replace", "--digest", digest)}[how]
    if how != "new":
        shutil.copytree(made, work / "b")
        (work / "b" / "encoder.onnx").write_bytes(b"another")
    steps = killed_at_each_step(work, "pull", str(made), str(work / "b"), *options)
    check_whole(work, steps, at_least=6)
    assert open_bundle(work / "b").manifest.digest == digest


@pytest.mark.nightly
def test_a_bundle_whose_quantising_is_killed_is_whole_when_it_is_quantised_again(
    pictures: Path, made: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    out = ["--out", str(work / "b"), "--work", str(tmp_path / "w"), "--min-quality", "0"]
    out += ["--triton", str(work / "triton")]
    steps = killed_at_each_step(work, "quantize", str(made), "--to", "fp16", "--images", str(pictures), *out)
    check_whole(work, steps, at_least=8)
    assert names_in(tmp_path / "w") == []
    assert open_bundle(work / "b").manifest.precision == "fp16"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "to", [[], ["--html", "a.html", "--file", "b.atlas", "--out", "c"]], ids=["in place", "elsewhere"]
)
def test_an_atlas_whose_making_is_killed_is_whole_when_it_is_made_again(
    to: list[str], pictures: Path, made: Path, tmp_path: Path
) -> None:
    work = tmp_path / "work"
    shutil.copytree(made, work / "b")
    source = [str(work / "b"), "--images", str(pictures), "--work", str(tmp_path / "w")]
    places = [word if word.startswith("--") else str(work / word) for word in to]
    steps = killed_at_each_step(work, "atlas", *source, *places)
    check_whole(work, steps, at_least=8)
    assert names_in(tmp_path / "w") == []
    assert open_bundle(work / ("c" if to else "b")).manifest.atlas is not None


@pytest.mark.nightly
def test_a_bundle_whose_adaptation_is_killed_is_whole_when_it_is_adapted_again(made: Path, tmp_path: Path) -> None:
    """With what is kept of the photos between runs; training makes no files of its own."""
    work, photos = tmp_path / "work", tmp_path / "photos"
    shutil.copytree(made, work / "b")
    photos.mkdir()
    for i, pixels in enumerate(np.random.default_rng(1).integers(0, 256, (60, 4, 4, 3), np.uint8)):
        Image.fromarray(pixels).resize((16, 16)).save(photos / f"{i:02}.png")
    arguments = [str(photos), "--from", str(made), "--out", str(work / "b"), "--force", "--replace"]
    steps = killed_at_each_step(work, "adapt", *arguments, XDG_CACHE_HOME=str(work / "cache"))
    for step in steps:
        assert step["code"] == 0, step
    check_whole(work, steps, at_least=10)
    assert open_bundle(work / "b").manifest.adaptation is not None
