"""A module, a method, a loss, an activation and a logger of one's own: trained, exported, measured, gone on with."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

from nonneg_core.errors import ConfigInvalid, StorageFailed
from nonneg_training import load_encoder, plugins, read_settings, train
from nonneg_training.loop.run_health import read_metrics
from nonneg_training.loop.training_checkpoint import CHECKPOINT_FILE
from nonneg_training.train_command import train as command

PLUGIN = Path(__file__).with_name("plugin.py")
SHORT = ["--data", "digits", "--steps", "3", "--batch", "32", "--dimensions", "16"]
OWN = ["--plugin", str(PLUGIN), "--backbone", "four-by-four", "--activation", "squared"]
OWN += ["--set", "loss.name=distance", "--set", 'loop.loggers=["lines"]']


@pytest.fixture(autouse=True)
def nothing_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plugins, "_registered", {})


def run(*arguments: str) -> str:
    return CliRunner().invoke(command, arguments, catch_exceptions=False).output


@pytest.fixture(scope="module")
def mine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A run with everything of one's own but the method."""
    out = tmp_path_factory.mktemp("own") / "run"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plugins, "_registered", {})
        run(*SHORT, *OWN, "--out", str(out))
    return out


def test_a_run_takes_a_backbone_a_loss_an_activation_and_a_logger_of_ones_own(mine: Path) -> None:
    assert [line.split()[:2] for line in (mine / "lines.txt").read_text().splitlines()] == [
        ["ncl", "1"], ["ncl", "2"], ["ncl", "3"]
    ]  # fmt: skip
    recorded = read_settings(mine / "config.toml", {}).plugins
    assert [line.partition(", sha256 ")[0] for line in recorded] == [
        "backbone four-by-four of plugin.py",
        "activation squared of plugin.py",
        "loss distance of plugin.py",
        "logger lines of plugin.py",
    ]


def test_the_loss_is_the_function_that_was_given(mine: Path, tmp_path: Path) -> None:
    plugins.load(PLUGIN)
    other = read_settings(mine / "config.toml", {"loss.name": None, "plugins": [], "loop.loggers": []})
    train(other, tmp_path / "run")
    ours, theirs = (float(read_metrics(folder)[0]["loss"]) for folder in (mine, tmp_path / "run"))
    assert ours != pytest.approx(theirs, rel=1e-3)


def test_a_run_never_runs_its_plug_in_and_says_what_to_pass(mine: Path) -> None:
    with pytest.raises(
        ConfigInvalid, match=r"needs a plug-in that is not loaded: backbone .* of plugin.py, sha256 .*--plugin"
    ):
        load_encoder(mine)
    plugins.load(PLUGIN)
    assert load_encoder(mine).activation == "squared"


def test_a_method_of_ones_own_is_named_with_its_options_and_not_needed_to_open_the_encoder(tmp_path: Path) -> None:
    out = tmp_path / "run"
    run(*SHORT, "--plugin", str(PLUGIN), "--method", "barlow", "--set", "options.weight=0.005", "--out", str(out))
    assert all(float(row["off"]) > 0 for row in read_metrics(out))
    plugins._registered.clear()
    assert load_encoder(out).dimensions == 16


def test_a_run_goes_on_by_the_same_file_alone(mine: Path, tmp_path: Path) -> None:
    out, changed = shutil.copytree(mine, tmp_path / "run"), tmp_path / "plugin.py"
    assert "all 3 steps had been done" in run("--resume", "--plugin", str(PLUGIN), "--out", str(out))
    changed.write_text(PLUGIN.read_text() + "\n# another line\n")
    with pytest.raises(StorageFailed, match=r"began with another file of a plug-in: .*put that file back"):
        run("--resume", "--plugin", str(changed), "--out", str(out))
    plugins._registered.clear()
    with pytest.raises(ConfigInvalid, match="not loaded: backbone"):
        run("--resume", "--out", str(out))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "barlov"}, r"method='barlov' is unknown: choose one of cl, ncl, .*, barlow, or pass the file"),
        ({"loss.name": "distances"}, r"loss.name='distances' is unknown: choose one of distance, or pass"),
        ({"loop.loggers": ["wandb"]}, r"loop.loggers='wandb' is unknown: choose one of tensorboard, lines, or pass"),
        ({"model.backbone": "resnet"}, r"backbone='resnet' is unknown: choose one of .*four-by-four, a-map, or pass"),
        ({"model.activation": "relu6"}, r"activation='relu6' is unknown: choose .*squared, shifted, or pass"),
        ({"model.activation": "shifted"}, r"method=ncl does not go with activation=shifted"),
        ({"loss.name": "distance", "method": "ce"}, r"loss.name=distance is for cl and ncl, and ce has"),
        ({"model.backbone": "four-by-four", "model.pretrained": "DEFAULT"}, r"four-by-four brings its own weights"),
        ({"model.backbone": "a-map"}, r"a-map makes \(2, 3, 16, 16\) of pixels \(2, 3, 16, 16\): return one row"),
    ],
)  # fmt: skip
def test_a_name_that_is_not_registered_is_refused(changes: dict[str, object], message: str, tmp_path: Path) -> None:
    plugins.load(PLUGIN)
    plugins.backbone("a-map")(torch.nn.Identity)
    with pytest.raises(ConfigInvalid, match=message):
        train(read_settings(None, {"loop.steps": 1, "loop.batch": 32, **changes}), tmp_path / "run")
    assert not (tmp_path / "run" / CHECKPOINT_FILE).exists()


@pytest.mark.slow
def test_it_is_exported_to_a_bundle_that_answers_as_torch_does(mine: Path, photos: Path, tmp_path: Path) -> None:
    from nonneg_export.commands.export import export

    arguments = [str(mine), "--calibrate", str(photos), "--out", str(tmp_path / "bundle")]
    with pytest.raises(ConfigInvalid, match="not loaded"):
        CliRunner().invoke(export, arguments, catch_exceptions=False)
    done = CliRunner().invoke(export, [*arguments, "--plugin", str(PLUGIN)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "bundle" / "manifest.json").is_file()
