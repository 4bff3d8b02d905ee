"""nonneg train, as it is typed."""

from __future__ import annotations

import signal
from importlib.metadata import version
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from PIL import Image

from nonneg_core.errors import ConfigInvalid, DataInvalid, StorageFailed, TrainingStopped
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import read_checkpoint
from nonneg_training.loop.training_loop import Loop
from nonneg_training.onnx_backbone.onnx_graph import load_graph
from nonneg_training.train_command import train


def run(*arguments: str) -> str:
    return CliRunner().invoke(train, arguments, catch_exceptions=False).output


def same(run: Path, other: Path) -> bool:
    tensors, others = (read_checkpoint(folder).tensors for folder in (run, other))
    return tensors.keys() == others.keys() and all(torch.equal(tensors[name], others[name]) for name in tensors)


def test_it_leaves_settings_checkpoint_and_metrics(tmp_path: Path) -> None:
    out = tmp_path / "run"
    said = run("--data", "digits", "--epochs", "1", "--out", str(out), "--set", "views.blur=0")
    assert "11 steps" in said
    assert sorted(p.name for p in out.iterdir()) == ["checkpoint.safetensors", "config.toml", "metrics.csv"]
    assert "blur = 0" in (out / "config.toml").read_text()
    with pytest.raises(StorageFailed, match="holds a run already"):
        run("--data", "digits", "--out", str(out))
    assert "all 11 steps had been done" in run("--resume", "--out", str(out))


def test_a_run_that_came_to_no_checkpoint_is_not_gone_on_with_by_mistake(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with pytest.raises(TrainingStopped):
        run("--data", "digits", "--epochs", "1", "--lr", "1e9", "--out", str(out))
    with pytest.raises(StorageFailed, match="of other settings: remove it, choose another"):
        run("--data", "digits", "--epochs", "1", "--out", str(out))


def test_a_recipe_is_asked_for_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="where it lies"):
        run("--config", "cifar10", "--out", str(tmp_path / "run"))
    with pytest.raises(ConfigInvalid, match=r"did you mean cifar10\? The recipes are cifar10, .*, cpu, "):
        run("--config", "cifar11", "--out", str(tmp_path / "run"))
    with pytest.raises(ConfigInvalid, match=r"with the options: loop.stepz.*did you mean loop.steps"):
        run("--config", "cpu", "--set", "loop.stepz=3", "--out", str(tmp_path / "run"))


def test_the_stem_that_auto_took_is_said_with_what_it_costs(tmp_path: Path) -> None:
    short = ["--data", "digits", "--steps", "1", "--batch", "8", "--backbone", "slim-resnet"]
    said = CliRunner().invoke(train, [*short, "--out", str(tmp_path / "a")]).stderr
    assert "model.stem = auto took small, as up to 64 px (here 16)" in said
    assert "model.stem=imagenet, which is faster" in said
    chosen = [*short, "--set", "model.stem=small", "--out", str(tmp_path / "b")]
    assert "model.stem" not in CliRunner().invoke(train, chosen).stderr


def test_a_checkpoint_in_place_of_weights_by_name_is_refused_with_the_way_in(tmp_path: Path) -> None:
    (tmp_path / "solo.ckpt").write_bytes(b"PK")
    with pytest.raises(ConfigInvalid, match=r"is a file.*nonneg train --from FILE --out RUN.*solo-learn"):
        run(
            "--data", "digits", "--backbone", "resnet18", "--size", "32", "--out", str(tmp_path / "run"),
            "--set", f"model.pretrained={tmp_path / 'solo.ckpt'}",
        )  # fmt: skip
    with pytest.raises(DataInvalid, match=r"not a valid ONNX model.*nonneg train --from FILE --out RUN"):
        load_graph(tmp_path / "solo.ckpt")


def test_steps_are_asked_for_in_place_of_epochs(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert "3 steps" in run("--data", "digits", "--steps", "3", "--out", str(out))
    assert len((out / "metrics.csv").read_text().splitlines()) == 4
    with pytest.raises(ConfigInvalid, match="both say how long"):
        run("--data", "digits", "--steps", "3", "--epochs", "1", "--out", str(tmp_path / "other"))


def test_an_epoch_of_one_step_is_told(tmp_path: Path) -> None:
    if [int(part) for part in version("click").split(".")[:3]] < [8, 2, 2]:
        pytest.skip("its runner loses what is written to stderr")
    for i in range(12):
        Image.new("RGB", (20, 20), (i * 20, 90, 200)).save(tmp_path / f"{i}.png")
    said = CliRunner().invoke(
        train, ["--data", str(tmp_path), "--epochs", "2", "--batch", "8", "--out", str(tmp_path / "run")]
    )
    assert "one step of 8 images, and leaves 4 of 12 images out: 2 steps in all" in said.stderr


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_its_steps_and_the_same_command_ends_as_if_it_had_not_been(
    tmp_path: Path, how: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ["--data", "digits", "--steps", "6", "--batch", "32", "--out"]
    run(*arguments, str(tmp_path / "whole"))

    real = Loop.step

    def step(self: Loop, number: int, ahead: object) -> object:
        found = real(self, number, ahead)  # type: ignore[arg-type]
        if number == 2:
            signal.raise_signal(how)
        return found

    out = tmp_path / "run"
    monkeypatch.setattr(Loop, "step", step)
    stopped = CliRunner().invoke(train, [*arguments, str(out)])
    assert stopped.exit_code == 128 + how
    assert stopped.stderr == f"{how.name}: {out} is kept; the same command goes on\n"
    assert read_checkpoint(out).step == 3
    monkeypatch.setattr(Loop, "step", real)
    run(*arguments, str(out))
    assert same(out, tmp_path / "whole")
    with pytest.raises(StorageFailed, match="of other settings"):
        run(*arguments, str(out), "--lr", "0.5")


def test_a_bundles_folder_is_a_backbone(tmp_path: Path) -> None:
    from nonneg_runtime.bundle.bundle_folder import DEFAULT

    for i in range(12):
        Image.new("RGB", (40, 40), (i * 20, 90, 200)).save(tmp_path / f"{i}.png")
    arguments = ["--method", "head", "--data", str(tmp_path), "--steps", "1", "--batch", "8", "--dimensions", "16"]
    for name, backbone in (("folder", DEFAULT), ("file", DEFAULT / "encoder.onnx")):
        run(*arguments, "--backbone", str(backbone), "--out", str(tmp_path / name))
    assert same(tmp_path / "folder", tmp_path / "file")


def test_a_bundle_as_backbone_brings_its_weights_and_size_to_a_recipe() -> None:
    from nonneg_runtime.bundle.bundle_folder import DEFAULT
    from nonneg_training.train_command import recipe_settings

    found = recipe_settings("head", {"model.backbone": str(DEFAULT)})
    assert (found.model.pretrained, found.views.size) == (None, None)
    assert recipe_settings("head", {}).views.size == 224


def test_skipped_images_are_named_at_the_end(tmp_path: Path) -> None:
    for i in range(8):
        Image.new("RGB", (20, 20), (i * 30, 90, 200)).save(tmp_path / f"{i}.png")
    (tmp_path / "3.png").write_bytes(b"no image")
    said = run("--data", str(tmp_path), "--epochs", "1", "--batch", "4", "--out", str(tmp_path / "run"))
    assert "skipped 3.png: " in said


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--temperature", "0"], r"loss\.temperature=0\.0"),
        (["--batch", "1"], "nothing to differ from"),
        (["--batch", "5000"], "exceed the 1438 images.*pass --batch 1438 or less"),
        (["--batch", "1000", "--set", "loop.accumulate=2"], "pass --batch 719 or less"),
        (["--activation", "gelu"], "does not go with"),
        (["--method", "cl", "--activation", "relu"], "does not go with"),
        (["--backbone", "resnet99"], "is unknown"),
        (["--set", "views.blurr=1"], r"views\.blurr=1: not a setting.*did you mean views\.blur\?"),
        (["--set", "views.zzz=1"], r"zzz.*: Known in views: size, crop,"),
        (["--set", "lop.batch=2"], r"did you mean loop\? Known: method, seed,"),
        (["--set", "epochs=2"], r"did you mean loop\.epochs\? Known: method, seed,"),
        (["--set", "lr=2"], r"did you mean optimiser\.lr\?"),
        (["--set", "views"], "no '='"),
    ],
)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        run("--out", str(tmp_path / "run"), *arguments)
    assert not (tmp_path / "run").exists()


def test_labels_that_tell_nothing_are_refused(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for i in range(4):
        (photos / str(i)).mkdir(parents=True)
        Image.new("RGB", (20, 20), (i * 30, 90, 200)).save(photos / str(i) / "one.png")
    given = ["--data", str(photos), "--batch", "4", "--epochs", "1", "--out", str(tmp_path / "run")]
    head = ["--method", "head", "--set", "model.pretrained=DEFAULT", "--set", "head.labels=1"]
    with pytest.raises(DataInvalid, match="one image of each class"):
        run(*given, *head)
    with pytest.raises(DataInvalid, match="has one class, 0"):
        run("--method", "nce", *["--data", str(photos / "0"), "--batch", "2", "--out", str(tmp_path / "run")])
    run(*given)  # without labels they are images like any others


def test_cl_and_ncl_by_flags_differ_in_the_activation_alone(tmp_path: Path) -> None:
    texts = []
    for method in ("cl", "ncl"):
        run("--method", method, "--data", "digits", "--epochs", "1", "--out", str(tmp_path / method))
        texts.append((tmp_path / method / "config.toml").read_text().splitlines())
    differing = [pair for pair in zip(*texts, strict=True) if pair[0] != pair[1]]
    assert differing == [
        ('method = "cl"', 'method = "ncl"'),
        ('activation = "identity"', 'activation = "relu"'),
    ]


def test_a_method_by_flag_brings_its_activation_into_a_recipe(tmp_path: Path) -> None:
    small = ["--data", "digits", "--backbone", "tiny-cnn", "--batch", "64", "--epochs", "1"]
    run("--config", "cpu", "--method", "cl", *small, "--out", str(tmp_path / "cl"))
    assert 'activation = "identity"' in (tmp_path / "cl" / "config.toml").read_text()
    run("--config", "cifar10", "--method", "ncl", *small, "--lr", "0.1", "--out", str(tmp_path / "ncl"))
    assert 'activation = "rep_relu"' in (tmp_path / "ncl" / "config.toml").read_text(), "which goes with it, and stays"


def test_signed_vectors_are_not_said_to_be_live_or_active(tmp_path: Path) -> None:
    said = run("--method", "cl", "--epochs", "1", "--dimensions", "16", "--out", str(tmp_path / "cl"))
    assert "16 dimensions, signed" in said
    assert "live" not in said
    assert "active" not in said


def test_a_classifier_reports_its_test_accuracy_by_epoch(tmp_path: Path) -> None:
    for method in ("ce", "nce"):
        said = run("--method", method, "--epochs", "3", "--out", str(tmp_path / method))
        accuracy = [row["test_accuracy"] for row in read_metrics(tmp_path / method) if row["test_accuracy"]]
        assert len(accuracy) == 3
        assert f"test accuracy {float(accuracy[-1]):.1%}" in said
        assert float(accuracy[-1]) > 0.3, method


def test_neighbours_are_not_counted_where_all_images_are_of_one_class(tmp_path: Path) -> None:
    for i in range(8):
        Image.new("RGB", (20, 20), (i * 30, 90, 200)).save(tmp_path / f"{i}.png")
    said = run("--data", str(tmp_path), "--epochs", "1", "--batch", "4", "--out", str(tmp_path / "run"))
    assert "1-NN" not in said
    assert [row["knn"] for row in read_metrics(tmp_path / "run")] == ["", ""]
